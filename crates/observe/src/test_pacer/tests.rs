use super::*;

const LOAD: TestLoad =
    TestLoad { examples: 1_000, relative_cost: 0.3, threads: 1, loop_threads: 1, batch: 10 };

/// Plays a run of steps of 1 ms whose tests take this long each. Returns the tests' steps.
fn play(pacer: &mut TestPacer, test: Duration, steps: u64) -> Vec<u64> {
    let start = Instant::now();
    let (mut now, mut tests) = (start, Vec::new());
    for step in 1..=steps {
        now += Duration::from_millis(1);
        if pacer.is_due(LoopProgress { step, steps: step, start, now }) {
            pacer.begin(step, Duration::ZERO);
            now += test;
            pacer.end(test);
            tests.push(step);
        }
    }
    tests
}

#[test]
fn a_fixed_interval_tests_at_its_multiples() {
    let mut pacer = TestPacer::new(Some(40), LOAD, 0);
    assert_eq!(play(&mut pacer, Duration::from_secs(9), 130), [40, 80, 120]);
}

#[test]
fn tests_of_any_cost_take_a_twentieth_of_the_time_with_the_last_one() {
    for test_ms in [1, 10, 40, 120, 500] {
        let test = Duration::from_millis(test_ms);
        let tests = play(&mut TestPacer::new(None, LOAD, 0), test, 50_000);
        let testing = (test_ms * (tests.len() as u64 + 1)) as f64;
        let share = testing / (testing + 50_000.0);
        assert!(share <= 0.05, "{test_ms} ms: {share} of the time, {tests:?}");
        let enough = share >= 0.045 || testing + test_ms as f64 > 2_500.0;
        assert!(enough, "{test_ms} ms: only {share} of the time, {tests:?}");
    }
}

#[test]
fn the_threads_of_tests_and_of_steps_count() {
    let tests = |threads, loop_threads| {
        let load = TestLoad { threads, loop_threads, ..LOAD };
        play(&mut TestPacer::new(None, load, 0), Duration::from_millis(10), 20_000).len()
    };
    assert_eq!(tests(2, 2), tests(1, 1));
    assert!(tests(4, 1) < tests(1, 1) / 3 && tests(1, 1) < tests(1, 4) / 3);
}

#[test]
fn a_test_longer_than_the_run_is_left_to_its_end() {
    let load = TestLoad { examples: 1_000_000, ..LOAD };
    let mut pacer = TestPacer::new(None, load, 0);
    assert!(play(&mut pacer, Duration::from_secs(1_000), 5_000).is_empty());
}
