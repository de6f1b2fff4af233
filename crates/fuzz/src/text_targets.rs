//! Texts and streams: requests, jobs, rows and tables.

use std::path::Path;

use paceline_data::OnBad;
use paceline_data::sparse::{ReadOptions, SparseFormat, read_rows};
use paceline_http::Request;
use paceline_job::RawJob;
use paceline_place::Cluster;
use paceline_record::StoredSummary;
use paceline_table::{TableSpec, describe_stream};
use paceline_tfrecord::write_record;

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// A request of the page or of a scraper.
pub(crate) fn http(bytes: &[u8]) {
    let _ = Request::parse(bytes);
}

pub(crate) fn http_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "GET /metrics HTTP/1.1\r\nhost: localhost:9400\r\nauthorization: Bearer 0123456789abcdef",
        "GET /api/zoom?run=a%20b&x=step&from=0&to=1e3 HTTP/1.1\r\nhost: [::1]:80\r\ncookie: a=1",
        "HEAD / HTTP/1.0\r\n",
    ])
}

/// A job file.
pub(crate) fn job(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(job) = RawJob::parse(&text, Path::new("job.toml")) {
        let _ = job.check();
        let _ = job.explain();
    }
}

pub(crate) fn job_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "name = \"a\"\nseed = 3\n[data]\nkind = \"mnist\"\n[train]\nbatch = 10\n\
         stop = { test_loss = 0.35, steps = 9 }\n[train.optimizer]\nrate = 0.01\n[cluster]\n\
         mode = \"sync\"\nworkers = 3\nservers = 1\nquorum = 2\n",
        "[model]\nkind = \"network\"\nlayers = [{ kind = \"flatten\" }, { kind = \"dense\", size = \
         128 }, { kind = \"relu\" }, { kind = \"dense\", size = \"classes\" }]\n",
        "[data]\nkind = \"table\"\npath = \"a.csv\"\nlabel = \"y\"\n[data.columns]\nx = \"hash\"\n\
         [checkpoint]\nevery_steps = 10\n[observe]\nhttp = \"127.0.0.1:0\"\n",
    ])
}

/// The variable that places a task.
pub(crate) fn tf_config(bytes: &[u8]) {
    let _ = Cluster::parse(&String::from_utf8_lossy(bytes));
}

pub(crate) fn tf_config_seeds() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"cluster": {"worker": ["a:1", "[::1]:2"], "ps": {"0": "c"}}, "task": {"type": "ps"}}"#,
        r#"{"cluster": {"chief": ["m"]}, "task": {"type": "chief", "index": "0"}, "x": 1}"#,
    ])
}

/// The summary of a run.
pub(crate) fn summary(bytes: &[u8]) {
    if let Some(summary) = StoredSummary::parse(&String::from_utf8_lossy(bytes)) {
        let _ = (summary.verdict_text(), summary.verdict_evidence(), summary.number("seconds"));
    }
}

pub(crate) fn summary_seeds() -> Vec<Vec<u8>> {
    texts(&[r#"{"name": "a", "mode": "sync", "workers": 2, "seconds": 1.5, "verdict": {"kind":
        "input", "text": "input: x; try y", "shares": []}, "tasks": [{"task": "ps:0", "steps": 3,
        "phases": {"receive": 0.5}}], "ranking": [{"task": "worker:1", "behind": 2.0}]}"#])
}

/// Reads rows, and stops at the first bad one or skips it.
fn rows(bytes: &[u8], format: SparseFormat) {
    let on_bad = if bytes.len().is_multiple_of(2) { OnBad::Fail } else { OnBad::Skip };
    let features = Some(1 << 20);
    let options = ReadOptions { format, features, first_index: 1, on_bad };
    let mut take = |row: paceline_data::SparseRow<'_>| {
        assert!(row.keys.iter().all(|&key| key < 1 << 20), "a key beyond the features");
        Ok(())
    };
    let _ = read_rows(bytes, Path::new("rows"), &options, &mut take);
}

/// Rows of LIBSVM.
pub(crate) fn libsvm(bytes: &[u8]) {
    rows(bytes, SparseFormat::Libsvm);
}

pub(crate) fn libsvm_seeds() -> Vec<Vec<u8>> {
    texts(&["1 1:0.5 3:-2e-3 # note\n0 2:1\n-1 7:1 1048576:1\n", "+1 qid:3 1:1\r\n0\n1 5:1e38\n"])
}

/// Rows of LIBFFM.
pub(crate) fn libffm(bytes: &[u8]) {
    rows(bytes, SparseFormat::Libffm);
}

pub(crate) fn libffm_seeds() -> Vec<Vec<u8>> {
    texts(&["1 0:1:0.5 3:7:-2e-3\n0 1:2:1\n", "-1 39:1048576:1 0:0:1\r\n1\n"])
}

/// Rows of Criteo.
pub(crate) fn criteo(bytes: &[u8]) {
    rows(bytes, SparseFormat::Criteo);
}

pub(crate) fn criteo_seeds() -> Vec<Vec<u8>> {
    let counts = (0..13).map(|count| format!("\t{count}")).collect::<String>();
    let words = (0..26).map(|word| format!("\t{:08x}", word * 0x0101_0101)).collect::<String>();
    let empty = "\t".repeat(39);
    vec![format!("1{counts}{words}\n0{empty}\n").into_bytes()]
}

/// Rows in TFRecords.
pub(crate) fn tfrecord(bytes: &[u8]) {
    rows(bytes, SparseFormat::TfRecord);
}

pub(crate) fn tfrecord_seeds() -> Vec<Vec<u8>> {
    // A tf.train.Example with a label, ids and values, in protobuf's wire format.
    let field = |number: u8, content: &[u8]| {
        let mut bytes = vec![number << 3 | 2, content.len() as u8];
        bytes.extend(content);
        bytes
    };
    let feature = |name: &str, value: Vec<u8>| {
        let entry = [field(1, name.as_bytes()), field(2, &value)].concat();
        field(1, &entry)
    };
    let label = feature("label", field(3, &field(1, &[1])));
    let ids = feature("ids", field(3, &field(1, &[3, 9, 0x81, 1])));
    let values = feature("values", field(2, &field(1, &[0; 12])));
    let example = field(1, &[label, ids, values].concat());
    let mut file = Vec::new();
    for _ in 0..2 {
        write_record(&mut file, &example).expect("a record in memory");
    }
    vec![file]
}

/// A table whose format and columns are not known.
pub(crate) fn csv(bytes: &[u8]) {
    let _ = describe_stream(&TableSpec::at("table.csv"), &mut &bytes[..]);
}

pub(crate) fn csv_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "label,age,city\n1,20,\"a, \"\"b\"\"\"\n0,30,c\n1,,d\n0,1e3,\n",
        "y\tx\tz\n1\t2.5\tred\n0\t-3\tgreen\n1\t0\tblue\n",
        "a;b\r\nyes;\"multi\nline\"\r\nno;2\r\n",
    ])
}
