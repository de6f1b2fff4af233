//! Numbers that one thread changes while others read what lies beside them.

/// A value on cache lines of its own. A change of it does not take the lines of its neighbours from
/// the caches of other processors.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OwnLines<T>(pub T);
