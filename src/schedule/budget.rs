//! A named capacity: its tokens, and the line of those who wait for one.

use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::ids::LaneKind;
use super::key::Key;
use super::lane::Rank;
use super::slab::List;

/// The tokens in use are the fill of a bounded channel: a send takes one, a receive gives it
/// back. Nobody ever blocks on it; who finds it full waits in the budget's line.
pub(super) struct Tokens {
    take: Sender<()>,
    give: Receiver<()>,
    capacity: NonZeroUsize,
    /// Tokens in use beyond the capacity: it was lowered meanwhile, or they were charged. Given back
    /// first.
    over: usize,
}

/// A bounded channel allocates all of its places at once, and `usize::MAX` is how one says 'as
/// many as there are': from here on the channel only counts, and the capacity is compared.
const LARGE: usize = 1024;

impl Tokens {
    pub(super) fn new(capacity: NonZeroUsize) -> Self {
        let (take, give) = if capacity.get() < LARGE {
            bounded(capacity.get())
        } else {
            unbounded()
        };
        Self {
            take,
            give,
            capacity,
            over: 0,
        }
    }

    pub(super) fn capacity(&self) -> NonZeroUsize {
        self.capacity
    }

    pub(super) fn are_left(&self) -> bool {
        self.take.len() < self.capacity.get()
    }

    pub(super) fn in_use(&self) -> usize {
        self.take.len() + self.over
    }

    /// # Panics
    /// When none is left: the caller has looked, under the lock that guards them.
    pub(super) fn take(&self) {
        self.take.try_send(()).expect("a token is left");
    }

    /// So many more, whether there are as many left or not.
    pub(super) fn charge(&mut self, more: usize) {
        let free = self.capacity.get().saturating_sub(self.take.len());
        (0..more.min(free)).for_each(|_| self.take());
        self.over += more.saturating_sub(free);
    }

    pub(super) fn give_back(&mut self) {
        if self.over > 0 {
            self.over -= 1;
        } else {
            self.give.try_recv().expect("a token is in use");
        }
    }

    /// Those in use stay in use, even where they are now more than the capacity.
    pub(super) fn set_capacity(&mut self, capacity: NonZeroUsize) {
        let in_use = self.in_use();
        *self = Self::new(capacity);
        for _ in 0..in_use.min(capacity.get()) {
            self.take();
        }
        self.over = in_use.saturating_sub(capacity.get());
    }
}

/// A budget's entry in the scheduler's table.
pub(super) struct Budget<R> {
    /// `None` for the unread outcomes of a batch, which no key names.
    pub(super) key: Option<Key>,
    pub(super) tokens: Tokens,
    /// How many of the tokens in use the clock gives back.
    pub(super) held: usize,
    /// While closed nobody gets a token, however many are left.
    pub(super) closed_until: Option<Instant>,
    /// Lanes for which this is the first of their budgets that has no room.
    pub(super) line: Rank<LaneKind>,
    /// Likewise those of waiters, which can be served while no worker comes for the others.
    pub(super) waiters: List<LaneKind>,
    /// Lanes that use this budget, jobs asleep that will, and its closed gate.
    pub(super) users: usize,
    /// What lives as long as the entry: the connections to a host.
    pub(super) resident: Arc<OnceLock<R>>,
    /// Since when the entry stands in the list of idle ones.
    pub(super) idle_since: Option<Instant>,
}

impl<R> Budget<R> {
    pub(super) fn new(key: Option<Key>, tokens: Tokens) -> Self {
        Self {
            key,
            tokens,
            held: 0,
            closed_until: None,
            line: Rank::default(),
            waiters: List::default(),
            users: 0,
            resident: Arc::new(OnceLock::new()),
            idle_since: None,
        }
    }

    /// A token is left, and the gate is open.
    pub(super) fn has_room(&self) -> bool {
        self.closed_until.is_none() && self.tokens.are_left()
    }

    pub(super) fn has_line(&self) -> bool {
        !self.line.is_empty() || !self.waiters.is_empty()
    }

    pub(super) fn is_unused(&self) -> bool {
        self.users == 0 && self.tokens.in_use() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(capacity: usize) -> Tokens {
        Tokens::new(NonZeroUsize::new(capacity).unwrap())
    }

    #[test]
    fn no_more_tokens_than_capacity() {
        let mut tokens = tokens(2);
        tokens.take();
        assert!(tokens.are_left());
        tokens.take();
        assert!(!tokens.are_left());
        tokens.give_back();
        assert!(tokens.are_left());
        assert_eq!(tokens.in_use(), 1);
    }

    #[test]
    fn a_lowered_capacity_is_reached_as_tokens_come_back() {
        let mut tokens = tokens(4);
        (0..4).for_each(|_| tokens.take());
        tokens.set_capacity(NonZeroUsize::new(2).unwrap());
        assert_eq!(tokens.in_use(), 4);
        for in_use in [3, 2] {
            tokens.give_back();
            assert_eq!(tokens.in_use(), in_use);
            assert!(!tokens.are_left());
        }
        tokens.give_back();
        assert!(tokens.are_left());
    }

    #[test]
    fn what_is_charged_beyond_the_capacity_comes_back_first() {
        let mut tokens = tokens(3);
        tokens.take();
        tokens.charge(5);
        assert_eq!(tokens.in_use(), 6);
        for in_use in [5, 4, 3] {
            tokens.give_back();
            assert_eq!(tokens.in_use(), in_use);
            assert!(!tokens.are_left());
        }
        tokens.give_back();
        assert!(tokens.are_left());
        tokens.charge(0);
        assert_eq!(tokens.in_use(), 2);
    }

    #[test]
    fn a_raised_capacity_takes_in_what_was_over() {
        let mut tokens = tokens(4);
        (0..4).for_each(|_| tokens.take());
        tokens.set_capacity(NonZeroUsize::new(1).unwrap());
        tokens.set_capacity(NonZeroUsize::new(5).unwrap());
        assert_eq!(tokens.in_use(), 4);
        assert!(tokens.are_left());
        tokens.take();
        assert!(!tokens.are_left());
        (0..5).for_each(|_| tokens.give_back());
        assert_eq!(tokens.in_use(), 0);
    }
}
