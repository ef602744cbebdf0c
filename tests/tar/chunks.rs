//! The same members for every way to cut the input into chunks.

use bytes::Bytes;
use proptest::prelude::*;

use super::archive::*;

/// The chunks between the cuts, each with memory of its own.
fn cut(archive: &[u8], cuts: &[usize]) -> Vec<Bytes> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (archive.len() + 1)).collect();
    places.extend([0, archive.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| Bytes::copy_from_slice(&archive[pair[0]..pair[1]])).collect()
}

/// One of everything.
fn sampler() -> Vec<u8> {
    let link = changed(ustar(b"l.jpg", 0, b'2'), |block| block[157..160].copy_from_slice(b"a.b"));
    tar(&[
        &pax(b'g', &[("comment", b"of no use")]),
        &file(b"a.txt", b"abc"),
        &pax(b'x', &[("path", "\u{732b}.txt".as_bytes()), ("size", b"700")]),
        &ustar(b"short", 0, b'0'),
        &body(&[b'p'; 700]),
        &long_name(&[b'n'; 200]),
        &file(b"nnn", &[b'g'; 512]),
        &link,
        &ustar(b"d/", 600, b'5'),
        &body(&[b'd'; 600]),
        &ustar(b"e/", 600, b'5'),
        &ustar(b"odd", 100, b'Z'),
        &body(&[b'z'; 100]),
        &file(b"empty.txt", b""),
        &file(b"last.txt", &[b'l'; 1025]),
    ])
}

#[test]
fn single_bytes_are_enough() {
    let archive = sampler();
    let whole = read(&archive);
    assert_eq!(whole.members.len(), 5);
    assert!(whole.is_clean() && whole.warnings.len() == 2, "{}", whole.story());
    for size in [1, 2, 3, 100, 511, 512, 513, 1024, 5000] {
        assert_eq!(
            walk(archive.chunks(size).map(Bytes::copy_from_slice)).story(),
            whole.story(),
            "chunks of {size}"
        );
    }
}

#[test]
fn every_single_cut_gives_the_same() {
    let archive = sampler();
    let whole = read(&archive).story();
    for place in 0..=archive.len() {
        assert_eq!(walk(cut(&archive, &[place])).story(), whole, "cut at {place}");
    }
}

/// Parts that may stand in any order and number.
fn part() -> impl Strategy<Value = Vec<u8>> {
    let name = || "[a-z./]{1,40}".prop_map(String::into_bytes);
    let data = || proptest::collection::vec(any::<u8>(), 0..1600);
    prop_oneof![
        4 => (name(), data()).prop_map(|(name, data)| file(&name, &data)),
        2 => proptest::collection::vec(any::<u8>(), 1..700).prop_map(|path| pax(b'x', &[("path", &path)])),
        1 => name().prop_map(|path| pax(b'g', &[("path", &path)])),
        1 => "[a-z]{1,600}".prop_map(|name| long_name(name.as_bytes())),
        1 => (name(), 0..3000u64, any::<u8>()).prop_map(|(name, size, kind)| ustar(&name, size, kind).to_vec()),
        1 => data(),
        1 => Just(vec![0; 512]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_of_any_archive_gives_the_same(
        parts in proptest::collection::vec(part(), 0..12),
        end in 0..2000usize,
        cuts in proptest::collection::vec(any::<usize>(), 0..30),
        size in 1..2000usize,
    ) {
        let archive = [parts.concat(), vec![0; end]].concat();
        let whole = read(&archive).story();
        prop_assert_eq!(walk(cut(&archive, &cuts)).story(), &whole[..]);
        prop_assert_eq!(walk(archive.chunks(size).map(Bytes::copy_from_slice)).story(), &whole[..]);
    }
}
