use super::*;

fn score(loss: f64, auc: Option<f64>) -> Score {
    let (precision, recall) = (None, None);
    let is_two_class = auc.is_some();
    Score { examples: 10, loss, accuracy: 1.0 - loss, is_two_class, precision, recall, auc }
}

fn since(settings: BestSettings, losses: &[f64]) -> Vec<u64> {
    let mut patience = Patience::default();
    let mut next = |loss: &f64| {
        patience = patience.after(&score(*loss, None), &settings).unwrap();
        patience.since
    };
    losses.iter().map(&mut next).collect()
}

#[test]
fn tests_count_until_one_is_better() {
    let losses = [0.5, 0.4, 0.4, 0.45, 0.3, f64::NAN, 0.31];
    assert_eq!(since(BestSettings::default(), &losses), [0, 0, 1, 2, 0, 1, 2]);
    let accuracy = BestSettings { metric: TestMetric::Accuracy, ..BestSettings::default() };
    assert_eq!(since(accuracy, &losses), [0, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_gain_below_the_least_one_does_not_count() {
    let settings = BestSettings { min_gain: 0.06, ..BestSettings::default() };
    // The gain is over the best that counted, so small gains add up.
    assert_eq!(since(settings, &[0.5, 0.45, 0.4, 0.35]), [0, 1, 0, 1]);
}

#[test]
fn a_test_without_the_metric_is_an_error_that_says_why() {
    let auc = BestSettings { metric: TestMetric::Auc, ..BestSettings::default() };
    let error = Patience::default().after(&score(0.5, None), &auc).unwrap_err();
    assert!(error.to_string().contains("not one of two classes"), "{error}");
    assert!(Patience::default().after(&score(0.5, Some(0.7)), &auc).is_ok());
}
