//! Tests of the generated clicks.

use super::*;

fn rows(clicks: &Clicks, count: u64) -> Vec<ClickRow> {
    let draw = |index| {
        let mut row = ClickRow::default();
        clicks.draw(index, &mut row);
        row
    };
    (0..count).map(draw).collect()
}

#[test]
fn one_row_in_four_is_a_click_and_keys_do_not_repeat() {
    for features in [MIN_FEATURES, 1_000, 33_762_578] {
        let rows = rows(&Clicks::new(features, 7), 20_000);
        let share = rows.iter().map(|row| row.label).sum::<u32>() as f64 / 20_000.0;
        assert!((0.23..0.27).contains(&share), "{features}: {share}");
        for row in rows {
            assert!(row.keys.is_sorted_by(|a, b| a < b) && row.keys[38] < features as u32);
        }
    }
}

#[test]
fn a_row_depends_on_its_index_and_the_seed_alone() {
    let (a, b) = (rows(&Clicks::new(100_000, 1), 50), rows(&Clicks::new(100_000, 1), 20));
    assert!(a.iter().zip(&b).all(|(a, b)| a.keys == b.keys && a.label == b.label));
    let other = rows(&Clicks::new(100_000, 2), 50);
    assert!(a.iter().zip(&other).all(|(a, b)| a.keys != b.keys));
}

/// Equal seeds must give equal bits; only a new version may change them.
#[test]
fn rows_are_the_same_on_every_machine() {
    let hash = rows(&Clicks::new(33_762_578, 1), 1000).iter().fold(0, |hash, row| {
        row.keys.iter().fold(mix(hash ^ u64::from(row.label)), |h, &k| mix(h ^ u64::from(k)))
    });
    assert_eq!((VERSION, hash), (1, 13_969_400_947_924_848_595));
}

#[test]
fn popularity_falls_with_the_rank() {
    let clicks = Clicks::new(33_762_578, 3);
    let rows = rows(&clicks, 20_000);
    let share = |field: usize, rank: u32| {
        rows.iter().filter(|row| row.ranks[field] == rank).count() as f64 / 20_000.0
    };
    // Of 50 values, rank r from 1 has the share (r^-0.1 - (r+1)^-0.1) / (1 - 50^-0.1).
    for rank in [1u32, 2, 5, 20] {
        let expected = (f64::from(rank).powf(-0.1) - f64::from(rank + 1).powf(-0.1))
            / (1.0 - 50f64.powf(-0.1));
        assert!((share(0, rank - 1) - expected).abs() < 0.015, "rank {rank}");
    }
    assert!(rows.iter().any(|row| row.ranks[38] > 1_000_000));
    assert_eq!(clicks.fields[13].values, 10);
    assert!((9_999_999..=10_000_001).contains(&clicks.fields[38].values));
}

/// A model that knows the weights must beat one that knows only the share of clicks.
#[test]
fn the_weights_explain_the_labels() {
    let clicks = Clicks::new(1_000_000, 5);
    let mut row = ClickRow::default();
    let (mut informed, mut share_alone) = (0.0, 0.0);
    for index in 0..20_000 {
        clicks.draw(index, &mut row);
        let loss = |p: f64| if row.label == 1 { -p.ln() } else { -(1.0 - p).ln() };
        informed += loss(logistic(row.keys.iter().map(|&k| weight(k)).sum::<f64>() + clicks.shift));
        share_alone += loss(0.25);
    }
    assert!(informed < 0.85 * share_alone, "{informed} {share_alone}");
}

#[test]
fn the_logistic_function_is_accurate() {
    for score in [-8.0, -1.0, 0.0, 0.5, 6.0f64] {
        let exact = 1.0 / (1.0 + (-score).exp());
        assert!((logistic(score) - exact).abs() < 1e-4 * exact, "{score}");
    }
}
