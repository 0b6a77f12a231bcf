//! Bodies in files.
//!
//! `placing` says where a file is to stand, `names` sees to it that no two jobs of a batch are after one
//! name. Then comes what there is already: `before` anything is asked for a file may be `standing`
//! there, of which a `memo` and the `journal` of an earlier run know more, or a *part*.
//!
//! A body goes into a *part*, which is ours alone (`open` locks it) and lies beside where the file
//! is to stand. When it is whole and on the disk it gets its name (`landing`), by a rename (`publish`)
//! that replaces nothing unless that is wanted. What breaks off stays, with a *stamp* that says what
//! it is of, and the next attempt, or the next run, asks for the rest. A large file may come in `pieces`,
//! for which its part is divided (`dividing`).

mod before;
mod dividing;
mod full;
mod journal;
mod landing;
mod memo;
mod names;
mod open;
mod part;
mod pieces;
mod placing;
mod publish;
mod resource;
mod stamp;
mod standing;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::header::{CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, LAST_MODIFIED};
use http::{HeaderMap, StatusCode};

use self::full::Full;
use self::journal::Journal;
use self::names::Names;
use self::placing::{Target, check_place, key_of_part};
use self::resource::{fingerprint, resource};
use self::stamp::Stamp;
use super::directory::Directory;
use super::stock::has_conditions;
use super::{Begun, Sink, Stock};
use crate::body::Body;
use crate::digest::Check;
use crate::fault::{ErrorKind, Fault};
use crate::http::strong_validator;
use crate::outcome::{Before, Head, Report, Saved};
use crate::request::Request;

pub(super) use journal::check as check_journal;
pub(crate) use part::Part;
pub(crate) use pieces::{Divided, FIRST};
pub(crate) use standing::Standing;

/// Files below one directory.
pub(crate) struct Files {
    to: Directory,
    limit: u64,
    names: Names,
    journal: Option<Journal>,
    full: Arc<Full>,
}

/// A file that is whole.
pub(crate) struct Landed {
    path: PathBuf,
    bytes: u64,
    /// It stood there before.
    was_present: bool,
}

impl Files {
    pub(crate) fn new(to: Directory, limit: u64) -> Self {
        let names = Names::new(&to.path);
        for path in to.spared.iter().chain(&to.journal) {
            names.spare(path);
        }
        Self {
            journal: to.journal.clone().map(Journal::new),
            to,
            limit,
            names,
            full: Arc::default(),
        }
    }

    fn note(&self, report: &Report, landed: &Landed, headers: &HeaderMap) {
        self.names.forget_job(report.index);
        if let Some(journal) = &self.journal {
            journal.note_landed(report, landed, headers, &self.to.path);
        }
    }

    /// What came from the other mirrors, now or in an earlier run, is of no use any more.
    fn forget_other_parts(&self, report: &Report) {
        if report.request.mirrors().next().is_none() {
            return;
        }
        for url in report
            .request
            .url()
            .into_iter()
            .chain(report.request.mirrors())
        {
            let of = fingerprint(url);
            if let Some(path) = self.part_path(report, &of) {
                // Not to be kept: so it goes as it is dropped.
                let _ = Part::find(&path, &of, false);
            }
        }
    }

    fn stamp(&self, body: &Body<'_>) -> Option<Stamp> {
        let length = body.content_length();
        let is_small = length.is_some_and(|length| length < part::WORTH_KEEPING);
        if body.status() != StatusCode::OK && !body.is_first_part()
            || is_small
            || !self.to.keep_parts
            || body.headers().contains_key(CONTENT_ENCODING)
            || has_conditions(body.report().request.headers())
        {
            return None;
        }
        Some(Stamp {
            of: key_of_part(body.report())?,
            from: resource(body.report())?,
            url: body.report().shown_url(),
            etag: strong_validator(body.headers())?.clone(),
            length,
            disposition: body.headers().get(CONTENT_DISPOSITION).cloned(),
            modified: body.headers().get(LAST_MODIFIED).cloned(),
            content_type: body.headers().get(CONTENT_TYPE).cloned(),
            spans: Vec::new(),
        })
    }
}

impl Landed {
    fn there(file: Standing) -> Self {
        Self {
            path: file.path,
            bytes: file.bytes,
            was_present: true,
        }
    }
}

impl Sink for Files {
    type Part = Landed;
    type Item = Saved;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn admit(&self, request: &Request) -> Before {
        let journal = self.journal.as_ref();
        let mut before = Before {
            namesakes: None,
            alike: journal.map_or(0, |journal| journal.count(request)),
        };
        // What is wrong with the journal is told in its turn.
        if let Ok(None) | Err(_) = self.done_before(request, before) {
            let path = self.planned_path(request);
            before.namesakes = path.map(|path| self.names.hand_out(&path));
        }
        before
    }

    fn stock(&self, report: &Report) -> Result<Stock, Fault> {
        let request = &report.request;
        check_place(request)?;
        self.full.check(|| self.place_of_part(report))?;
        if let Some(file) = self.done_before(request, report.progress.before)? {
            return Ok(Stock::Settled(file));
        }
        let planned = self.planned(report);
        let standing = match planned.as_ref().and_then(Target::first) {
            Some(path) => self.standing(&path)?,
            None => None,
        };
        if has_conditions(request.headers()) {
            return Ok(Stock::Nothing);
        }
        let standing = match standing {
            Some(file) => match self.is_it(&file, request)? {
                Some(true) => return Ok(Stock::Settled(file)),
                Some(false) => None,
                None => planned.and_then(|target| self.to_ask_about(file, report, &target)),
            },
            None => None,
        };
        let is_wanted = |part: &Part| part.spans().is_none() || self.is_wanted(part, request);
        match self.begun(report)?.filter(is_wanted) {
            Some(part) if part.spans().is_some() => return self.found_divided(part),
            Some(part) => return Ok(Stock::Begun(Box::new(part))),
            None if report.progress.is_afresh => return Ok(Stock::Nothing),
            None if request.its_segments() > 1 && !report.progress.is_in_one_stream => {
                return Ok(Stock::First(standing));
            }
            None => {}
        }
        Ok(standing.map_or(Stock::Nothing, Stock::Standing))
    }

    fn receive(&self, mut body: Body<'_>, stock: Stock) -> Result<Landed, Fault> {
        let landed = self.land(&mut body, stock)?;
        self.note(body.report(), &landed, body.headers());
        Ok(landed)
    }

    fn close(&self) {
        if let Some(journal) = &self.journal {
            journal.close();
        }
    }

    fn begin(&self, mut body: Body<'_>) -> Result<Begun<Landed>, Fault> {
        body.check_length()?;
        let target = self.target(&body);
        if let Some(landed) = self.already(&target, &body)? {
            self.note(body.report(), &landed, body.headers());
            return Ok(Begun::All(landed));
        }
        body.check_later();
        let divided = self.divide(&mut body, target);
        let divided = divided.inspect_err(|fault| self.note_full(body.report(), fault))?;
        Ok(Begun::First(Box::new(divided)))
    }

    fn settle(
        &self,
        stock: Stock,
        head: Option<&Head>,
        report: &Report,
        check: Option<Check>,
    ) -> Result<Landed, Fault> {
        let landed = match stock {
            Stock::Begun(part) => {
                let head = head.expect("a part is asked about");
                let bytes = part.bytes();
                let mut nothing_more = io::empty();
                let body = Body::new(head, report, &mut nothing_more, self.limit, 0, None);
                let body = body.of_length(Some(bytes));
                self.settle_part(*part, &self.target(&body), head, report, check)?
            }
            Stock::Divided(divided) => {
                let head = head.expect("a piece came with it");
                self.settle_divided(*divided, head, report, check)?
            }
            Stock::Standing(file) | Stock::Settled(file) | Stock::First(Some(file)) => {
                Landed::there(file)
            }
            Stock::Nothing | Stock::First(None) => unreachable!("nothing is never all"),
        };
        let none = HeaderMap::new();
        self.note(report, &landed, head.map_or(&none, |head| &head.headers));
        Ok(landed)
    }

    fn failed(&self, report: &Report, fault: &Fault) {
        self.names.forget_job(report.index);
        if let Some(journal) = &self.journal {
            if fault.kind != ErrorKind::Cancelled {
                journal.note_failed(report, fault);
            }
        }
    }

    fn item(landed: Landed, head: Option<Head>, report: Report) -> Saved {
        let Landed {
            path,
            bytes,
            was_present,
        } = landed;
        Saved {
            report,
            head,
            path,
            bytes,
            was_present,
        }
    }
}

fn fault(path: &Path, error: io::Error) -> Fault {
    let doing = format!("cannot write {}", path.display());
    Fault::with_source(ErrorKind::Io, doing, error)
}

fn stands(path: &Path) -> Fault {
    let detail = format!("{} is there already (see `OnExist`)", path.display());
    Fault::new(ErrorKind::Io, detail)
}
