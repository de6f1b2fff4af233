//! Cells that differ in one number only, ordered by that number.

use crate::cell::Cell;

/// Cells that differ only in their batch, or only in their number of workers.
pub(crate) struct CellLine<'a> {
    /// The settings that the cells have in common.
    pub(crate) label: String,
    /// At least two points, with ascending x.
    pub(crate) points: Vec<CellPoint<'a>>,
}

/// A cell of a line.
pub(crate) struct CellPoint<'a> {
    /// The batch or the number of workers.
    pub(crate) x: u64,
    pub(crate) cell: &'a Cell,
}

/// Groups cells into lines over the batch.
pub(crate) fn by_batch<'a>(cells: &[&'a Cell]) -> Vec<CellLine<'a>> {
    lines_of(cells, |cell| &cell.label_without_batch, Cell::batch)
}

/// Groups cells into lines over the number of workers.
pub(crate) fn by_workers<'a>(cells: &[&'a Cell]) -> Vec<CellLine<'a>> {
    lines_of(cells, |cell| &cell.label_without_workers, Cell::workers)
}

fn lines_of<'a>(
    cells: &[&'a Cell],
    label: impl Fn(&Cell) -> &str,
    x: impl Fn(&Cell) -> u64,
) -> Vec<CellLine<'a>> {
    let mut lines: Vec<CellLine<'_>> = Vec::new();
    for &cell in cells {
        let known = lines.iter().position(|line| line.label == label(cell));
        let index = known.unwrap_or_else(|| {
            lines.push(CellLine { label: label(cell).to_owned(), points: Vec::new() });
            lines.len() - 1
        });
        lines[index].points.push(CellPoint { x: x(cell), cell });
    }
    for line in &mut lines {
        line.points.sort_by_key(|point| point.x);
        line.points.dedup_by_key(|point| point.x);
    }
    lines.retain(|line| line.points.len() > 1);
    lines
}
