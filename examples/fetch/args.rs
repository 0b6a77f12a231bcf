//! The command line: what clap parses, and the checks that clap cannot make.
//!
//! Every complaint is a [`clap::Error`], so that all of them look alike and end
//! with exit status 2.

use std::error::Error as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Parser, ValueEnum};
use fetchpool::{Directory, Downloader, HeaderName, HeaderValue, Layout, OnExist, RetryPolicy};

use crate::checksums::Checksums;

/// Fetch many URLs at once, with a firm limit on the connections to each host.
#[derive(Debug, Parser)]
#[command(name = "fetch", version, after_help = EXIT_STATUS, after_long_help = MORE)]
// A number below zero is a number, and told so, rather than an option that nobody knows.
#[command(allow_negative_numbers = true)]
pub(crate) struct Args {
    /// What to fetch.
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,

    /// Read URLs from FILE, one a line ('-': standard input).
    ///
    /// Blank lines and '#' lines are skipped. A line may be 'URL<TAB>NAME', where NAME is the file's
    /// path below DIR, whatever the layout; where NAME is empty, the URL names the file. It is made
    /// safe: no '..', no root, no name that some system has for itself. It is changed for that, never
    /// refused: 'con' becomes '_con', and '../..', of which nothing is left, 'index.html'.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,

    /// Put the files into DIR, which is made if need be.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,

    /// What to do where a file of the name stands already.
    ///
    /// It is the same where the server says so, by its date, or by length and date. A server that
    /// gives no dates, and a copy that lost them, are fetched again; '--journal' needs no dates.
    #[arg(
        long,
        value_name = "POLICY",
        value_enum,
        default_value = "same-or-both"
    )]
    pub(crate) on_exist: Policy,

    /// Where in DIR: 'flat' by the URL's last segment, 'tree' as host/path.
    ///
    /// The query has no part in it; a port that is named makes it host_PORT/path. A URL that is also
    /// the directory of another (/a and /a/b) needs a NAME in the list.
    #[arg(long, value_name = "LAYOUT", value_enum, default_value = "flat")]
    pub(crate) layout: Shape,

    /// Check files against a list such as SHA256SUMS; what is not in it is not checked.
    ///
    /// An entry is of a file if the NAME, or the host/path of the URL, ends with it (host_PORT/path where
    /// the URL names a port); of several the longest counts. One without a host is of the files of all.
    #[arg(long, value_name = "FILE")]
    pub(crate) checksums: Option<PathBuf>,

    /// Fetch a large file in up to N pieces at a time, if the server can.
    ///
    /// Each counts as a connection to its host. For where one connection does not fill the line.
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    pub(crate) segments: NonZeroUsize,

    /// Note in FILE what is done, and go on from there in the next run.
    ///
    /// What is done is not asked for, whatever '--on-exist' says, as long as the file is there. What
    /// failed is tried again.
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,

    /// Do not wait for the disk: faster, but a power cut may leave a file that is not whole.
    #[arg(long)]
    pub(crate) no_sync: bool,

    /// Read the bodies, keep nothing: no file is written.
    #[arg(long, conflicts_with_all = ["journal", "segments"])]
    pub(crate) discard: bool,

    /// Connections to one host at a time.
    #[arg(long, value_name = "N", default_value = "6", value_parser = count)]
    pub(crate) per_host: NonZeroUsize,

    /// Threads, hence downloads under way at a time.
    #[arg(long, value_name = "N", default_value = "32", value_parser = count)]
    pub(crate) workers: NonZeroUsize,

    /// Try again so often what may pass: a busy server, a cut, a time limit.
    #[arg(long, value_name = "N", default_value = "3", value_parser = retries)]
    pub(crate) retries: u32,

    /// Give up a URL after S seconds in all: waiting, redirects, retries and the body.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,

    /// Give up connecting after S seconds.
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub(crate) connect_timeout: Duration,

    /// Give up when nothing has come for S seconds.
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    pub(crate) idle_timeout: Duration,

    /// Refuse bodies larger than this; k, M and G stand for powers of 1024.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) max_size: Option<u64>,

    /// Send this header with every request (may be repeated).
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,

    /// Introduce ourselves to servers as TEXT.
    #[arg(long, value_name = "TEXT", value_parser = header_text)]
    pub(crate) user_agent: Option<String>,

    /// Trust the certificates in this PEM file besides the usual roots.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_cert: Option<PathBuf>,

    /// Print one JSON line an outcome on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,

    /// Name on standard output what was fetched, not only what failed.
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) verbose: bool,

    /// Show no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Fetch from ten small hosts within this process instead, and tell what happened.
    #[arg(long, conflicts_with_all = ["urls", "input", "output", "max_size", "checksums", "journal"])]
    pub(crate) demo: bool,

    #[command(flatten)]
    not_yet: NotYet,
}

/// Options of the design that wait for their machinery in the library.
///
/// Parsed, so that the answer is a reason rather than "unexpected argument";
/// refused, because an option that is silently ignored is a lie.
#[derive(Debug, clap::Args)]
struct NotYet {
    #[arg(long, value_name = "URL", hide = true)]
    proxy: Vec<String>,
    #[arg(long, value_name = "N", hide = true)]
    per_proxy: Option<String>,
}

const EXIT_STATUS: &str = "\
Exit status: 0 all fetched, 1 some failed, 2 bad usage, 130 interrupted.
The last line on standard error always sums up.";

const MORE: &str = "\
Exit status: 0 all fetched, 1 some failed, 2 bad usage, 130 interrupted.
The last line on standard error always sums up.

With --json, a line an outcome, each with all of these keys, null where nothing is known:
  url           what was asked for, without secrets
  final_url     what answered, after redirects
  line          its line in the input file
  ok            whether it was fetched, or is here already
  status        of the response
  bytes         of the body
  path          of the file
  present       the file stood here already and was left as it is
  attempts      how often it was tried; refusals by the breaker of its host count as well
  resumed_from  so many bytes were here before, from an attempt or a run that broke off
  error         invalid-url dns connect proxy tls timeout status redirect truncated protocol
                too-large digest io cancelled panicked
  message       the same for people
  ms            milliseconds in each phase: queued resolve connect tls first_byte body";

/// Where bodies go.
#[derive(Debug)]
pub(crate) enum Sink {
    Nowhere,
    Directory(Directory),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Policy {
    /// Not fetched if the server shows that it is the same, else both are kept
    SameOrBoth,
    /// Not fetched; with '--checksums', an error if it is another
    Skip,
    /// The new one takes its place
    Overwrite,
    /// Not fetched if it is the same, else the new one takes its place
    Update,
    /// Both are kept
    KeepBoth,
    /// It is an error
    Error,
}

impl From<Policy> for OnExist {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::SameOrBoth => Self::SameOrBoth,
            Policy::Skip => Self::Skip,
            Policy::Overwrite => Self::Overwrite,
            Policy::Update => Self::Update,
            Policy::KeepBoth => Self::KeepBoth,
            Policy::Error => Self::Error,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shape {
    Flat,
    Tree,
}

impl From<Shape> for Layout {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::Flat => Self::Flat,
            Shape::Tree => Self::Tree,
        }
    }
}

impl Args {
    /// What clap could not know to be wrong.
    pub(crate) fn check(&self) -> Result<(), clap::Error> {
        self.not_yet.refuse()?;
        if self.urls.is_empty() && self.input.is_none() && !self.demo {
            return Err(usage(
                "there is no URL to fetch: give some as arguments, or a file of them with \
                 '--input FILE', or try '--demo'",
            ));
        }
        Ok(())
    }

    /// The downloader that these options describe.
    pub(crate) fn downloader(&self) -> Result<Downloader, clap::Error> {
        let mut builder = Downloader::builder()
            .workers(self.workers.get())
            .per_host(self.per_host)
            .retry(RetryPolicy::new().retries(self.retries))
            .timeout(self.timeout)
            .connect_timeout(self.connect_timeout)
            .idle_timeout(self.idle_timeout)
            .max_file(self.max_size);
        for (name, value) in &self.headers {
            builder = builder.header(name.clone(), value.clone());
        }
        if let Some(text) = &self.user_agent {
            builder = builder.user_agent(text);
        }
        if let Some(file) = &self.ca_cert {
            builder = builder.add_root_pem(read_ca_cert(file)?);
        }
        builder.build().map_err(|e| match &self.ca_cert {
            Some(file) if e.kind() == fetchpool::ErrorKind::Tls => usage(format!(
                "{}: {e}; '--ca-cert' wants a PEM file",
                file.display()
            )),
            _ => usage(format!("cannot begin with these options: {e}")),
        })
    }

    /// Where the bodies go; a directory is made if it is not there. A journal that cannot be had is
    /// one complaint here, and not one of each URL.
    pub(crate) fn sink(&self) -> Result<Sink, clap::Error> {
        if self.discard || self.demo {
            return Ok(Sink::Nowhere);
        }
        let directory = self.directory();
        match directory.check() {
            Ok(()) => Ok(Sink::Directory(directory)),
            // Of the journal it is said what to do.
            Err(e) if e.source().is_none() => Err(usage(e)),
            Err(e) => Err(usage(format!("{e}; name another one with '--output DIR'"))),
        }
    }
}

impl Args {
    fn directory(&self) -> Directory {
        let directory = Directory::new(&self.output)
            .on_exist(self.on_exist.into())
            .layout(self.layout.into())
            .sync(!self.no_sync);
        // No server is to write what the next run believes.
        let lists = [&self.input, &self.checksums, &self.ca_cert];
        let lists = lists.into_iter().flatten();
        let directory = lists.fold(directory, |directory, list| directory.spare(list));
        match &self.journal {
            Some(file) => directory.journal(file),
            None => directory,
        }
    }

    /// The list of checksums, if there is one.
    pub(crate) fn checksums(&self) -> Result<Option<Checksums>, clap::Error> {
        self.checksums.as_deref().map(Checksums::read).transpose()
    }
}

impl NotYet {
    fn refuse(&self) -> Result<(), clap::Error> {
        // Destructured, so that a new option cannot be forgotten here.
        let Self { proxy, per_proxy } = self;
        let given = [
            ("--proxy", !proxy.is_empty(), "all connections are direct"),
            (
                "--per-proxy",
                per_proxy.is_some(),
                "all connections are direct",
            ),
        ];
        match given.iter().find(|(_, is_given, _)| *is_given) {
            None => Ok(()),
            Some((option, _, instead)) => Err(usage(format!(
                "'{option}' is not implemented yet ({instead}): leave it out"
            ))),
        }
    }
}

/// A complaint about the command line, for exit status 2.
pub(crate) fn usage(message: impl std::fmt::Display) -> clap::Error {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{message}\n"))
}

fn read_ca_cert(file: &Path) -> Result<Vec<u8>, clap::Error> {
    fs::read(file).map_err(|e| {
        usage(format!(
            "cannot read the certificates in {}: {e}; '--ca-cert' wants a PEM file",
            file.display()
        ))
    })
}

fn retries(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "give a whole number, 0 or more".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((end, 'k' | 'K')) => (&text[..end], 10),
        Some((end, 'm' | 'M')) => (&text[..end], 20),
        Some((end, 'g' | 'G')) => (&text[..end], 30),
        _ => (text, 0),
    };
    let bytes = digits
        .parse()
        .ok()
        .and_then(|n: u64| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| "give a whole number of bytes, such as 5000000, 500k or 2G".to_owned())
}

fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "give a whole number, 1 or more".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "give a number of seconds greater than 0, such as 2.5".to_owned())
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("write it as 'Name: value', with a colon")?;
    let name = name
        .trim()
        .parse()
        .map_err(|_| format!("'{name}' cannot be a header's name"))?;
    let value = value
        .trim()
        .parse()
        .map_err(|_| "its value has characters that no header may have".to_owned())?;
    Ok((name, value))
}

fn header_text(text: &str) -> Result<String, String> {
    match HeaderValue::from_str(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("it has characters that no header may have".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(arguments: &[&str]) -> String {
        let all = ["fetch", "http://h/"].iter().chain(arguments);
        let args = Args::try_parse_from(all);
        args.and_then(|args| args.downloader().map(drop))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_number_that_is_none_is_told_what_is_wanted() {
        for (arguments, wanted) in [
            (["--retries", "-1"], "whole number, 0 or more"),
            (["--retries", "1.5"], "whole number, 0 or more"),
            (["--per-host", "0"], "whole number, 1 or more"),
            (["--workers", "-3"], "whole number, 1 or more"),
            (["--timeout", "-1"], "number of seconds greater than 0"),
            (["--timeout", "soon"], "number of seconds greater than 0"),
            (["--max-size", "10x"], "whole number of bytes, such as"),
            (["--max-size", "-1"], "whole number of bytes, such as"),
            (
                ["--max-size", "99999999999G"],
                "whole number of bytes, such as",
            ),
            (["--max-size", "k"], "whole number of bytes, such as"),
        ] {
            let complaint = complaint(&arguments);
            assert!(
                complaint.contains(wanted) && complaint.contains(arguments[0]),
                "{complaint}"
            );
        }
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        for arguments in [["--journal", "j"], ["--segments", "2"]] {
            let complaint = complaint(&[&["--discard"], &arguments[..]].concat());
            let wanted = format!("'--discard' cannot be used with '{}", arguments[0]);
            assert!(complaint.contains(&wanted), "{complaint}");
        }
    }

    #[test]
    fn a_directory_or_a_journal_that_cannot_be_had_is_told_once() {
        let file = std::env::temp_dir().join(format!("fetch-args-{}", std::process::id()));
        fs::write(&file, "my notes\n").unwrap();
        let (here, notes) = (std::env::temp_dir(), file.display());
        let below = file.join("journal");
        let (of_none, of_below) = (
            format!("cannot use the journal {notes}: it is not a journal"),
            format!("cannot use the journal {}: ", below.display()),
        );
        let of_output = format!("cannot make the directory {notes}: ");
        for (output, journal, wanted) in [
            (&here, &file, of_none),
            (&here, &below, of_below),
            (&file, &below, of_output),
        ] {
            let (output, journal) = (output.to_str().unwrap(), journal.to_str().unwrap());
            let args = [
                "fetch",
                "http://h/",
                "--output",
                output,
                "--journal",
                journal,
            ];
            let said = Args::parse_from(args).sink().unwrap_err().to_string();
            assert!(said.contains(&wanted), "{said}");
            assert!(said.contains("name another"), "{said}");
        }
        assert_eq!(fs::read(&file).unwrap(), b"my notes\n");
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn sizes_are_as_people_write_them() {
        for (text, size) in [("0", 0), ("10k", 10_240), ("2M", 2 << 20), ("3G", 3 << 30)] {
            assert_eq!(bytes(text), Ok(size));
        }
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let complaint = complaint(&["--ca-cert", file!()]);
        assert!(
            complaint.contains(file!()) && complaint.contains("PEM"),
            "{complaint}"
        );
        let complaint = super::tests::complaint(&["--ca-cert", "/none/there"]);
        assert!(complaint.contains("/none/there: "), "{complaint}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
