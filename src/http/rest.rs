//! The rest of a body whose beginning is there: how it is asked for, and whether it is that.

use http::header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::content_range::ContentRange;
use crate::outcome::Head;

/// The beginning of a body, and what its rest has to belong to.
pub(crate) struct Beginning<'a> {
    pub(crate) bytes: u64,
    pub(crate) etag: &'a HeaderValue,
    pub(crate) coding: Option<&'a HeaderValue>,
    /// Of the whole, if it is known.
    pub(crate) length: Option<u64>,
}

impl Beginning<'_> {
    /// Asks for what is behind it, or for the whole if that has changed (RFC 9110, section 13.1.5).
    pub(crate) fn ask_for_rest(&self, headers: &mut HeaderMap) {
        let range = format!("bytes={}-", self.bytes);
        headers.insert(RANGE, HeaderValue::try_from(range).expect("visible ASCII"));
        headers.insert(IF_RANGE, self.etag.clone());
    }

    /// The length of the whole, if this is its rest, up to the end.
    pub(crate) fn length_with(&self, rest: &Head) -> Option<u64> {
        let headers = &rest.headers;
        if rest.status != StatusCode::PARTIAL_CONTENT
            || headers.get(ETAG) != Some(self.etag)
            || headers.get(CONTENT_ENCODING) != self.coding
            || is_multipart(headers)
        {
            return None;
        }
        let ContentRange::Part { start, end, total } =
            ContentRange::parse(headers.get(CONTENT_RANGE)?)?
        else {
            return None;
        };
        // Where nobody knows it, a part may be all there is or not.
        let length = total.or(self.length)?;
        let fits = start == self.bytes && end + 1 == length;
        let as_long = |sent| sent == length - start;
        let is_rest = fits
            && self.length.is_none_or(|known| known == length)
            && rest.content_length().is_none_or(as_long);
        is_rest.then_some(length)
    }

    /// Whether the answer says that there is nothing behind it: it is all.
    pub(crate) fn is_all_by(&self, answer: &Head) -> bool {
        let headers = &answer.headers;
        let said = headers.get(CONTENT_RANGE).and_then(ContentRange::parse);
        answer.status == StatusCode::RANGE_NOT_SATISFIABLE
            && said == Some(ContentRange::Unsatisfied { total: self.bytes })
            && self.length.is_none_or(|length| length == self.bytes)
            && headers.get(ETAG).is_none_or(|etag| etag == self.etag)
    }
}

/// What tells that the bytes are the same, if the response has something certain: one strong
/// entity tag. `Last-Modified` is none, as nobody knows how often the server looks at its clock.
pub(crate) fn strong_validator(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut etags = headers.get_all(ETAG).into_iter();
    let etag = etags.next().filter(|etag| is_strong(etag))?;
    etags.next().is_none().then_some(etag)
}

/// RFC 9110, section 8.8.1: only then are the bytes the same.
fn is_strong(etag: &HeaderValue) -> bool {
    let opaque = etag.as_bytes().strip_prefix(b"\"");
    let opaque = opaque.and_then(|text| text.strip_suffix(b"\""));
    // A list of them is none.
    opaque.is_some_and(|text| !text.contains(&b'"'))
}

fn is_multipart(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let prefix = b"multipart/";
    media_type
        .and_then(|text| text.get(..prefix.len()))
        .is_some_and(|text| text.eq_ignore_ascii_case(prefix))
}
