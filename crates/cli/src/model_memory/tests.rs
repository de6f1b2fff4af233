use super::*;

#[test]
fn a_table_may_take_what_the_job_says_or_most_of_the_memory() {
    assert_eq!(table_limit(Some(5)), Some(5));
    let (limit, here) = (table_limit(None).unwrap(), memory_here().unwrap());
    assert!(here / 2 < limit && limit < here, "{limit} of {here}");
}
