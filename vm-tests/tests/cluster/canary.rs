//! A fence that cannot be proven starts no job.
