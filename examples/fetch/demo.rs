//! `--demo`: what budgets are for, shown on hosts of our own.
//!
//! A slow host stands first in the list, as one may in any list that is sorted
//! by host; eight fast hosts and a flaky one come after it. Every figure that is
//! told at the end was measured in the run.

use std::fmt::Write;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fetchpool::{Request, Url};

use crate::Session;
use crate::args::Args;
use crate::origin::{Manner, Origin};
use crate::record::{Record, Verdict};
use crate::report::{self, complain};

const SLOW_FILES: usize = 90;
const PAUSE: Duration = Duration::from_millis(200);
const FAST_HOSTS: usize = 8;
const FAST_FILES: usize = 40;
const FLAKY_FILES: usize = 24;

pub(crate) fn run(args: &Args, session: &Session) -> ExitCode {
    let mut demo = match Demo::start(args) {
        Ok(demo) => demo,
        Err(e) => {
            complain(&format!("error: cannot listen on 127.0.0.1: {e}"));
            return ExitCode::FAILURE;
        }
    };
    session.reporter.say(&demo.introduction());
    let urls = demo.urls();
    if let Err(e) = session.fetch(urls.into_iter().map(Request::from), |record| {
        demo.note(record);
    }) {
        return report::unwritten(&e);
    }
    // Half a run proves nothing.
    if session.interrupt.is_pressed() {
        return ExitCode::FAILURE;
    }
    let lesson = format!("{}\n{}", demo.table(), demo.moral());
    session.reporter.say(&lesson);
    match demo.surprise() {
        None => ExitCode::SUCCESS,
        Some(surprise) => {
            complain(&format!("error: not as expected: {surprise}"));
            ExitCode::FAILURE
        }
    }
}

struct Demo {
    workers: usize,
    per_host: usize,
    slow: Host,
    fast: Vec<Host>,
    flaky: Host,
    start: Instant,
}

/// A host, and what came of its files.
struct Host {
    name: String,
    origin: Origin,
    files: usize,
    failed: usize,
    bytes: u64,
    /// When each outcome came, counted from the start.
    outcomes: Vec<Duration>,
}

impl Demo {
    fn start(args: &Args) -> io::Result<Self> {
        Ok(Self {
            workers: args.workers.get(),
            per_host: args.per_host.get(),
            slow: Host::start("slow".to_owned(), Manner::Slow(PAUSE), SLOW_FILES)?,
            fast: (1..=FAST_HOSTS)
                .map(|n| Host::start(format!("fast-{n}"), Manner::Prompt, FAST_FILES))
                .collect::<Result<_, _>>()?,
            flaky: Host::start("flaky".to_owned(), Manner::Flaky, FLAKY_FILES)?,
            start: Instant::now(),
        })
    }

    /// In the order of the list.
    fn hosts(&self) -> impl Iterator<Item = &Host> {
        [&self.slow]
            .into_iter()
            .chain(&self.fast)
            .chain([&self.flaky])
    }

    fn urls(&self) -> Vec<String> {
        self.hosts()
            .flat_map(|host| (1..=host.files).map(|file| host.origin.url(file)))
            .collect()
    }

    fn note(&mut self, record: &Record) {
        let port = Url::parse(&record.url).ok().and_then(|url| url.port());
        let host = [&mut self.slow]
            .into_iter()
            .chain(&mut self.fast)
            .chain([&mut self.flaky])
            .find(|host| Some(host.origin.port()) == port);
        if let Some(host) = host {
            host.note(record, self.start.elapsed());
        }
    }

    fn introduction(&self) -> String {
        format!(
            "Ten hosts on 127.0.0.1, one a port. In the list the slow one comes first, with\n\
             {SLOW_FILES} files that take it {} s each; then {FAST_HOSTS} fast ones with {FAST_FILES} files each, and a\n\
             flaky one with {FLAKY_FILES}. {} workers, {} connections a host at most.\n",
            PAUSE.as_secs_f64(),
            self.workers,
            self.per_host,
        )
    }

    fn table(&self) -> String {
        let mut table = format!(
            "\n{:<8}{:>6}{:>7}{:>8}{:>12}{:>18}{:>12}",
            "host", "port", "files", "failed", "bytes", "most connections", "done after",
        );
        for host in self.hosts() {
            let most = format!("{} of {}", host.origin.most_connections(), self.per_host);
            let _ = write!(
                table,
                "\n{:<8}{:>6}{:>7}{:>8}{:>12}{most:>18}{:>10.2} s",
                host.name,
                host.origin.port(),
                host.outcomes.len(),
                host.failed,
                host.bytes,
                host.done_after().as_secs_f64(),
            );
        }
        table
    }

    /// What the table shows, in words.
    fn moral(&self) -> String {
        let fast_after = self.fast.iter().map(Host::done_after).max();
        let mut moral = format!(
            "\nThe fast hosts were done after {:.2} s, though the slow one stood first in the\n\
             list: its own files took {:.2} s, {} at a time.\n",
            fast_after.unwrap_or_default().as_secs_f64(),
            self.slow.done_after().as_secs_f64(),
            self.slow.origin.most_connections(),
        );
        if let Some((slow_files, after)) = self.first_fast_file_without_lanes() {
            let _ = write!(
                moral,
                "In a pool whose workers wait for their host's turn, all {} would have stood at\n\
                 the slow host, and the first fast file would have been begun only when {slow_files}\n\
                 slow ones were done: after {:.2} s.\n",
                self.workers,
                after.as_secs_f64(),
            );
        }
        let _ = write!(
            moral,
            "The flaky host spoilt {} answers (503, or cut short) and {} of its files failed; that\n\
             was expected, and does not count as a failure of the demo.",
            self.flaky.origin.spoilt(),
            self.flaky.failed,
        );
        moral
    }

    /// When a pool whose workers take the URLs in order, and wait for a
    /// connection if they must, would have begun the first file of a fast host:
    /// how many slow files would have been done by then, and when they were.
    ///
    /// Each worker that is done with a slow file takes the next URL, so the
    /// first fast one is taken as soon as fewer slow files are left than there
    /// are workers. The slow host is as fast there as here, since it has as many
    /// connections.
    fn first_fast_file_without_lanes(&self) -> Option<(usize, Duration)> {
        if self.workers <= self.per_host {
            return None;
        }
        let slow_files = (SLOW_FILES + 1).checked_sub(self.workers)?;
        let last = slow_files.checked_sub(1)?;
        Some((slow_files, *self.slow.outcomes.get(last)?))
    }

    /// What went otherwise than arranged, if anything did.
    fn surprise(&self) -> Option<String> {
        let spoilt = self.flaky.origin.spoilt();
        if self.flaky.failed > spoilt {
            let failed = self.flaky.failed;
            return Some(format!("{failed} files failed of {spoilt} spoilt answers"));
        }
        self.hosts().find_map(|host| {
            let (name, most) = (&host.name, host.origin.most_connections());
            if host.outcomes.len() != host.files {
                let (got, files) = (host.outcomes.len(), host.files);
                Some(format!("{got} outcomes for the {files} files of {name}"))
            } else if most > self.per_host {
                Some(format!("{name} saw {most} connections at once"))
            } else if host.failed > 0 && name != &self.flaky.name {
                Some(format!("{} files of {name} failed", host.failed))
            } else {
                None
            }
        })
    }
}

impl Host {
    fn start(name: String, manner: Manner, files: usize) -> io::Result<Self> {
        Ok(Self {
            name,
            origin: Origin::start(manner)?,
            files,
            failed: 0,
            bytes: 0,
            outcomes: Vec::with_capacity(files),
        })
    }

    fn note(&mut self, record: &Record, now: Duration) {
        self.outcomes.push(now);
        self.bytes += record.bytes.unwrap_or_default();
        self.failed += usize::from(record.verdict() != Verdict::Fetched);
    }

    fn done_after(&self) -> Duration {
        self.outcomes.last().copied().unwrap_or_default()
    }
}
