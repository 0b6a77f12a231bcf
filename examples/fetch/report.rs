//! What is printed while outcomes come in, and the line that sums them up.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fetchpool::Error;

use crate::args::Args;
use crate::progress::Progress;
use crate::record::{Record, Verdict};

/// The counts of a run. Read by the thread that ends an interrupted run as well.
#[derive(Debug)]
pub(crate) struct Tally {
    start: Instant,
    given: AtomicU64,
    /// No more of them will be.
    is_all_given: AtomicBool,
    fetched: AtomicU64,
    failed: AtomicU64,
    /// Of those fetched: here already.
    present: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            given: AtomicU64::new(0),
            is_all_given: AtomicBool::new(false),
            fetched: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            present: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// One more URL was handed to the library.
    pub(crate) fn given(&self) {
        self.given.fetch_add(1, Relaxed);
    }

    /// The input came to its end.
    pub(crate) fn all_given(&self) {
        self.is_all_given.store(true, Relaxed);
    }

    fn add(&self, record: &Record) {
        match record.verdict() {
            Verdict::Fetched => self.fetched.fetch_add(1, Relaxed),
            Verdict::Failed => self.failed.fetch_add(1, Relaxed),
            Verdict::Cancelled => 0,
        };
        if record.present {
            self.present.fetch_add(1, Relaxed);
        } else {
            self.bytes
                .fetch_add(record.bytes.unwrap_or_default(), Relaxed);
        }
    }

    pub(crate) fn fetched(&self) -> u64 {
        self.fetched.load(Relaxed)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn summary(&self, is_interrupted: bool) -> String {
        let (given, fetched, failed) = (self.given.load(Relaxed), self.fetched(), self.failed());
        let present = match self.present.load(Relaxed) {
            0 => String::new(),
            present => format!(" ({present} of them here already)"),
        };
        // A list is read as it is worked off: what it has still, nobody has counted.
        let at_least = match self.is_all_given.load(Relaxed) {
            true => "",
            false => "at least ",
        };
        // Another thread may count on meanwhile.
        let undone = given.saturating_sub(fetched + failed);
        let (interrupted, undone) = match is_interrupted {
            true => ("interrupted: ", format!(", {at_least}{undone} not done")),
            false => ("", String::new()),
        };
        format!(
            "{interrupted}fetched {fetched} of {given}{present}, {failed} failed{undone}, {} bytes in {:.2} s",
            self.bytes(),
            self.elapsed().as_secs_f64(),
        )
    }

    /// 0 if all that was asked for was fetched, otherwise 1.
    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.fetched() == self.given.load(Relaxed) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// The end of a run, which comes once: from the main thread, or after ^C from
/// another one that found the main thread stuck.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    tally: Arc<Tally>,
    progress: Progress,
    has_come: Arc<AtomicBool>,
}

impl Ending {
    /// Prints the summary, unless another thread has done so.
    pub(crate) fn sum_up(&self, is_interrupted: bool) {
        if !self.has_come.swap(true, Relaxed) {
            self.progress.clear();
            complain(&self.tally.summary(is_interrupted));
        }
    }
}

/// Prints outcomes as they come.
#[derive(Debug)]
pub(crate) struct Reporter {
    style: Style,
    /// What lines are of.
    input: Option<PathBuf>,
    ending: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Json,
    /// Successes, too.
    Verbose,
    /// Failures only.
    Plain,
}

impl Reporter {
    pub(crate) fn new(args: &Args) -> Self {
        let style = match (args.json, args.verbose) {
            (true, _) => Style::Json,
            (false, true) => Style::Verbose,
            (false, false) => Style::Plain,
        };
        let ending = Ending {
            tally: Arc::new(Tally::new()),
            progress: Progress::new(args),
            has_come: Arc::default(),
        };
        Self {
            style,
            input: args.input.clone(),
            ending,
        }
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.ending.tally
    }

    pub(crate) fn ending(&self) -> Ending {
        self.ending.clone()
    }

    /// Prints prose: on standard output, unless that is for JSON alone.
    pub(crate) fn say(&self, text: &str) {
        self.ending.progress.suspend(|| match self.style {
            Style::Json => complain(text),
            Style::Plain | Style::Verbose => {
                let _ = writeln!(io::stdout(), "{text}");
            }
        });
    }

    /// Prints every outcome; shows each to `also` as well.
    ///
    /// An outcome that cannot be printed is the end: as the batch is dropped, what
    /// is left of it is cancelled.
    pub(crate) fn report<T: Into<Record>>(
        &self,
        batch: impl Iterator<Item = Result<T, Error>>,
        mut also: impl FnMut(&Record),
    ) -> io::Result<()> {
        for outcome in batch {
            let record = match outcome {
                Ok(success) => success.into(),
                Err(error) => error.into(),
            };
            also(&record);
            self.outcome(&record)?;
        }
        Ok(())
    }

    fn outcome(&self, record: &Record) -> io::Result<()> {
        let Ending {
            tally, progress, ..
        } = &self.ending;
        tally.add(record);
        progress.update(tally);
        match (self.style, record.verdict()) {
            (Style::Json, _) => writeln!(io::stdout(), "{}", record.json()),
            (Style::Verbose, Verdict::Fetched) => {
                progress.suspend(|| writeln!(io::stdout(), "{}", record.line()))
            }
            (_, Verdict::Failed) => {
                progress.suspend(|| complain(&self.failure(record)));
                Ok(())
            }
            // After ^C there are as many of these as the window was wide.
            (_, Verdict::Cancelled) | (Style::Plain, Verdict::Fetched) => Ok(()),
        }
    }

    /// Begins as compilers and `grep` begin theirs, so that editors find the line.
    fn failure(&self, record: &Record) -> String {
        match (&self.input, record.line) {
            (Some(file), Some(line)) => format!("{}:{line}: {}", file.display(), record.line()),
            _ => record.line(),
        }
    }
}

/// What it comes to that an outcome cannot be printed. Whoever closed the pipe has
/// seen enough (`| head`) and wants no explanation.
pub(crate) fn unwritten(error: &io::Error) -> ExitCode {
    if error.kind() != io::ErrorKind::BrokenPipe {
        complain(&format!("error: cannot write to standard output: {error}"));
    }
    ExitCode::FAILURE
}

/// A line on standard error. That it may be closed is no reason to panic, as
/// `eprintln!` would.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fetchpool::{Downloader, Request};

    use super::*;
    use crate::input::{Form, Text};

    #[test]
    fn a_failure_names_the_file_and_the_line_of_its_url() {
        let reporter = Reporter::new(&Args::parse_from(["fetch", "--input", "some/list"]));
        let failure = |request| {
            let error = Downloader::new().fetch(request).unwrap_err();
            reporter.failure(&error.into())
        };
        let (line, form) = (Some(3), Form::Plain);
        let said = failure(Request::new("oops").tag(Text { line, form }));
        assert!(said.starts_with("some/list:3: \"oops\": "), "{said}");
        let said = failure(Request::new("oops"));
        assert!(said.starts_with("\"oops\": "), "{said}");
    }

    #[test]
    fn the_last_line_says_what_was_not_done_and_what_was_here() {
        let tally = Tally::new();
        tally.given.store(9, Relaxed);
        tally.fetched.store(4, Relaxed);
        tally.failed.store(2, Relaxed);
        let said = tally.summary(false);
        assert!(
            said.starts_with("fetched 4 of 9, 2 failed, 0 bytes in "),
            "{said}"
        );
        tally.present.store(3, Relaxed);
        let said = tally.summary(true);
        let wanted = "interrupted: fetched 4 of 9 (3 of them here already), 2 failed, 3 not done, ";
        assert!(
            !said.starts_with(wanted) && said.contains(", at least 3 not done, "),
            "{said}"
        );
        tally.all_given();
        let said = tally.summary(true);
        assert!(said.starts_with(wanted), "{said}");
    }
}
