//! The same members as another parser finds, on archives that both accept.

use std::io::Cursor;

use futures::StreamExt;
use proptest::prelude::*;
use tokio::io::AsyncReadExt;

use super::archive::*;

type Found = Vec<(Vec<u8>, Vec<u8>)>;

/// Regular files as astral-tokio-tar reads them; `None` if it refuses the archive.
fn theirs(archive: &[u8]) -> Option<Found> {
    tokio_test::block_on(async {
        let mut entries = tokio_tar::Archive::new(Cursor::new(archive.to_vec())).entries().ok()?;
        let mut found = Vec::new();
        while let Some(entry) = entries.next().await {
            let mut entry = entry.ok()?;
            let kind = entry.header().entry_type();
            if kind.is_gnu_sparse() {
                return None;
            }
            if kind.is_file() || kind.is_contiguous() {
                let name = entry.path_bytes().ok()?.into_owned();
                let mut data = Vec::new();
                entry.read_to_end(&mut data).await.ok()?;
                if !name.ends_with(b"/") {
                    found.push((name, data));
                }
            }
        }
        Some(found)
    })
}

fn ours(archive: &[u8]) -> Option<Found> {
    let walk = read(archive);
    let end = walk.end?;
    end.ok().map(|_| {
        walk.members
            .into_iter()
            .map(|member| (member.name.to_vec(), member.data.to_vec()))
            .collect()
    })
}

/// A member with or without extended headers, as writers make them.
fn member() -> impl Strategy<Value = Vec<u8>> {
    let data = proptest::collection::vec(any::<u8>(), 0..1500);
    let (short, long) = ("[a-z]{1,8}/[a-z0-9_.]{1,80}", "[a-z/]{101,300}");
    prop_oneof![
        (short, data.clone()).prop_map(|(name, data)| file(name.as_bytes(), &data)),
        (short, data.clone()).prop_map(|(name, data)| [
            &gnu(name.as_bytes(), data.len() as u64, b'0')[..],
            &body(&data)
        ]
        .concat()),
        (long, data.clone()).prop_map(|(name, data)| [
            long_name(name.as_bytes()),
            file(&name.as_bytes()[..100], &data)
        ]
        .concat()),
        (long, data.clone()).prop_map(|(name, data)| {
            let size = data.len().to_string();
            let records: &[(&str, &[u8])] = &[
                ("mtime", b"1700000000.25"),
                ("size", size.as_bytes()),
                ("path", name.as_bytes()),
            ];
            [&pax(b'x', records)[..], &ustar(&name.as_bytes()[..100], 0, b'0'), &body(&data)]
                .concat()
        }),
        (short, "[a-z/]{1,155}", data).prop_map(|(name, prefix, data)| {
            let block = changed(ustar(name.as_bytes(), data.len() as u64, b'0'), |block| {
                block[345..345 + prefix.len()].copy_from_slice(prefix.as_bytes());
            });
            [&block[..], &body(&data)].concat()
        }),
        Just(ustar(b"some/folder/", 0, b'5').to_vec()),
        Just(
            changed(ustar(b"link", 0, b'2'), |block| block[157..160].copy_from_slice(b"a.b"))
                .to_vec()
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_find_the_same_in_good_archives(parts in proptest::collection::vec(member(), 0..8)) {
        let archive = [parts.concat(), vec![0; 1024]].concat();
        let found = ours(&archive);
        prop_assert!(found.is_some());
        prop_assert_eq!(found, theirs(&archive));
    }

    #[test]
    fn both_find_the_same_where_both_accept_damage(
        parts in proptest::collection::vec(member(), 1..5),
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
    ) {
        let mut archive = [parts.concat(), vec![0; 1024]].concat();
        let length = archive.len();
        for (at, byte) in damage {
            archive[at % length] = byte;
        }
        if let (Some(ours), Some(theirs)) = (ours(&archive), theirs(&archive)) {
            prop_assert_eq!(ours, theirs);
        }
    }
}

#[test]
fn the_other_parser_is_asked_rightly() {
    let archive = tar(&[&file(b"a.txt", b"abc")]);
    assert_eq!(theirs(&archive), Some(vec![(b"a.txt".to_vec(), b"abc".to_vec())]));
    assert_eq!(theirs(&archive[..514]), None);
}
