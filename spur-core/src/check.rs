//! The rules that must never break, stated over a [`crate::cluster::Cluster`].
