//! The memory layout of a matrix that tiles run over.
//!
//! A tile covers as many columns as two or four of the processor's vectors hold. So a matrix is
//! cut into panels of that many columns, and within a panel the values lie row after row: the inner
//! loop reads them in sequence. The columns left over at the end take a panel of fewer vectors if
//! that is enough, filled up with zeros.

use crate::vectors::Vectors;

/// A matrix of `depth` rows, cut into panels of columns.
#[derive(Clone, Copy, Debug)]
pub struct Panels {
    depth: usize,
    columns: usize,
    vectors: Vectors,
}

/// One panel of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panel {
    /// The index of its first value in the packed matrix.
    pub start: usize,
    /// Its first column.
    pub column: usize,
    /// Columns of the matrix in this panel.
    pub used: usize,
    /// Columns stored, including zeros.
    pub width: usize,
    vectors: Vectors,
}

impl Panel {
    /// The vectors that the panel is packed for.
    #[inline]
    pub fn vectors(&self) -> Vectors {
        self.vectors
    }
}

impl Panels {
    /// The layout of `depth` rows of `columns` columns.
    #[inline]
    pub fn new(depth: usize, columns: usize) -> Self {
        Self { depth, columns, vectors: Vectors::for_columns(columns) }
    }

    /// One panel as a matrix of its own.
    #[inline]
    pub fn alone(&self, panel: Panel) -> Self {
        Self { columns: panel.used, ..*self }
    }

    /// The vectors that the matrix is packed for.
    #[inline]
    pub fn vectors(&self) -> Vectors {
        self.vectors
    }

    /// Rows of the matrix.
    #[inline]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Columns of the matrix.
    #[inline]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Columns of a full panel.
    #[inline]
    pub fn full(&self) -> usize {
        self.vectors.in_row * self.vectors.lanes
    }

    /// The number of panels.
    #[inline]
    pub fn count(&self) -> usize {
        self.columns.div_ceil(self.full())
    }

    /// Columns of all panels as they are stored.
    #[inline]
    pub fn stored_columns(&self) -> usize {
        self.columns.next_multiple_of(self.vectors.lanes)
    }

    /// Values of the packed matrix.
    #[expect(clippy::len_without_is_empty, reason = "no caller asks whether a matrix is empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.depth * self.stored_columns()
    }

    /// A panel, by its number from 0.
    #[inline]
    pub fn get(&self, index: usize) -> Panel {
        let column = index * self.full();
        let used = self.full().min(self.columns - column);
        let width = used.next_multiple_of(self.vectors.lanes);
        Panel { start: column * self.depth, column, used, width, vectors: self.vectors }
    }

    /// All panels, in order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Panel> {
        (0..self.count()).map(move |index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_follow_each_other_and_hold_every_column() {
        for columns in [1, 5, 8, 9, 16, 17, 24, 25, 33, 100] {
            let panels = Panels::new(3, columns);
            let (mut column, mut start) = (0, 0);
            for panel in panels.iter() {
                assert_eq!((panel.column, panel.start), (column, start));
                assert!(panel.used <= panel.width && panel.width <= panels.full());
                column += panel.used;
                start += 3 * panel.width;
            }
            assert_eq!((column, start), (columns, panels.len()));
        }
    }
}
