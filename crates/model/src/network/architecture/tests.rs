use super::*;

#[test]
fn memory_is_rounded_to_two_or_three_digits() {
    let texts = [4u128, 9_960, 31_400, 999_600, 3_140_000_000, u128::from(u64::MAX)];
    let texts = texts.map(memory_text);
    assert_eq!(texts, ["0.0 kB", "10 kB", "31 kB", "1.0 MB", "3.1 GB", "more than 1000 PB"]);
}
