//! Any lists of names as twins: every key is handed out whole, from every twin, or named as lost; nothing twice, and an end.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use shardstream::sample::key::split;
use shardstream::shard::KeyIndex;
use shardstream::stages::{Joined, LookAhead, join_names};

/// A name for each byte: one of 16 keys, one of 4 fields, at a broken place or not. The last value begins the next twin.
fn twins(input: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let name = |&byte: &u8| {
        let gap = if byte & 0xc0 == 0x40 { "!" } else { "" };
        let (key, field) = ((b'a' + (byte & 15)) as char, byte >> 4 & 3);
        format!("{gap}{key}.{field}").into_bytes()
    };
    input.split(|&byte| byte == 0xff).map(|list| list.iter().map(name).collect()).collect()
}

fn key_of(name: &[u8]) -> u8 {
    split(name).unwrap().0[0]
}

fuzz_target!(|input: &[u8]| {
    let Some((&[members, mode], lists)) = input.split_first_chunk() else { return };
    let lists = twins(lists);
    if lists.len() > 5 {
        return;
    }
    let names: Vec<Vec<&[u8]>> =
        lists.iter().map(|list| list.iter().map(Vec::as_slice).collect()).collect();
    let look_ahead = LookAhead { members: usize::from(members), bytes: 1 << 20 };
    let index = (mode & 1 == 1).then(|| {
        // Keys in an order that depends on the input.
        let place = |i: u8| i.wrapping_mul(mode | 1).wrapping_add(mode >> 4) & 15;
        let keys = (0..16u8).map(|i| [b'a' + place(i)]);
        Arc::new(KeyIndex::of(keys).unwrap())
    });
    let joined = join_names(&names, index.clone(), look_ahead);

    let plain = |name: &[u8]| name.strip_prefix(b"!").unwrap_or(name).to_vec();
    let mut left: Vec<BTreeMap<Vec<u8>, usize>> = vec![BTreeMap::new(); lists.len()];
    for (twin, list) in lists.iter().enumerate() {
        list.iter().for_each(|name| *left[twin].entry(plain(name)).or_default() += 1);
    }
    // A run of members of one key is a sample.
    let mut samples: Vec<(u8, Vec<usize>)> = Vec::new();
    let (mut gaps, mut told, mut given_up) = (0, BTreeSet::new(), false);
    for step in &joined {
        match step {
            Joined::Member(twin, name) => {
                let count = left[*twin].get_mut(&name[..]).expect("a member of that twin");
                *count = count.checked_sub(1).expect("handed out twice");
                let key = key_of(name);
                // A key of the last twin is done when another twin begins again.
                match samples.last_mut() {
                    Some((last, from)) if *last == key && from.last() <= Some(twin) => {
                        from.push(*twin);
                    }
                    _ => samples.push((key, vec![*twin])),
                }
            }
            Joined::Gap => gaps += 1,
            Joined::Lost(key) => {
                told.insert(key[0]);
            }
            Joined::TooFar(_) => given_up = true,
            Joined::Warning(_) => {}
        }
    }
    for (key, from) in &samples {
        let from: BTreeSet<_> = from.iter().collect();
        assert_eq!(from.len(), lists.len(), "half of {}: {joined:?}", *key as char);
    }
    if index.is_some() {
        let keys: BTreeSet<_> = samples.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), samples.len(), "with an index a key comes once: {joined:?}");
        return;
    }
    let whole: BTreeSet<u8> = samples.iter().map(|(key, _)| *key).collect();
    let all: BTreeSet<u8> = lists.iter().flatten().map(|name| key_of(&plain(name))).collect();
    if !given_up {
        assert!(all.iter().all(|key| whole.contains(key) || told.contains(key)), "{joined:?}");
        let broken = lists.iter().flatten().filter(|name| name[0] == b'!').count();
        assert_eq!(gaps, broken, "{joined:?}");
    }
});
