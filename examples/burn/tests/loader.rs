//! The laws of our loader as `burn`'s `DataLoader`.

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use shardstream::adapters::BurnLoader;
use shardstream::loader::{Lane, Loader};
use shardstream::stages::{MemberStream, SampleStream, ShardStream, TwinStream};
use shardstream::testing;

#[test]
fn each_iterator_is_an_epoch() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (manifest, store) = testing::shards(2, 10);
    let recipe = move |lane: &Lane| {
        let shards = lane.shard_list().split_by_rank().split_by_worker();
        shards.open_twins(store.clone()).expand().group_by_keys().batch(4)
    };
    let loader = {
        let _inside = runtime.enter();
        Loader::builder(&manifest, recipe).seed(7).workers(1).epochs(2).start().unwrap()
    };
    let keys = |batch: shardstream::sample::Batch<_>, _: &Device| {
        Ok(batch.heads.iter().map(|head| head.key.to_string()).collect::<Vec<_>>())
    };
    let loader = BurnLoader::new(loader, runtime.handle().clone(), Device::flex(), 20, keys);
    assert_eq!(loader.num_items(), 20);
    let mut first = loader.iter();
    let head = first.next().unwrap().unwrap();
    assert_eq!(first.progress().items_processed, 4);
    drop(first);
    let rest: Vec<_> = loader.iter().map(Result::unwrap).collect();
    assert_eq!((head.len(), rest.concat().len()), (4, 16), "the rest of the epoch");
    assert_eq!(loader.loader().current_epoch(), 1);
    let second = loader.to_device(&Device::flex());
    assert_eq!(second.iter().map(Result::unwrap).flatten().count(), 20, "the next epoch");
    assert_eq!(second.iter().count(), 0, "no third");
    let slices: Vec<_> = loader.slice(0, 5).iter().collect();
    assert_eq!(slices.len(), 1);
    assert!(slices[0].as_ref().unwrap_err().to_string().contains("a loader of its own rank"));
}
