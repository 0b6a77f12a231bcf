//! A TCP connection with time limits, which another thread can make return.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::wire;
use crate::error::{ErrorKind, Fault};
use crate::schedule::Interrupt;

/// The socket of a line. Shared weakly with whoever interrupts the job that uses it.
struct Shared(Socket);

impl Interrupt for Shared {
    fn interrupt(&self) {
        // Ends a read or write that is blocked in another thread, on Linux a connect as well.
        // Fails only where the socket is not connected (any more): nothing to interrupt then.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

pub(super) struct Line {
    socket: Arc<Shared>,
    peer: SocketAddr,
    // What the socket is set to, so that it is set only when that changes.
    read_limit: Option<Duration>,
    write_limit: Option<Duration>,
}

impl Line {
    /// Connects to the first address that takes the connection. `limit` is shared by all: each
    /// gets its part of what is left.
    pub(super) fn connect(
        addresses: &[SocketAddr],
        limit: Option<Duration>,
    ) -> Result<Self, Fault> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut last = None;
        for (tried, &address) in addresses.iter().enumerate() {
            let rest = (addresses.len() - tried) as u32;
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()) / rest);
            match Self::connect_to(address, left) {
                Ok(line) => return Ok(line),
                Err(_) if wire::is_interrupted() => return Err(Fault::cancelled()),
                Err(error) => last = Some((address, error)),
            }
        }
        Err(match last {
            Some((address, error)) => cannot_connect(address, error, addresses.len(), limit),
            None => Fault::new(ErrorKind::Dns, "the host's name has no address"),
        })
    }

    fn connect_to(address: SocketAddr, limit: Option<Duration>) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        let line = Self {
            socket: Arc::new(Shared(socket)),
            peer: address,
            read_limit: None,
            write_limit: None,
        };
        line.is_waited_on();
        let socket = &line.socket.0;
        match limit {
            Some(limit) => socket.connect_timeout(&address.into(), at_least_a_moment(limit))?,
            None => socket.connect(&address.into())?,
        }
        // Requests are one small write each: nothing would come to fill the packet.
        socket.set_tcp_nodelay(true)?;
        socket.set_keepalive(true)?;
        Ok(line)
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// An interruption of this thread's job is to end what this line blocks on.
    pub(super) fn is_waited_on(&self) {
        let socket: Arc<dyn Interrupt> = Arc::clone(&self.socket) as _;
        wire::waits_on(Arc::downgrade(&socket));
    }

    /// No longer.
    pub(super) fn is_left_alone(&self) {
        wire::waits_on(Weak::<Shared>::new());
    }

    /// How long a read may wait.
    pub(super) fn read_limit(&self) -> Duration {
        self.read_limit.unwrap_or(Duration::MAX)
    }

    pub(super) fn limit_reads(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.map(at_least_a_moment);
        if self.read_limit != limit {
            self.socket.0.set_read_timeout(limit)?;
            self.read_limit = limit;
        }
        Ok(())
    }

    pub(super) fn limit_writes(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.map(at_least_a_moment);
        if self.write_limit != limit {
            self.socket.0.set_write_timeout(limit)?;
            self.write_limit = limit;
        }
        Ok(())
    }

    /// Nothing has arrived, not even an end: what an idle connection must look like.
    pub(super) fn is_silent(&self) -> bool {
        matches!(peek(&self.socket.0), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// A signal must not make a read wait longer than its limit, nor end it before.
    fn retrying_interrupts<T>(
        &self,
        limit: Option<Duration>,
        mut call: impl FnMut(&Socket) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut interrupted: Option<Instant> = None;
        loop {
            match call(&self.socket.0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    let since = *interrupted.get_or_insert_with(Instant::now);
                    if limit.is_some_and(|limit| since.elapsed() >= limit) {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                // What an elapsed time limit is on Unix.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                result => return result,
            }
        }
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.retrying_interrupts(self.read_limit, |mut socket| socket.read(buffer))
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.retrying_interrupts(self.write_limit, |mut socket| socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The system takes no limit of zero.
fn at_least_a_moment(limit: Duration) -> Duration {
    limit.max(Duration::from_millis(1))
}

#[cfg(unix)]
fn peek(socket: &Socket) -> io::Result<usize> {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    socket.recv_with_flags(&mut [std::mem::MaybeUninit::uninit()], flags)
}

#[cfg(not(unix))]
fn peek(socket: &Socket) -> io::Result<usize> {
    socket.set_nonblocking(true)?;
    let peeked = socket.peek(&mut [std::mem::MaybeUninit::uninit()]);
    socket.set_nonblocking(false)?;
    peeked
}

fn cannot_connect(
    address: SocketAddr,
    error: io::Error,
    addresses: usize,
    limit: Option<Duration>,
) -> Fault {
    let others = match addresses {
        1 => String::new(),
        n => format!(", the last of {n} addresses"),
    };
    match (error.kind(), limit) {
        (io::ErrorKind::TimedOut, Some(limit)) => Fault::new(
            ErrorKind::Timeout,
            format!("{address}{others} took no connection within {limit:?}"),
        ),
        _ => Fault::with_source(
            ErrorKind::Connect,
            format!("cannot connect to {address}{others}"),
            error,
        ),
    }
}
