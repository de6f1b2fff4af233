use super::*;

#[test]
fn a_test_set_that_says_little_is_named() {
    assert!(warnings(&[5, 5], &[1, 1], &[], true).is_empty());
    assert!(warnings(&[5, 5, 5], &[1, 1], &[], false).is_empty());
    let one = warnings(&[5, 5], &[3], &[], true);
    assert_eq!(one.len(), 1);
    assert!(one[0].contains("every label is 0") && one[0].contains("AUC is undefined"));
    let unseen = warnings(&[5, 0, 5], &[1, 2, 1, 4], &[], false);
    assert_eq!(
        unseen,
        ["the test set has labels that training never sees: 1, 3 (6 of 8 test examples)"]
    );
    assert_eq!(warnings(&[5], &[0, 2], &[], true).len(), 3);
    let names = ["no", "yes"].map(String::from);
    let named = warnings(&[5], &[0, 2], &names, true);
    assert!(named[0].ends_with("every label is no"), "{named:?}");
    assert!(named[1].contains("every label is yes, so"), "{named:?}");
    assert!(named[2].ends_with("never sees: yes (2 of 2 test examples)"), "{named:?}");
}
