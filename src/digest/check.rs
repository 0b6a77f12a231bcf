//! Whether a body is what was expected.

use http::StatusCode;

use super::{Digest, Hasher, of_response};
use crate::fault::{ErrorKind, Fault};
use crate::outcome::Head;
use crate::request::Request;

/// What is expected of a body, and what it has come to so far. The bytes pass once, as they are
/// read.
pub(crate) struct Check {
    length: Option<u64>,
    digests: Vec<Digest>,
    hasher: Hasher,
}

impl Check {
    /// `None` where nothing is expected. `is_completed`: the sink makes a whole of it, be it a part.
    /// `believes`: what the server says of the digest counts, too.
    pub(crate) fn of(
        request: &Request,
        head: &Head,
        is_completed: bool,
        believes: bool,
    ) -> Option<Self> {
        // An error's page is the caller's affair, if he wants it at all. What says that all is here
        // already has none.
        let is_body = head.status.is_success() || is_completed;
        let is_whole = head.status != StatusCode::PARTIAL_CONTENT || is_completed;
        let mut digests: Vec<_> = request.its_digests().to_vec();
        if believes && is_whole {
            digests.extend(of_response(head.status, &head.headers));
        }
        let length = request.its_length();
        (is_body && (length.is_some() || !digests.is_empty())).then(|| Self::new(length, digests))
    }

    /// Of a file that is there already: whether it is what the request expects.
    pub(crate) fn of_file(request: &Request) -> Option<Self> {
        let digests = request.its_digests().to_vec();
        (!digests.is_empty()).then(|| Self::new(request.its_length(), digests))
    }

    fn new(length: Option<u64>, digests: Vec<Digest>) -> Self {
        Self {
            length,
            hasher: Hasher::new(digests.iter().map(Digest::algorithm)),
            digests,
        }
    }

    /// Of a whole whose length is known, and no more: whether that is what the request expects.
    pub(crate) fn length_of(request: &Request, length: u64) -> Result<(), Fault> {
        Self::new(request.its_length(), Vec::new()).length(length)
    }

    /// It has digests to compute.
    pub(crate) fn has_digests(&self) -> bool {
        !self.digests.is_empty()
    }

    pub(crate) fn see(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
    }

    /// The length is known before the bytes are.
    pub(crate) fn length(&self, length: u64) -> Result<(), Fault> {
        match self.length {
            Some(expected) if expected != length => {
                let detail = format!("the body has {length} bytes, and {expected} were expected");
                Err(Fault::new(ErrorKind::Digest, detail))
            }
            _ => Ok(()),
        }
    }

    /// So many bytes have passed, and that is all.
    pub(crate) fn verdict(self, length: u64) -> Result<(), Fault> {
        self.length(length)?;
        let found = self.hasher.finish();
        let mut wrong = self.digests.iter().filter(|digest| !found.contains(digest));
        let Some(expected) = wrong.next() else {
            return Ok(());
        };
        let is_its = |digest: &&Digest| digest.algorithm() == expected.algorithm();
        let found = found.iter().find(is_its).expect("each was computed");
        let detail = format!("the body is {found}, and {expected} was expected");
        Err(Fault::new(ErrorKind::Digest, detail))
    }
}
