//! What became of one URL, in the forms in which it is shown.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fetchpool::{Body, Error, ErrorKind, Report, Saved, Timings};
use serde_json::json;

use crate::input::Text;
use crate::words;

/// One outcome, success or failure, with the secrets of its URLs removed.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) url: String,
    pub(crate) bytes: Option<u64>,
    final_url: Option<String>,
    status: Option<u16>,
    path: Option<PathBuf>,
    /// The file stood there already.
    pub(crate) present: bool,
    pub(crate) line: Option<u64>,
    attempts: Option<u32>,
    resumed_from: Option<u64>,
    failure: Option<Failure>,
    phases: Option<Phases>,
}

#[derive(Debug)]
struct Failure {
    kind: ErrorKind,
    message: String,
}

/// How an outcome counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fetched,
    Failed,
    /// Neither: it was we who did not let it end.
    Cancelled,
}

impl Record {
    /// Reads a body to its end and forgets it.
    pub(crate) fn discard(mut body: Body<'_>) -> io::Result<Self> {
        let start = Instant::now();
        let bytes = io::copy(&mut body, &mut io::sink())?;
        let mut phases = phases(body.report().timings());
        // The report dates from when the headers came; the body came since.
        phases[BODY] = start.elapsed();
        Ok(Self {
            bytes: Some(bytes),
            final_url: Some(body.shown_url()),
            status: Some(body.status().as_u16()),
            phases: Some(phases),
            ..Self::begin(body.report())
        })
    }

    /// What the report of a success says.
    fn begin(report: &Report) -> Self {
        Self {
            url: report.shown_url(),
            bytes: None,
            final_url: None,
            status: None,
            path: None,
            present: false,
            line: line(report),
            attempts: Some(report.attempts()),
            resumed_from: report.resumed_from(),
            failure: None,
            phases: Some(phases(report.timings())),
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match &self.failure {
            None => Verdict::Fetched,
            Some(failure) if failure.kind == ErrorKind::Cancelled => Verdict::Cancelled,
            Some(_) => Verdict::Failed,
        }
    }

    /// The line for people.
    pub(crate) fn line(&self) -> String {
        let bytes = self.bytes.unwrap_or_default();
        match (&self.failure, &self.path) {
            (Some(failure), _) => failure.message.clone(),
            (None, Some(path)) if self.present => {
                format!("{} is here already as {}", self.url, path.display())
            }
            (None, Some(path)) => format!("{} -> {} ({bytes} bytes)", self.url, path.display()),
            (None, None) => format!("{} ({bytes} bytes)", self.url),
        }
    }

    /// The line for programs: every key on every line, null where nothing is known.
    pub(crate) fn json(&self) -> String {
        let path = self.path.as_ref().map(|path| path.to_string_lossy());
        let error = self.failure.as_ref().map(|failure| failure.kind.as_str());
        let message = self.failure.as_ref().map(|failure| &failure.message);
        object(&[
            ("url", json!(self.url).to_string()),
            ("final_url", json!(self.final_url).to_string()),
            ("line", json!(self.line).to_string()),
            ("ok", json!(self.failure.is_none()).to_string()),
            ("status", json!(self.status).to_string()),
            ("bytes", json!(self.bytes).to_string()),
            ("path", json!(path).to_string()),
            ("present", json!(self.present).to_string()),
            ("attempts", json!(self.attempts).to_string()),
            ("resumed_from", json!(self.resumed_from).to_string()),
            ("error", json!(error).to_string()),
            ("message", json!(message).to_string()),
            ("ms", phases_json(self.phases)),
        ])
    }
}

impl From<Saved> for Record {
    fn from(saved: Saved) -> Self {
        Self {
            bytes: Some(saved.bytes()),
            final_url: Some(saved.shown_url()),
            status: saved.status().map(|status| status.as_u16()),
            path: Some(saved.path().to_owned()),
            present: saved.was_present(),
            ..Self::begin(saved.report())
        }
    }
}

impl From<Error> for Record {
    fn from(error: Error) -> Self {
        let report = error.report();
        // What answered; without an answer, how far the redirects led.
        let final_url = report.and_then(|report| match report.redirects().last() {
            Some(last_hop) => Some(report.shown(last_hop)),
            None => error.status().map(|_| report.shown_url()),
        });
        Self {
            url: error.url().unwrap_or_default().to_owned(),
            bytes: None,
            final_url,
            status: error.status().map(|status| status.as_u16()),
            path: None,
            present: false,
            line: report.and_then(line),
            attempts: report.map(Report::attempts),
            resumed_from: report.and_then(Report::resumed_from),
            phases: report.map(|report| phases(report.timings())),
            failure: Some(Failure {
                kind: error.kind(),
                message: words::of(&error),
            }),
        }
    }
}

/// Where the request stood in the input file.
fn line(report: &Report) -> Option<u64> {
    report.request().tag_ref::<Text>()?.line
}

/// The time that each of [`PHASES`] took.
type Phases = [Duration; 6];

const PHASES: [&str; 6] = ["queued", "resolve", "connect", "tls", "first_byte", "body"];
const BODY: usize = 5;

fn phases(timings: &Timings) -> Phases {
    [
        timings.queued(),
        timings.resolve(),
        timings.connect(),
        timings.tls(),
        timings.first_byte(),
        timings.body(),
    ]
}

fn phases_json(phases: Option<Phases>) -> String {
    let fields: [_; 6] = std::array::from_fn(|i| {
        let ms = phases.map(|phases| milliseconds(phases[i]));
        (PHASES[i], json!(ms).to_string())
    });
    object(&fields)
}

/// To a tenth: what a network does varies by more.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

/// A JSON object of ready-made values. Its keys keep their order, so that the
/// line reads like the documentation; `serde_json` would sort them.
fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<_> = fields
        .iter()
        .map(|(key, value)| format!("\"{key}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Args;

    #[test]
    fn every_field_of_a_json_line_is_explained() {
        let error = fetchpool::Downloader::new().fetch("nothing").unwrap_err();
        let line: serde_json::Value = serde_json::from_str(&Record::from(error).json()).unwrap();
        let help = Args::command().render_long_help().to_string();
        let readme = include_str!("../../README.md");
        for field in line.as_object().unwrap().keys() {
            assert!(help.contains(&format!("\n  {field} ")), "{field}: {help}");
            assert!(readme.contains(&format!("`{field}`")), "{field}");
        }
        for phase in PHASES {
            assert!(help.contains(phase), "{phase}: {help}");
            assert!(readme.contains(&format!("`{phase}`")), "{phase}");
        }
    }
}
