//! Where the body of a response ends.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::response::Parts;
use http::{StatusCode, Version};

use crate::fault::{ErrorKind, Fault};

/// How the end of a response's body is marked (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// So many bytes come.
    Length(u64),
    /// By the chunk that is the last; or there is no body.
    Marked,
    /// By the connection's end, which may be another's doing.
    UntilClose,
}

impl Framing {
    /// What a response says of it.
    pub(super) fn of(parts: &Parts) -> Result<Self, Fault> {
        let Some(coding) = parts.headers.get(TRANSFER_ENCODING) else {
            return Ok(Self::by_length(parts));
        };
        // What was meant for another response, perhaps (RFC 9112, section 6.3).
        if parts.headers.contains_key(CONTENT_LENGTH) {
            let detail = "the body has both a length and a transfer coding";
            return Err(Fault::new(ErrorKind::Protocol, detail));
        }
        if parts
            .headers
            .get_all(TRANSFER_ENCODING)
            .iter()
            .nth(1)
            .is_some()
        {
            let detail = "the body has more than one transfer coding";
            return Err(Fault::new(ErrorKind::Protocol, detail));
        }
        let coding = coding.to_str().unwrap_or_default().trim();
        if coding.eq_ignore_ascii_case("identity") {
            return Ok(Self::UntilClose);
        }
        // Another coding was not asked for and would be taken for the body; and what an HTTP/1.0
        // server means by one nobody knows (RFC 9112, section 6.1).
        if !coding.eq_ignore_ascii_case("chunked") || parts.version < Version::HTTP_11 {
            let detail = format!("the transfer coding {coding:?} is not understood");
            return Err(Fault::new(ErrorKind::Protocol, detail));
        }
        Ok(Self::Marked)
    }

    fn by_length(parts: &Parts) -> Self {
        // Of those two it is what another request would have had (RFC 9110, section 8.6).
        if matches!(
            parts.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        ) {
            return Self::Marked;
        }
        // ureq removes the length where it decodes the body.
        match parts.headers.get(CONTENT_LENGTH) {
            None => Self::UntilClose,
            Some(length) => {
                let length = length.to_str().ok().map(str::trim);
                let length = length.and_then(|digits| digits.parse().ok());
                length.map_or(Self::Marked, Self::Length)
            }
        }
    }
}
