//! `resources.csv` of a task, if it left one: what its machine was doing, over time.

use std::fs;
use std::path::Path;

use crate::curve::Curve;

/// The curves that are drawn: title, and the columns of the file that are added up, scaled.
const CURVES: &[(&str, &[&str], f64)] = &[
    ("CPU %", &["cpu_usr_percent", "cpu_sys_percent"], 1.0),
    ("memory MB", &["memory_used_bytes"], 1e-6),
    ("network MB/s", &["task_received_bytes_per_s", "task_sent_bytes_per_s"], 1e-6),
    ("disk MB/s", &["disk_read_bytes_per_s", "disk_written_bytes_per_s"], 1e-6),
];

/// What an emulated host's own interface carried, where other runs have the task's word alone.
const OF_HOST: (&str, &[&str], f64) =
    ("network MB/s", &["net_received_bytes_per_s", "net_sent_bytes_per_s"], 1e-6);

/// The curves of a task's folder. Times are in seconds since the first line.
pub(crate) fn read(folder: &Path, is_emulated: bool) -> Vec<(&'static str, Curve)> {
    let text = fs::read_to_string(folder.join("resources.csv")).unwrap_or_default();
    parse(&text, is_emulated)
}

fn parse(text: &str, is_emulated: bool) -> Vec<(&'static str, Curve)> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| head.iter().position(|head| *head == name);
    let Some(time) = column("time_s") else { return Vec::new() };
    let rows: Vec<Vec<f64>> = lines
        .map(|line| line.split(',').filter_map(|cell| cell.parse().ok()).collect())
        .filter(|row: &Vec<f64>| row.len() == head.len())
        .collect();
    let Some(begin) = rows.first().map(|row| row[time]) else { return Vec::new() };
    let curve = |curve: &(&'static str, &'static [&'static str], f64)| {
        let (title, names, scale) =
            if is_emulated && curve.0 == OF_HOST.0 { OF_HOST } else { *curve };
        let columns: Option<Vec<usize>> = names.iter().map(|name| column(name)).collect();
        let columns = columns?;
        let value = |row: &Vec<f64>| columns.iter().map(|&column| row[column]).sum::<f64>() * scale;
        let points = rows.iter().map(|row| (row[time] - begin, value(row))).collect();
        Some((title, points))
    };
    CURVES.iter().filter_map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_and_half_a_line_is_left_out() {
        let text = "time_s,step,memory_used_bytes,cpu_sys_percent,cpu_usr_percent\n\
                    100.0,1,2000000,5,20\n101.0,2,3000000,5,30\n102.0,3,30";
        let curves = parse(text, false);
        assert_eq!(curves.len(), 2);
        assert_eq!(curves[0], ("CPU %", vec![(0.0, 25.0), (1.0, 35.0)]));
        assert_eq!(curves[1], ("memory MB", vec![(0.0, 2.0), (1.0, 3.0)]));
        assert!(parse("", false).is_empty() && parse("a,b\n1,2\n", false).is_empty());
    }

    #[test]
    fn an_emulated_host_has_a_network_of_its_own() {
        let text = "time_s,task_received_bytes_per_s,task_sent_bytes_per_s,\
                    net_received_bytes_per_s,net_sent_bytes_per_s\n\
                    1,1000000,1000000,3000000,4000000\n";
        let curve = |is_emulated| parse(text, is_emulated)[0].1.clone();
        assert_eq!((curve(false), curve(true)), (vec![(0.0, 2.0)], vec![(0.0, 7.0)]));
    }
}
