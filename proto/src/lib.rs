//! Wire types and their total conversion to and from core types.
