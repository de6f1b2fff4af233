//! Brings the keys of a row into order.

/// Sorts the keys of rows; its memory is used again from row to row.
#[derive(Clone, Debug, Default)]
pub struct KeyOrder {
    /// A key in the high half, its index in the low half.
    order: Vec<u64>,
    sorted: Vec<f32>,
}

impl KeyOrder {
    /// Sorts the keys of a row, and adds up the values of repeated ones.
    #[inline]
    pub fn sort(&mut self, keys: &mut Vec<u32>, values: &mut Vec<f32>) {
        // Without an early exit, the compiler vectorises this loop.
        let pairs = keys.iter().zip(keys.iter().skip(1));
        if !pairs.fold(true, |rising, (a, b)| rising & (a < b)) {
            self.sort_and_sum(keys, values);
        }
    }

    fn sort_and_sum(&mut self, keys: &mut Vec<u32>, values: &mut Vec<f32>) {
        self.order.clear();
        let indices = keys.iter().zip(0u64..);
        self.order.extend(indices.map(|(&key, index)| u64::from(key) << 32 | index));
        self.order.sort_unstable();
        keys.clear();
        self.sorted.clear();
        for &entry in &self.order {
            let (key, value) = ((entry >> 32) as u32, values[entry as u32 as usize]);
            match (keys.last(), self.sorted.last_mut()) {
                (Some(&last), Some(sum)) if last == key => *sum += value,
                _ => {
                    keys.push(key);
                    self.sorted.push(value);
                }
            }
        }
        std::mem::swap(values, &mut self.sorted);
    }
}
