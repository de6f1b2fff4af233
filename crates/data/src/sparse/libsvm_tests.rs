//! Tests of reading LIBSVM lines.

use super::*;

type LibsvmRow = (u32, Vec<u32>, Vec<f32>);

fn check(line: &str, base: u32) -> Result<Option<LibsvmRow>, RowFault> {
    let mut row = RowBuffer::default();
    if !parse(line.as_bytes(), base, &mut row)? {
        return Ok(None);
    }
    let row = row.finish(1000)?;
    Ok(Some((row.label, row.keys.to_vec(), row.values.to_vec())))
}

#[test]
fn all_forms_of_rows_are_parsed() {
    let row =
        |label, keys: &[u32], values: &[f32]| Ok(Some((label, keys.to_vec(), values.to_vec())));
    assert_eq!(check("1 1:1 3:1", 1), row(1, &[0, 2], &[]));
    assert_eq!(check("-1 0:0.5 3:-2e1", 0), row(0, &[0, 3], &[0.5, -20.0]));
    assert_eq!(check("+1  7:1\t3:1 \r", 1), row(1, &[2, 6], &[]));
    assert_eq!(check("0 qid:4 2:1 2:1 # 9:9", 0), row(0, &[2], &[2.0]));
    assert_eq!(check("1.0", 1), row(1, &[], &[]));
    assert_eq!(check(" -1.0 5:1#", 1), row(0, &[4], &[]));
    assert_eq!(check("1 1:10 2:1.0", 1), row(1, &[0, 1], &[10.0, 1.0]));
    assert_eq!(check("# nothing", 1), Ok(None));
    assert_eq!(check(" \t", 1), Ok(None));
    assert_eq!(check("", 1), Ok(None));
}

#[test]
fn a_malformed_line_is_a_fault_that_says_where() {
    assert_eq!(check("2 1:1", 1), Err(RowFault::Label));
    assert_eq!(check("0.5 1:1", 1), Err(RowFault::Label));
    assert_eq!(check("nan 1:1", 1), Err(RowFault::Label));
    assert_eq!(check("1:1 2:1", 1), Err(RowFault::Label));
    // Other formats have two classes, whatever the model is.
    assert!(RowFault::Label.to_string().contains("for more classes in LIBSVM text"));
    assert_eq!(check("1 1:1 7", 1), Err(RowFault::Entry { at: 7 }));
    assert_eq!(check("1 1:", 1), Err(RowFault::Entry { at: 3 }));
    assert_eq!(check("1 1:x", 1), Err(RowFault::Entry { at: 3 }));
    assert_eq!(check("1 a:1", 1), Err(RowFault::Entry { at: 3 }));
    assert_eq!(check("1 0:1", 1), Err(RowFault::IndexZero));
    assert_eq!(check("1 -4:1", 1), Err(RowFault::Index));
    assert_eq!(check("1 4294967296:1", 0), Err(RowFault::Index));
    assert_eq!(check("1 99999999999999999999:1", 0), Err(RowFault::Index));
    assert_eq!(check("1 1:nan", 1), Err(RowFault::NotFinite));
    assert_eq!(check("1 1:inf", 1), Err(RowFault::NotFinite));
    assert_eq!(check("1 1:1e39", 1), Err(RowFault::NotFinite));
    let beyond = RowFault::KeyOutOfRange { key: 1000, features: 1000 };
    assert_eq!(check("1 1000:1", 0), Err(beyond));
}
