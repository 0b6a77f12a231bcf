//! Outcomes on their way from the workers to the consumer of their batch.
//!
//! A channel that never blocks who sends, as the scheduler bounds what is in it. Its receiver
//! takes all that is there at once, and is woken no more often than needed: on one machine the
//! workers of a fast host deliver an outcome each 50 µs, and waking a thread costs as much as
//! the request. So while outcomes flow, the consumer takes a short nap, from which only a crowd
//! wakes it; when nothing came in a nap's time it sleeps, and the first outcome wakes it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How much later than it could be an outcome is read, at most, and only where the last came
/// within the same time.
const NAP: Duration = Duration::from_micros(500);

pub(crate) struct Inbox<T> {
    /// Guards the queue and what the reader is at; never held while anything blocks.
    state: Mutex<State<T>>,
    arrived: Condvar,
    /// How many there are when a napping reader is woken.
    crowd: usize,
}

struct State<T> {
    queue: VecDeque<T>,
    reader: Reader,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// Looks before it waits.
    Awake,
    /// Wakes by itself, or at a crowd.
    Naps,
    /// Is to be woken.
    Sleeps,
}

/// The receiver's side: what it has taken and not handed out.
pub(crate) struct Taken<T> {
    items: VecDeque<T>,
    /// The last came soon after it was waited for.
    flowing: bool,
}

impl<T> Default for Taken<T> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            flowing: false,
        }
    }
}

impl<T> Taken<T> {
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<T> Inbox<T> {
    pub(crate) fn new(crowd: usize) -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                reader: Reader::Awake,
            }),
            arrived: Condvar::new(),
            crowd,
        }
    }

    pub(crate) fn send(&self, item: T) {
        let mut state = self.state.lock();
        state.queue.push_back(item);
        let wake = match state.reader {
            Reader::Awake => false,
            Reader::Naps => state.queue.len() >= self.crowd,
            Reader::Sleeps => true,
        };
        if wake {
            state.reader = Reader::Awake;
            drop(state);
            self.arrived.notify_one();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().queue.is_empty()
    }

    /// Takes what is there, without waiting. `taken` must be empty.
    pub(crate) fn try_take(&self, taken: &mut Taken<T>) {
        std::mem::swap(&mut self.state.lock().queue, &mut taken.items);
    }

    /// Waits until there is something, and takes all of it. `taken` must be empty.
    pub(crate) fn take(&self, taken: &mut Taken<T>) {
        let mut state = self.state.lock();
        if state.queue.is_empty() && taken.flowing {
            state.reader = Reader::Naps;
            self.arrived.wait_for(&mut state, NAP);
            taken.flowing = state.queue.len() > 1;
        }
        if state.queue.is_empty() {
            let slept = Instant::now();
            while state.queue.is_empty() {
                state.reader = Reader::Sleeps;
                self.arrived.wait(&mut state);
            }
            taken.flowing = slept.elapsed() < NAP;
        }
        state.reader = Reader::Awake;
        std::mem::swap(&mut state.queue, &mut taken.items);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn all_that_is_sent_comes_out_in_order_however_it_is_taken() {
        const EACH: usize = 20_000;
        let inbox = Arc::new(Inbox::new(8));
        let senders: Vec<_> = (0..4)
            .map(|sender| {
                let inbox = Arc::clone(&inbox);
                std::thread::spawn(move || (0..EACH).for_each(|i| inbox.send((sender, i))))
            })
            .collect();
        let mut taken = Taken::default();
        let mut next = [0; 4];
        while next.iter().sum::<usize>() < 4 * EACH {
            inbox.take(&mut taken);
            assert!(!taken.is_empty());
            while let Some((sender, i)) = taken.pop() {
                assert_eq!(i, next[sender]);
                next[sender] += 1;
            }
        }
        senders.into_iter().for_each(|s| s.join().unwrap());
        assert!(inbox.is_empty());
    }

    #[test]
    fn who_sleeps_is_woken_by_the_first() {
        let inbox = Arc::new(Inbox::new(usize::MAX));
        let other = Arc::clone(&inbox);
        let reader = std::thread::spawn(move || {
            let mut taken = Taken::default();
            other.take(&mut taken);
            taken.pop()
        });
        inbox.send(7);
        assert_eq!(reader.join().unwrap(), Some(7));
    }
}
