//! Where a file goes: as its request, its response or its URL has it.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use url::Url;

use super::Files;
use super::names::numbered;
use crate::body::Body;
use crate::outcome::Report;
use crate::request::{Place, Request};
use crate::sink::directory::{Layout, NameFrom};
use crate::sink::name;

/// Where a file is to stand.
pub(super) struct Target {
    pub(super) path: PathBuf,
    /// Of a path that was handed out as the request was let in: how many were before it.
    pub(super) number: Option<u32>,
}

impl Target {
    /// As far as is known before it is given.
    pub(super) fn first(&self) -> PathBuf {
        numbered(&self.path, self.number.unwrap_or(0))
    }
}

impl Files {
    /// Where the file goes, if that is known before there is a response.
    pub(super) fn planned(&self, request: &Request, namesakes: u32) -> Option<Target> {
        let path = match request.place() {
            Some(Place::Below(path)) => self.below(path),
            Some(Place::At(path)) => path.clone(),
            None if self.to.place.is_some() || self.to.name_from == NameFrom::FinalUrl => {
                return None;
            }
            None => self.by_url(request.url()?),
        };
        Some(Target {
            path,
            number: Some(namesakes),
        })
    }

    pub(super) fn target(&self, body: &Body<'_>) -> Target {
        let report = body.report();
        let planned = self.planned(&report.request, report.progress.namesakes);
        if report.request.place().is_some() {
            return planned.expect("it is named by its request");
        }
        let path = match (&self.to.place, name::of_response(body.headers())) {
            (Some(place), _) => self.below(&place(body)),
            (None, Some(name)) => match planned {
                Some(planned) => planned.path.with_file_name(name),
                None => self.by_url(body.url()).with_file_name(name),
            },
            (None, None) => match planned {
                Some(planned) => return planned,
                None => self.by_url(body.url()),
            },
        };
        Target { path, number: None }
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

    /// Where its bytes are while it is not whole. Beside the file, or where that would be if only
    /// the URL counted: this is known before each attempt.
    pub(super) fn part_path(&self, report: &Report, number: u32) -> Option<PathBuf> {
        let near = match self.planned(&report.request, report.progress.namesakes) {
            Some(planned) => planned.first(),
            None => self.by_url(report.current_url()?),
        };
        let name = near.file_name()?.to_string_lossy();
        let unique = match number {
            0 => fingerprint(report)?,
            number => format!("{}.{number}", fingerprint(report)?),
        };
        Some(near.with_file_name(name::temporary(&name, &unique)))
    }
}

/// What binds a part, and a line of the journal, to its URL: to all of that but the password.
pub(super) fn fingerprint(report: &Report) -> Option<String> {
    let url = report.request.url()?;
    let mut hasher = Sha256::new();
    match url.password() {
        None => hasher.update(url.as_str()),
        // People choose passwords that can be guessed, with a hash to try them on.
        Some(_) => {
            let mut url = url.clone();
            let _ = url.set_password(None);
            hasher.update(url.as_str());
        }
    }
    let hash = hasher.finalize();
    Some(
        hash[..12]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    )
}
