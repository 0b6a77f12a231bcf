//! Where a redirect leads.

use base64::prelude::{BASE64_STANDARD, Engine};
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderValue, StatusCode};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::fault::{ErrorKind, Fault};
use crate::request::redacted;

/// As many as browsers follow (Fetch standard, HTTP-redirect fetch, step 5).
const MAX_REDIRECTS: usize = 20;

/// The target, if this is a redirect that is to be followed (RFC 9110, section 15.4).
pub(crate) fn target(
    status: StatusCode,
    headers: &HeaderMap,
    from: &Url,
    followed: &[Url],
) -> Result<Option<Url>, Fault> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    // Without a target it is a response like another.
    let Some(location) = headers.get(LOCATION) else {
        return Ok(None);
    };
    if followed.len() >= MAX_REDIRECTS {
        return Err(Fault::new(
            ErrorKind::Redirect,
            format!(
                "redirected more than {MAX_REDIRECTS} times, the last time to {}",
                redacted(from)
            ),
        ));
    }
    let mut target = from.join(&text(location)).map_err(|error| {
        let doing = "the server redirects to what is not a URL";
        Fault::with_source(ErrorKind::Redirect, doing, error)
    })?;
    match (from.scheme(), target.scheme()) {
        (_, "https") | ("http", "http") => {}
        (_, "http") => {
            return Err(Fault::new(
                ErrorKind::Redirect,
                format!(
                    "refused to follow a redirect from https to {}",
                    redacted(&target)
                ),
            ));
        }
        (_, scheme) => {
            return Err(Fault::new(
                ErrorKind::Redirect,
                format!("refused to follow a redirect to the scheme {scheme:?}"),
            ));
        }
    }
    if target.fragment().is_none() {
        // RFC 9110, section 10.2.2: the fragment is inherited.
        target.set_fragment(from.fragment());
    }
    Ok(Some(target))
}

/// The value as text. It should be ASCII; some servers send UTF-8, some Latin-1.
fn text(location: &HeaderValue) -> String {
    let bytes = location.as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

/// Adds an `Authorization` from the URL's user name and password, if it has those and the
/// headers have none (RFC 7617, section 2).
pub(super) fn add_credentials(headers: &mut HeaderMap, url: &Url) {
    let none = url.username().is_empty() && url.password().is_none();
    if none || headers.contains_key(AUTHORIZATION) {
        return;
    }
    let decoded = |part: &str| percent_decode_str(part).collect::<Vec<u8>>();
    let pair = [
        decoded(url.username()),
        decoded(url.password().unwrap_or_default()),
    ];
    let basic = format!("Basic {}", BASE64_STANDARD.encode(pair.join(&b':')));
    let mut value = HeaderValue::try_from(basic).expect("base64 is visible ASCII");
    value.set_sensitive(true);
    headers.insert(AUTHORIZATION, value);
}

/// What was meant for one server is not shown to another: kept only where scheme, host and
/// port are equal.
pub(crate) fn strip_credentials(headers: &mut HeaderMap, from: &Url, to: &Url) {
    if from.origin() != to.origin() {
        for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
            headers.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(from: &str, location: &[u8]) -> Result<String, ErrorKind> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_bytes(location).unwrap());
        let from = Url::parse(from).unwrap();
        let to = target(StatusCode::FOUND, &headers, &from, &[]);
        to.map(|url| url.unwrap().into())
            .map_err(|fault| fault.kind)
    }

    #[test]
    fn a_location_is_resolved_as_browsers_do() {
        for (location, to) in [
            ("b", "http://h/a/b"),
            ("/b c", "http://h/b%20c"),
            ("?q=%7e&sig=a%2Bb", "http://h/a/x?q=%7e&sig=a%2Bb"),
            ("//other:81/", "http://other:81/"),
            ("https://h/#f", "https://h/#f"),
            ("/ü", "http://h/%C3%BC"),
        ] {
            let got = follow("http://h/a/x", location.as_bytes());
            assert_eq!(got.as_deref(), Ok(to), "{location}");
        }
        assert_eq!(
            follow("http://h/", b"/\xfc").as_deref(),
            Ok("http://h/%C3%BC")
        );
        assert_eq!(follow("http://h/#f", b"/b").as_deref(), Ok("http://h/b#f"));
    }

    #[test]
    fn a_redirect_to_another_scheme_is_refused() {
        for location in ["file:///etc/passwd", "ftp://h/", "javascript:1", "data:,x"] {
            let got = follow("http://h/", location.as_bytes());
            assert_eq!(got, Err(ErrorKind::Redirect), "{location}");
        }
        assert_eq!(follow("https://h/", b"http://h/"), Err(ErrorKind::Redirect));
        assert_eq!(follow("http://h/", b"http://:x/"), Err(ErrorKind::Redirect));
    }

    #[test]
    fn a_response_without_location_is_no_redirect() {
        let url = Url::parse("http://h/").unwrap();
        for status in [StatusCode::FOUND, StatusCode::NOT_MODIFIED, StatusCode::OK] {
            let to = target(status, &HeaderMap::new(), &url, &[]);
            assert!(to.unwrap().is_none());
        }
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let kept = |from: &str, to: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static("x"));
            headers.insert(COOKIE, HeaderValue::from_static("x"));
            let (from, to) = (Url::parse(from).unwrap(), Url::parse(to).unwrap());
            strip_credentials(&mut headers, &from, &to);
            headers.len()
        };
        assert_eq!(kept("http://h/a", "http://H:80/b"), 2);
        assert_eq!(kept("http://h/", "https://h/"), 0);
        assert_eq!(kept("http://h/", "http://h:81/"), 0);
        assert_eq!(kept("http://h/", "http://other/"), 0);
    }
}
