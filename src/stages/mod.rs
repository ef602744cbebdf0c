//! The combinators: one file each, named as in the chain.
