//! A TCP connection with time limits, which another thread can make return.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use socket2::Socket;

use super::wire;
use crate::schedule::Interrupt;

/// The socket of a line. Shared weakly with whoever interrupts the job that uses it.
pub(super) struct Shared(pub(super) Socket);

impl Shared {
    /// An interruption of this thread's job is to end what this socket blocks on.
    pub(super) fn is_waited_on(self: &Arc<Self>) {
        let socket: Arc<dyn Interrupt> = Arc::clone(self) as _;
        wire::waits_on(Arc::downgrade(&socket));
    }
}

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
    /// Of the two the one that was in force last.
    last_limit: Option<Duration>,
    /// How long a single read or write may wait.
    idle: Option<Duration>,
    /// Reads and writes are to end by then, however many there are.
    until: Option<Instant>,
}

impl Line {
    /// A line over a socket that is connected.
    pub(super) fn new(socket: Arc<Shared>, peer: SocketAddr) -> io::Result<Self> {
        socket.0.set_nonblocking(false)?;
        // Requests are one small write each: nothing would come to fill the packet.
        socket.0.set_tcp_nodelay(true)?;
        socket.0.set_keepalive(true)?;
        Ok(Self {
            socket,
            peer,
            read_limit: None,
            write_limit: None,
            last_limit: None,
            idle: None,
            until: None,
        })
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// An interruption of this thread's job is to end what this line blocks on.
    pub(super) fn is_waited_on(&self) {
        self.socket.is_waited_on();
    }

    /// No longer.
    pub(super) fn is_left_alone(&self) {
        wire::waits_on(Weak::<Shared>::new());
    }

    /// For how long the last read or write was to wait at most.
    pub(super) fn last_limit(&self) -> Duration {
        self.last_limit.unwrap_or(Duration::MAX)
    }

    fn limit_reads(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.map(at_least_a_moment);
        if !is_about(self.read_limit, limit) {
            self.socket.0.set_read_timeout(limit)?;
            self.read_limit = limit;
        }
        self.last_limit = self.read_limit;
        Ok(())
    }

    fn limit_writes(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.map(at_least_a_moment);
        if !is_about(self.write_limit, limit) {
            self.socket.0.set_write_timeout(limit)?;
            self.write_limit = limit;
        }
        self.last_limit = self.write_limit;
        Ok(())
    }

    /// From now on no read and no write waits for longer than `idle`, and all are over by
    /// `until`: one of TLS is many of the socket's where the peer sends a byte at a time.
    pub(super) fn limit(&mut self, idle: Option<Duration>, until: Option<Instant>) {
        self.idle = idle;
        self.until = until;
    }

    /// How long the next read or write may wait.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let left = self.idle.into_iter().chain(self.until.map(left)).min();
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left)
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
        self.limit_reads(self.left()?)?;
        self.retrying_interrupts(self.read_limit, |mut socket| socket.read(buffer))
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit_writes(self.left()?)?;
        self.retrying_interrupts(self.write_limit, |mut socket| socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How far the limit that a socket is set to may be from the one that is meant: where that
/// changes with each read, as what is left of a longer time, a system call a read is saved.
const SLACK: Duration = Duration::from_millis(200);

/// The slack of a limit: of a short one an eighth.
fn slack(limit: Duration) -> Duration {
    SLACK.min(limit / 8)
}

/// How much too early a read that was set to wait for so long may have given up: an eighth of
/// what was meant, which is a seventh of what is set, and what the clock's grain is.
pub(super) fn too_early(set: Duration) -> Duration {
    SLACK.min(set / 7) + Duration::from_millis(1)
}

fn is_about(set: Option<Duration>, meant: Option<Duration>) -> bool {
    match (set, meant) {
        (Some(set), Some(meant)) => set.abs_diff(meant) <= slack(meant),
        (set, meant) => set == meant,
    }
}

/// The system takes no limit of zero.
fn at_least_a_moment(limit: Duration) -> Duration {
    limit.max(Duration::from_millis(1))
}

#[cfg(unix)]
fn peek(socket: &Socket) -> io::Result<usize> {
    use rustix::net::{RecvFlags, recv};
    let (_, amount) = recv(socket, &mut [0][..], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(amount)
}

#[cfg(not(unix))]
fn peek(socket: &Socket) -> io::Result<usize> {
    socket.set_nonblocking(true)?;
    let peeked = socket.peek(&mut [std::mem::MaybeUninit::uninit()]);
    socket.set_nonblocking(false)?;
    peeked
}
