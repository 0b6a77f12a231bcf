//! One line that moves, for people who watch.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use crate::args::Args;
use crate::report::Tally;

/// How often the line is drawn anew, that its clock may move.
const TICK: Duration = Duration::from_millis(100);

/// The line, or its absence. Clones show the same one.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// How many URLs there are, if that is known before they are read.
    total: Option<usize>,
}

impl Progress {
    /// Shown on a terminal only: in a log it would be a thousand lines.
    pub(crate) fn new(args: &Args) -> Self {
        let is_shown = io::stderr().is_terminal() && !args.quiet && !args.json;
        let is_counted = args.input.is_none() && !args.demo;
        Self {
            bar: is_shown.then(line),
            total: is_counted.then_some(args.urls.len()),
        }
    }

    pub(crate) fn update(&self, tally: &Tally) {
        if let Some(bar) = &self.bar {
            bar.set_message(message(tally, self.total));
        }
    }

    /// Prints what `print` prints without tearing the line.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line() -> ProgressBar {
    // How many there are, only the end of the input tells: a spinner, not a bar.
    let style = ProgressStyle::with_template("{spinner} {elapsed_precise}  {msg}");
    let line = ProgressBar::new_spinner()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        .with_message("0 done");
    line.enable_steady_tick(TICK);
    line
}

fn message(tally: &Tally, total: Option<usize>) -> String {
    let failed = tally.failed();
    let done = tally.fetched() + failed;
    let of_total = total.map_or_else(String::new, |total| format!(" of {total}"));
    let rate = tally.bytes() as f64 / tally.elapsed().as_secs_f64().max(0.001);
    format!(
        "{done}{of_total} done, {failed} failed, {}, {}/s",
        HumanBytes(tally.bytes()),
        HumanBytes(rate as u64),
    )
}
