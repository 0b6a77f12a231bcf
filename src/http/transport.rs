//! One connection, plain or TLS.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use ureq::unversioned::transport::{Buffers, ConnectionDetails};

use super::address;
use super::buffers::{INPUT, Lent, MAX_HEADER};
use super::dial::Dial;
use super::line::{Line, too_early};
use super::resolve::Names;
use super::tls::Tls;
use super::wire::{self, Reached};
use crate::fault::{ErrorKind, Fault, Stage};

/// Makes connections for the agents of all hosts, with one TLS configuration: so a session
/// that one of them began is resumed by the others.
#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) dial: Dial,
    pub(super) names: Names,
    pub(super) addresses: address::Policy,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) limits: Limits,
}

/// How long what may take. Not ureq's limits, for which none and a second are the same: zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// A connection, its TLS handshake included.
    pub(super) connect: Duration,
    /// A read or a write.
    pub(super) idle: Duration,
    /// A response's header.
    pub(super) header: Duration,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").finish_non_exhaustive()
    }
}

impl Dialer {
    pub(super) fn dial(&self, details: &ConnectionDetails<'_>) -> Result<Connection, Fault> {
        let start = Instant::now();
        let limit = self.limits.connect;
        let deadline = wire::note(|wire| wire.deadline);
        let until = start.checked_add(limit);
        let until = until
            .into_iter()
            .chain(deadline.map(|deadline| deadline.at))
            .min();
        let addresses: Vec<SocketAddr> = details.addrs.iter().copied().collect();
        let addresses = self.addresses.allowed(addresses)?;
        let host = details.uri.host().unwrap_or_default();
        let verdicts = self.names.verdicts(host);
        let connected = self.dial.connect(&addresses, until, Some(limit), &verdicts);
        let now = Instant::now();
        wire::note(|wire| wire.connect += now - start);
        let mut line = connected?;
        let tls = if details.needs_tls() {
            let tls = self.shake_hands(details, &mut line, until);
            wire::note(|wire| wire.tls += now.elapsed());
            Some(tls?)
        } else {
            None
        };
        Ok(Connection {
            line,
            tls,
            buffers: Lent::default(),
            state: State::New,
            limits: self.limits,
        })
    }

    fn shake_hands(
        &self,
        details: &ConnectionDetails<'_>,
        line: &mut Line,
        until: Option<Instant>,
    ) -> Result<Tls, Fault> {
        line.limit(None, until);
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let shaken = Tls::connect(&self.tls, host, line);
        shaken.map_err(|fault| {
            if wire::is_interrupted() {
                Fault::cancelled()
            } else if fault.kind == ErrorKind::Timeout {
                let limit = self.limits.connect;
                let detail = format!(
                    "the TLS handshake was not over {limit:?} after connecting began (see \
                     `connect_timeout`)"
                );
                Fault::new(ErrorKind::Timeout, detail)
            } else {
                fault
            }
        })
    }
}

/// Where a connection is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    New,
    /// A request has been sent on it.
    InUse,
    /// Its last response has been read.
    Idle,
}

pub(super) struct Connection {
    line: Line,
    tls: Option<Tls>,
    buffers: Lent,
    state: State,
    limits: Limits,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.line.peer())
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) fn buffers(&mut self) -> &mut impl Buffers {
        &mut self.buffers
    }

    /// A request, of which so much is in the output buffer.
    pub(super) fn send(&mut self, amount: usize) -> Result<(), Fault> {
        self.begin();
        if wire::is_interrupted() {
            return Err(interrupted());
        }
        let written = self.write(amount);
        wire::note(|wire| {
            wire.sent = Some(Instant::now());
            wire.header = wire::Limit::of(self.limits.header);
        });
        written.map_err(|error| self.fault_of(error))
    }

    fn begin(&mut self) {
        if self.state != State::InUse {
            let reused = self.state == State::Idle;
            self.line.is_waited_on();
            wire::note(|wire| wire.reused = reused);
            self.state = State::InUse;
        }
    }

    /// What is read and written from now on has to keep to the limits of the hop.
    fn limit(&mut self) {
        let until = wire::note(|wire| wire.next_limit()).map(|(at, _)| at);
        self.line.limit(Some(self.limits.idle), until);
    }

    fn write(&mut self, amount: usize) -> io::Result<()> {
        self.limit();
        let output = &self.buffers.output()[..amount];
        match &mut self.tls {
            Some(tls) => tls.write_all(&mut self.line, output),
            None => self.line.write_all(output),
        }
    }

    /// Into the input buffer.
    pub(super) fn fill(&mut self) -> Result<usize, Fault> {
        self.limit();
        // ureq takes all that it is shown for one header, be it several, and more.
        let is_header = wire::note(|wire| !wire.is_in_body);
        let most = if is_header { MAX_HEADER } else { INPUT };
        let most = most.saturating_sub(self.buffers.input().len());
        let input = self.buffers.input_append_buf();
        let most = most.min(input.len());
        let input = &mut input[..most];
        let amount = if input.is_empty() {
            // Else the zero bytes that fit would be taken for the end.
            Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the response's header is too large",
            ))
        } else {
            read(&mut self.tls, &mut self.line, input)
        };
        let amount = self.checked(amount)?;
        self.buffers.input_appended(amount);
        Ok(amount)
    }

    fn checked(&self, amount: io::Result<usize>) -> Result<usize, Fault> {
        match amount {
            // An interrupted read ends as if the server had closed; a body that is delimited
            // by that would pass for whole.
            Ok(0) if wire::is_interrupted() => Err(interrupted()),
            Ok(amount) => Ok(amount),
            Err(error) => Err(self.fault_of(error)),
        }
    }

    /// Reads what has arrived: what was read together with something else first. `Ok(0)`: the server
    /// sends no more.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, Fault> {
        if self.buffers.input().is_empty() {
            if into.len() >= WORTH_A_READ {
                self.limit();
                let amount = read(&mut self.tls, &mut self.line, into);
                return self.checked(amount);
            }
            self.fill()?;
        }
        let input = self.buffers.input();
        let amount = input.len().min(into.len());
        into[..amount].copy_from_slice(&input[..amount]);
        self.buffers.input_consume(amount);
        Ok(amount)
    }

    /// What was asked for on it has been read. What the server sends unasked, now or later, makes it
    /// useless: it would be taken for the next response.
    pub(super) fn is_left_alone(&mut self) {
        let is_silent = self.tls.as_mut().is_none_or(Tls::is_silent);
        if is_silent && self.buffers.input().is_empty() {
            self.state = State::Idle;
            self.line.is_left_alone();
            self.buffers.give_back();
        }
    }

    /// A response has been read to its end, and nothing but that.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Nothing has come since then, not even the server's end. One look before each use, however
    /// short the time was: what came behind a body would be the next response.
    pub(super) fn is_silent(&self) -> bool {
        self.line.is_silent()
    }

    /// Not `Io`: ureq takes an `UnexpectedEof` or a reset for the end of a body that is delimited
    /// by the connection's end, and so a cut body for a whole one.
    fn fault_of(&self, error: io::Error) -> Fault {
        if wire::is_interrupted() {
            return interrupted();
        }
        let error = match &self.tls {
            Some(tls) => match tls.fault_of(error) {
                Ok(fault) => return fault,
                Err(error) => error,
            },
            None => error,
        };
        match error.kind() {
            io::ErrorKind::TimedOut => late(self.limits.idle, self.line.last_limit()),
            io::ErrorKind::UnexpectedEof => {
                Fault::with_source(ErrorKind::Truncated, "the connection was cut", error)
            }
            io::ErrorKind::InvalidData => Fault::with_source(
                ErrorKind::Protocol,
                "not a response that can be read",
                error,
            ),
            _ => Fault::with_source(ErrorKind::Truncated, "the connection broke", error),
        }
    }
}

/// What an interruption means: the batch was cancelled, or its time is over.
fn interrupted() -> Fault {
    let fault = match wire::deadline_passed() {
        Some(deadline) => deadline.fault(wire::note(|wire| wire.doing())),
        None => Fault::cancelled(),
    };
    fault.while_at(Stage::Asked)
}

/// Which of the limits it was that a read or write has reached, on a line that was set to end
/// about then.
fn late(idle: Duration, set: Duration) -> Fault {
    let (next, doing) = wire::note(|wire| (wire.next_limit(), wire.doing()));
    let now = Instant::now();
    let reached = next.filter(|&(at, _)| at <= now + too_early(set));
    let detail = match reached {
        Some((_, Reached::Deadline(deadline))) => {
            return deadline.fault(doing).while_at(Stage::Asked);
        }
        Some((_, Reached::Header(time))) => {
            format!(
                "the response's header was not whole {time:?} after the request (see `header_timeout`)"
            )
        }
        Some((_, Reached::Pace(time))) => {
            format!(
                "the body came slower than the lowest speed allowed, over {time:?} (see `low_speed`)"
            )
        }
        Some((_, Reached::Drain(time))) => format!("not at its end within {time:?}"),
        None => format!("nothing moved for {idle:?} {doing} (see `idle_timeout`)"),
    };
    Fault::new(ErrorKind::Timeout, detail).while_at(Stage::Asked)
}

/// A read into less than this is not worth a system call.
const WORTH_A_READ: usize = 16 * 1024;

fn read(tls: &mut Option<Tls>, line: &mut Line, into: &mut [u8]) -> io::Result<usize> {
    match tls {
        Some(tls) => tls.read(line, into),
        None => line.read(into),
    }
}
