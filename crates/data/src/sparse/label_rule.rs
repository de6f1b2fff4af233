//! Which labels the rows of a file have.

/// Which labels rows have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelRule {
    /// 0 and 1, or -1 and +1: a click or none.
    #[default]
    Binary,
    /// Whole numbers from -1 to 254, one for each class. The store keeps them from 0 on: label -1
    /// as 0, label 0 as 1.
    Classes,
    /// Rows need no label, and one that is there is not read: each counts as class 0.
    Absent,
}

impl LabelRule {
    /// The label of a class that is stored as 0.
    pub(crate) const FIRST_CLASS: i64 = -1;
}
