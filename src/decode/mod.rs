//! Bytes of a field to a [`Value`](crate::sample::Value).
