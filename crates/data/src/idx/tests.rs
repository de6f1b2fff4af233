use std::ops::ControlFlow;

use super::*;
use crate::open_observer::OpenReport;

#[test]
fn reading_says_how_far_it_has_got_and_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let [images, labels] = ["images", "labels"].map(|name| dir.path().join(name));
    write_images(&images, 1, 2, &[7; 10]).unwrap();
    write_labels(&labels, &[1; 5]).unwrap();
    let mut shares = Vec::new();
    let mut look = |report: OpenReport<'_>| {
        if let OpenReport::Progress(progress) = report {
            shares.push((progress.what.to_owned(), progress.share));
        }
        ControlFlow::Continue(())
    };
    assert_eq!(read_pair_observed(&images, &labels, 2, &mut look).unwrap().len(), 5);
    assert_eq!(shares, [("images".to_owned(), 1.0)]);
    let mut stop = |_: OpenReport<'_>| ControlFlow::Break(());
    let stopped = read_pair_observed(&images, &labels, 2, &mut stop);
    assert!(matches!(stopped, Err(DataError::Interrupted)), "{stopped:?}");
}
