//! Making a TCP connection to the first of a host's addresses that takes it (RFC 8305).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::line::{Line, Shared};
use super::wire;
use crate::fault::{ErrorKind, Fault};

/// How long an attempt is alone before the next address is tried beside it (RFC 8305, section
/// 5, "Connection Attempt Delay").
const STAGGER: Duration = Duration::from_millis(250);

/// How sockets are made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dial {
    pub(super) local: Option<std::net::IpAddr>,
}

/// What became of each address, for who keeps them.
pub(super) trait Verdicts {
    fn good(&self, address: SocketAddr);
    fn bad(&self, address: SocketAddr);
}

impl Dial {
    /// Connects to one of the addresses, the first first, within the limit.
    pub(super) fn connect(
        self,
        addresses: &[SocketAddr],
        deadline: Option<Instant>,
        limit: Option<Duration>,
        verdicts: &impl Verdicts,
    ) -> Result<Line, Fault> {
        let mut last = None;
        let raced = self.race(addresses, deadline, |address, error| {
            verdicts.bad(address);
            last = Some((address, error));
        });
        match raced {
            Some((socket, address)) => {
                verdicts.good(address);
                Line::new(socket, address).map_err(|error| {
                    Fault::with_source(ErrorKind::Connect, format!("lost {address}"), error)
                })
            }
            None if wire::is_interrupted() => Err(Fault::cancelled()),
            None => Err(match last {
                Some((address, error)) => cannot_connect(address, error, addresses.len(), limit),
                None => match addresses.first() {
                    // There was no time for any.
                    Some(&first) => {
                        let error = io::ErrorKind::TimedOut.into();
                        cannot_connect(first, error, addresses.len(), limit)
                    }
                    None => Fault::new(ErrorKind::Dns, "the host's name has no address"),
                },
            }),
        }
    }

    fn socket(self, address: SocketAddr) -> io::Result<Arc<Shared>> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        if let Some(local) = self.local {
            // One of the other family cannot be used from here.
            if local.is_ipv4() == address.is_ipv4() {
                socket.bind(&SocketAddr::new(local, 0).into())?;
            }
        }
        Ok(Arc::new(Shared(socket)))
    }

    /// Attempts begin one after the other, and go on beside each other. The losers' sockets are
    /// closed as this returns.
    #[cfg(unix)]
    fn race(
        self,
        addresses: &[SocketAddr],
        deadline: Option<Instant>,
        mut failed: impl FnMut(SocketAddr, io::Error),
    ) -> Option<(Arc<Shared>, SocketAddr)> {
        let mut waiting = addresses.iter().copied();
        let mut attempts: Vec<(Arc<Shared>, SocketAddr)> = Vec::with_capacity(1);
        let mut next_at = Instant::now();
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                for (_, address) in attempts {
                    failed(address, io::ErrorKind::TimedOut.into());
                }
                return None;
            }
            if attempts.is_empty() || now >= next_at {
                if let Some(address) = waiting.next() {
                    next_at = now + STAGGER;
                    match self.begin(address) {
                        Ok(socket) => attempts.push((socket, address)),
                        Err(error) => failed(address, error),
                    }
                    continue;
                }
            }
            // One of them is enough to wake us: the loop looks whether it was an interruption.
            attempts.first()?.0.is_waited_on();
            if wire::is_interrupted() {
                return None;
            }
            let until = match (deadline, waiting.len()) {
                (Some(deadline), 0) => Some(deadline),
                (Some(deadline), _) => Some(deadline.min(next_at)),
                (None, 0) => None,
                (None, _) => Some(next_at),
            };
            let ready = poll(&attempts, sooner_where_deaf(until));
            let mut index = 0;
            for ready in ready {
                if !ready {
                    index += 1;
                    continue;
                }
                match attempts[index].0.0.take_error() {
                    // What an interruption does to a socket that is being connected is the
                    // system's affair: it need not look like a failure.
                    Ok(None) if wire::is_interrupted() => return None,
                    Ok(None) => return Some(attempts.swap_remove(index)),
                    Ok(Some(error)) | Err(error) => {
                        failed(attempts.remove(index).1, error);
                        next_at = now;
                    }
                }
            }
        }
    }

    #[cfg(unix)]
    fn begin(self, address: SocketAddr) -> io::Result<Arc<Shared>> {
        let socket = self.socket(address)?;
        socket.0.set_nonblocking(true)?;
        match socket.0.connect(&SockAddr::from(address)) {
            Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => Err(error),
            _ => Ok(socket),
        }
    }

    /// Without a way to wait for several sockets: one after the other, each with its part of the
    /// time that is left.
    #[cfg(not(unix))]
    fn race(
        self,
        addresses: &[SocketAddr],
        deadline: Option<Instant>,
        mut failed: impl FnMut(SocketAddr, io::Error),
    ) -> Option<(Arc<Shared>, SocketAddr)> {
        for (tried, &address) in addresses.iter().enumerate() {
            let rest = (addresses.len() - tried) as u32;
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()) / rest);
            let connected = self.socket(address).and_then(|socket| {
                let to = SockAddr::from(address);
                match left {
                    Some(left) => socket.0.connect_timeout(&to, left.max(STAGGER))?,
                    None => socket.0.connect(&to)?,
                }
                Ok(socket)
            });
            match connected {
                Ok(socket) => return Some((socket, address)),
                Err(_) if wire::is_interrupted() => return None,
                Err(error) => failed(address, error),
            }
        }
        None
    }
}

/// On Linux an interruption shuts the socket down, and that ends the wait. Elsewhere a socket
/// that is not connected cannot be shut down: there we look up now and then.
#[cfg(unix)]
fn sooner_where_deaf(until: Option<Instant>) -> Option<Instant> {
    if cfg!(target_os = "linux") {
        return until;
    }
    let soon = Instant::now() + STAGGER;
    Some(until.map_or(soon, |until| until.min(soon)))
}

#[cfg(unix)]
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();

/// Which of the attempts have come to an end, one way or the other.
#[cfg(unix)]
fn poll(attempts: &[(Arc<Shared>, SocketAddr)], until: Option<Instant>) -> Vec<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds: Vec<_> = attempts
        .iter()
        .map(|(socket, _)| PollFd::new(&socket.0, PollFlags::OUT))
        .collect();
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let limit = left.and_then(|left| Timespec::try_from(left).ok());
    // A signal ends it as the time does: the loop looks at the clock.
    let _ = poll(&mut fds, limit.as_ref());
    fds.iter().map(|fd| !fd.revents().is_empty()).collect()
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
            format!(
                "{address}{others} took no connection within {limit:?} (see `connect_timeout`)"
            ),
        ),
        _ => Fault::with_source(
            ErrorKind::Connect,
            format!("cannot connect to {address}{others}"),
            error,
        ),
    }
}
