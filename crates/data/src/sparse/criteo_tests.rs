//! Tests of reading Criteo's lines.

use super::*;

const FEATURES: u32 = 33_762_578;

/// The line that docs/formats.md shows.
fn line() -> String {
    let counts = ["", "-1", "0", "2", "3", "1000", "", "", "", "", "", "", ""];
    let categories = ["68fd1e64"].into_iter().chain([""; 25]);
    let columns: Vec<&str> = ["1"].into_iter().chain(counts).chain(categories).collect();
    columns.join("\t")
}

fn check(line: &str) -> Result<Option<(u32, Vec<u32>)>, RowFault> {
    let mut row = RowBuffer::default();
    let found = parse(line.as_bytes(), FEATURES, &mut row)?;
    let row = row.finish_ones();
    Ok(found.then(|| (row.label, row.keys.to_vec())))
}

#[test]
fn a_row_has_the_keys_that_the_documentation_shows() {
    let (label, keys) = check(&line()).unwrap().unwrap();
    assert_eq!((label, keys.len()), (1, 39));
    assert!(keys.is_sorted());
    assert!(keys.iter().all(|&key| key < FEATURES));
    // Computed from the text of docs/formats.md in Python.
    for (field, token, expected) in EXAMPLES {
        assert_eq!(key(field, token, FEATURES), expected, "{field} {token}");
        assert!(keys.contains(&expected), "{field} {token}");
    }
}

const EXAMPLES: [(usize, u64, u32); 5] = [
    (0, 0, 0),
    (1, (1 << 32) + 0xffff_ffff, 26_386_339),
    (4, (1 << 32) + 3, 30_343_362),
    (5, (1 << 32) + 49, 33_303_169),
    (13, (1 << 32) + 0x68fd_1e64, 11_481_843),
];

#[test]
fn counts_are_bucketed_by_their_logarithm() {
    let counts = [i64::MIN, -7, 0, 1, 2, 3, 4, 5, 1000, i64::MAX];
    let buckets = counts.map(bucket);
    assert_eq!(buckets, [i32::MIN, -7, 0, 1, 2, 3, 3, 4, 49, 1301]);
    // The clicks generator relies on every bucket having a count.
    let all: std::collections::BTreeSet<i32> = (0..100_000).map(bucket).collect();
    assert_eq!(all.len() as i32, bucket(99_999) + 1);
}

#[test]
fn a_malformed_line_is_a_fault_that_names_the_column() {
    assert_eq!(check(""), Ok(None));
    assert_eq!(check("\r"), Ok(None));
    assert_eq!(check("1"), Err(RowFault::Columns(1)));
    assert_eq!(check(&line().replacen("1\t", "2\t", 1)), Err(RowFault::Label));
    assert_eq!(check(&(line() + "\t")), Err(RowFault::Columns(41)));
    assert_eq!(check(&(line() + "\ta\tb")), Err(RowFault::Columns(42)));
    assert_eq!(check(&line()[2..]), Err(RowFault::Label));
    assert_eq!(check(&line().replace("1000", "1.5")), Err(RowFault::Column { column: 7 }));
    for wrong in ["68fd1e64a", "xyz", "68 fd", "-1", "\u{e9}"] {
        let line = line().replace("68fd1e64", wrong);
        assert_eq!(check(&line), Err(RowFault::Column { column: 15 }), "{wrong}");
    }
}

#[test]
fn windows_line_ends_and_capital_digits_make_no_difference() {
    let unix = check(&line()).unwrap();
    assert_eq!(check(&(line() + "\r")).unwrap(), unix);
    assert_eq!(check(&line().replace("68fd1e64", "68FD1E64")).unwrap(), unix);
}
