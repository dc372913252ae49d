//! Tests of the simulator: transports, links, queues, and runs in several threads and processes.

mod closed_forms;
mod common;
mod datagram;
mod determinism;
mod distributed;
mod explain;
mod fq_codel;
mod gateways;
mod hostile;
mod http2;
mod links;
mod loss;
mod mconn;
mod mconn_properties;
mod planted;
mod quic;
mod refusals;
mod rivals;
mod writers;
