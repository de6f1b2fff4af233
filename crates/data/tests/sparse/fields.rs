//! The fields of keys, through every format that has them and through the cache.

use paceline_data::sparse::{Clicks, SparseFormat, write_clicks_file};
use paceline_data::{SparseBuffer, SparseKind, SparseRows, SparseSpec};

use crate::{DataDir, all, open};

/// The fields of all rows.
fn fields(rows: &SparseRows) -> Vec<Vec<u16>> {
    (0..rows.len()).map(|index| rows.row(index).fields).collect()
}

#[test]
fn generated_rows_keep_their_fields_through_every_format_that_has_them() {
    let dir = DataDir::new();
    let clicks = Clicks::new(10_000, 4);
    let generated = SparseSpec {
        features: Some(10_000),
        train_examples: Some(300),
        seed: 4,
        with_fields: true,
        ..dir.spec(SparseKind::Clicks, "")
    };
    let expected = open(&generated).unwrap().train;
    assert_eq!(expected.fields(), 39);
    assert!(fields(&expected).iter().all(|row| {
        let mut row = row.clone();
        row.sort_unstable();
        row.into_iter().eq(0..39)
    }));
    for (kind, format) in
        [(SparseKind::Libffm, SparseFormat::Libffm), (SparseKind::Criteo, SparseFormat::Criteo)]
    {
        let path = dir.path(kind.name());
        write_clicks_file(&clicks, 0..300, format, false, &path, &mut |_| true).unwrap();
        let spec = SparseSpec { features: Some(10_000), ..dir.spec(kind, kind.name()) };
        let bare = open(&spec).unwrap().train;
        let rows = open(&SparseSpec { with_fields: true, ..spec }).unwrap().train;
        assert_eq!((bare.fields(), rows.fields()), (0, 39));
        assert!(fields(&bare).iter().all(Vec::is_empty));
        assert_eq!(all(&bare), all(&rows), "the rows are the same with and without fields");
        if kind == SparseKind::Libffm {
            assert_eq!((all(&rows), fields(&rows)), (all(&expected), fields(&expected)));
        } else {
            // Hashed columns have other keys, and all 39 fields.
            assert!(fields(&rows).iter().all(|row| row.iter().sum::<u16>() == 38 * 39 / 2));
        }
    }
}

#[test]
fn rows_are_cached_apart_with_and_without_fields() {
    let dir = DataDir::new();
    dir.file("rows.ffm", "1 0:3:1 300:2:0.5\n0\n0 1:3:1 0:3:2\n");
    let spec = dir.spec(SparseKind::Libffm, "rows.ffm");
    let caches = || std::fs::read_dir(dir.path("cache")).unwrap().count();
    let bare = open(&spec).unwrap().train;
    let with_one = caches();
    let spec = SparseSpec { with_fields: true, most_fields: 301, ..spec };
    for _ in 0..2 {
        let rows = open(&spec).unwrap().train;
        assert_eq!((rows.features(), rows.fields()), (4, 301));
        assert_eq!(fields(&rows), [vec![300, 0], vec![], vec![0, 1]]);
        assert_eq!(rows.row(2).values, [2.0, 1.0]);
        let mut batch = SparseBuffer::default();
        batch.fill(&rows, [2, 1, 0].into_iter());
        assert_eq!(batch.fields, [0, 1, 300, 0]);
        assert_eq!(batch.starts, [0, 2, 2, 4]);
    }
    assert_eq!(caches(), 2 * with_one);
    // Without fields, a key that occurs twice is one key.
    assert_eq!(bare.row(2).keys, [3]);
    assert_eq!(bare.row(2).value(0), 3.0);
}

#[test]
fn a_field_beyond_their_number_is_refused_with_its_line_if_fields_are_stored() {
    let dir = DataDir::new();
    dir.file("rows.ffm", "0 1:3:1\n1 0:3:1 300:2:0.5\n");
    let bare = dir.spec(SparseKind::Libffm, "rows.ffm");
    assert_eq!(open(&bare).unwrap().train.len(), 2);
    let error = open(&SparseSpec { with_fields: true, ..bare }).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("field 300"), "{error}");
}

#[test]
fn files_without_fields_are_refused_where_a_model_needs_them() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 3:1\n");
    for kind in [SparseKind::Libsvm, SparseKind::TfRecord] {
        let spec = SparseSpec { with_fields: true, ..dir.spec(kind, "rows.svm") };
        let error = open(&spec).unwrap_err().to_string();
        assert!(error.contains("no fields") && error.contains("libffm"), "{error}");
    }
}

#[test]
fn text_of_a_neighbouring_format_is_named() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 3:1 4:1\n0 2:1\n");
    dir.file("rows.ffm", "1 0:3:1 1:4:1\n0 0:2:1\n");
    let error = open(&dir.spec(SparseKind::Libffm, "rows.svm")).unwrap_err().to_string();
    assert!(error.contains("LIBSVM text; set data.kind = \"libsvm\""), "{error}");
    let error = open(&dir.spec(SparseKind::Libsvm, "rows.ffm")).unwrap_err().to_string();
    assert!(error.contains("LIBFFM text; set data.kind = \"libffm\""), "{error}");
}

#[test]
fn a_bad_entry_is_an_error_with_file_and_line() {
    let dir = DataDir::new();
    dir.file("rows.ffm", "1 0:3:1\n0 0:x:1\n");
    let error = open(&dir.spec(SparseKind::Libffm, "rows.ffm")).unwrap_err().to_string();
    assert!(error.contains("rows.ffm") && error.contains("line 2"), "{error}");
    assert!(error.contains("byte 3: not an entry such as 3:17:1"), "{error}");
    let few = SparseSpec { features: Some(3), ..dir.spec(SparseKind::Libffm, "rows.ffm") };
    let error = open(&few).unwrap_err().to_string();
    assert!(error.contains("line 1") && error.contains("number of features, 3"), "{error}");
}

#[test]
fn rows_in_memory_have_fields() {
    let rows = [(vec![5, 2], vec![9, 0], vec![0.5, 2.0], 1), (vec![], vec![], vec![], 0)];
    let rows = SparseRows::from_field_rows(10, rows).unwrap();
    assert_eq!((rows.fields(), fields(&rows)), (10, vec![vec![0, 9], vec![]]));
    let error = SparseRows::from_field_rows(10, [([1, 2], [0], [], 1)]).unwrap_err();
    assert!(error.to_string().contains("2 keys but 1 fields"), "{error}");
}
