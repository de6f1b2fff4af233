//! Curves of `resources.csv`: how a task used its machine, over time.

use std::path::Path;

use paceline_record::names::{columns, files};

use crate::curve::Curve;
use crate::regular_file::whole_text;

/// A drawn curve: the sum of some columns, times a factor.
struct CurveColumns {
    title: &'static str,
    columns: &'static [&'static str],
    scale: f64,
}

const CURVES: &[CurveColumns] = &[
    CurveColumns {
        title: "CPU %",
        columns: &[columns::CPU_USR_PERCENT, columns::CPU_SYS_PERCENT],
        scale: 1.0,
    },
    CurveColumns { title: "memory MB", columns: &[columns::MEMORY_USED_BYTES], scale: 1e-6 },
    CurveColumns {
        title: NETWORK,
        columns: &[columns::TASK_RECEIVED_BYTES_PER_S, columns::TASK_SENT_BYTES_PER_S],
        scale: 1e-6,
    },
    CurveColumns {
        title: "disk MB/s",
        columns: &[columns::DISK_READ_BYTES_PER_S, columns::DISK_WRITTEN_BYTES_PER_S],
        scale: 1e-6,
    },
];

const NETWORK: &str = "network MB/s";

/// The traffic of an emulated host's own interface, which replaces the task's own count.
const HOST_NETWORK: &[&str] = &[columns::NET_RECEIVED_BYTES_PER_S, columns::NET_SENT_BYTES_PER_S];

/// How one resource was used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceCurve {
    /// The resource and its unit.
    pub title: &'static str,
    /// Seconds since the first sample, and the value.
    pub points: Curve,
}

/// Reads the curves of a task's folder; returns none if the task was not sampled.
pub(crate) fn read_resources(folder: &Path, is_emulated: bool) -> Vec<ResourceCurve> {
    let text = whole_text(&folder.join(files::RESOURCES)).unwrap_or_default();
    parse(&text, is_emulated)
}

fn parse(text: &str, is_emulated: bool) -> Vec<ResourceCurve> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| head.iter().position(|head| *head == name);
    let Some(time) = column(columns::TIME) else { return Vec::new() };
    let rows: Vec<Vec<f64>> = lines
        .map(|line| line.split(',').filter_map(|cell| cell.parse().ok()).collect())
        .filter(|row: &Vec<f64>| row.len() == head.len())
        .collect();
    let Some(start) = rows.first().map(|row| row[time]) else { return Vec::new() };
    let curve = |curve: &CurveColumns| {
        let is_host_network = is_emulated && curve.title == NETWORK;
        let names = if is_host_network { HOST_NETWORK } else { curve.columns };
        let columns: Option<Vec<usize>> = names.iter().map(|name| column(name)).collect();
        let columns = columns?;
        let value =
            |row: &Vec<f64>| columns.iter().map(|&column| row[column]).sum::<f64>() * curve.scale;
        let points = rows.iter().map(|row| (row[time] - start, value(row))).collect();
        Some(ResourceCurve { title: curve.title, points })
    };
    CURVES.iter().filter_map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_and_an_incomplete_line_is_ignored() {
        let text = "time_s,step,memory_used_bytes,cpu_sys_percent,cpu_usr_percent\n\
                    100.0,1,2000000,5,20\n101.0,2,3000000,5,30\n102.0,3,30";
        let curves = parse(text, false);
        assert_eq!(curves.len(), 2);
        assert_eq!(
            (curves[0].title, &curves[0].points),
            ("CPU %", &vec![(0.0, 25.0), (1.0, 35.0)])
        );
        assert_eq!(
            (curves[1].title, &curves[1].points),
            ("memory MB", &vec![(0.0, 2.0), (1.0, 3.0)])
        );
        assert!(parse("", false).is_empty() && parse("a,b\n1,2\n", false).is_empty());
    }

    #[test]
    fn the_network_of_an_emulated_host_is_that_of_its_interface() {
        let text = "time_s,task_received_bytes_per_s,task_sent_bytes_per_s,\
                    net_received_bytes_per_s,net_sent_bytes_per_s\n\
                    1,1000000,1000000,3000000,4000000\n";
        let curve = |is_emulated| parse(text, is_emulated)[0].points.clone();
        assert_eq!((curve(false), curve(true)), (vec![(0.0, 2.0)], vec![(0.0, 7.0)]));
    }
}
