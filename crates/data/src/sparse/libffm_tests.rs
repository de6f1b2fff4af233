//! Tests of LIBFFM text.

use super::*;

type Entries = (Vec<u32>, Vec<u16>, Vec<f32>);

fn row(line: &str) -> Result<Option<Entries>, String> {
    let mut row = RowBuffer::default().with_fields(true);
    let found = parse(line.as_bytes(), &mut row).map_err(|fault| fault.to_string())?;
    Ok(found.then(|| (row.keys.clone(), row.fields.clone(), row.values.clone())))
}

#[test]
fn entries_have_a_field_an_index_and_a_value() {
    let entries = row("1 0:17:1 2:3:0.5\t40:0:-2 # comment\r").unwrap().unwrap();
    assert_eq!(entries, (vec![17, 3, 0], vec![0, 2, 40], vec![1.0, 0.5, -2.0]));
    assert_eq!(row("-1").unwrap().unwrap().0, []);
    assert_eq!(row("  # nothing").unwrap(), None);
}

#[test]
fn fields_are_checked_but_not_kept_unless_they_are_asked_for() {
    let mut row = RowBuffer::default();
    assert_eq!(parse(b"0 65535:4294967295:1", &mut row), Ok(true));
    assert_eq!((&row.keys[..], row.fields.len()), (&[u32::MAX][..], 0));
    assert!(parse(b"0 65536:1:1", &mut row).is_err());
}

#[test]
fn a_field_that_is_not_below_their_number_is_a_fault_that_names_byte_and_remedy() {
    let mut row = RowBuffer::default().with_fields(true).with_most_fields(256);
    assert_eq!(parse(b"1 0:17:1 255:3:1", &mut row), Ok(true));
    let fault = parse(b"1 0:17:1 65535:3:1", &mut row).unwrap_err().to_string();
    for says in ["byte 10", "field 65535", "data.fields, 256", "set data.fields = 65536"] {
        assert!(fault.contains(says), "{fault}");
    }
    // A model without fields does not mind.
    let mut row = RowBuffer::default().with_most_fields(256);
    assert_eq!(parse(b"1 0:17:1 65535:3:1", &mut row), Ok(true));
}

#[test]
fn faults_name_the_byte_and_an_example() {
    for (line, says) in [
        ("1 3:1", "byte 3: not an entry such as 3:17:1"),
        ("1 0:1:1 0:1:x", "byte 9"),
        ("1 a:1:1", "byte 3"),
        ("1 0:1:1:1", "byte 3"),
        ("1 0:-1:1", "byte 3"),
        ("1 70000:1:1", "field 70000 is above 65535"),
        ("1 0:4294967296:1", "more than 32 bits"),
        ("2 0:1:1", "label"),
    ] {
        let error = row(line).unwrap_err();
        assert!(error.contains(says), "{line}: {error}");
    }
}
