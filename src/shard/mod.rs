//! What exists: manifests, data sets, shards, and who reads which.
