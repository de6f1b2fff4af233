//! One example of a sparse model.

/// Partial sums of a dot product, so that an addition need not wait for the one before it.
const LANES: usize = 4;

/// An example of a sparse set, with only the values that are not zero.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The class; 0 or 1 for a model of two classes.
    pub label: u32,
    /// What its loss and gradient are multiplied by, usually 1.
    pub weight: f32,
    /// The parameter that goes with each value: a feature of the data set, or an index into the
    /// compact slice for a row of a [`Batch`](crate::Batch).
    pub keys: &'a [u32],
    /// The values; empty if all of them are 1.
    pub values: &'a [f32],
    /// The field of each key; empty if the rows have no fields.
    pub fields: &'a [u16],
}

impl Row<'_> {
    /// The sum of the values, each times its parameter, in an order of additions that depends
    /// only on the number of values.
    ///
    /// # Panics
    /// If a key is not an index into `params`.
    #[inline]
    pub fn dot(&self, params: &[f32]) -> f32 {
        self.dot_with(|key| params[key as usize])
    }

    /// Adds `delta` times each value to its element of `grad`: the gradient of `delta` times
    /// [`Row::dot`].
    ///
    /// # Panics
    /// If a key is not an index into `grad`.
    #[inline]
    pub fn add_scaled(&self, delta: f32, grad: &mut [f32]) {
        self.for_each_scaled(delta, |key, slope| grad[key as usize] += slope);
    }

    /// As [`Row::dot`], with a function that gives the parameter of a key.
    #[inline(always)]
    pub fn dot_with(&self, param: impl Fn(u32) -> f32) -> f32 {
        let mut sums = [0.0f32; LANES];
        let mut fours = self.keys.chunks_exact(LANES);
        if self.values.is_empty() {
            for four in &mut fours {
                for (sum, &key) in sums.iter_mut().zip(four) {
                    *sum += param(key);
                }
            }
            for (sum, &key) in sums.iter_mut().zip(fours.remainder()) {
                *sum += param(key);
            }
        } else {
            let mut values = self.values.chunks_exact(LANES);
            for (four, values) in (&mut fours).zip(&mut values) {
                for ((sum, &key), value) in sums.iter_mut().zip(four).zip(values) {
                    *sum += param(key) * value;
                }
            }
            let rest = fours.remainder().iter().zip(values.remainder());
            for (sum, (&key, value)) in sums.iter_mut().zip(rest) {
                *sum += param(key) * value;
            }
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    }

    /// Calls `add` with each key and `delta` times its value.
    #[inline(always)]
    pub fn for_each_scaled(&self, delta: f32, mut add: impl FnMut(u32, f32)) {
        if self.values.is_empty() {
            self.keys.iter().for_each(|&key| add(key, delta));
        } else {
            let pairs = self.keys.iter().zip(self.values);
            pairs.for_each(|(&key, value)| add(key, delta * value));
        }
    }
}
