//! `Content-Disposition`: what a server would have its file called (RFC 6266).
//!
//! Half of the servers that send it send it wrong, so this reads whatever can be read in one way
//! only. What it returns is what the server wrote, not a name to be trusted with a file.

#[cfg(test)]
mod tests;

use std::{iter, str};

use http::header::CONTENT_DISPOSITION;
use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

/// The first name that the lines of the header tell, whether the body is an `attachment`,
/// `inline`, or of a type that is left out.
pub(crate) fn file_name(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(CONTENT_DISPOSITION).into_iter();
    lines.map(HeaderValue::as_bytes).find_map(named)
}

/// `filename*` goes before `filename`, wherever it stands (RFC 6266, section 4.3): that one is
/// for clients that do not know the other. Of several, the first that tells a name.
///
/// `filename*0`, `filename*1` (RFC 2231) are for mail, and no names here.
fn named(line: &[u8]) -> Option<String> {
    let values = |wanted: &'static [u8]| {
        parameters(line)
            .filter(move |(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value)
    };
    values(b"filename*")
        .find_map(|value| last_segment(&extended(&value)?))
        .or_else(|| values(b"filename").find_map(|value| last_segment(&text(value))))
}

/// Some servers tell the path that a file has with them. Where a file goes is not for them to
/// say, so the path is dropped, and in Windows' spelling too (RFC 6266, section 4.3).
fn last_segment(path: &str) -> Option<String> {
    let last = path.rsplit(['/', '\\']).next()?.trim();
    let tells = |c: char| c != '.' && !c.is_whitespace();
    last.contains(tells).then(|| last.to_owned())
}

/// The value of a `filename`. Bytes that are not ASCII were Latin-1 once, and are UTF-8 today;
/// hardly any Latin-1 is valid UTF-8 too, so browsers look for that first.
///
/// Taken literally beyond that: `%41` are three characters (Chrome decodes them, Firefox does not,
/// and the RFC knows of no such thing), and so are the encoded words of mail, `=?UTF-8?Q?a?=`
/// (RFC 2047, section 5, allows none inside of quotes).
fn text(value: Vec<u8>) -> String {
    String::from_utf8(value).unwrap_or_else(|error| latin1(error.as_bytes()))
}

/// The value of a `filename*`: charset, language, percent-encoded text (RFC 8187, section 3.2).
/// `None` where a part of that is missing or broken, for there is mostly a `filename` beside it.
///
/// Characters that should have been encoded and were not are let pass if they are ASCII, and so
/// are quotes around it all.
fn extended(value: &[u8]) -> Option<String> {
    let value = str::from_utf8(value).ok().filter(|text| text.is_ascii())?;
    let (charset, rest) = value.split_once('\'')?;
    let (_language, encoded) = rest.split_once('\'')?;
    let bytes = decoded(encoded)?;
    if charset.eq_ignore_ascii_case("UTF-8") {
        return String::from_utf8(bytes).ok();
    }
    // What has control characters in Latin-1 is in another charset.
    let is_latin1 = charset.eq_ignore_ascii_case("ISO-8859-1")
        && !bytes.iter().any(|byte| matches!(byte, 0x80..=0x9f));
    is_latin1.then(|| latin1(&bytes))
}

/// Decoded once. `percent_decode_str` alone takes a `%` that is none of an encoding for itself.
fn decoded(encoded: &str) -> Option<Vec<u8>> {
    let is_byte = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    let mut sequences = encoded.split('%').skip(1).map(str::as_bytes);
    let is_whole = sequences.all(|after| after.get(..2).is_some_and(is_byte));
    is_whole.then(|| percent_decode_str(encoded).collect())
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// What is between semicolons and has a `=`: the disposition's type need not be there, and what
/// nobody can make sense of does not spoil the rest.
fn parameters(line: &[u8]) -> impl Iterator<Item = (&[u8], Vec<u8>)> {
    let mut rest = line;
    iter::from_fn(move || {
        while !rest.is_empty() {
            if let Some(parameter) = parameter(&mut rest) {
                return Some(parameter);
            }
        }
        None
    })
}

/// Takes everything until the next semicolon, which begins the next one.
fn parameter<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Vec<u8>)> {
    *rest = rest.strip_prefix(b";").unwrap_or(rest).trim_ascii_start();
    // Or else a name in the quotes of who knows what would count.
    if rest.starts_with(b"\"") {
        value(rest);
        return None;
    }
    let name = take_until(rest, b"=;").trim_ascii();
    *rest = rest.strip_prefix(b"=")?;
    Some((name, value(rest)))
}

/// In quotes, or all that there is: names with blanks and commas are sent without quotes often
/// enough.
fn value(rest: &mut &[u8]) -> Vec<u8> {
    *rest = rest.trim_ascii_start();
    match rest.strip_prefix(b"\"") {
        Some(inside) => {
            *rest = inside;
            let value = unquoted(rest);
            take_until(rest, b";");
            value
        }
        None => take_until(rest, b";").trim_ascii().to_vec(),
    }
}

/// Until the closing quote or, if somebody forgot it, the end. A backslash stands for what
/// follows it (RFC 9110, section 5.6.4), so `"C:\a"` is `C:a`.
fn unquoted(rest: &mut &[u8]) -> Vec<u8> {
    let mut bytes = rest.iter();
    let mut value = Vec::new();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => break,
            b'\\' => value.extend(bytes.next()),
            byte => value.push(byte),
        }
    }
    *rest = bytes.as_slice();
    value
}

fn take_until<'a>(rest: &mut &'a [u8], stops: &[u8]) -> &'a [u8] {
    let end = rest.iter().position(|byte| stops.contains(byte));
    let (taken, left) = rest.split_at(end.unwrap_or(rest.len()));
    *rest = left;
    taken
}
