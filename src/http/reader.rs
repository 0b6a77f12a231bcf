//! The body of a response, as it comes over the wire.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use http::header::CONNECTION;
use http::response::Parts;
use http::{HeaderMap, Version};

use super::LowSpeed;
use super::agent;
use super::faults::{CUT, fault_of};
use super::framing::Framing;
use super::host::Lease;
use super::pace::Pace;
use super::transport::Connection;
use super::wire;
use crate::fault::{ErrorKind, Fault, Stage};

/// What remains of a body that nobody reads is read to its end if it is no more than this, so
/// that the connection can be used again; otherwise a new connection is cheaper.
const DRAIN: usize = 64 * 1024;
/// Nor is a body worth more time that comes in drips.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The body of a response: ends with `Ok(0)` only where the framing says that it is whole.
pub(crate) struct Reader {
    source: Source,
    pace: Option<Pace>,
    /// Goes after the source, which gives its connection back.
    lease: Option<Lease>,
}

enum Source {
    /// ureq, which knows all framings, and has the bytes go through its buffer and its states.
    Framed(ureq::BodyReader<'static>),
    /// So many bytes of the connection, which come from there to where they are wanted.
    Counted(Counted),
    Ended,
}

struct Counted {
    connection: Box<Connection>,
    left: u64,
    /// The connection may be used again.
    keeps: bool,
}

impl Reader {
    /// `keeps`: whether the request leaves the connection's end to the server.
    pub(super) fn new(
        body: ureq::Body,
        framing: Framing,
        parts: &Parts,
        keeps: impl FnOnce() -> bool,
    ) -> Self {
        let is_plain = parts.version == Version::HTTP_11;
        let source = match framing {
            Framing::Length(left) if is_plain && left > 0 => {
                // Ours again, with what has been read of the body.
                drop(body);
                let lent = agent::take_back();
                Source::Counted(Counted {
                    connection: lent.expect("ureq lets go of it with the body"),
                    left,
                    keeps: keeps() && keeps_alive(&parts.headers),
                })
            }
            _ => Source::Framed(body.into_reader()),
        };
        Self {
            source,
            pace: None,
            lease: None,
        }
    }

    /// Its connection goes back there; and bytes have to come as fast as that.
    pub(super) fn belongs_to(&mut self, lease: Lease, least: Option<LowSpeed>) {
        self.lease = Some(lease);
        self.pace = least.map(Pace::new);
    }

    /// Reads what is left, if that is little, so that the connection can be used again.
    pub(crate) fn drain(&mut self) {
        let is_long = |body: &Counted| body.left > DRAIN as u64 || !body.keeps;
        if self.has_ended() || matches!(&self.source, Source::Counted(body) if is_long(body)) {
            return;
        }
        wire::note(|wire| wire.drain = wire::Limit::of(DRAIN_TIME));
        let mut drained = 0;
        let mut piece = [0; 4096];
        while !self.has_ended() && drained < DRAIN {
            match self.read(&mut piece) {
                Ok(amount) => drained += amount,
                // The connection is closed then, which is what would be done otherwise.
                Err(_) => break,
            }
        }
        wire::note(|wire| wire.drain = None);
    }

    fn has_ended(&self) -> bool {
        matches!(self.source, Source::Ended)
    }

    fn read_on(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.source {
            Source::Ended => Ok(0),
            Source::Counted(body) => {
                let amount = body.read(buffer).map_err(Fault::into_io)?;
                if body.left == 0 {
                    self.end();
                }
                Ok(amount)
            }
            Source::Framed(body) => {
                let amount = body
                    .read(buffer)
                    .map_err(|error| fault_of(ureq::Error::from(error)).into_io())?;
                if amount == 0 {
                    self.end();
                }
                Ok(amount)
            }
        }
    }

    fn end(&mut self) {
        let ended = std::mem::replace(&mut self.source, Source::Ended);
        if let Source::Counted(mut body) = ended {
            if body.keeps {
                body.connection.is_left_alone();
            }
            agent::give_back(body.connection);
        }
    }
}

impl Counted {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        let amount = self.connection.read(&mut buffer[..most])?;
        if amount == 0 {
            return Err(Fault::new(ErrorKind::Truncated, CUT));
        }
        self.left -= amount as u64;
        Ok(amount)
    }
}

/// Whether the connection is to be used again, as a request or response of HTTP/1.1 says (RFC 9112,
/// section 9.6).
pub(super) fn keeps_alive(headers: &HeaderMap) -> bool {
    let options = headers.get_all(CONNECTION).iter();
    let mut options = options.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    !options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.has_ended() {
            return Ok(0);
        }
        // What is in the buffer comes without a look at the clock.
        if let Some(deadline) = wire::deadline_passed() {
            let fault = deadline.fault("while the body was read");
            return Err(fault.while_at(Stage::Asked).into_io());
        }
        let Some(mut pace) = self.pace else {
            wire::note(|wire| wire.fruitless = 0);
            return self.read_on(buffer);
        };
        wire::note(|wire| {
            wire.fruitless = 0;
            wire.pace = wire::Limit::of(pace.left()).map(|limit| wire::Limit {
                time: pace.least.window,
                ..limit
            });
        });
        let begun = Instant::now();
        let result = self.read_on(buffer);
        wire::note(|wire| wire.pace = None);
        let amount = result?;
        if amount > 0 {
            pace.note(amount, begun.elapsed())?;
        }
        self.pace = Some(pace);
        Ok(amount)
    }
}
