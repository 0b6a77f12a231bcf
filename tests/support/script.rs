//! What a reply comes to: the steps that are played on a socket.

use std::time::Duration;

use super::Gate;

/// One thing done to a connection.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Send(Vec<u8>),
    /// `total` bytes of the endless repetition of `pattern`, beginning at its byte `start`.
    Repeat {
        pattern: Vec<u8>,
        start: u64,
        total: u64,
    },
    /// One byte at a time.
    Drip {
        bytes: Vec<u8>,
        every: Duration,
    },
    Wait(Gate),
    Pause(Duration),
    /// Silence until the client goes.
    Stall,
    Close,
    Reset,
}

impl Step {
    /// How many bytes it sends.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Send(bytes) | Self::Drip { bytes, .. } => bytes.len() as u64,
            Self::Repeat { total, .. } => *total,
            Self::Wait(_) | Self::Pause(_) | Self::Stall | Self::Close | Self::Reset => 0,
        }
    }
}

/// A reply made ready for one request.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
    /// Whether the last byte sent is the last that the client waits for. Otherwise only the end of the connection tells it
    /// that the reply is over, and until then the request is in flight.
    pub(super) whole: bool,
    /// Whether the connection is closed at the end, if no step has done so.
    pub(super) close: bool,
}
