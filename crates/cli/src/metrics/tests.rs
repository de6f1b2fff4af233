use super::*;

#[test]
fn every_task_has_its_own_port() {
    assert_eq!(own_address("127.0.0.1:9400", 3), "127.0.0.1:9403");
    assert_eq!(own_address("127.0.0.1:0", 3), "127.0.0.1:0");
    assert_eq!(own_address("[::1]:65535", 1), "[::1]:65536", "which binding will refuse");
}
