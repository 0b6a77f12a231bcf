//! Buffers of bodies that have been read, for bodies to come.

use parking_lot::Mutex;

/// How many buffers of a batch are kept for its next bodies.
const KEPT: usize = 64;

/// Buffers that came back, for bodies to come.
pub(crate) struct Spares(
    /// Guards the buffers, for as long as it takes to move one.
    Mutex<Vec<Vec<u8>>>,
);

/// A larger one is not kept.
const LARGEST: usize = 1024 * 1024;

impl Spares {
    /// With this buffer for the first body, if there is one.
    pub(crate) fn of(buffer: Option<Vec<u8>>) -> Self {
        Self(Mutex::new(Vec::from_iter(buffer)))
    }

    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        self.0.lock().pop()
    }

    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut buffers = self.0.lock();
        if buffers.len() < KEPT && buffer.capacity() <= LARGEST {
            buffers.push(buffer);
        }
    }
}
