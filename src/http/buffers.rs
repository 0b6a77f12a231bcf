//! The buffers of a connection, which it has only while it is in use.

use std::cell::RefCell;
use std::io::{self, Read};

use ureq::unversioned::transport::Buffers;

/// What a response's header may take at most. ureq parses it out of the input buffer, so that
/// has to be as large.
pub(super) const MAX_HEADER: usize = 64 * 1024;
/// The size of a read: the larger, the fewer system calls a large body takes.
pub(super) const INPUT: usize = 128 * 1024;
/// Each line of a request has to fit. Memory that is not written to costs nothing.
const OUTPUT: usize = 64 * 1024;
/// Some records of TLS, which are of 16 KiB at most. rustls by itself reads 4 KiB at a time.
const SEALED: usize = 64 * 1024;

/// A thread runs one exchange at a time: its buffers go from connection to connection, warm in
/// its cache, and an idle connection has none. Those that are not here are lent, or never were wanted.
#[derive(Default)]
struct Spare {
    input: Vec<u8>,
    output: Vec<u8>,
    sealed: Vec<u8>,
}

/// One of a thread's buffers.
type Which = fn(&mut Spare) -> &mut Vec<u8>;

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// Has this be a buffer, if it is none yet.
fn borrow(buffer: &mut Vec<u8>, which: Which, length: usize) {
    if buffer.is_empty() {
        let spare = SPARE.try_with(|spare| std::mem::take(which(&mut spare.borrow_mut())));
        // Not there the first time, and where the thread is ending.
        let spare = spare.ok().filter(|spare| !spare.is_empty());
        *buffer = spare.unwrap_or_else(|| vec![0; length]);
    }
}

/// Where the thread is ending it is freed.
fn give_back(buffer: &mut Vec<u8>, which: Which) {
    let buffer = std::mem::take(buffer);
    if !buffer.is_empty() {
        let _ = SPARE.try_with(|spare| *which(&mut spare.borrow_mut()) = buffer);
    }
}

/// Bytes that have arrived and not been consumed.
#[derive(Default)]
struct Arrived {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Arrived {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn room(&mut self, which: Which, length: usize) -> &mut [u8] {
        borrow(&mut self.buffer, which, length);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end > self.buffer.len() / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.buffer[self.end..]
    }

    fn add(&mut self, amount: usize) {
        self.end += amount;
        assert!(
            self.end <= self.buffer.len(),
            "more than there was room for"
        );
    }

    fn consume(&mut self, amount: usize) {
        self.start += amount;
        assert!(self.start <= self.end, "more than there was");
    }

    fn give_back(&mut self, which: Which) {
        (self.start, self.end) = (0, 0);
        give_back(&mut self.buffer, which);
    }
}

/// What ureq reads from and writes to.
#[derive(Default)]
pub(super) struct Lent {
    input: Arrived,
    output: Vec<u8>,
    /// The last look at the input consumed some of it: another may as well.
    progress: bool,
}

impl Lent {
    const INPUT: Which = |spare| &mut spare.input;
    const OUTPUT: Which = |spare| &mut spare.output;

    /// Gives the buffers back, if there is nothing in them.
    pub(super) fn give_back(&mut self) {
        if self.input.bytes().is_empty() {
            self.input.give_back(Self::INPUT);
            give_back(&mut self.output, Self::OUTPUT);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.input.give_back(Self::INPUT);
        give_back(&mut self.output, Self::OUTPUT);
    }
}

impl Buffers for Lent {
    fn output(&mut self) -> &mut [u8] {
        borrow(&mut self.output, Self::OUTPUT, OUTPUT);
        &mut self.output
    }

    fn input(&self) -> &[u8] {
        self.input.bytes()
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        self.input.room(Self::INPUT, INPUT)
    }

    fn input_appended(&mut self, amount: usize) {
        self.input.add(amount);
    }

    fn input_consume(&mut self, amount: usize) {
        self.progress = amount > 0;
        self.input.consume(amount);
    }

    /// For the body of a request, of which ours have none.
    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        borrow(&mut self.output, Self::OUTPUT, OUTPUT);
        (self.input.room(Self::INPUT, INPUT), &mut self.output)
    }

    fn can_use_input(&self) -> bool {
        self.progress && !self.input.bytes().is_empty()
    }
}

/// What has come over TLS and has not been opened.
#[derive(Default)]
pub(super) struct Sealed {
    arrived: Arrived,
    record: Record,
}

impl Sealed {
    const BUFFER: Which = |spare| &mut spare.sealed;

    pub(super) fn is_empty(&self) -> bool {
        self.arrived.bytes().is_empty()
    }

    /// Reads once.
    pub(super) fn fill(&mut self, from: &mut impl Read) -> io::Result<()> {
        let room = self.arrived.room(Self::BUFFER, SEALED);
        let amount = from.read(room)?;
        self.record.go_on(&room[..amount]);
        self.arrived.add(amount);
        Ok(())
    }

    /// Half a record may be with rustls, which does not say so: something follows it.
    pub(super) fn ends_with_a_record(&self) -> bool {
        self.record == Record::default()
    }

    /// Gives the buffer back, if there is nothing in it.
    pub(super) fn give_back(&mut self) {
        if self.is_empty() {
            self.arrived.give_back(Self::BUFFER);
        }
    }
}

/// Of what there is: nothing is no end.
impl Read for Sealed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let amount = self.arrived.bytes().read(into)?;
        self.arrived.consume(amount);
        Ok(amount)
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        self.arrived.give_back(Self::BUFFER);
    }
}

/// Where in a record (RFC 8446, section 5.1) the bytes that have come end.
#[derive(Default, PartialEq, Eq)]
struct Record {
    /// Of its header: a type, two bytes of version, two of length.
    header: usize,
    /// Still to come, by what is known of it.
    left: usize,
}

impl Record {
    const HEADER: usize = 5;

    fn go_on(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            if self.header == Self::HEADER {
                let here = self.left.min(bytes.len());
                self.left -= here;
                bytes = &bytes[here..];
            } else {
                self.header += 1;
                if self.header > 3 {
                    self.left = self.left << 8 | usize::from(*first);
                }
                bytes = rest;
            }
            if self.header == Self::HEADER && self.left == 0 {
                self.header = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_in_pieces_is_seen_whole_and_consumed_in_pieces() {
        let mut lent = Lent::default();
        for piece in [&b"abc"[..], b"def"] {
            lent.input_append_buf()[..piece.len()].copy_from_slice(piece);
            lent.input_appended(piece.len());
        }
        assert_eq!(lent.input(), b"abcdef");
        lent.input_consume(2);
        assert!(lent.can_use_input());
        assert_eq!(lent.input(), b"cdef");
        lent.input_consume(0);
        assert!(!lent.can_use_input(), "nobody made progress with it");
    }

    #[test]
    fn room_is_made_by_moving_what_is_left_to_the_front() {
        let mut lent = Lent::default();
        let full = lent.input_append_buf().len();
        lent.input_append_buf()[full - 1] = b'x';
        lent.input_appended(full);
        lent.input_consume(full - 1);
        assert_eq!(lent.input_append_buf().len(), full - 1);
        assert_eq!(lent.input(), b"x");
    }

    #[test]
    fn buffers_go_from_one_connection_to_the_next_and_never_with_bytes_in_them() {
        let mut first = Lent::default();
        let at = first.input_append_buf().as_ptr();
        first.input_appended(1);
        first.give_back();
        assert_eq!(first.input().len(), 1, "in use still");
        first.input_consume(1);
        first.give_back();
        let mut second = Lent::default();
        assert_eq!(second.input_append_buf().as_ptr(), at);
        assert!(second.input().is_empty());
    }
    #[test]
    fn an_end_of_a_record_is_seen_however_it_comes() {
        let records = [1, 0, 300, 16_640].map(|length: u16| {
            let mut record = vec![23, 3, 3];
            record.extend(length.to_be_bytes());
            record.resize(5 + usize::from(length), 3);
            record
        });
        let ends: Vec<usize> = records
            .iter()
            .scan(0, |end, record| {
                *end += record.len();
                Some(*end)
            })
            .collect();
        let bytes = records.concat();
        for step in [1, 2, 3, 4, 5, 6, 7, 299, 306, bytes.len()] {
            let mut record = Record::default();
            for (at, piece) in bytes.chunks(step).enumerate() {
                record.go_on(piece);
                let end = at * step + piece.len();
                assert_eq!(
                    record == Record::default(),
                    ends.contains(&end),
                    "{step} {end}"
                );
            }
        }
    }
}
