//! The lowest speed at which a body may come.

use std::io;
use std::time::Duration;

use super::LowSpeed;
use crate::fault::{ErrorKind, Fault, Stage};

/// How a body does, in the present window. Only the time that reads take counts: that of the
/// sink is not the server's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) least: LowSpeed,
    bytes: u64,
    time: Duration,
}

impl Pace {
    pub(super) fn new(least: LowSpeed) -> Self {
        Self {
            least,
            bytes: 0,
            time: Duration::ZERO,
        }
    }

    /// How long a read may take without a byte before it is too slow for certain.
    pub(super) fn left(&self) -> Duration {
        let left = self.least.window.saturating_sub(self.time);
        if self.bytes < self.least.bytes {
            left
        } else {
            // This window is good whatever comes; the next one is not if nothing does.
            left.saturating_add(self.least.window)
        }
    }

    pub(super) fn note(&mut self, bytes: usize, time: Duration) -> io::Result<()> {
        self.bytes += bytes as u64;
        self.time += time;
        if self.time < self.least.window {
            return Ok(());
        }
        let LowSpeed { bytes, window } = self.least;
        if self.bytes < bytes {
            let detail = format!(
                "the body came slower than the lowest speed allowed: {} bytes in {:?}, where \
                 {bytes} in {window:?} are the least (see `low_speed`)",
                self.bytes, self.time
            );
            let fault = Fault::new(ErrorKind::Timeout, detail).while_at(Stage::Asked);
            return Err(fault.into_io());
        }
        *self = Self::new(self.least);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace() -> Pace {
        Pace::new(LowSpeed {
            bytes: 100,
            window: 10 * SECOND,
        })
    }

    #[test]
    fn a_window_with_enough_bytes_is_followed_by_another() {
        let mut pace = pace();
        for _ in 0..3 {
            pace.note(99, 5 * SECOND).unwrap();
            pace.note(1, 5 * SECOND).unwrap();
        }
        pace.note(99, 9 * SECOND).unwrap();
        assert!(pace.note(0, SECOND).is_err());
    }

    #[test]
    fn what_is_left_is_until_it_is_too_slow_for_certain() {
        let mut pace = pace();
        pace.note(99, 4 * SECOND).unwrap();
        assert_eq!(pace.left(), 6 * SECOND);
        pace.note(1, SECOND).unwrap();
        assert_eq!(pace.left(), 15 * SECOND);
    }
}
