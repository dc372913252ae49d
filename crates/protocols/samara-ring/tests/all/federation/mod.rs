//! Federations in virtual time: sites with fast links, and slow links between them.

mod bulk;
mod churn;
mod hostile;
mod sites;
