//! The loader: order, resuming, errors.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

/// What a store that only reads otherwise leaves to the one inside it.
macro_rules! forward_to {
    ($inner:tt) => {
        fn head<'a>(
            &'a self,
            path: &'a str,
        ) -> futures::future::BoxFuture<'a, shardstream::Result<shardstream::store::Meta>> {
            self.$inner.head(path)
        }

        fn list<'a>(
            &'a self,
            prefix: &'a str,
        ) -> futures::future::BoxFuture<'a, shardstream::Result<Vec<shardstream::store::Meta>>> {
            self.$inner.list(prefix)
        }

        fn put<'a>(
            &'a self,
            path: &'a str,
            bytes: bytes::Bytes,
        ) -> futures::future::BoxFuture<'a, shardstream::Result<()>> {
            self.$inner.put(path, bytes)
        }
    };
}

mod catalogue;
mod damage;
mod kept;
mod kill;
mod memory;
mod order;
mod resume;
mod sample_index;
mod simulation;
