//! The section `[data.columns]` and the other keys of tables.

use std::path::Path;

use paceline_job::{DataKind, RawJob};
use paceline_table::{CodeChoice, ColumnChoice, ColumnSpec, ScaleChoice, TableSpec};

fn parse(text: &str) -> RawJob {
    RawJob::parse(text, Path::new("job.toml")).unwrap()
}

fn table(job: &RawJob) -> TableSpec {
    match job.check().unwrap().data.kind {
        DataKind::Table(spec) => spec,
        other => panic!("{other:?}"),
    }
}

fn problems(text: &str) -> String {
    parse(text).check().unwrap_err().to_string()
}

const JOB: &str = r#"
[data]
path = "people.tsv.gz"
delimiter = "tab"
cross = [["city", "job"], ["city", "my.age"]]

[data.columns]
city = { as = "category", bits = 12 }
job = { as = "category", min_count = 3 }
"my.age" = { as = "number", scale = "buckets", buckets = 5 }
tags = { as = "list", separator = ";" }
about = { as = "text", ngrams = 2 }
3 = "ignore"
buys = { as = "label", classes = ["no", 1] }
"#;

#[test]
fn columns_are_declared_by_name_or_number() {
    let spec = table(&parse(JOB));
    let column = |column: &str, choice| ColumnSpec { column: column.into(), choice };
    let codes = |bits, min_count| CodeChoice { bits, min_count };
    let expected = [
        column("my.age", ColumnChoice::Number(ScaleChoice::Buckets(5))),
        column("3", ColumnChoice::Ignore),
        column("about", ColumnChoice::Text { bits: None, ngrams: 2 }),
        column("buys", ColumnChoice::Label { classes: vec!["no".into(), "1".into()] }),
        column("city", ColumnChoice::Category(codes(Some(12), None))),
        column("job", ColumnChoice::Category(codes(None, Some(3)))),
        column("tags", ColumnChoice::List { separator: ';', codes: codes(None, None) }),
    ];
    assert_eq!(spec.columns, expected);
    assert_eq!(spec.crosses, [["city", "job"], ["city", "my.age"]]);
    assert_eq!((spec.format.delimiter, spec.bits), (Some(b'\t'), 18));
}

#[test]
fn an_explained_job_has_the_same_columns() {
    let job = parse(JOB);
    let explained = job.explain();
    assert!(
        explained.contains("\"my.age\" = { as = \"number\", scale = \"buckets\""),
        "{explained}"
    );
    let again = parse(&explained);
    assert_eq!(table(&again).columns, table(&job).columns);
    assert_eq!(table(&again).crosses, table(&job).crosses);
    assert_eq!(again.digest(), job.digest());
}

#[test]
fn a_setting_replaces_a_column() {
    let mut job = parse(JOB);
    job.set("data.columns.city=ignore");
    job.set("data.columns.my.age=ignore");
    let error = job.check().unwrap_err().to_string();
    assert!(error.contains("data.columns.my.age"), "{error}");
    let mut job = parse(JOB);
    job.set("data.columns.city=ignore");
    job.set("data.columns.the city=category");
    let columns = table(&job).columns;
    let find = |name: &str| columns.iter().find(|spec| spec.column == name).unwrap();
    assert_eq!(find("city").choice, ColumnChoice::Ignore);
    assert_eq!(find("the city").choice, ColumnChoice::Category(CodeChoice::default()));
}

#[test]
fn data_whose_name_ends_as_a_table_is_one_unless_the_job_says_otherwise() {
    for path in ["a.csv", "a.TSV", "a.csv.gz", "dir/*.parquet"] {
        let text = format!("[data]\npath = {path:?}\n");
        let job = parse(&text);
        assert!(job.explain().contains("\"table\""), "{}", job.explain());
        assert_eq!(job.check().unwrap().model.name(), "logistic");
    }
    let job = parse("[data]\nkind = \"libsvm\"\npath = \"a.csv\"\n");
    assert_eq!(job.check().unwrap().data.kind.name(), "libsvm");
    let mut job = RawJob::built_in();
    job.set("data.path=a.csv");
    let plan = job.check().unwrap();
    assert_eq!((plan.data.kind.name(), plan.cluster.workers), ("table", 1));
    job.set("model.kind=softmax");
    assert_eq!(table(&job).bits, 10);
}

#[test]
fn mistakes_in_columns_are_named_with_their_line() {
    let check = |columns: &str, says: &str| {
        let text = format!("[data]\npath = \"a.csv\"\n[data.columns]\n{columns}\n");
        let found = problems(&text);
        assert!(found.starts_with("job.toml:4: ") && found.contains(says), "{found}");
    };
    check("a = \"numbr\"", "did you mean \"number\"?");
    check("a = 3", "data.columns.a.as must be");
    check("a = { scale = \"log\" }", "data.columns.a does not say what the column is: set as");
    check(
        "a = { as = \"number\", bits = 3 }",
        "data.columns.a.bits applies only with data.columns.a.as",
    );
    check("a = { as = \"number\", scal = \"log\" }", "did you mean data.columns.a.scale?");
    check("a = { as = \"category\", bits = 3, min_count = 2 }", "leave one of them out");
    check("a = { as = \"list\", separator = \"ab\" }", "must be one character");
    check("a = { as = \"label\", classes = \"no\" }", "must be a list of texts");
    check("a = { as = \"category\", bits = 40 }", "a whole number from 1 to 28");
    let unused = problems("[data]\nkind = \"digits\"\n[data.columns]\na = \"number\"\n");
    assert!(unused.contains("applies only with data.kind = \"table\""), "{unused}");
    let cross = problems("[data]\npath = \"a.csv\"\ncross = [\"a\"]\n");
    assert!(cross.contains("data.cross must be a list of lists of texts"), "{cross}");
}
