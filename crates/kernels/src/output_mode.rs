//! Whether a result replaces what the output holds or is added to it.

/// How a result is written to its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMode {
    /// The result replaces what the output holds.
    Overwrite,
    /// The result is added to what the output holds.
    Add,
}

impl OutputMode {
    /// Zeroes the output if it is to be overwritten, after which results can be added to it in
    /// either mode.
    #[inline]
    pub fn prepare(self, output: &mut [f32]) {
        if self == OutputMode::Overwrite {
            output.fill(0.0);
        }
    }
}
