use super::take_fields;

#[test]
fn a_row_that_is_shorter_than_its_fields_has_one_for_each_key() {
    for field_bytes in 0..=2 {
        let mut fields = vec![9];
        take_fields(&[1, 0, 3], 5, field_bytes, &mut fields);
        assert_eq!(fields.len(), 6, "{field_bytes} bytes");
    }
}
