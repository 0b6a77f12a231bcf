//! The buffers of a connection, which it has only while it is in use.

use std::cell::RefCell;

use ureq::unversioned::transport::Buffers;

/// What a response's header may take at most. ureq parses it out of the input buffer, so that
/// has to be as large.
pub(super) const MAX_HEADER: usize = 64 * 1024;
/// The size of a read: the larger, the fewer system calls a large body takes.
pub(super) const INPUT: usize = 128 * 1024;
/// Each line of a request has to fit. Memory that is not written to costs nothing.
const OUTPUT: usize = 64 * 1024;

/// A thread runs one exchange at a time: its buffers go from connection to connection, warm in
/// its cache, and an idle connection has none.
struct Spare {
    input: Vec<u8>,
    output: Vec<u8>,
}

thread_local! {
    static SPARE: RefCell<Option<Spare>> = const { RefCell::new(None) };
}

#[derive(Default)]
pub(super) struct Lent {
    input: Vec<u8>,
    output: Vec<u8>,
    /// Where the input that has arrived and not been consumed begins and ends.
    start: usize,
    end: usize,
    /// The last look at the input consumed some of it: another may as well.
    progress: bool,
}

impl Lent {
    fn borrow(&mut self) {
        if !self.input.is_empty() {
            return;
        }
        let spare = SPARE.try_with(RefCell::take).ok().flatten();
        let spare = spare.unwrap_or_else(|| Spare {
            input: vec![0; INPUT],
            output: vec![0; OUTPUT],
        });
        (self.input, self.output) = (spare.input, spare.output);
        (self.start, self.end) = (0, 0);
    }

    /// Gives the buffers back, if there is nothing in them.
    pub(super) fn give_back(&mut self) {
        if self.start == self.end && !self.input.is_empty() {
            let spare = Spare {
                input: std::mem::take(&mut self.input),
                output: std::mem::take(&mut self.output),
            };
            (self.start, self.end) = (0, 0);
            // Where the thread is ending they are freed.
            let _ = SPARE.try_with(|kept| kept.replace(Some(spare)));
        }
    }

    fn free(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end > self.input.len() / 2 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.input[self.end..]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        (self.start, self.end) = (0, 0);
        self.give_back();
    }
}

impl Buffers for Lent {
    fn output(&mut self) -> &mut [u8] {
        self.borrow();
        &mut self.output
    }

    fn input(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        self.borrow();
        self.free()
    }

    fn input_appended(&mut self, amount: usize) {
        self.end += amount;
        assert!(self.end <= self.input.len(), "more than there was room for");
    }

    fn input_consume(&mut self, amount: usize) {
        self.progress = amount > 0;
        self.start += amount;
        assert!(self.start <= self.end, "more than there was");
    }

    /// For the body of a request, of which ours have none.
    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        self.borrow();
        self.free();
        (&mut self.input[self.end..], &mut self.output)
    }

    fn can_use_input(&self) -> bool {
        self.start < self.end && self.progress
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
}
