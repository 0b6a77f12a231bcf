//! What ^C does: the first ends the downloads, the second ends the process.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fetchpool::Downloader;

use crate::args;
use crate::report::Ending;

/// The exit status of an interrupted run: 128 and the number of SIGINT, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// How long the main thread has to end by itself. Together with what an exit
/// takes, the user waits for less than a second.
const GRACE: Duration = Duration::from_millis(600);

/// Whether ^C (or SIGTERM) has come.
#[derive(Clone)]
pub(crate) struct Interrupt {
    pressed: Arc<AtomicBool>,
}

impl Interrupt {
    /// Takes over ^C from the system's way of ending the process.
    pub(crate) fn install(downloader: &Downloader, ending: Ending) -> Result<Self, clap::Error> {
        let interrupt = Self {
            pressed: Arc::default(),
        };
        let pressed = Arc::clone(&interrupt.pressed);
        let downloader = downloader.clone();
        ctrlc::set_handler(move || {
            if pressed.swap(true, Ordering::SeqCst) {
                process::exit(INTERRUPTED.into());
            }
            // On threads of their own: the next ^C is heard only once this
            // handler has returned.
            let downloader = downloader.clone();
            thread::spawn(move || downloader.shutdown());
            let ending = ending.clone();
            thread::spawn(move || end_if_stuck(&ending));
        })
        .map_err(|e| args::usage(format!("cannot listen for ^C: {e}")))?;
        Ok(interrupt)
    }

    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::SeqCst)
    }
}

/// Upon a shutdown the main thread reports what was cancelled and ends the
/// process. But it may stand in a read of a silent standard input, or in a write
/// to a pipe that nobody empties: then the process ends here.
fn end_if_stuck(ending: &Ending) {
    thread::sleep(GRACE);
    ending.sum_up(true);
    process::exit(INTERRUPTED.into());
}
