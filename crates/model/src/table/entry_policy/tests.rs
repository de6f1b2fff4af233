use crate::table::{EntryPolicy, ParamTable, StoredEntries, TableMemory};
use crate::{
    AdaGrad, Batch, EntryBirth, Group, Layout, Logistic, Model, OptimizerSpec, OutputMode, Sgd,
    SparseModel, Tally,
};

const FEATURES: usize = 6;
const WIDTH: usize = 2;

/// Entries of a linear number, which starts at 0, and one that does not; and a bias.
struct Pairs(Layout);

impl Pairs {
    fn new() -> Self {
        let mut layout = Layout::of_width(WIDTH);
        layout.push("pairs", &[FEATURES, WIDTH], Group::Weights);
        layout.push("bias", &[1], Group::Biases);
        Self(layout)
    }
}

impl Model for Pairs {
    fn layout(&self) -> &Layout {
        &self.0
    }

    fn inputs(&self) -> usize {
        FEATURES
    }

    fn gradient(&mut self, _: &[f32], _: Batch<'_>, _: f32, _: OutputMode, _: &mut [f32]) -> f32 {
        unreachable!("its gradients come from elsewhere")
    }

    fn evaluate(&mut self, _: &[f32], _: Batch<'_>, _: &mut Tally) {
        unreachable!("it is not tested")
    }
}

impl SparseModel for Pairs {
    fn birth(&self, seed: u64) -> EntryBirth {
        EntryBirth { seed, linear: 1, deviation: 0.1, shared: vec![0.5] }
    }
}

fn table(spec: OptimizerSpec, policy: EntryPolicy) -> ParamTable {
    ParamTable::allocate_with(spec, &Pairs::new(), 0..FEATURES + 1, 3, policy).unwrap()
}

fn read(table: &ParamTable, key: u32) -> [f32; WIDTH] {
    let mut values = [0.0; WIDTH];
    table.read(&[key], &mut values);
    values
}

#[test]
fn a_key_reads_as_zeros_until_the_update_that_creates_its_entry() {
    let policy = EntryPolicy { min_count: 3, ..EntryPolicy::default() };
    let (counted, plain) =
        (table(Sgd::new(1.0), policy), table(Sgd::new(1.0), EntryPolicy::default()));
    for step in 0..2 {
        assert_eq!(read(&counted, 4), [0.0, 0.0], "before update {step}");
        counted.update(step, &[4], &[1.0, 1.0]);
        assert_eq!(counted.entries(), Some(1), "the bias alone");
    }
    // The next update creates it, so it is computed with the first numbers.
    assert_eq!(read(&counted, 4), read(&plain, 4));
    assert!(read(&plain, 4)[1] != 0.0);
    counted.update(2, &[4], &[1.0, 1.0]);
    plain.update(0, &[4], &[1.0, 1.0]);
    assert_eq!(read(&counted, 4), read(&plain, 4));
    assert_eq!(counted.entry_keys(0..FEATURES + 1), [4, 6]);
}

#[test]
fn entries_that_no_update_of_a_period_names_are_evicted_and_begin_again() {
    let policy = EntryPolicy { evict_after: Some(2), ..EntryPolicy::default() };
    let table = table(AdaGrad::new(0.1), policy);
    let first = read(&table, 1);
    for (step, keys) in [&[1, 2][..], &[2, 6], &[2], &[3]].into_iter().enumerate() {
        table.update(step as u64, keys, &vec![1.0; keys.len() * WIDTH]);
        let expected: &[u32] = match step {
            0 | 1 => &[1, 2, 6],
            2 => &[1, 2, 6],
            _ => &[2, 3, 6],
        };
        assert_eq!(table.entry_keys(0..FEATURES + 1), expected, "after update {step}");
    }
    assert_eq!((read(&table, 1), table.entries()), (first, Some(3)));
    // Memory of evicted entries is used again, without its old numbers or state.
    let fresh = self::table(AdaGrad::new(0.1), policy);
    for step in 4..8 {
        table.update(step, &[2, 3, 5], &[0.5; 6]);
        fresh.update(step, &[5], &[0.5; 2]);
    }
    assert_eq!(read(&table, 5), read(&fresh, 5));
}

#[test]
fn beyond_the_most_entries_keys_get_none_and_the_table_says_so() {
    let policy = EntryPolicy { max_entries: Some(3), ..EntryPolicy::default() };
    let table = table(Sgd::new(1.0), policy);
    table.update(0, &[0, 1], &[1.0; 4]);
    assert_eq!(table.check_room(), Ok(()));
    table.update(1, &[2], &[1.0; 2]);
    let why = table.check_room().unwrap_err();
    assert!(why.contains("3 of 7 keys") && why.contains("cluster.memory"), "{why}");
    assert_eq!(table.entries(), Some(3));
}

#[test]
fn evicted_entries_take_memory_until_it_is_used_again() {
    let policy =
        EntryPolicy { evict_after: Some(1), max_entries: Some(4), ..EntryPolicy::default() };
    let table = table(Sgd::new(1.0), policy);
    let entry = TableMemory::of(&Sgd::new(1.0), WIDTH, FEATURES + 1, policy).entry;
    let bytes = |entries: u64| 4 * (FEATURES as u64 + 1) + entries * entry;
    table.update(0, &[0], &[1.0; 2]);
    table.update(1, &[1], &[1.0; 2]);
    assert_eq!((table.entries(), table.used_bytes()), (Some(2), bytes(3)));
    table.update(2, &[2], &[1.0; 2]);
    table.update(3, &[3], &[1.0; 2]);
    assert_eq!((table.entries(), table.used_bytes()), (Some(2), bytes(4)));
    assert_eq!(table.check_room(), Ok(()));
    table.update(4, &[4, 5], &[1.0; 4]);
    assert!(table.check_room().is_err(), "{} bytes", table.used_bytes());
    assert_eq!(table.used_bytes(), bytes(4));
}

#[test]
fn a_table_of_stored_entries_continues_with_the_same_bits() {
    let policy = EntryPolicy { min_count: 2, evict_after: Some(3), max_entries: None };
    let model = Logistic::new(FEATURES);
    let flat = ParamTable::new(Sgd::new(0.1).decay(0.2), &model, 0..FEATURES + 1, 3);
    for table in [table(AdaGrad::new(0.1), policy), flat] {
        let gradient = |step: u64, keys: &[u32]| -> Vec<f32> {
            let at = |i: usize| (i as f32 + step as f32 * 0.3).sin();
            (0..keys.len() * table.width()).map(at).collect()
        };
        let keys = |step: u64| [step as u32 % 3, 3 + step as u32 % 4];
        for step in 0..8 {
            table.update(step, &keys(step), &gradient(step, &keys(step)));
        }
        let copy = table.empty_like().unwrap();
        copy.restore_factors(&table.stored_factors());
        let (mut some, mut from) = (StoredEntries::default(), Some(0));
        while let Some(at) = from {
            from = table.copy_stored(at, 2, &mut some);
            copy.restore_stored(&some.keys, &some.cells);
        }
        table.copy_counts(0, usize::MAX, &mut some);
        let counts: Vec<u32> = some.cells.iter().map(|count| count.to_bits()).collect();
        copy.set_counts(&some.keys, &counts);
        copy.resume(8);
        for step in 8..20 {
            for table in [&table, &copy] {
                table.update(step, &keys(step), &gradient(step, &keys(step)));
            }
        }
        let all = |table: &ParamTable| {
            let mut stored = StoredEntries::default();
            table.copy_stored(0, usize::MAX, &mut stored);
            (stored.keys, stored.cells)
        };
        assert_eq!(all(&table), all(&copy));
    }
}

#[test]
fn the_entries_that_fit_follow_from_the_memory() {
    let memory = TableMemory::of(&AdaGrad::new(0.1), 9, 1_000, EntryPolicy::default());
    assert_eq!((memory.fixed, memory.entry, memory.most()), (4_000, 72, 76_000));
    assert_eq!(memory.entries_within(76_000), Ok(None));
    assert_eq!(memory.entries_within(40_000), Ok(Some(500)));
    assert!(memory.entries_within(3_999).unwrap_err().contains("1000 keys"));
    let flat = TableMemory::of(&AdaGrad::new(0.1), 1, 1_000, EntryPolicy::default());
    assert_eq!((flat.fixed, flat.entry, flat.entries_within(8_000)), (8_000, 0, Ok(None)));
    assert!(flat.entries_within(7_999).is_err());
}
