//! FTRL-proximal, the online learner of click models: McMahan et al., "Ad click prediction: a
//! view from the trenches", KDD 2013, algorithm 1.
//!
//! Each parameter keeps `n`, the sum of squared gradients, and `z`, the sum of gradients less
//! what the parameter has already moved. The parameter follows from the two and the rate:
//!
//! ```text
//! w = 0                                                     if |z| <= l1
//! w = -(z - sign(z) * l1) / ((beta + sqrt(n)) / rate + l2)  otherwise
//! ```
//!
//! so whoever has `z` and `n` need not store it, and a parameter that was never touched is right
//! whatever happened meanwhile.

/// The settings of one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ftrl {
    pub(crate) rate: f32,
    pub(crate) beta: f32,
    pub(crate) l1: f32,
    pub(crate) l2: f32,
}

impl Ftrl {
    /// `z` and `n` after a gradient at the parameter `w`.
    #[inline(always)]
    pub(crate) fn gather(self, w: f32, z: f32, n: f32, g: f32) -> (f32, f32) {
        let square = g * g;
        let more = n + square;
        let roots = more.sqrt() + n.sqrt();
        // The same as (sqrt(more) - sqrt(n)) / rate, but for the digits that would cancel.
        // Where both roots are zero so is the square.
        let sigma = square / (roots + f32::MIN_POSITIVE) / self.rate;
        (z + (g - sigma * w), more)
    }

    /// The parameter that follows from `z` and `n`.
    #[inline(always)]
    pub(crate) fn weight(self, z: f32, n: f32) -> f32 {
        let over = z.abs() - self.l1;
        // Divided in any case and then chosen, so that there is no branch between vectors.
        let weight = -over.copysign(z) / self.stiffness(n);
        if over > 0.0 { weight } else { 0.0 }
    }

    /// The `z` from which the parameter `w` follows.
    pub(crate) fn z_of(self, w: f32, n: f32) -> f32 {
        if w == 0.0 { 0.0 } else { -(w.abs() * self.stiffness(n) + self.l1).copysign(w) }
    }

    #[inline(always)]
    fn stiffness(self, n: f32) -> f32 {
        (self.beta + n.sqrt()) / self.rate + self.l2
    }
}
