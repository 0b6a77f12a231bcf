//! Our end of ureq's transport: one connection, plain or TLS.

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

use super::address;
use super::buffers::{self, Lent};
use super::dial::Dial;
use super::faults::into_ureq;
use super::line::{Line, too_early};
use super::resolve::Names;
use super::tls::Tls;
use super::wire::{self, Reached};
use crate::fault::{ErrorKind, Fault, Stage};

/// How many bytes may come without one of a final response's header or a body among them. One
/// read can bring more than the end of a header.
const MAX_FRUITLESS: usize = 4 * buffers::INPUT;

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

impl Connector<()> for Dialer {
    type Out = Connection;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Connection>, ureq::Error> {
        let dialled = self
            .dial(details)
            .map_err(|fault| match wire::deadline_passed() {
                Some(deadline)
                    if matches!(fault.kind, ErrorKind::Timeout | ErrorKind::Cancelled) =>
                {
                    deadline.fault("before there was a connection")
                }
                _ => fault,
            });
        let dialled = dialled.map_err(|fault| fault.while_at(Stage::Connecting));
        dialled.map(Some).map_err(into_ureq)
    }
}

impl Dialer {
    fn dial(&self, details: &ConnectionDetails<'_>) -> Result<Connection, Fault> {
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
    /// Its last response has been read; it is about to go back to the pool, or is there.
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

    fn read(&mut self) -> io::Result<usize> {
        self.limit();
        let input = self.buffers.input_append_buf();
        if input.is_empty() {
            // Else the zero bytes that fit would be taken for the end.
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the response's header is too large",
            ));
        }
        match &mut self.tls {
            Some(tls) => tls.read(&mut self.line, input),
            None => io::Read::read(&mut self.line, input),
        }
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

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        self.begin();
        if wire::is_interrupted() {
            return Err(into_ureq(interrupted()));
        }
        let written = self.write(amount);
        wire::note(|wire| {
            wire.sent = Some(Instant::now());
            wire.header = wire::Limit::of(self.limits.header);
        });
        written.map_err(|error| into_ureq(self.fault_of(error)))
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, ureq::Error> {
        let amount = self
            .read()
            .map_err(|error| into_ureq(self.fault_of(error)))?;
        if amount == 0 && wire::is_interrupted() {
            // An interrupted read ends as if the server had closed; a body that is delimited
            // by that would pass for whole.
            return Err(into_ureq(interrupted()));
        }
        let fruitless = wire::note(|wire| {
            if amount > 0 && wire.answered.is_none() {
                wire.answered = Some(Instant::now());
            }
            wire.fruitless += amount;
            wire.fruitless
        });
        if fruitless > MAX_FRUITLESS {
            return Err(into_ureq(Fault::new(
                ErrorKind::Protocol,
                format!("{fruitless} bytes came, and no end of the header or trailer"),
            )));
        }
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// ureq asks twice: as it puts the connection back, and as it takes it out again. What the
    /// server sends unasked between shows the second time, so one look is enough; and needed, however
    /// short that was: what came behind a body would be the next response.
    fn is_open(&mut self) -> bool {
        if self.state == State::InUse {
            self.state = State::Idle;
            self.line.is_left_alone();
            self.buffers.give_back();
            return true;
        }
        !wire::note(|wire| wire.fresh) && self.line.is_silent()
    }

    fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}
