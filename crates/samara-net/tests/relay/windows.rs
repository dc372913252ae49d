//! The windows of HTTP/2 that a node announces bound what others send it.
