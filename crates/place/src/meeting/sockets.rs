//! This machine's sockets and names, as the meeting needs them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};

use crate::listen::listen_on_all;

/// Binds a listening socket at a port: on this loopback address, or on all interfaces.
pub(super) fn bind(loopback: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
    match loopback {
        Some(ip) => TcpListener::bind((ip, port)),
        None => listen_on_all(port),
    }
}

/// The loopback address that a meeting point states, if it does. A host's own name is not one,
/// although many systems resolve it to one.
pub(super) fn loopback_of(address: &str) -> Option<IpAddr> {
    let (host, _) = address.rsplit_once(':')?;
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_stated = host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
    // Other names are not resolved: for those of a scheduler's nodes that may take many seconds.
    let found = is_stated.then(|| address.to_socket_addrs().ok()).flatten()?;
    found.map(|at| at.ip()).find(IpAddr::is_loopback)
}

/// The addresses at which this machine reaches its own listening socket.
pub(super) fn own_addresses(listener: &TcpListener) -> io::Result<Vec<String>> {
    let bound = listener.local_addr()?;
    let ips = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => vec![IpAddr::from(Ipv4Addr::LOCALHOST)],
        IpAddr::V6(ip) if ip.is_unspecified() => {
            vec![IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)]
        }
        ip => vec![ip],
    };
    Ok(ips.into_iter().map(|ip| SocketAddr::new(ip, bound.port()).to_string()).collect())
}

/// The addresses at which other machines may reach this one.
pub(super) fn outer_addresses(port: u16) -> Vec<String> {
    // Connecting a datagram socket sends nothing. It only selects the interface that leads to an
    // address, here one of those reserved for documentation.
    let source = |from: IpAddr, towards: &str| {
        let socket = UdpSocket::bind((from, 0)).ok()?;
        socket.connect(towards).ok()?;
        let ip = socket.local_addr().ok()?.ip();
        (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
    };
    let ipv4 = source(Ipv4Addr::UNSPECIFIED.into(), "192.0.2.1:9");
    let ipv6 = source(Ipv6Addr::UNSPECIFIED.into(), "[2001:db8::1]:9");
    let mut addresses: Vec<_> = [ipv4, ipv6]
        .into_iter()
        .flatten()
        .map(|ip| SocketAddr::new(ip, port).to_string())
        .collect();
    addresses.push(format!("{}:{port}", host_name()));
    addresses
}

/// This host's name.
pub(super) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".into() } else { name.to_owned() }
}

/// Identifies this machine's network: equal for two processes that reach each other over loopback.
pub(super) fn machine() -> String {
    let network = std::fs::read_link("/proc/self/ns/net");
    let network = network.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{} {} {network}", host_name(), boot.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stated_loopback_address_keeps_a_meeting_on_this_machine() {
        assert_eq!(loopback_of("127.0.0.1:5"), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(loopback_of("[::1]:5"), Some(Ipv6Addr::LOCALHOST.into()));
        assert!(loopback_of("localhost:5").is_some());
        // It may resolve to a loopback address here, but not on other hosts.
        let own = host_name();
        assert!(own == "localhost" || loopback_of(&format!("{own}:5")).is_none());
        assert_eq!(loopback_of("192.0.2.1:5"), None);
    }
}
