//! Every header form, made by hand: what comes out, or what the error says.

use bytes::Bytes;
use shardstream::tar::{Parser, Step};

use super::archive::*;

/// The one member of an archive.
fn only(archive: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let walk = read(archive);
    assert!(walk.is_clean() && walk.warnings.is_empty(), "{}", walk.story());
    let [member] = &walk.members[..] else { panic!("{:?}", walk.names()) };
    (member.name.to_vec(), member.data.to_vec())
}

#[test]
fn plain_members_of_every_format() {
    for block in [
        v7(b"a.txt", b"00000000003\0", 0),
        v7(b"a.txt", b"3", b'0'),
        v7(b"a.txt", b"         3 \0", b'7'),
        v7(b"a.txt", b"\x80\0\0\0\0\0\0\0\0\0\0\x03", b'0'),
        ustar(b"a.txt", 3, b'0'),
        gnu(b"a.txt", 3, b'0'),
        // GNU keeps times where ustar keeps the prefix.
        changed(gnu(b"a.txt", 3, b'0'), |block| block[345..356].copy_from_slice(b"14041234567")),
        // `star` keeps them behind a shorter prefix.
        changed(ustar(b"a.txt", 3, b'0'), |block| {
            block[476..487].copy_from_slice(b"14041234567");
            block[508..].copy_from_slice(b"tar\0");
        }),
    ] {
        assert_eq!(only(&tar(&[&block, &body(b"abc")])), (b"a.txt".to_vec(), b"abc".to_vec()));
    }
}

#[test]
fn the_prefix_counts_whatever_the_version_says() {
    for version in [b"00", b"  ", b"\0\0", b" \0"] {
        let block = changed(ustar(b"a.txt", 0, b'0'), |block| {
            block[263..265].copy_from_slice(version);
            block[345..349].copy_from_slice(b"some");
        });
        assert_eq!(only(&tar(&[&block])).0, b"some/a.txt");
    }
}

#[test]
fn a_name_may_fill_its_field() {
    assert_eq!(only(&tar(&[&file(&[b'n'; 100], b"x")])).0, [b'n'; 100]);
    let block = changed(ustar(&[b'n'; 100], 0, b'0'), |block| block[345..500].fill(b'p'));
    assert_eq!(only(&tar(&[&block])).0, [&[b'p'; 155][..], b"/", &[b'n'; 100]].concat());
}

#[test]
fn the_prefix_of_star_ends_where_its_times_begin() {
    let block = changed(ustar(b"a.txt", 0, b'0'), |block| {
        block[345..476].fill(b'p');
        block[476..500].copy_from_slice(b"14041234567 14041234567 ");
        block[508..].copy_from_slice(b"tar\0");
    });
    assert_eq!(only(&tar(&[&block])).0, [&[b'p'; 131][..], b"/a.txt"].concat());
}

#[test]
fn signed_checksums_are_right_too() {
    let mut block = ustar("caf\u{e9}.txt".as_bytes(), 0, b'0');
    block[148..156].fill(b' ');
    let sum: i32 = block.iter().map(|&b| i32::from(b as i8)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(only(&tar(&[&block])).0, "caf\u{e9}.txt".as_bytes());
}

#[test]
fn long_names_of_both_kinds_in_both_orders() {
    let long = [b'x'; 300];
    let gnu_name = long_name(&long);
    let pax_size = pax(b'x', &[("size", b"3")]);
    let block = ustar(&long[..100], 0, b'0');
    for order in [[&gnu_name, &pax_size], [&pax_size, &gnu_name]] {
        let archive = tar(&[order[0], order[1], &block, &body(b"abc"), &file(b"b.txt", b"")]);
        let walk = read(&archive);
        assert_eq!(walk.members[0].name[..], long);
        assert_eq!(walk.members[0].data[..], b"abc"[..]);
        assert_eq!((walk.members[0].header_offset, walk.members[0].data_offset), (0, 2560));
        assert_eq!(walk.members[1].name[..], b"b.txt"[..], "holds for one member only");
        assert!(walk.is_clean());
    }
}

#[test]
fn pax_records_hold_anything() {
    let records: &[(&str, &[u8])] = &[
        ("LIBARCHIVE.xattr.x", b"a\nb=c\0\n12 path=evil\n"),
        ("hdrcharset", b"BINARY"),
        ("path", b"caf\xe9\n.txt"),
        ("mtime", b"not a number"),
    ];
    assert_eq!(only(&tar(&[&pax(b'x', records), &file(b"short", b"abc")])).0, b"caf\xe9\n.txt");
}

#[test]
fn global_records_hold_until_they_are_replaced() {
    let archive = tar(&[
        &pax(b'g', &[("comment", b"x"), ("path", b"all.txt")]),
        &file(b"a", b"1"),
        &pax(b'x', &[("path", b"own.txt")]),
        &file(b"b", b"2"),
        &file(b"c", b"3"),
        &pax(b'g', &[("path", b"other.txt")]),
        &file(b"d", b"4"),
    ]);
    let walk = read(&archive);
    assert_eq!(walk.names(), ["all.txt", "own.txt", "all.txt", "other.txt"]);
    assert_eq!(walk.members[0].header_offset, 1024, "a global header is no part of a member");
}

#[test]
fn a_global_size_holds_too() {
    let header = ustar(b"a.txt", 0, b'0');
    let archive =
        tar(&[&pax(b'g', &[("size", b"3")]), &header, &body(b"abc"), &header, &body(b"def")]);
    let walk = read(&archive);
    let data: Vec<_> = walk.members.iter().map(|member| &member.data[..]).collect();
    assert_eq!(data, [b"abc", b"def"]);
    assert!(walk.is_clean());
}

#[test]
fn links_and_unknown_types_are_reported() {
    let link = |kind| {
        changed(ustar(b"id_1.jpg", 0, kind), |block| block[157..165].copy_from_slice(b"id_0.jpg"))
    };
    let archive = tar(&[
        &link(b'1'),
        &link(b'2'),
        &ustar(b"odd.jpg", 600, b'Z'),
        &body(&[b'z'; 600]),
        &file(b"a.txt", b"x"),
    ]);
    let walk = read(&archive);
    assert_eq!(walk.names(), ["a.txt"]);
    let said: Vec<_> = walk
        .warnings
        .into_iter()
        .map(|warning| shardstream::Error::from(warning).to_string())
        .collect();
    assert_eq!(
        said,
        [
            "tar: member id_1.jpg at byte 0: a hard link to id_0.jpg: it has no bytes of its own",
            "tar: member id_1.jpg at byte 512: a symbolic link to id_0.jpg: it has no bytes of its own",
            "tar: member odd.jpg at byte 1024: a member of unknown type `Z`: left out",
        ]
    );
}

#[test]
fn a_directory_with_a_size_has_a_body_or_not() {
    let directory = ustar(b"d/", 700, b'5');
    for parts in [&[&directory[..]][..], &[&directory[..], &body(&[b'x'; 700])]] {
        assert_eq!(only(&tar(&[&parts.concat(), &file(b"a.txt", b"x")])).0, b"a.txt");
    }
    // The old way to say directory.
    assert_eq!(only(&tar(&[&v7(b"d/", b"0", 0), &file(b"a.txt", b"x")])).0, b"a.txt");
    // At the end, where only an end mark follows, or nothing.
    assert!(read(&tar(&[&directory])).is_clean());
    assert!(matches!(read(&directory).end, Some(Ok(false))));
}

#[test]
fn what_holds_no_file_is_passed_over() {
    for kind in *b"3456VD" {
        assert_eq!(only(&tar(&[&ustar(b"thing.txt", 0, kind), &file(b"a.txt", b"x")])).0, b"a.txt");
    }
    assert_eq!(
        only(&tar(&[&ustar(b"dump", 5, b'D'), &body(b"Yabc\0"), &file(b"a.txt", b"x")])).0,
        b"a.txt"
    );
}

#[test]
fn sparse_files_are_refused_by_name() {
    let old = gnu(b"s.bin", 512, b'S');
    let records: &[(&str, &[u8])] = &[
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.name", b"s.bin"),
        ("path", b"GNUSparseFile.0/s.bin"),
    ];
    let older: &[(&str, &[u8])] = &[("GNU.sparse.size", b"1024"), ("path", b"s.bin")];
    let with = |records| [pax(b'x', records), file(b"x", b"1")].concat();
    for parts in [old.to_vec(), with(records), with(older)] {
        let error = read(&tar(&[&file(b"a.txt", b"x"), &parts])).error();
        assert!(error.contains("member s.bin at byte 1024") && error.contains("sparse"), "{error}");
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let negative = [0xff; 12];
    for (archive, expected) in [
        (tar(&[&v7(b"a.txt", &negative, b'0')]), "member a.txt at byte 0: the size field"),
        (tar(&[&v7(b"a.txt", b"-1", b'0')]), "the size field `-1\\x00"),
        (tar(&[&v7(b"a.txt", &negative, b'5')]), "the size field"),
        (tar(&[&v7(b"L", &negative, b'L')]), "the size field"),
        (tar(&[&pax(b'x', &[("size", b"-1")]), &file(b"a.txt", b"x")]), "the PAX size `-1`"),
        (
            tar(&[&v7(b"a.txt", b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", b'0')]),
            "a member of 9223372036854775807 bytes",
        ),
        (
            tar(&[&pax(b'x', &[("size", b"9223372036854775807")]), &file(b"a.txt", b"x")]),
            "a member of 9223372036854775807 bytes",
        ),
        (tar(&[&v7(b"x", b"77777777777", b'x')]), "an extended header of 8589934591 bytes"),
        (
            tar(&[&v7(b"a", b"77777777777", b'Z')]),
            "cut off: 8589933567 bytes of a body are missing",
        ),
    ] {
        let error = read(&archive).error();
        assert!(error.contains(expected), "{error}");
    }
    let walk =
        walk_with(Parser::new().max_member(2), [Bytes::from(tar(&[&file(b"a.txt", b"abc")]))]);
    assert!(
        walk.error()
            .contains("member a.txt at byte 0: a member of 3 bytes: more than the 2 allowed"),
        "{}",
        walk.error()
    );
}

#[test]
fn ends_of_every_kind() {
    let a = file(b"a.txt", b"x");
    for (tail, clean) in [
        (&[][..], false),
        (&[0; 512], true),
        (&[0; 100], false),
        (&[0; 10240], true),
        (b"\0junk", false),
    ] {
        let walk = read(&[&a[..], tail].concat());
        match tail {
            b"\0junk" => assert!(
                walk.error().contains("at byte 1024: cut off: 5 of the 512 bytes of a header"),
                "{}",
                walk.error()
            ),
            _ => assert!(
                matches!(walk.end, Some(Ok(end)) if end == clean),
                "{} bytes: {}",
                tail.len(),
                walk.story()
            ),
        }
        assert_eq!(walk.names(), ["a.txt"]);
    }
    // Only the padding is missing.
    let walk = read(&a[..600]);
    assert!(walk.names() == ["a.txt"] && matches!(walk.end, Some(Ok(false))));
    // What stands behind the end mark is not read, but another archive is worth a word.
    let walk = read(&[&tar(&[&a])[..], b"junk", &[7; 5000]].concat());
    assert!(walk.is_clean() && walk.warnings.is_empty());
    let walk = read(&[tar(&[&a]), tar(&[&file(b"b.txt", b"y"), &a])].concat());
    assert_eq!(walk.names(), ["a.txt"]);
    assert_eq!((walk.warnings.len(), walk.warnings[0].offset), (1, 2048));
    assert!(walk.is_clean());
}

#[test]
fn what_is_no_archive_is_called_by_its_name() {
    for (bytes, expected) in [
        (&b""[..], "at byte 0: not a tar archive: it is empty (0 bytes)"),
        (b"<?xml version=\"1.0\"?><Error><Code>AccessDenied", "looks like an XML document"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (&[b'x'; 2000], "something else; it begins with `xxxx"),
    ] {
        let error = read(bytes).error();
        assert!(error.contains(expected), "{error}");
    }
    assert!(read(&[0; 1024]).is_clean(), "an archive of no members");
}

#[test]
fn cut_off_archives_say_where() {
    let archive =
        tar(&[&file(b"a.txt", b"x"), &pax(b'x', &[("path", b"b.txt")]), &file(b"b", &[b'y'; 600])]);
    for (length, expected) in [
        (100, "at byte 0: not a tar archive"),
        (512, "member a.txt at byte 512: cut off: 0 of the 1 bytes of the member"),
        (1100, "at byte 1024: cut off: 76 of the 512 bytes of a header"),
        (1540, "at byte 1540: cut off: 4 of the 14 bytes of an extended header"),
        (1560, "behind an extended header, whose member is missing"),
        (2048, "behind an extended header, whose member is missing"),
        (2560, "member b.txt at byte 2560: cut off: 0 of the 600 bytes"),
        (3000, "member b.txt at byte 3000: cut off: 440 of the 600 bytes"),
    ] {
        let walk = read(&archive[..length]);
        assert!(walk.error().contains(expected), "{length}: {}", walk.error());
        assert_eq!(walk.members.len(), usize::from(length > 1024), "{length}");
    }
    let orphan = tar(&[&file(b"a.txt", b"x"), &long_name(b"b")]);
    assert!(read(&orphan).error().contains("whose member is missing"));
}

#[test]
fn big_members_are_slices_and_small_ones_copies() {
    let (small, big) = (file(b"a.txt", &[1; 500]), file(b"b.txt", &[2; 6000]));
    let chunk = Bytes::from(tar(&[&small, &big]));
    let walk = walk([chunk.clone()]);
    let inside = |data: &Bytes| chunk.as_ptr_range().contains(&data.as_ptr());
    assert_eq!(
        walk.members
            .iter()
            .map(|member| (inside(&member.data), inside(&member.name)))
            .collect::<Vec<_>>(),
        [(false, false), (true, false)]
    );
    // What waits in a buffer pins no chunk: nobody but us holds this one.
    let lonely = Bytes::from(tar(&[&small, &small]));
    let walk = super::archive::walk([lonely.clone()]);
    assert!(lonely.is_unique() && walk.members.len() == 2);
}

#[test]
fn resync_goes_on_behind_the_broken_place() {
    let mut archive = tar(&[
        &file(b"a.txt", b"1"),
        &file(b"b.txt", b"2"),
        &file(b"c.txt", b"3"),
        &pax(b'x', &[("path", b"d.txt")]),
        &file(b"d", b"4"),
    ]);
    archive[1024 + 3] ^= 1;
    let mut parser = Parser::new();
    parser.push(Bytes::from(archive.clone()));
    parser.finish();
    assert!(matches!(parser.next(), Ok(Step::Member(_))));
    assert_eq!(parser.next().unwrap_err().offset(), Some(1024));
    parser.resync();
    let Ok(Step::Warning(warning)) = parser.next() else { panic!() };
    assert_eq!((warning.name.as_deref(), warning.offset), (Some(&b"c.txt"[..]), 2048));
    let Ok(Step::Member(member)) = parser.next() else { panic!() };
    assert_eq!(member.name, "d.txt");
    assert_eq!(parser.next().unwrap(), Step::End { clean: true });

    // Behind the gap a member with an extended header is certain of its name.
    archive[2048 + 3] ^= 1;
    let mut parser = Parser::new();
    parser.push(Bytes::from(archive));
    parser.finish();
    let _first = parser.next().unwrap();
    let _broken = parser.next().unwrap_err();
    parser.resync();
    let Ok(Step::Member(member)) = parser.next() else { panic!() };
    assert_eq!(member.name, "d.txt");
}

#[test]
fn resync_gets_past_what_is_whole_but_refused() {
    let negative = changed(ustar(b"n.bin", 0, b'0'), |block| block[124..136].fill(0xff));
    for refused in [
        gnu(b"s.bin", 0, b'S'),
        ustar(b"big.bin", 5000, b'0'),
        ustar(b"x", 1 << 30, b'x'),
        negative,
    ] {
        let mut parser = Parser::new().max_member(4000);
        let archive = tar(&[
            &file(b"a.txt", b"1"),
            &refused,
            &pax(b'x', &[("path", b"b.txt")]),
            &file(b"b", b"2"),
        ]);
        parser.push(Bytes::from(archive));
        parser.finish();
        let _first = parser.next().unwrap();
        assert_eq!(parser.next().unwrap_err().offset(), Some(1024));
        parser.resync();
        let Ok(Step::Member(member)) = parser.next() else { panic!() };
        assert_eq!(member.name, "b.txt");
    }
}

#[test]
fn resync_without_an_error_passes_over_no_header() {
    let archive = tar(&[&file(b"a.txt", b"1"), &file(b"b.txt", b"2"), &file(b"c.txt", b"3")]);
    // Whatever of the padding behind the member has come.
    for chunk in [512 + 1, 512 + 100, 1024, 1025, archive.len()] {
        let mut parser = Parser::new();
        let mut chunks = archive.chunks(chunk).map(Bytes::copy_from_slice);
        let mut next = |parser: &mut Parser| {
            loop {
                match parser.next().unwrap() {
                    Step::NeedMore => parser.push(chunks.next().unwrap()),
                    step => return step,
                }
            }
        };
        assert!(matches!(next(&mut parser), Step::Member(member) if member.name == "a.txt"));
        parser.resync();
        let Step::Warning(warning) = next(&mut parser) else { panic!("{chunk}") };
        assert_eq!(warning.name.as_deref(), Some(&b"b.txt"[..]), "{chunk}");
        assert!(matches!(next(&mut parser), Step::Member(member) if member.name == "c.txt"));
    }
}

#[test]
fn resync_finds_nothing_in_nothing() {
    let mut parser = Parser::new();
    parser.push(Bytes::from(vec![b'x'; 5000]));
    parser.next().unwrap_err();
    parser.resync();
    assert_eq!(parser.next().unwrap(), Step::NeedMore);
    parser.finish();
    assert_eq!(parser.next().unwrap(), Step::End { clean: false });
}
