//! The order of the input.

use std::collections::VecDeque;

/// Outcomes that wait for those before them.
pub(super) struct Order<T> {
    /// The index of the front.
    first: u64,
    waiting: VecDeque<Option<T>>,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self {
            first: 0,
            waiting: VecDeque::new(),
        }
    }
}

impl<T> Order<T> {
    pub(super) fn insert(&mut self, index: u64, item: T) {
        let at = (index - self.first) as usize;
        while self.waiting.len() <= at {
            self.waiting.push_back(None);
        }
        self.waiting[at] = Some(item);
    }

    pub(super) fn next(&mut self) -> Option<T> {
        let item = self.waiting.front_mut()?.take()?;
        self.waiting.pop_front();
        self.first += 1;
        Some(item)
    }
}
