//! The barest of clients: bytes out, bytes in.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use super::PATIENCE;

/// A connection to an origin, for tests of the origin itself and for those of a second, foreign client. Each read ends in a
/// panic after [`PATIENCE`].
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
}

impl Client {
    /// Connects.
    pub fn connect(addr: SocketAddr) -> Self {
        let stream =
            TcpStream::connect(addr).unwrap_or_else(|e| panic!("cannot connect to {addr}: {e}"));
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket takes a timeout");
        stream.set_nodelay(true).expect("a socket takes an option");
        Self { stream }
    }

    /// Connects and sends a `GET` without more than a `Host` header.
    pub fn get(addr: SocketAddr, target: &str) -> Self {
        let mut client = Self::connect(addr);
        client.ask(target);
        client
    }

    /// Sends another `GET`.
    pub fn ask(&mut self, target: &str) {
        self.send(format!(
            "GET {target} HTTP/1.1\r\nHost: origin.test\r\n\r\n"
        ));
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the origin takes what is sent");
    }

    /// Reads this and nothing beyond.
    #[track_caller]
    pub fn expect(&mut self, wanted: &str) {
        let mut read = vec![0; wanted.len()];
        let outcome = self.stream.read_exact(&mut read);
        let read = String::from_utf8_lossy(&read);
        assert!(
            outcome.is_ok(),
            "{outcome:?} after {:?}",
            read.trim_end_matches('\0')
        );
        assert_eq!(read, wanted);
    }

    /// Reads to the end: what came, and `Ok` for a FIN, `Err` for a reset, even one close behind a FIN.
    pub fn rest(&mut self) -> (String, io::Result<()>) {
        let mut read = Vec::new();
        let end = match self.stream.read_to_end(&mut read) {
            Ok(_) => self
                .stream
                .take_error()
                .unwrap_or_else(Some)
                .map_or(Ok(()), Err),
            Err(e) => Err(e),
        };
        if let Err(e) = &end {
            assert!(
                !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "silence for {PATIENCE:?}"
            );
        }
        (String::from_utf8_lossy(&read).into_owned(), end)
    }

    /// Reads at most this much, at least a byte unless the connection is over.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    /// Whether nothing is there to be read at this moment, not even an end.
    pub fn is_silent(&self) -> bool {
        self.stream
            .set_nonblocking(true)
            .expect("a socket takes an option");
        let silent = self
            .stream
            .peek(&mut [0])
            .is_err_and(|e| e.kind() == ErrorKind::WouldBlock);
        self.stream
            .set_nonblocking(false)
            .expect("a socket takes an option");
        silent
    }

    /// Closes the sending side only.
    pub fn finish_sending(&self) {
        self.stream
            .shutdown(Shutdown::Write)
            .expect("the origin is still there");
    }
}
