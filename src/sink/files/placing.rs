//! Where a file goes: as its request, its response or its URL has it.

use std::io;
use std::path::{Path, PathBuf};

use url::Url;

use super::Files;
use super::names::numbered;
use super::resource::fingerprint;
use crate::body::Body;
use crate::fault::{ErrorKind, Fault};
use crate::outcome::Report;
use crate::request::{Place, Request};
use crate::sink::directory::{Layout, NameFrom, OnExist};
use crate::sink::name;

/// As much of a name as its part's has.
const LONGEST: usize = 208;

/// Where a file is to stand.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) path: PathBuf,
    /// With which the path is this job's alone, if that is known before it stands there.
    pub(super) number: Option<u32>,
}

impl Target {
    pub(super) fn first(&self) -> Option<PathBuf> {
        self.number.map(|number| numbered(&self.path, number))
    }
}

impl Files {
    /// Where the file goes, if that is known before there is a response.
    pub(super) fn planned_path(&self, request: &Request) -> Option<PathBuf> {
        match request.place() {
            Some(Place::Below(path)) => Some(self.below(path)),
            Some(Place::At(path)) => Some(path.clone()),
            None if self.to.place.is_some() || self.to.name_from == NameFrom::FinalUrl => None,
            None => Some(self.by_url(request.url()?)),
        }
    }

    /// The same, with the number that this job has.
    pub(super) fn planned(&self, report: &Report) -> Option<Target> {
        let path = self.planned_path(&report.request)?;
        let number = report.progress.before.namesakes;
        // It was done, as it was let in, and is not any more.
        let number = number.unwrap_or_else(|| self.names.for_job(report.index, &path));
        Some(Target {
            path,
            number: Some(number),
        })
    }

    pub(super) fn target(&self, body: &Body<'_>) -> Target {
        let report = body.report();
        let planned = self.planned(report);
        if report.request.place().is_some() {
            return planned.expect("it is named by its request");
        }
        let path = match (&self.to.place, name::of_response(body.headers())) {
            (Some(place), _) => self.below(&place(&body.as_whole(&mut io::empty()))),
            (None, Some(name)) => match planned {
                Some(planned) => {
                    let path = planned.path.with_file_name(name);
                    if self.names.are_one(&path, &planned.path) {
                        let number = planned.number;
                        return Target { path, number };
                    }
                    path
                }
                None => self.by_url(body.url()).with_file_name(name),
            },
            (None, None) => match planned {
                Some(planned) => return planned,
                None => self.by_url(body.url()),
            },
        };
        // Of several that are told one name, whoever comes first: each is to find its own again.
        let is_any = self.to.on_exist == OnExist::SameOrBoth;
        // Else one for all attempts.
        let number = (!is_any).then(|| self.names.for_job(report.index, &path));
        Target { path, number }
    }

    fn by_url(&self, url: &Url) -> PathBuf {
        match self.to.layout {
            Layout::Flat => self.to.path.join(name::of(url)),
            Layout::Tree => self.to.path.join(name::tree(url)),
        }
    }

    /// A path that somebody chose, but nowhere else than in the directory.
    fn below(&self, path: &Path) -> PathBuf {
        self.to.path.join(name::relative(path))
    }

    /// Where the bytes of this URL are while they are not all. Beside the file, or where that would be
    /// if only the URL counted: this is known before each attempt.
    pub(super) fn place_of_part(&self, report: &Report) -> Option<PathBuf> {
        self.part_path(report, &key_of_part(report)?)
    }

    /// The same, with what makes it the only one of its name.
    pub(super) fn part_path(&self, report: &Report, of: &str) -> Option<PathBuf> {
        let near = match self.planned(report) {
            Some(planned) => planned.first()?,
            None => self.by_url(report.current_url()?),
        };
        let name = near.file_name()?.to_string_lossy();
        // The caller's own may be as long as the file system takes.
        let ends = name.char_indices().map(|(start, c)| start + c.len_utf8());
        let end = ends.take_while(|&end| end <= LONGEST).last().unwrap_or(0);
        Some(near.with_file_name(name::temporary(&name[..end], of)))
    }
}

/// A path that names no file cannot be one's.
pub(super) fn check_place(request: &Request) -> Result<(), Fault> {
    let Some(Place::At(path)) = request.place() else {
        return Ok(());
    };
    let text = path.to_string_lossy();
    let text = text.strip_suffix('.').unwrap_or(&text);
    let is_directory = text.ends_with(std::path::is_separator);
    if path.file_name().is_some() && !is_directory {
        return Ok(());
    }
    let detail = format!(
        "{:?}, where it is to be saved to, is not a file's path",
        path
    );
    Err(Fault::new(ErrorKind::Io, detail))
}

/// What binds a part to the URL that its bytes are of.
pub(super) fn key_of_part(report: &Report) -> Option<String> {
    report
        .mirror()
        .or_else(|| report.request.url())
        .map(fingerprint)
}
