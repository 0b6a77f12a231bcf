//! Who among the clients is still there.
//!
//! A client that closes one connection and opens the next has at no time had two; but the FIN may lie in a queue of the
//! kernel while the origin accepts the second. So the origin's own socket is asked first, and then the kernel for the state
//! of the *client's* socket, which changes within the client's `close`: by a `sock_diag` query through netlink, which costs
//! microseconds (`/proc/net/tcp` would cost 30 ms where ten thousand connections are in `TIME_WAIT`).

use std::net::TcpStream;

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::Census;
#[cfg(target_os = "linux")]
pub(super) use linux::Census;

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{ErrorKind, Read as _};
    use std::mem::MaybeUninit;
    use std::net::{IpAddr, SocketAddr};
    use std::time::Duration;

    use socket2::{Domain, Protocol, SockRef, Socket, Type};

    use super::TcpStream;

    const MSG_PEEK: i32 = 0x02;
    const MSG_DONTWAIT: i32 = 0x40;

    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    const AF_NETLINK: i32 = 16;
    const NETLINK_SOCK_DIAG: i32 = 4;
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const NLM_F_REQUEST: u16 = 1;
    const IPPROTO_TCP: u8 = 6;
    const TCP_ESTABLISHED: u8 = 1;

    /// A line to the kernel, for the time of one count: kept open, it would be among the process's sockets.
    #[derive(Debug)]
    pub(in super::super) struct Census {
        /// `None` where netlink cannot be had; then the origin's own socket has to do.
        kernel: Option<Socket>,
    }

    impl Census {
        pub(in super::super) fn new() -> Self {
            let protocol = Some(Protocol::from(NETLINK_SOCK_DIAG));
            let kernel = Socket::new(Domain::from(AF_NETLINK), Type::DGRAM, protocol).ok();
            let kernel = kernel.filter(|socket| {
                let patience = Some(Duration::from_secs(1));
                socket.set_read_timeout(patience).is_ok()
            });
            Self { kernel }
        }

        /// Whether the client at the other end of this accepted stream has closed it, or its sending side.
        pub(in super::super) fn has_left(&self, stream: &TcpStream) -> bool {
            let (Ok(near), Ok(far)) = (stream.local_addr(), stream.peer_addr()) else {
                return true; // no peer: reset
            };
            if is_over(stream) {
                return true;
            }
            match self.state(far, near) {
                Some(state) => state != TCP_ESTABLISHED,
                // Gone without a trace by a reset, which the origin's socket may have got meanwhile; or the kernel does not
                // answer at all, and then that one is as it was.
                None => self.state(near, far).is_some() || is_over(stream),
            }
        }

        /// The TCP state of the socket whose own address is `from`.
        fn state(&self, from: SocketAddr, to: SocketAddr) -> Option<u8> {
            let mut kernel = self.kernel.as_ref()?;
            kernel.send(&query(from, to)).ok()?;
            let mut answer = [0; 1024];
            let length = kernel.read(&mut answer).ok()?;
            // struct nlmsghdr (16 bytes: length, type, …), struct inet_diag_msg (family, state, …)
            let kind = u16::from_ne_bytes([answer[4], answer[5]]);
            (length >= 18 && kind == SOCK_DIAG_BY_FAMILY).then_some(answer[17])
        }
    }

    /// Whether the stream's end, or its reset, has come and is the next thing to be read.
    fn is_over(stream: &TcpStream) -> bool {
        let mut byte = [MaybeUninit::<u8>::uninit()];
        match SockRef::from(stream).recv_with_flags(&mut byte, MSG_PEEK | MSG_DONTWAIT) {
            Ok(read) => read == 0,
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// A netlink message that asks for one socket: struct `nlmsghdr`, then struct `inet_diag_req_v2`.
    fn query(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
        const LENGTH: u32 = 72;
        let mut query = Vec::with_capacity(72);
        query.extend(LENGTH.to_ne_bytes());
        query.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        query.extend(NLM_F_REQUEST.to_ne_bytes());
        query.extend([0; 8]); // sequence, sender
        let family = if from.is_ipv4() { AF_INET } else { AF_INET6 };
        query.extend([family, IPPROTO_TCP, 0, 0]);
        query.extend(u32::MAX.to_ne_bytes()); // in any state
        query.extend(from.port().to_be_bytes());
        query.extend(to.port().to_be_bytes());
        query.extend(sixteen(from.ip()));
        query.extend(sixteen(to.ip()));
        query.extend([0; 4]); // any interface
        query.extend([0xff; 8]); // no cookie
        query
    }

    fn sixteen(ip: IpAddr) -> [u8; 16] {
        match ip {
            IpAddr::V4(ip) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&ip.octets());
                bytes
            }
            IpAddr::V6(ip) => ip.octets(),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::TcpStream;

    /// Knows nothing: a client is taken to be there until the origin has read its end.
    #[derive(Debug)]
    pub(in super::super) struct Census;

    impl Census {
        pub(in super::super) fn new() -> Self {
            Self
        }

        pub(in super::super) fn has_left(&self, _: &TcpStream) -> bool {
            false
        }
    }
}
