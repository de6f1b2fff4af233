//! Which user is at the other end of a connection over loopback.
//!
//! The system knows it of each socket, and says it to every program that asks over netlink
//! (`sock_diag(7)`).

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

const AF_NETLINK: i32 = 16;
const NETLINK_SOCK_DIAG: i32 = 4;
/// The type of the question and of its answer.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const TCP: u8 = 6;
/// The state of a socket that listens.
const LISTENS: u8 = 10;
/// Where the answer has the state of the socket, and its user and inode: it has a header of 16
/// bytes, and 64 bytes precede the user.
const STATE_AT: usize = 17;
const USER_AT: usize = 80;
/// The system answers at once.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Whether the other end of a connection on this machine belongs to the user of this process, or to
/// the administrator.
pub(crate) fn is_own_user(stream: &TcpStream) -> io::Result<bool> {
    let (own, peer) = (canonical(stream.local_addr()?), canonical(stream.peer_addr()?));
    let user = user_of(peer, own)?;
    Ok(user == 0 || user == user_of(own, peer)?)
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The user of the TCP socket with these addresses, which is on this machine.
fn user_of(local: SocketAddr, remote: SocketAddr) -> io::Result<u32> {
    let kind = Some(Protocol::from(NETLINK_SOCK_DIAG));
    let mut socket = Socket::new(Domain::from(AF_NETLINK), Type::DGRAM, kind)?;
    socket.set_read_timeout(Some(ANSWER_LIMIT))?;
    socket.send(&question(local, remote))?;
    let mut answer = [0; 1024];
    let length = socket.read(&mut answer)?;
    let [_, _, _, _, low, high, ..] = answer;
    let is_socket = u16::from_ne_bytes([low, high]) == SOCK_DIAG_BY_FAMILY;
    let [user, inode] = [USER_AT, USER_AT + 4].map(|at| {
        let bytes = answer[..length].get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    });
    // A socket that its program has closed has no inode, and the system says it is user 0's.
    if is_socket && inode != 0 && answer[STATE_AT] != LISTENS {
        return Ok(user);
    }
    Err(ErrorKind::NotFound.into())
}

/// Asks for one socket: a `nlmsghdr`, and behind it an `inet_diag_req_v2`.
fn question(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let address = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => [&ip.octets()[..], &[0; 12]].concat(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    // Of any state, on any interface.
    let domain = if local.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let body = [
        &[i32::from(domain) as u8, TCP, 0, 0][..],
        &u32::MAX.to_ne_bytes(),
        &local.port().to_be_bytes(),
        &remote.port().to_be_bytes(),
        &address(local.ip()),
        &address(remote.ip()),
        &0_u32.to_ne_bytes(),
        &[u8::MAX; 8],
    ];
    let body = body.concat();
    let length = (16 + body.len()) as u32;
    let header = [
        &length.to_ne_bytes()[..],
        &SOCK_DIAG_BY_FAMILY.to_ne_bytes(),
        &NLM_F_REQUEST.to_ne_bytes(),
        &[0; 8],
        &body,
    ];
    header.concat()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn this_process_is_at_both_ends_of_its_own_connection() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            assert!(is_own_user(&stream).unwrap());
            assert!(is_own_user(&client).unwrap());
            // A socket that listens is no end of a connection.
            let [own, none] = [listener.local_addr().unwrap(), "127.0.0.1:1".parse().unwrap()];
            assert!(user_of(own, none).is_err());
        }
    }

    #[test]
    fn a_connection_that_its_program_has_closed_is_not_the_administrators() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        drop(client);
        let refused = is_own_user(&stream).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
    }
}
