//! `fetch`: downloads many URLs, and shows how a command embeds the library.
//!
//! ```text
//! cargo run --release --example fetch -- --demo
//! cargo run --release --example fetch -- -i urls.txt -o downloads
//! ```
//!
//! The way through it: `args` says what is wanted, `input` yields the URLs one
//! by one, the library turns them into outcomes, `record` puts each into the form
//! in which `report` prints it, and `words` says what there is to do about a failure.
//! `interrupt` and `progress` stand beside that way; `demo` and its `origin` take the
//! place of the user's URLs.

mod args;
mod checksums;
mod demo;
mod input;
mod interrupt;
mod origin;
mod progress;
mod record;
mod report;
mod words;

use std::process::ExitCode;
use std::{io, iter};

use clap::Parser;
use fetchpool::{Downloader, Request};

use crate::args::{Args, Sink};
use crate::input::Input;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::record::Record;
use crate::report::{Reporter, complain};

const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    run(&Args::parse()).unwrap_or_else(|complaint| {
        let _ = complaint.print();
        ExitCode::from(BAD_USAGE)
    })
}

fn run(args: &Args) -> Result<ExitCode, clap::Error> {
    // All that can be wrong with the command line comes out before anything is
    // fetched or drawn.
    args.check()?;
    let downloader = args.downloader()?;
    let input = Input::open(args)?;
    let sink = args.sink()?;

    let reporter = Reporter::new(args);
    let interrupt = Interrupt::install(&downloader, reporter.ending())?;
    let session = Session {
        downloader,
        sink,
        reporter,
        interrupt,
    };
    let code = if args.demo {
        demo::run(args, &session)
    } else {
        session.fetch_input(input)
    };
    Ok(session.end(code))
}

/// One run of the command: what every way of running it needs.
struct Session {
    downloader: Downloader,
    sink: Sink,
    reporter: Reporter,
    interrupt: Interrupt,
}

impl Session {
    fn fetch_input(&self, mut input: Input) -> ExitCode {
        if let Err(e) = self.fetch(input.by_ref(), |_| ()) {
            return report::unwritten(&e);
        }
        if input.unlisted() > 0 {
            complain(&format!(
                "{} not in the list of '--checksums', and not checked",
                input.unlisted()
            ));
        }
        match input.error() {
            None => self.reporter.tally().exit_code(),
            Some(e) => {
                complain(&format!("error: cannot read the rest of the input: {e}"));
                ExitCode::from(BAD_USAGE)
            }
        }
    }

    /// Fetches and reports `requests`, which are drawn as there is room for them,
    /// and shows each outcome to `also`.
    fn fetch(
        &self,
        requests: impl Iterator<Item = Request>,
        also: impl FnMut(&Record),
    ) -> io::Result<()> {
        let reporter = &self.reporter;
        let end = iter::from_fn(|| {
            reporter.tally().all_given();
            None
        });
        let requests = requests
            .chain(end)
            // After ^C the rest of a long list would come out as so many
            // cancelled downloads.
            .take_while(|_| !self.interrupt.is_pressed())
            .inspect(|_| reporter.tally().given());
        match &self.sink {
            Sink::Nowhere => {
                reporter.report(self.downloader.fetch_with(requests, Record::discard), also)
            }
            Sink::Directory(directory) => {
                let batch = self.downloader.save_all(requests, directory.clone());
                reporter.report(batch, also)
            }
        }
    }

    fn end(&self, code: ExitCode) -> ExitCode {
        self.reporter.ending().sum_up(self.interrupt.is_pressed());
        if self.interrupt.is_pressed() {
            ExitCode::from(INTERRUPTED)
        } else {
            code
        }
    }
}
