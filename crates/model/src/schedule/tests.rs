use super::*;

fn check(schedule: Schedule, expected: &[(u64, f32)]) {
    for &(step, rate) in expected {
        let got = schedule.at(step);
        assert!((got - rate).abs() <= 1e-6 * rate, "{schedule:?} at {step}: {got}, not {rate}");
    }
}

#[test]
fn each_kind_follows_its_formula() {
    check(Schedule::Constant { rate: 0.5 }, &[(0, 0.5), (1_000_000, 0.5)]);
    check(
        Schedule::Exponential { rate: 1.0, factor: 0.25, every: 10 },
        &[(0, 1.0), (5, 0.5), (10, 0.25), (20, 0.0625)],
    );
    check(
        Schedule::Polynomial { rate: 1.0, end: 0.2, over: 100, power: 2.0 },
        &[(0, 1.0), (50, 0.4), (100, 0.2), (500, 0.2)],
    );
    check(
        Schedule::Cosine { rate: 1.0, end: 0.2, over: 60 },
        &[(0, 1.0), (20, 0.8), (30, 0.6), (40, 0.4), (60, 0.2), (500, 0.2)],
    );
}

#[test]
fn a_schedule_begins_after_its_warm_up() {
    let falling = Schedule::Cosine { rate: 0.8, end: 0.0, over: 20 };
    let rates = [0, 1, 2, 3, 13].map(|step| falling.after_warm_up(3, step));
    assert_eq!(rates[..4], [0.2, 0.4, 0.6, 0.8]);
    assert!((rates[4] - 0.4).abs() < 1e-6);
    assert_eq!(falling.after_warm_up(0, 0), falling.at(0));
}

#[test]
fn the_staircase_of_report_r0_falls_250_fold_in_four_stairs() {
    let weights = Schedule::Staircase { rate: 0.001, fall: 250.0, stairs: 4, every: 100 };
    check(weights, &[(0, 0.001), (99, 0.001), (400, 0.000_004), (9_999, 0.000_004)]);
    let biases = Schedule::Staircase { rate: 0.002, fall: 10.0, stairs: 2, every: 100 };
    check(biases, &[(99, 0.002), (100, 0.002 / 10f32.sqrt()), (200, 0.000_2)]);
}
