use super::*;

const SIXTH: FactorSizes = FactorSizes { inputs: 9216, outputs: 4096 };

fn conditions(workers: usize, batch: usize, link: u64) -> ExchangeConditions {
    ExchangeConditions {
        choice: FactorChoice::Auto,
        workers,
        batch,
        link_bits_per_s: Some(link),
        cores: Some(1.0),
        wire: WireFormat::F32,
    }
}

#[test]
fn factors_travel_where_links_are_slow_and_batches_small() {
    assert!(conditions(2, 32, 1_000_000_000).prefers_factors(SIXTH));
    assert!(conditions(4, 32, 1_000_000_000).prefers_factors(SIXTH));
    assert!(!conditions(8, 1024, 10_000_000_000).prefers_factors(SIXTH));
    // The factors of a small layer are longer than its gradient.
    let small = FactorSizes { inputs: 84, outputs: 10 };
    assert!(!conditions(4, 128, 1_000_000_000).prefers_factors(small));
}

#[test]
fn the_job_overrides_the_estimate_and_a_single_worker_sends_nothing() {
    let always =
        ExchangeConditions { choice: FactorChoice::Always, ..conditions(8, 1024, 100_000_000_000) };
    assert!(always.prefers_factors(SIXTH));
    assert!(!ExchangeConditions { workers: 1, ..always }.prefers_factors(SIXTH));
    let never = ExchangeConditions { choice: FactorChoice::Never, ..conditions(2, 1, 1_000_000) };
    assert!(!never.prefers_factors(SIXTH));
}
