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
use super::line::Line;
use super::resolve::Names;
use super::tls::Tls;
use super::wire;
use crate::fault::{ErrorKind, Fault};

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
        self.dial(details).map(Some).map_err(into_ureq)
    }
}

impl Dialer {
    fn dial(&self, details: &ConnectionDetails<'_>) -> Result<Connection, Fault> {
        let start = Instant::now();
        let limit = details.timeout.not_zero().map(|limit| *limit);
        let addresses: Vec<SocketAddr> = details.addrs.iter().copied().collect();
        let addresses = self.addresses.allowed(addresses)?;
        let host = details.uri.host().unwrap_or_default();
        let verdicts = self.names.verdicts(host);
        let connected = self.dial.connect(&addresses, limit, &verdicts);
        let now = Instant::now();
        wire::note(|wire| wire.connect += now - start);
        let mut line = connected?;
        let tls = if details.needs_tls() {
            let left = limit.map(|limit| limit.saturating_sub(now - start));
            let tls = self.shake_hands(details, &mut line, left);
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
        })
    }

    fn shake_hands(
        &self,
        details: &ConnectionDetails<'_>,
        line: &mut Line,
        left: Option<Duration>,
    ) -> Result<Tls, Fault> {
        let limited = line
            .limit_reads(left)
            .and_then(|()| line.limit_writes(left));
        limited.map_err(|e| Fault::with_source(ErrorKind::Connect, "cannot limit the time", e))?;
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Tls::connect(&self.tls, host, line).map_err(|fault| {
            if wire::is_interrupted() {
                Fault::cancelled()
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

    fn write(&mut self, amount: usize, timeout: NextTimeout) -> io::Result<()> {
        self.line
            .limit_writes(timeout.for_write().not_zero().map(|limit| *limit))?;
        let output = &self.buffers.output()[..amount];
        match &mut self.tls {
            Some(tls) => tls.write_all(&mut self.line, output),
            None => self.line.write_all(output),
        }
    }

    fn read(&mut self, timeout: NextTimeout) -> io::Result<usize> {
        let limit = timeout.for_read().not_zero().map(|limit| *limit);
        let left = wire::note(|wire| wire.until)
            .map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.line.limit_reads(match (limit, left) {
            (Some(limit), Some(left)) => Some(limit.min(left)),
            (limit, left) => limit.or(left),
        })?;
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
    fn fault_of(&self, error: io::Error, doing: &'static str) -> Fault {
        if wire::is_interrupted() {
            return Fault::cancelled();
        }
        let error = match &self.tls {
            Some(tls) => match tls.fault_of(error) {
                Ok(fault) => return fault,
                Err(error) => error,
            },
            None => error,
        };
        match error.kind() {
            io::ErrorKind::TimedOut => Fault::new(
                ErrorKind::Timeout,
                format!(
                    "nothing moved for {:?} while {doing}",
                    self.line.read_limit()
                ),
            ),
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

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.begin();
        if wire::is_interrupted() {
            return Err(into_ureq(Fault::cancelled()));
        }
        let written = self.write(amount, timeout);
        wire::note(|wire| wire.sent = Some(Instant::now()));
        written.map_err(|error| into_ureq(self.fault_of(error, "sending the request")))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let amount = self
            .read(timeout)
            .map_err(|error| into_ureq(self.fault_of(error, "waiting for the server")))?;
        if amount == 0 && wire::is_interrupted() {
            // An interrupted read ends as if the server had closed; a body that is delimited
            // by that would pass for whole.
            return Err(into_ureq(Fault::cancelled()));
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
    /// server sends unasked between shows the second time, so one look is enough.
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
