//! What is there before anything is asked for, or kept.

use std::io;
use std::path::Path;

use super::journal::{Done, Journal};
use super::memo::Memo;
use super::names::numbered;
use super::placing::{Target, key_of_part};
use super::resource::resource;
use super::{Files, Landed, Part, Standing, fault, stands};
use crate::body::Body;
use crate::digest::Check;
use crate::fault::Fault;
use crate::outcome::{Before, Report};
use crate::request::Request;
use crate::sink::OnExist;
use crate::sink::stock::has_conditions;

/// So many lines of one name may have come or gone since the run before: to look further for each costs
/// more than it saves.
const NEAR: u32 = 100;

impl Files {
    /// What an earlier attempt or run has left of it.
    pub(super) fn begun(&self, report: &Report) -> Result<Option<Part>, Fault> {
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
        Ok(part.filter(|part| Some(part.from()) == resource(report).as_deref()))
    }

    /// What the journal says to be done, as long as that holds. First asked for as the request is let in,
    /// so that requests behind it find the path taken.
    pub(super) fn done_before(
        &self,
        request: &Request,
        before: Before,
    ) -> Result<Option<Standing>, Fault> {
        let Some(journal) = &self.journal else {
            return Ok(None);
        };
        let is_it = |done: &&Done| {
            done.is_of(request.its_digests()) && Check::length_of(request, done.bytes).is_ok()
        };
        let Some(done) = journal.done(request, before.alike)?.filter(is_it) else {
            return Ok(None);
        };
        let path = self.to.path.join(&done.path);
        // Something that cannot be looked at is not it.
        let file = || Standing::at(&path).ok().flatten();
        let file = || file().filter(|file| file.bytes == done.bytes);
        if file().is_none() {
            return Ok(None);
        }
        let own = before.namesakes.and_then(|number| {
            let path = self.planned_path(request)?;
            Some(numbered(&path, number))
        });
        // Where one before it has got the path, that may put its own file there.
        let stays = self.names.settle(&path, own) || !self.to.on_exist.replaces();
        Ok(stays.then(file).flatten())
    }

    /// What is decided by a file that stands there; `None` if nothing is.
    pub(super) fn standing(&self, path: &Path) -> Result<Option<Standing>, Fault> {
        if matches!(self.to.on_exist, OnExist::Overwrite | OnExist::KeepBoth) {
            return Ok(None);
        }
        let standing = Standing::at(path).map_err(|error| fault(path, error))?;
        // Also a link that leads nowhere.
        let is_there = || standing.is_some() || path.symlink_metadata().is_ok();
        match self.to.on_exist {
            OnExist::Error if is_there() => Err(stands(path)),
            OnExist::Skip if standing.is_none() && is_there() => {
                let error = io::Error::other("a link that leads nowhere stands there");
                Err(fault(path, error))
            }
            _ => Ok(standing),
        }
    }

    /// What stands there, as this job may ask about it; `None` if it is known to be another's.
    fn for_job(&self, file: Standing, report: &Report, its: &Memo) -> Option<Standing> {
        let is_anothers =
            |journal: &Journal| journal.is_anothers(&file.path, &self.to.path, report);
        if self.journal.as_ref().is_some_and(is_anothers) {
            return None;
        }
        file.for_job(its)
    }

    /// What there is to ask about: what stands in the job's place, or if that is another's, as after
    /// a run of another list, its own near by.
    pub(super) fn to_ask_about(
        &self,
        file: Standing,
        report: &Report,
        target: &Target,
    ) -> Option<Standing> {
        let its = Memo::of(report, None)?;
        let file = match self.for_job(file, report, &its) {
            None if self.to.on_exist == OnExist::SameOrBoth => {
                self.own_near_by(report, &its, target)?
            }
            file => file?,
        };
        Some(file).filter(Standing::can_be_asked_about)
    }

    fn own_near_by(&self, report: &Report, its: &Memo, target: &Target) -> Option<Standing> {
        let own = target.number?;
        let at = |number| Standing::at(&numbered(&target.path, number)).ok()?;
        let its_own = |file: Standing| {
            let is_own = file.is_of(its);
            is_own.then(|| self.for_job(file, report, its))?
        };
        for distance in 1..=NEAR {
            let (below, above) = (own.checked_sub(distance), own.checked_add(distance));
            let (below, above) = (below.and_then(at), above.and_then(at));
            if below.is_none() && above.is_none() {
                return None;
            }
            if let Some(file) = below.and_then(its_own).or_else(|| above.and_then(its_own)) {
                return Some(file);
            }
        }
        None
    }

    /// Whether a file that stands there is what is asked for; `None` where the server has to say it.
    pub(super) fn is_it(&self, file: &Standing, request: &Request) -> Result<Option<bool>, Fault> {
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

    /// A file that stands there and is what comes.
    pub(super) fn already(
        &self,
        target: &Target,
        body: &Body<'_>,
    ) -> Result<Option<Landed>, Fault> {
        let its = Memo::of(body.report(), None);
        let is_what_comes = |file: &Standing| self.is_what_comes(file, its.as_ref(), body);
        if let Some(first) = target.first() {
            let Some(file) = self.standing(&first)? else {
                return Ok(None);
            };
            if is_what_comes(&file)? {
                return Ok(Some(Landed::there(file)));
            }
        }
        if self.to.on_exist != OnExist::SameOrBoth || body.taken() > 0 {
            return Ok(None);
        }
        let length = body.content_length();
        let may_be = |file: &Standing| length.is_none_or(|length| length == file.bytes);
        let is_it = |file: &Standing| Ok(may_be(file) && is_what_comes(file)?);
        let copy = self.copy_of(&target.path, is_it)?;
        Ok(copy.ok().map(Landed::there))
    }

    fn is_what_comes(
        &self,
        file: &Standing,
        its: Option<&Memo>,
        body: &Body<'_>,
    ) -> Result<bool, Fault> {
        let request = &body.report().request;
        // Of a part that somebody asks for, others are as long and as old.
        let may_be = || {
            let file = its.and_then(|its| self.for_job(file.clone(), body.report(), its));
            !has_conditions(request.headers()) && file.is_some_and(|file| file.is_same_as(body))
        };
        Ok(self.is_it(file, request)?.unwrap_or_else(may_be))
    }

    /// Where both are kept, what comes may stand there with a number, from an earlier run. `Err` is the
    /// first number that is free. Those on the way to it are left to whose they are.
    pub(super) fn copy_of(
        &self,
        path: &Path,
        is_it: impl Fn(&Standing) -> Result<bool, Fault>,
    ) -> Result<Result<Standing, u32>, Fault> {
        let mut number = 0;
        loop {
            number = self.names.next_free(path, number);
            let copy = numbered(path, number);
            match Standing::at(&copy) {
                Ok(Some(file)) if is_it(&file)? && self.names.take(path, number) => {
                    return Ok(Ok(file));
                }
                Ok(Some(_)) => {}
                // A directory, say, or a link that leads nowhere.
                _ if copy.symlink_metadata().is_ok() => {}
                Ok(None) => return Ok(Err(number)),
                Err(error) => return Err(fault(&copy, error)),
            }
            number += 1;
        }
    }
}

fn is_standing(fault: Fault, file: &Standing) -> Fault {
    let path = file.path.display();
    fault.and(format_args!(
        "it is {path}, which stands there (see `OnExist`)"
    ))
}
