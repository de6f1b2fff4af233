//! Files that TensorFlow itself wrote (`tests/golden/tfrecord.py`).

use std::path::Path;

use paceline_data::SparseKind;

use crate::{DataDir, all, ones, open};

#[test]
fn files_written_by_tensorflow_are_read_plain_and_gzip() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for name in ["plain.tfrecord", "gzip.tfrecord"] {
        let dir = DataDir::new();
        let mut spec = dir.spec(SparseKind::TfRecord, "");
        spec.path = Some(golden.join(name));
        let set = open(&spec).unwrap();
        assert_eq!(set.train.features(), 33_762_578, "{name}: as many as the greatest needs");
        let expected = [
            ones(1, &[0, 17, 33_762_577]),
            (0, vec![3, 5, 200], vec![-2.25, 0.5, 1e-3]),
            (0, vec![1, 7], vec![4.0, 3.0]),
            ones(1, &[]),
            ones(1, &(100..139).collect::<Vec<_>>()),
        ];
        assert_eq!(all(&set.train), expected, "{name}");
        spec.features = Some(1000);
        let error = open(&spec).unwrap_err().to_string();
        assert!(error.contains("record 0 (from 0)") && error.contains("33762577"), "{error}");
    }
}
