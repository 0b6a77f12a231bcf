//! Addresses at which no HTTP server answers.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// A loopback address that is dead in one of three ways, for as long as this lives. It has no thread.
#[derive(Debug)]
pub struct Dead {
    addr: SocketAddr,
    /// Holds the port, so that nobody else is there either.
    _socket: Socket,
    /// What fills the backlog.
    filling: Vec<TcpStream>,
}

impl Dead {
    /// Connecting is refused at once.
    pub fn refusing() -> Self {
        Self::bound(|_| {})
    }

    /// Connecting succeeds, and then there is silence for ever: a hung server, or a TLS or CONNECT peer that says nothing.
    pub fn mute() -> Self {
        Self::bound(|socket| socket.listen(1024).expect("a bound socket can listen"))
    }

    /// Connecting neither succeeds nor fails: the backlog is full, and Linux drops what comes.
    #[cfg(target_os = "linux")]
    pub fn unreachable() -> Self {
        let mut dead = Self::bound(|socket| socket.listen(0).expect("a bound socket can listen"));
        // Room for one, by the kernel's way of counting; the first that waits in vain shows that it is taken.
        for _ in 0..16 {
            match TcpStream::connect_timeout(&dead.addr, Duration::from_millis(50)) {
                Ok(stream) => dead.filling.push(stream),
                Err(_) => return dead,
            }
        }
        panic!("the backlog of {} does not fill", dead.addr);
    }

    fn bound(prepare: impl FnOnce(&Socket)) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("cannot make a socket");
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        socket
            .bind(&loopback.into())
            .expect("cannot bind a loopback address");
        let addr = socket.local_addr().ok().and_then(|addr| addr.as_socket());
        let addr = addr.expect("a bound socket has an address");
        prepare(&socket);
        Self {
            addr,
            _socket: socket,
            filling: Vec::new(),
        }
    }

    /// Where nobody answers.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The `http` URL of a target there.
    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.addr)
    }
}
