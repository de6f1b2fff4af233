//! Curves as reports draw them.

/// Points (x, y) of a curve; x is a global step or a time in seconds.
pub type Curve = Vec<(f64, f64)>;
