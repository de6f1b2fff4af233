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
    assert_eq!((CLICKS_VERSION, hash), (1, 13_969_400_947_924_848_595));
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

#[test]
fn a_share_of_zero_leaves_every_bit_as_it_was() {
    let (plain, zero) = (Clicks::new(100_000, 3), Clicks::new(100_000, 3).with_interactions(0.0));
    for (a, b) in rows(&plain, 500).iter().zip(&rows(&zero, 500)) {
        assert_eq!((a.keys, a.label, a.score), (b.keys, b.label, b.score));
        assert_eq!(a.score, a.linear_score);
    }
}

#[test]
fn pairs_have_their_share_of_the_variance_and_nothing_that_a_sum_explains() {
    for share in [0.1, 0.3, 0.6] {
        let rows = rows(&Clicks::new(33_762_578, 11).with_interactions(share), 40_000);
        let of = |score: &dyn Fn(&ClickRow) -> f64| rows.iter().map(score).collect::<Vec<f64>>();
        let (whole, linear) = (of(&|row| row.score), of(&|row| row.linear_score));
        let pairs = of(&|row| row.score - row.linear_score);
        let found = variance(&pairs) / variance(&whole);
        assert!((found - share).abs() < 0.03, "{share}: {found}");
        let mean = pairs.iter().sum::<f64>() / 40_000.0;
        assert!(mean.abs() < 0.03 * variance(&pairs).sqrt(), "{share}: a mean of {mean}");
        // The pairs' part is as likely above as below zero whatever the linear part is.
        let middle = linear.iter().sum::<f64>() / 40_000.0;
        let products = pairs.iter().zip(&linear).map(|(a, b)| a * (b - middle));
        let correlation =
            products.sum::<f64>() / 40_000.0 / (variance(&pairs) * variance(&linear)).sqrt();
        assert!(correlation.abs() < 0.03, "{share}: {correlation}");
        let clicks = rows.iter().map(|row| row.label).sum::<u32>();
        assert!((9_200..10_800).contains(&clicks), "{share}: {clicks} clicks");
    }
}

#[test]
fn interactions_change_labels_and_no_keys() {
    let plain = rows(&Clicks::new(1_000_000, 2), 2_000);
    let paired = rows(&Clicks::new(1_000_000, 2).with_interactions(0.5), 2_000);
    assert!(plain.iter().zip(&paired).all(|(a, b)| a.keys == b.keys && a.ranks == b.ranks));
    assert!(plain.iter().zip(&paired).any(|(a, b)| a.label != b.label));
}

#[test]
fn each_key_has_the_field_that_it_was_drawn_for() {
    for row in rows(&Clicks::new(100, 5), 200) {
        let mut fields = row.fields;
        fields.sort_unstable();
        assert!((0..).zip(fields).all(|(at, field)| at == field), "{fields:?}");
    }
    let clicks = Clicks::new(33_762_578, 5);
    for row in rows(&clicks, 200) {
        for (key, field) in row.keys.into_iter().zip(row.fields) {
            let token = (u64::from(field) + 1) << 40 | u64::from(row.ranks[usize::from(field)]);
            assert_eq!(key, (((mix(token) >> 32) * 33_762_578) >> 32) as u32);
        }
    }
}

#[test]
fn true_scores_beat_linear_ones_where_pairs_matter_and_equal_them_elsewhere() {
    let rows = FIRST_TEST_ROW..FIRST_TEST_ROW + 20_000;
    let plain = Clicks::new(1_000_000, 1).bounds(rows.clone());
    assert!((plain.log_loss - plain.linear_log_loss).abs() < 1e-3, "{plain:?}");
    assert_eq!(plain.auc, plain.linear_auc);
    let paired = Clicks::new(1_000_000, 1).with_interactions(0.3).bounds(rows);
    assert!(paired.log_loss + 0.02 < paired.linear_log_loss, "{paired:?}");
    assert!(paired.auc > paired.linear_auc + 0.02, "{paired:?}");
}
