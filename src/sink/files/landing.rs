//! A body becomes a file: its bytes, and then its name.

use std::fs;
use std::io;
use std::path::Path;

use http::header::{ETAG, LAST_MODIFIED};
use http::{HeaderMap, StatusCode};

use super::memo::Memo;
use super::names::numbered;
use super::placing::{Target, key_of_part};
use super::publish::{Parent, parent_of};
use super::{Files, Landed, Part, Standing, fault, standing, stands};
use crate::body::Body;
use crate::digest::Check;
use crate::fault::{ErrorKind, Fault};
use crate::outcome::{Head, Report};
use crate::sink::{OnExist, Stock};

impl Files {
    /// A part for the body, and how much of that it has.
    pub(super) fn part_for(&self, body: &mut Body<'_>, stock: Stock) -> Result<Part, Fault> {
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

    pub(super) fn new_part(&self, body: &Body<'_>) -> Result<Part, Fault> {
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

    pub(super) fn write(
        &self,
        body: &mut Body<'_>,
        stock: Stock,
        target: &Target,
    ) -> Result<Part, Fault> {
        let mut part = self.part_for(body, stock)?;
        match part.take(body) {
            Err(fault) if fault.kind == ErrorKind::Digest => Err(self.reject(part, target, fault)),
            taken => taken.map(|()| part),
        }
    }

    /// What came is not what was expected: it is not gone on with. Where its beginning is from an
    /// earlier time that may be why, and another attempt, of the whole, may come to the right thing.
    pub(super) fn reject(&self, mut part: Part, target: &Target, fault: Fault) -> Fault {
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
            match self.give(&mut part, &path, false) {
                Ok(()) => return fault.and(format_args!("it is kept as {}", path.display())),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return fault.and(format_args!("it cannot be kept: {error}")),
            }
        }
    }

    pub(super) fn land(&self, body: &mut Body<'_>, stock: Stock) -> Result<Landed, Fault> {
        body.check_length()?;
        check_status(body.status())?;
        let target = self.target(body);
        if let Some(landed) = self.already(&target, body)? {
            if let Stock::Begun(part) = stock {
                part.discard();
            }
            return Ok(landed);
        }
        let part = self.write(body, stock, &target);
        let landed =
            part.and_then(|part| self.publish(part, &target, body.headers(), body.report()));
        match &landed {
            Ok(_) => self.forget_other_parts(body.report()),
            Err(fault) => self.note_full(body.report(), fault),
        }
        landed
    }

    /// A part turned out to be all there is.
    pub(super) fn settle_part(
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
    pub(super) fn publish(
        &self,
        mut part: Part,
        target: &Target,
        head: &HeaderMap,
        report: &Report,
    ) -> Result<Landed, Fault> {
        let date = head.get(LAST_MODIFIED).filter(|_| self.to.keep_date);
        let etag = head.get(ETAG).filter(|_| self.to.keep_etag);
        let memo = Memo::of(report, etag);
        let date = date.and_then(standing::time_of);
        part.settle(date, memo.as_ref(), self.to.sync)?;
        let replaces = self.to.on_exist.replaces();
        let present = |part: Part, file: Standing| {
            // By which it is known in the next run, without its bytes.
            file.is_now_of(date, memo.as_ref());
            part.discard();
            Landed::there(file)
        };
        let mut number = target.number;
        loop {
            let path = match number {
                Some(number) => numbered(&target.path, number),
                None => match self.twin_or_free(&part, &target.path)? {
                    Ok(file) => return Ok(present(part, file)),
                    Err(free) => numbered(&target.path, free),
                },
            };
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
                    if let Some(file) = self.standing(&path)? {
                        if is_twin(&part, &file)? {
                            return Ok(present(part, file));
                        }
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
                _ => number = Some(self.names.hand_out(&target.path)),
            }
        }
    }

    /// What stands there from an earlier run, with whatever number, if it is just what has come: a server
    /// that tells no dates shows it only so. Or else a number that is ours now.
    fn twin_or_free(&self, part: &Part, path: &Path) -> Result<Result<Standing, u32>, Fault> {
        loop {
            match self.copy_of(path, |file| is_twin(part, file))? {
                Err(free) if !self.names.take(path, free) => {}
                found => return Ok(found),
            }
        }
    }

    /// Its directory is made if it is another than the part's.
    pub(super) fn give(&self, part: &mut Part, path: &Path, replaces: bool) -> io::Result<()> {
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

fn is_twin(part: &Part, file: &Standing) -> Result<bool, Fault> {
    Ok(file.bytes == part.bytes() && part.is_like(&file.path)?)
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

fn gone(path: &Path) -> Fault {
    let detail = format!("{} was there and is gone again", path.display());
    Fault::new(ErrorKind::Io, detail)
}

const FETCHED: &str = "a URL that was fetched";
