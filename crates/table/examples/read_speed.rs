//! Measures how fast a table is read into cached rows: `read_speed FILE [raw|standard|inferred]`.
//!
//! Numbers are those columns whose names begin with `count`, and the others are categories, as in
//! the table of bench/tables.py; `inferred` leaves the columns to the first rows.

use std::error::Error;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use paceline_data::OpenReport;
use paceline_table::{CodeChoice, ColumnChoice, ColumnSpec, ScaleChoice, TableSpec, open_table};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or("which file?")?);
    let how = args.next().unwrap_or_else(|| "inferred".into());
    let dir = std::env::temp_dir().join(format!("read-speed-{}", std::process::id()));
    let mut spec = TableSpec { cache_dir: Some(dir.clone()), ..TableSpec::at(&path) };
    if how != "inferred" {
        let scale = if how == "raw" { ScaleChoice::Raw } else { ScaleChoice::Standard };
        let text = fs::read_to_string(&path)?;
        let header = text.lines().next().unwrap_or_default().to_owned();
        spec.columns = header.split(',').map(|name| column(name, scale)).collect();
    }
    let megabytes = fs::metadata(&path)?.len() as f64 / 1e6;
    for _ in 0..5 {
        let _ = fs::remove_dir_all(&dir);
        let start = Instant::now();
        let table = open_table(&spec, &mut |_: OpenReport<'_>| ControlFlow::Continue(()))?;
        let seconds = start.elapsed().as_secs_f64();
        let rows = table.rows.train.len();
        println!("{rows} rows, {:.0} MB/s, {seconds:.3} s", megabytes / seconds);
    }
    fs::remove_dir_all(&dir)?;
    Ok(())
}

fn column(name: &str, scale: ScaleChoice) -> ColumnSpec {
    let choice = match name {
        "label" => ColumnChoice::Label { classes: vec!["0".into(), "1".into()] },
        _ if name.starts_with("count") => ColumnChoice::Number(scale),
        _ => ColumnChoice::Category(CodeChoice { bits: Some(18), min_count: None }),
    };
    ColumnSpec { column: name.into(), choice }
}
