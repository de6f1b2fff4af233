//! Addresses: a host and a port. A host may be an address of IPv6, which stands in brackets before
//! a port.

/// The host of an address and its port, if it has one. The host keeps its brackets.
pub fn split_address(address: &str) -> (&str, Option<u16>) {
    let split = address.rsplit_once(':').and_then(|(host, port)| {
        let is_whole = !host.contains(':') || host.starts_with('[') && host.ends_with(']');
        Some((host, port.parse().ok()?)).filter(|_| is_whole)
    });
    split.map_or((address, None), |(host, port)| (host, Some(port)))
}

/// The address of a port of a host, which may have a port already and may lack the brackets of
/// IPv6.
pub fn with_port(host: &str, port: impl std::fmt::Display) -> String {
    let (host, _) = split_address(host);
    let is_bare = host.contains(':') && !host.starts_with('[');
    if is_bare { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_ipv6_stands_in_brackets_before_a_port() {
        for (host, expected) in [
            ("node-1:5000", "node-1:7"),
            ("10.0.0.1", "10.0.0.1:7"),
            ("[fe80::1]:5000", "[fe80::1]:7"),
            ("fe80::1", "[fe80::1]:7"),
            ("::1", "[::1]:7"),
            ("[::1]", "[::1]:7"),
        ] {
            assert_eq!(with_port(host, 7), expected);
        }
        assert_eq!(split_address("[::1]:80"), ("[::1]", Some(80)));
        assert_eq!(split_address("::1"), ("::1", None));
        assert_eq!(split_address("host"), ("host", None));
    }
}
