//! Differences of a dump in pieces.

use super::*;

/// Rows of a table between the others of a dump, where each row has a number.
fn dump(numbers: std::ops::Range<u32>, model: &str) -> Vec<u8> {
    let row = |it: u32| format!("{it}\t{}\tchat\n", it.wrapping_mul(2_654_435_761));
    let rows = numbers.map(row).collect::<Vec<_>>().concat();
    format!("-- head {model}\n\nCOPY models\n{model}\n\\.\n\nCOPY usage\n{rows}\\.\n\n-- end\n").into_bytes()
}

#[test]
fn a_difference_has_the_new_pieces_of_a_dump_also_to_another_difference() {
    for part_size in [None, Some(crate::manifest::SMALLEST_PART)] {
        let (weights, to) = folders();
        let tree = tree(weights.path());
        let dirs = ["first", "second", "third"].map(|it| to.path().join(it));
        let dumps = [dump(0..200_000, "a"), dump(1_000..201_000, "a"), dump(1_000..201_000, "b")];
        for (n, (to, dump)) in dirs.iter().zip(&dumps).enumerate() {
            let base = n.checked_sub(1).map(|it| dirs[it].as_path());
            let id = format!("{n}");
            let export = Export { weights: weights.path(), to, part_size, base, id: &id, dump };
            let package = export.run(&mut Sums::default());
            assert_eq!(package.manifest().files.contains_key(&path("db/dump.pieces")), n > 0);
        }
        let open = |n: usize| Package::open(&dirs[n]).unwrap();
        let whole = open(0).manifest().files[&path("db/dump.sql")].size;
        let second = open(1).with_base(open(0)).unwrap();
        assert!(second.manifest().size() * 8 < whole, "{}", second.manifest().size());
        assert!(content(&second, "db/dump.sql") == dumps[1]);
        assert!(content(&open(0), "db/dump.sql") == dumps[0]);
        assert!(open(2).manifest().size() < 1000, "a head, a model and an end");
        let third = open(2).with_base(second).unwrap();
        assert!(content(&third, "db/dump.sql") == dumps[2]);
        assert_whole(&third, &tree);
        let found = open(2).with_base_at(&dirs[1]).unwrap();
        assert!(found.has(&path("db/dump.sql")) && content(&found, "db/dump.sql") == dumps[2]);
        let missing = open(2).with_base(open(1)).unwrap();
        assert!(!missing.has(&path("db/dump.sql")) && missing.has(&path("db/dump.pieces")));
        let mut read = missing.content(&path("db/dump.sql")).unwrap();
        assert_eq!(read.read_to_end(&mut Vec::new()).unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(read);
        fs::rename(&dirs[0], weights.path().join("elsewhere")).unwrap();
        let refused = open(2).with_base_at(&dirs[1]).unwrap_err().to_string();
        assert!(refused.contains("the package 0 is needed as well"), "{refused}");
    }
}

#[test]
fn a_piece_that_the_base_no_longer_has_is_found() {
    let (weights, to) = folders();
    tree(weights.path());
    let (first, second) = (to.path().join("first"), to.path().join("second"));
    let (a, b) = (dump(0..100_000, "a"), dump(0..100_000, "b"));
    let export =
        Export { weights: weights.path(), to: &first, part_size: None, base: None, id: "1", dump: &a };
    export.run(&mut Sums::default());
    Export { to: &second, base: Some(&first), id: "2", dump: &b, ..export }.run(&mut Sums::default());
    let mut changed = fs::read(first.join("db/dump.sql")).unwrap();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    fs::write(first.join("db/dump.sql"), changed).unwrap();
    let package = Package::open(&second).unwrap().with_base(Package::open(&first).unwrap()).unwrap();
    let problems = verify(&package, 2, &Progress::default()).unwrap();
    assert_eq!(problems, [crate::verify::Problem::Content(path("db/dump.sql"))]);
}
