//! The rest of a body whose beginning is there: how it is asked for, and whether it is that.

use http::header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

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
        let (start, end, total) = part_of(self.etag, self.coding, rest)?;
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
        let said = only(headers, &CONTENT_RANGE).and_then(ContentRange::parse);
        answer.status == StatusCode::RANGE_NOT_SATISFIABLE
            && said == Some(ContentRange::Unsatisfied { total: self.bytes })
            && self.length.is_none_or(|length| length == self.bytes)
            && self.is_named_by(headers)
    }

    /// Whether an answer without a body is of this, as far as it says of what it is.
    pub(crate) fn is_named_by(&self, answer: &HeaderMap) -> bool {
        answer.get_all(ETAG).iter().all(|etag| etag == self.etag)
    }
}

/// A stretch of a body, and what that has to be of.
pub(crate) struct Stretch<'a> {
    pub(crate) start: u64,
    /// The first byte behind it.
    pub(crate) end: u64,
    pub(crate) etag: &'a HeaderValue,
    /// Of the whole.
    pub(crate) length: u64,
}

impl Stretch<'_> {
    /// Asks for it, or for the whole if that has changed.
    pub(crate) fn ask(&self, headers: &mut HeaderMap) {
        insert_range(headers, self.start, self.end);
        headers.insert(IF_RANGE, self.etag.clone());
    }

    /// Whether this is just that.
    pub(crate) fn is_in(&self, head: &Head) -> bool {
        let is_long = |length| length == self.end - self.start;
        part_of(self.etag, None, head) == Some((self.start, self.end - 1, Some(self.length)))
            && head.content_length().is_none_or(is_long)
    }
}

/// Asks for no more than so many bytes from the start.
pub(crate) fn ask_for_first(bytes: u64, headers: &mut HeaderMap) {
    insert_range(headers, 0, bytes);
}

/// The length of the whole, if these are so many bytes of it from the start, or all where it has
/// fewer, and if they say what the rest would have to be of.
pub(crate) fn length_with_first(bytes: u64, head: &Head) -> Option<u64> {
    let etag = strong_validator(&head.headers)?;
    let (_, _, length) = part_of(etag, None, head)?;
    let first = Stretch {
        start: 0,
        end: length?.min(bytes),
        etag,
        length: length?,
    };
    first.is_in(head).then_some(first.length)
}

fn insert_range(headers: &mut HeaderMap, start: u64, end: u64) {
    let range = format!("bytes={start}-{}", end - 1);
    headers.insert(RANGE, HeaderValue::try_from(range).expect("visible ASCII"));
}

/// The first and the last byte, and the length of the whole if it is told, of a part of what goes
/// by this tag.
fn part_of(
    etag: &HeaderValue,
    coding: Option<&HeaderValue>,
    head: &Head,
) -> Option<(u64, u64, Option<u64>)> {
    let headers = &head.headers;
    if head.status != StatusCode::PARTIAL_CONTENT
        || only(headers, &ETAG) != Some(etag)
        || headers.get(CONTENT_ENCODING) != coding
        || is_multipart(headers)
    {
        return None;
    }
    match ContentRange::parse(only(headers, &CONTENT_RANGE)?)? {
        ContentRange::Part { start, end, total } => Some((start, end, total)),
        ContentRange::Unsatisfied { .. } => None,
    }
}

/// What tells that the bytes are the same, if the response has something certain: one strong
/// entity tag. `Last-Modified` is none, as nobody knows how often the server looks at its clock.
pub(crate) fn strong_validator(headers: &HeaderMap) -> Option<&HeaderValue> {
    only(headers, &ETAG).filter(|etag| is_strong(etag))
}

/// Of two, nobody knows which one is meant.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).into_iter();
    let value = values.next()?;
    values.next().is_none().then_some(value)
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
