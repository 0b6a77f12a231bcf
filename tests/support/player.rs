//! Plays a script on a socket.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use super::script::{Script, Step};
use super::stop;

/// The most that is sent in one piece, and so the most that is sent after a request has been counted as done.
const PIECE: usize = 64 * 1024;

/// How a connection goes on after a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    NextRequest,
    Close,
    Reset,
}

/// Plays the script; `done` is called just before its last bytes if those end the reply. An error means that the client has
/// gone.
pub(super) fn play(script: &Script, stream: &TcpStream, done: impl Fn()) -> io::Result<Then> {
    let mut wire = Wire {
        stream,
        held: Vec::new(),
    };
    let last = script.steps.iter().rposition(|step| step.bytes() > 0);
    for (index, step) in script.steps.iter().enumerate() {
        match step {
            Step::Send(bytes) => wire.send(bytes)?,
            Step::Repeat {
                pattern,
                start,
                total,
            } => repeat(&mut wire, pattern, *start, *total)?,
            Step::Drip { bytes, every } => {
                for (index, byte) in bytes.chunks(1).enumerate() {
                    if index > 0 {
                        wire.flush()?;
                        stop::pause(*every);
                    }
                    wire.send(byte)?;
                }
            }
            Step::Wait(gate) => {
                wire.flush()?;
                gate.wait();
            }
            Step::Pause(time) => {
                wire.flush()?;
                stop::pause(*time);
            }
            Step::Stall => {
                wire.flush()?;
                await_departure(stream)?;
                return Ok(Then::Close);
            }
            Step::Close => {
                wire.flush()?;
                return Ok(Then::Close);
            }
            Step::Reset => {
                wire.flush()?;
                return Ok(Then::Reset);
            }
        }
        if script.whole && last == Some(index) {
            done();
            wire.flush()?;
        }
    }
    wire.flush()?;
    Ok(if script.close {
        Then::Close
    } else {
        Then::NextRequest
    })
}

/// Sends in pieces, and holds the newest bytes back until it must send them: so what is sent in a row leaves as one, and the
/// last piece waits until the request has been counted as done.
struct Wire<'a> {
    stream: &'a TcpStream,
    held: Vec<u8>,
}

impl Wire<'_> {
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while self.held.len() + bytes.len() > PIECE {
            let (now, later) = bytes.split_at(PIECE - self.held.len());
            self.held.extend_from_slice(now);
            self.flush()?;
            bytes = later;
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.held)?;
        self.held.clear();
        Ok(())
    }
}

fn repeat(wire: &mut Wire<'_>, pattern: &[u8], start: u64, total: u64) -> io::Result<()> {
    // Many patterns in a row, so that a short one does not cost a call a byte.
    let block = pattern.repeat(PIECE.div_ceil(pattern.len()));
    let length = block.len() as u64;
    let (mut from, mut left) = (start % length, total);
    while left > 0 {
        let to = length.min(from + left);
        wire.send(&block[position(from)..position(to)])?;
        left -= to - from;
        from = 0;
    }
    Ok(())
}

fn position(within_block: u64) -> usize {
    usize::try_from(within_block).expect("a block is in memory")
}

/// Reads and forgets until the client closes its side.
fn await_departure(mut stream: &TcpStream) -> io::Result<()> {
    let mut scrap = [0; 4096];
    while stream.read(&mut scrap)? > 0 {}
    Ok(())
}
