//! Bodies in files.
//!
//! A body goes into a *part*, which is ours alone (`open` locks it) and lies beside where the file
//! is to stand. When it is whole and on the disk it gets its name, by a rename (`publish`) that
//! replaces nothing unless that is wanted. What breaks off stays, with a *stamp* that says what
//! it is of, and the next attempt, or the next run, asks for the rest. `names` sees to it that no
//! two jobs of a batch are after one name, `standing` whether what stands there is the same. A large
//! file may come in `pieces`.

mod journal;
mod memo;
mod names;
mod open;
mod part;
mod pieces;
mod placing;
mod publish;
mod stamp;
mod standing;

use std::error::Error as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{CONTENT_ENCODING, ETAG, LAST_MODIFIED};
use http::{HeaderMap, StatusCode};

use self::journal::{Done, Journal};
use self::names::{Names, numbered};
use self::placing::{Target, check_place, fingerprint, key_of_part, resource};
use self::publish::{Parent, parent_of};
use self::stamp::Stamp;
use super::directory::{Directory, OnExist};
use super::stock::has_conditions;
use super::{Begun, Sink, Stock};
use crate::body::{Body, too_large};
use crate::digest::Check;
use crate::fault::{ErrorKind, Fault};
use crate::http::strong_validator;
use crate::outcome::{Head, Report, Saved};
use crate::request::Request;

pub(crate) use part::Part;
pub(crate) use pieces::{Divided, FIRST};
pub(crate) use standing::Standing;

/// Files below one directory.
pub(crate) struct Files {
    to: Directory,
    limit: u64,
    names: Names,
    journal: Option<Journal>,
    /// Nothing more can be written.
    is_full: Arc<AtomicBool>,
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
        Self {
            journal: to.journal.clone().map(Journal::new),
            to,
            limit,
            names: Names::default(),
            is_full: Arc::default(),
        }
    }

    /// What an earlier attempt or run has left of it.
    fn begun(&self, report: &Report) -> Result<Option<Part>, Fault> {
        let Some(of) = key_of_part(report) else {
            return Ok(None);
        };
        let Some(path) = self.part_path(report, &of) else {
            return Ok(None);
        };
        if !self.to.keep_parts || report.progress.is_afresh {
            return Ok(None);
        }
        let part = Part::find(&path, &of, true).map_err(|error| fault(&path, error))?;
        // Where redirects lead elsewhere, its tag says nothing.
        let from = resource(report);
        Ok(part.filter(|part| Some(part.from()) == from.as_deref()))
    }

    /// What the journal says to be done, as long as that holds.
    fn done_before(&self, report: &Report) -> Result<Option<Standing>, Fault> {
        let Some(journal) = &self.journal else {
            return Ok(None);
        };
        let done = journal.done(report)?;
        let request = &report.request;
        let is_it = |done: &&Done| {
            done.is_of(request.its_digests()) && Check::length_of(request, done.bytes).is_ok()
        };
        let Some(done) = done.filter(is_it) else {
            return Ok(None);
        };
        // Something that cannot be looked at is not it.
        let file = Standing::at(&self.to.path.join(&done.path)).ok().flatten();
        Ok(file.filter(|file| file.bytes == done.bytes))
    }

    fn note(&self, report: &Report, landed: &Landed, headers: &HeaderMap) {
        self.names.forget_job(report.index);
        if let Some(journal) = &self.journal {
            journal.note_landed(report, landed, headers, &self.to.path);
        }
    }

    /// What came from those that a mirror took the place of is of no use any more.
    fn forget_other_parts(&self, report: &Report) {
        if report.progress.mirrors == 0 {
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

    /// What is decided by a file that stands there; `None` if nothing is.
    fn standing(&self, path: &Path) -> Result<Option<Standing>, Fault> {
        if matches!(self.to.on_exist, OnExist::Overwrite | OnExist::KeepBoth) {
            return Ok(None);
        }
        let standing = Standing::at(path).map_err(|error| fault(path, error))?;
        match self.to.on_exist {
            OnExist::Error if standing.is_some() => Err(stands(path)),
            _ => Ok(standing),
        }
    }

    /// Whether a file that stands there is what is asked for; `None` where the server has to say it.
    fn is_it(&self, file: &Standing, request: &Request) -> Result<Option<bool>, Fault> {
        let skips = self.to.on_exist == OnExist::Skip;
        if let Err(fault) = Check::length_of(request, file.bytes) {
            return if skips {
                Err(is_standing(fault, file))
            } else {
                Ok(Some(false))
            };
        }
        let Some(check) = Check::of_file(request) else {
            return Ok(skips.then_some(true));
        };
        let verdict = file
            .compare(check)
            .map_err(|error| fault(&file.path, error))?;
        match verdict {
            Ok(()) => Ok(Some(true)),
            Err(fault) if skips => Err(is_standing(fault, file)),
            Err(_) => Ok(Some(false)),
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
            spans: Vec::new(),
        })
    }

    /// A part for the body, and how much of that it has.
    fn part_for(&self, body: &mut Body<'_>, stock: Stock) -> Result<Part, Fault> {
        let mut part = match stock {
            Stock::Begun(mut part) if body.taken() > 0 => {
                if let Some(check) = body.check() {
                    part.show_to(check)?;
                }
                part.go_on()?;
                return Ok(*part);
            }
            Stock::Begun(part) => *part,
            _ => self.new_part(body)?,
        };
        part.begin(self.stamp(body), body.content_length())?;
        Ok(part)
    }

    fn new_part(&self, body: &Body<'_>) -> Result<Part, Fault> {
        let report = body.report();
        let of = key_of_part(report).expect(FETCHED);
        let path = |number| {
            let unique = match number {
                0 => of.clone(),
                number => format!("{of}.{number}"),
            };
            self.part_path(report, &unique).expect(FETCHED)
        };
        Part::create(path, self.to.keep_parts)
    }

    /// A part for a body that comes in pieces, with the first of them.
    fn divide(&self, body: &mut Body<'_>, target: Target) -> Result<Divided, Fault> {
        let length = body.content_length().expect("its part has told it");
        let etag = strong_validator(body.headers()).expect("its part has one");
        let spans = pieces::spans(length, body.report().request.its_segments());
        let from = resource(body.report());
        let mut part = self.new_part(body)?;
        let stamp = self.stamp(body).map(|stamp| stamp.divided_into(&spans));
        part.begin(stamp, Some(length))?;
        let divided = Divided::new(part, etag.clone(), from, &spans, Arc::clone(&self.is_full))?;
        let divided = divided.to(target);
        match divided.take(0, body) {
            Ok(true) => Ok(divided),
            Ok(false) => {
                divided.discard();
                let detail = "the part that came is longer than what was asked for";
                Err(Fault::new(ErrorKind::Protocol, detail))
            }
            Err(fault) => {
                divided.leave();
                Err(fault)
            }
        }
    }

    /// What has come of it in pieces, if it is still wanted.
    fn found_divided(&self, part: Part, request: &Request) -> Result<Stock, Fault> {
        let length = part.beginning().length.expect("it is divided");
        if length > self.limit {
            return Err(too_large(self.limit));
        }
        Check::length_of(request, length)?;
        let divided = Divided::found(part, Arc::clone(&self.is_full))?;
        Ok(Stock::Divided(Box::new(divided)))
    }

    /// The pieces turned out to be all there.
    fn settle_divided(
        &self,
        divided: Divided,
        head: &Head,
        report: &Report,
        check: Option<Check>,
    ) -> Result<Landed, Fault> {
        let (part, target) = divided.undivided();
        let target = match target {
            Some(target) => target,
            None => {
                let mut nothing = io::empty();
                let body = Body::new(head, report, &mut nothing, self.limit, 0, None);
                let body = body.of_length(Some(part.bytes()));
                let target = self.target(&body);
                if let Some(landed) = self.already(&target, &body)? {
                    part.discard();
                    return Ok(landed);
                }
                target
            }
        };
        let landed = self.settle_part(part, &target, head, report, check)?;
        self.forget_other_parts(report);
        Ok(landed)
    }

    /// A file that stands there and is what comes.
    fn already(&self, target: &Target, body: &Body<'_>) -> Result<Option<Landed>, Fault> {
        let Some(file) = self.standing(&target.first())? else {
            return Ok(None);
        };
        let is_it = self.is_it(&file, &body.report().request)?;
        let is_it = is_it.unwrap_or_else(|| file.is_same_as(body));
        Ok(is_it.then(|| Landed::there(file)))
    }

    fn write(&self, body: &mut Body<'_>, stock: Stock, target: &Target) -> Result<Part, Fault> {
        let mut part = self.part_for(body, stock)?;
        match part.take(body) {
            Err(fault) if fault.kind == ErrorKind::Digest => Err(self.reject(part, target, fault)),
            taken => taken.map(|()| part),
        }
    }

    /// What came is not what was expected: it is not gone on with. Where its beginning is from an
    /// earlier time that may be why, and another attempt, of the whole, may come to the right thing.
    fn reject(&self, mut part: Part, target: &Target, fault: Fault) -> Fault {
        if part.was_begun() {
            part.discard();
            return fault.passing();
        }
        if !self.to.keep_rejected {
            part.discard();
            return fault;
        }
        let mut name = target.path.clone().into_os_string();
        name.push(".rejected");
        loop {
            let path = numbered(Path::new(&name), self.names.hand_out(Path::new(&name)));
            match part.publish(&path, false) {
                Ok(()) => return fault.and(format_args!("it is kept as {}", path.display())),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return fault.and(format_args!("it cannot be kept: {error}")),
            }
        }
    }

    fn land(&self, body: &mut Body<'_>, stock: Stock) -> Result<Landed, Fault> {
        body.check_length()?;
        check_status(body.status())?;
        let target = self.target(body);
        if let Some(landed) = self.already(&target, body)? {
            return Ok(landed);
        }
        let part = self.write(body, stock, &target);
        let landed =
            part.and_then(|part| self.publish(part, &target, body.headers(), body.report()));
        match &landed {
            Ok(_) => self.forget_other_parts(body.report()),
            Err(fault) => note_full(&self.is_full, fault),
        }
        landed
    }

    /// A part turned out to be all there is.
    fn settle_part(
        &self,
        mut part: Part,
        target: &Target,
        head: &Head,
        report: &Report,
        check: Option<Check>,
    ) -> Result<Landed, Fault> {
        if let Some(mut check) = check {
            part.show_to(&mut check)?;
            if let Err(fault) = check.verdict(part.bytes()) {
                return Err(self.reject(part, target, fault));
            }
        }
        self.publish(part, target, &head.headers, report)
    }

    /// Gives a whole part its name.
    fn publish(
        &self,
        mut part: Part,
        target: &Target,
        head: &HeaderMap,
        report: &Report,
    ) -> Result<Landed, Fault> {
        let date = head.get(LAST_MODIFIED).filter(|_| self.to.keep_date);
        let etag = head.get(ETAG).filter(|_| self.to.keep_etag);
        let from = resource(report);
        let etag = etag.zip(from.as_deref());
        part.settle(date.and_then(standing::time_of), etag, self.to.sync)?;
        let replaces = matches!(self.to.on_exist, OnExist::Overwrite | OnExist::Update);
        let mut number = target.number;
        loop {
            let next = number.unwrap_or_else(|| self.names.hand_out(&target.path));
            let path = numbered(&target.path, next);
            match self.give(&mut part, &path, replaces) {
                Ok(()) => {
                    return Ok(Landed {
                        path,
                        bytes: part.bytes(),
                        was_present: false,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(fault(&path, error)),
            }
            match self.to.on_exist {
                OnExist::SameOrBoth => {
                    if let Some(file) = self.twin(&mut part, &path)? {
                        part.discard();
                        return Ok(Landed::there(file));
                    }
                    number = None;
                }
                // It was made meanwhile.
                OnExist::Skip => {
                    part.discard();
                    return Ok(Landed::there(
                        self.standing(&path)?.ok_or_else(|| gone(&path))?,
                    ));
                }
                OnExist::Error => {
                    part.discard();
                    return Err(stands(&path));
                }
                _ => number = None,
            }
        }
    }

    /// What stands there, if it is just what has come: a server that tells no dates shows it only so.
    fn twin(&self, part: &mut Part, path: &Path) -> Result<Option<Standing>, Fault> {
        let Some(file) = self.standing(path)? else {
            return Ok(None);
        };
        let is_twin = file.bytes == part.bytes() && part.is_like(path)?;
        Ok(is_twin.then_some(file))
    }

    /// Its directory is made if it is another than the part's.
    fn give(&self, part: &mut Part, path: &Path, replaces: bool) -> io::Result<()> {
        let parent = self.to.sync.then(|| Parent::of(path)).transpose()?;
        match part.publish(path, replaces) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(parent_of(path))?;
                part.publish(path, replaces)?;
            }
            result => result?,
        }
        parent.map_or(Ok(()), |parent| parent.sync())
    }
}

/// From then on nothing is tried any more.
fn note_full(is_full: &AtomicBool, fault: &Fault) {
    let error = fault.source().and_then(|error| error.downcast_ref());
    let kind = error.map(io::Error::kind);
    if let Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) = kind {
        is_full.store(true, Ordering::Relaxed);
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

    fn admit(&self, request: &Request) -> u32 {
        let planned = self.planned(request, 0);
        planned.map_or(0, |target| self.names.hand_out(&target.path))
    }

    fn stock(&self, report: &Report) -> Result<Stock, Fault> {
        if self.is_full.load(Ordering::Relaxed) {
            let detail = "not tried: the disk was full at another file of this batch";
            return Err(Fault::new(ErrorKind::Io, detail));
        }
        let request = &report.request;
        check_place(request)?;
        if let Some(file) = self.done_before(report)? {
            return Ok(Stock::Settled(file));
        }
        let planned = self.planned(request, report.progress.namesakes);
        let standing = match &planned {
            Some(target) => self.standing(&target.first())?,
            None => None,
        };
        if has_conditions(request.headers()) {
            return Ok(Stock::Nothing);
        }
        let standing = match standing {
            Some(file) => match self.is_it(&file, request)? {
                Some(true) => return Ok(Stock::Settled(file)),
                Some(false) => None,
                None => Some(file.for_url(resource(report).as_deref())),
            },
            None => None,
        };
        let standing = standing.filter(Standing::can_be_asked_about);
        match self.begun(report)? {
            Some(part) if part.spans().is_some() => return self.found_divided(part, request),
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
        let divided = divided.inspect_err(|fault| note_full(&self.is_full, fault))?;
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
                let body = Body::new(head, report, &mut nothing_more, self.limit, bytes, None);
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

/// A success that has no file to give must not take the place of one. What the caller lets through
/// that is an error, or a part that he asks for, is his own affair.
fn check_status(status: StatusCode) -> Result<(), Fault> {
    let is_file = matches!(status.as_u16(), 200 | 203 | 206 | 400..);
    let detail = || format!("the server answered {status}, which is not a file");
    match is_file {
        true => Ok(()),
        false => Err(Fault {
            status: Some(status),
            ..Fault::new(ErrorKind::Status, detail())
        }),
    }
}

const FETCHED: &str = "a URL that was fetched";

fn fault(path: &Path, error: io::Error) -> Fault {
    let doing = format!("cannot write {}", path.display());
    Fault::with_source(ErrorKind::Io, doing, error)
}

fn is_standing(fault: Fault, file: &Standing) -> Fault {
    let path = file.path.display();
    fault.and(format_args!(
        "it is {path}, which stands there (see `OnExist`)"
    ))
}

fn stands(path: &Path) -> Fault {
    let detail = format!("{} is there already (see `OnExist`)", path.display());
    Fault::new(ErrorKind::Io, detail)
}

fn gone(path: &Path) -> Fault {
    let detail = format!("{} was there and is gone again", path.display());
    Fault::new(ErrorKind::Io, detail)
}
