use super::*;

#[test]
fn progress_says_what_how_far_and_how_long() {
    let mut progress = OpenProgress {
        action: "reading",
        what: "rows.svm",
        share: 0.25,
        share_before: 0.0,
        rows: 1_200_000,
        rows_before: 0,
        elapsed: Duration::from_secs(1),
    };
    let text = "reading rows.svm: 25 % (1,200,000 rows, 1,200,000 a second, 3 s left)";
    assert_eq!(progress_text(&progress), text);
    // What an earlier process did says nothing about the speed of this one.
    (progress.share_before, progress.rows_before) = (0.125, 1_000_000);
    let text = "reading rows.svm: 25 % (1,200,000 rows, 200,000 a second, 6 s left)";
    assert_eq!(progress_text(&progress), text);
    progress.rows_before = 0;
    (progress.share, progress.rows) = (0.0, 0);
    assert_eq!(progress_text(&progress), "reading rows.svm: 0 %");
}
