//! Brings the keys of a row into order.

/// Sorts the keys of rows; its memory is used again from row to row.
#[derive(Clone, Debug, Default)]
pub struct KeyOrder {
    /// A key in the high half, its index in the low half.
    order: Vec<u64>,
    sorted: Vec<f32>,
    /// Keys and fields with their values.
    entries: Vec<FieldEntry>,
}

#[derive(Clone, Copy, Debug)]
struct FieldEntry {
    key: u32,
    field: u16,
    value: f32,
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

    /// Sorts the keys of a row of ones with their fields. Repeated keys stay.
    pub(crate) fn sort_ones(&mut self, keys: &mut [u32], fields: &mut [u16]) {
        self.order.clear();
        let pairs = keys.iter().zip(&*fields);
        self.order.extend(pairs.map(|(&key, &field)| u64::from(key) << 32 | u64::from(field)));
        self.order.sort_unstable();
        for ((key, field), &entry) in keys.iter_mut().zip(fields).zip(&self.order) {
            (*key, *field) = ((entry >> 32) as u32, entry as u16);
        }
    }

    /// Sorts the keys of a row with their fields, and adds up the values of a key that is repeated
    /// in the same field.
    pub(crate) fn sort_fields(
        &mut self,
        keys: &mut Vec<u32>,
        values: &mut Vec<f32>,
        fields: &mut Vec<u16>,
    ) {
        self.entries.clear();
        let entries = keys.iter().zip(&*fields).zip(&*values);
        self.entries.extend(entries.map(|((&key, &field), &value)| FieldEntry {
            key,
            field,
            value,
        }));
        // Stable, so that values are added in the order of the row.
        self.entries.sort_by_key(|entry| (entry.key, entry.field));
        self.entries.dedup_by(|next, sum| {
            let is_repeated = (next.key, next.field) == (sum.key, sum.field);
            sum.value += if is_repeated { next.value } else { 0.0 };
            is_repeated
        });
        keys.clear();
        values.clear();
        fields.clear();
        for entry in &self.entries {
            keys.push(entry.key);
            values.push(entry.value);
            fields.push(entry.field);
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
