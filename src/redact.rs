//! URLs in the form in which they may be shown: in errors, in logs, to people.

use std::sync::Arc;

use percent_encoding::percent_decode_str;
use url::{Position, Url};

/// What stands in the place of a secret.
const HIDDEN: char = '…';

/// Parameters whose values are secrets, in the form that [`normal`] gives them.
///
/// - OpenTelemetry's semantic conventions, `url.full`: `AWSAccessKeyId`, `Signature`, `sig`,
///   `X-Goog-Signature`.
/// - Signed URLs: Azure (`sig`), OpenStack (`temp_url_sig`), Google (`GoogleAccessId`), Akamai
///   (`hdnts`, `hdnea`, `hdntl`, `__gda__`), others (`sign`).
/// - OAuth 2.0 and what builds on it: `code` (RFC 6749, 4.1.2), `code_verifier` (RFC 7636);
///   OAuth 1.0: `oauth_verifier` (RFC 5849, 2.2). SAML's `SAMLResponse`, CAS's `ticket`.
/// - What services and log scrubbers call passwords, keys of an interface and sessions.
const NAMES: [&str; 29] = [
    "appkey",
    "auth",
    "authkey",
    "authorization",
    "bearer",
    "code",
    "codeverifier",
    "gda",
    "googleaccessid",
    "hdnea",
    "hdntl",
    "hdnts",
    "jwt",
    "key",
    "oauthverifier",
    "otp",
    "pass",
    "phpsessid",
    "pwd",
    "samlresponse",
    "session",
    "sessionkey",
    "sid",
    "sig",
    "sign",
    "subscriptionkey",
    "tempurlsig",
    "ticket",
    "userkey",
];

/// The same for names that only end so.
///
/// - AWS, Signature Version 4: `X-Amz-Signature`, `X-Amz-Credential`, `X-Amz-Security-Token`;
///   the same of Google (`X-Goog-`), Alibaba (`x-oss-`) and Tencent (`q-signature`).
/// - `access_token` (RFC 6750, 2.3), `id_token`, `refresh_token`, `client_secret`, `password`
///   (RFC 6749), `client_assertion` (RFC 7521), `oauth_signature` (RFC 5849).
/// - `private_token`, `api_key`, `PHPSESSID`, `jsessionid` and their like.
const ENDINGS: [&str; 15] = [
    "accesskey",
    "accesskeyid",
    "apikey",
    "assertion",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "secretkey",
    "sessionid",
    "signature",
    "token",
];

/// How deep a value is searched for URLs that have secrets themselves.
const DEPTH: usize = 4;

/// Which parameters' values are secrets: the usual ones, and those that the caller has named.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(Option<Arc<Vec<String>>>);

/// Which parameters' values are hidden.
#[derive(Clone, Copy)]
enum Hide<'a> {
    Secrets(&'a Secrets),
    All,
    /// All, but what has no `=` is no value: in a path.
    Pairs,
}

impl Secrets {
    /// The usual ones and these.
    pub(crate) fn and(names: &[String]) -> Self {
        let names: Vec<_> = names.iter().map(|name| normal(name)).collect();
        Self((!names.is_empty()).then(|| Arc::new(names)))
    }

    /// The URL without user name and password, without the values of secret parameters, and
    /// without its fragment, which is for the client alone and may be a key or a token. All
    /// else is left as it is, byte for byte.
    pub(crate) fn url(&self, url: &Url) -> String {
        shown(url, Hide::Secrets(self))
    }

    /// The same for what is no URL.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        hide(text, Hide::Secrets(self), &mut out);
        out
    }

    /// Whether a parameter of this name has a secret.
    pub(crate) fn has(&self, name: &str) -> bool {
        let whole = normal(&percent_decode_str(name).decode_utf8_lossy());
        let is_one = |name: &str| {
            let more = self
                .0
                .as_deref()
                .is_some_and(|more| more.iter().any(|n| n == name));
            more || NAMES.contains(&name) || ENDINGS.iter().any(|end| name.ends_with(end))
        };
        // `user[password]`, `openid.sig`.
        is_one(&whole.replace(['[', ']', '.'], "")) || whole.split(['[', ']', '.']).any(is_one)
    }
}

/// As [`Secrets::url`], but without the value of any parameter: where it is not known which are
/// secret.
pub(crate) fn without_values(url: &Url) -> String {
    shown(url, Hide::All)
}

/// The same for what is no URL.
pub(crate) fn text_without_values(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    hide(text, Hide::All, &mut out);
    out
}

/// `X-API-Key`, `api_key` and `apiKey` are one name to who chooses them.
fn normal(name: &str) -> String {
    let name = name.chars().filter(|c| !matches!(c, '-' | '_' | ' ' | '+'));
    name.flat_map(char::to_lowercase).collect()
}

fn shown(url: &Url, which: Hide<'_>) -> String {
    let mut out = String::with_capacity(url.as_str().len());
    out.push_str(&url[..Position::BeforeUsername]);
    out.push_str(&url[Position::BeforeHost..Position::BeforePath]);
    hide(&url[Position::BeforePath..], which, &mut out);
    out
}

/// A path, a query and a fragment.
fn hide(text: &str, which: Hide<'_>, out: &mut String) {
    let (text, fragment) = match text.split_once('#') {
        Some((text, fragment)) => (text, Some(fragment)),
        None => (text, None),
    };
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    let in_path = match which {
        Hide::All => Hide::Pairs,
        which => which,
    };
    // Parameters stand there as well: `/page;jsessionid=…`, `/hdnts=…/film`.
    each(path, '/', out, |segment, out| {
        each(segment, '&', out, |piece, out| {
            parameter(piece, in_path, out);
        });
    });
    if let Some(query) = query {
        out.push('?');
        each(query, '&', out, |piece, out| parameter(piece, which, out));
    }
    if let Some(fragment) = fragment {
        out.push('#');
        if !fragment.is_empty() {
            out.push(HIDDEN);
        }
    }
}

/// Writes each piece, and what is between them as it is.
fn each(text: &str, between: char, out: &mut String, mut write: impl FnMut(&str, &mut String)) {
    for (index, piece) in text.split(between).enumerate() {
        if index > 0 {
            out.push(between);
        }
        write(piece, out);
    }
}

/// What stands between two `&`. Some write `;` in its place; others have it in a value, so that
/// a secret is taken to reach up to the next `&`.
fn parameter(piece: &str, which: Hide<'_>, out: &mut String) {
    let mut shown = 0;
    for pair in piece.split_inclusive(';') {
        let bare = pair.strip_suffix(';').unwrap_or(pair);
        let (name, value) = match (bare.split_once('='), which) {
            (Some(both), _) => both,
            (None, Hide::All) => ("", bare),
            (None, _) => (bare, ""),
        };
        let is_hidden = !value.is_empty()
            && match which {
                Hide::All | Hide::Pairs => true,
                Hide::Secrets(secrets) => secrets.has(name) || tells(value, secrets, DEPTH),
            };
        if is_hidden {
            shown += bare.len() - value.len();
            out.push_str(&piece[..shown]);
            out.push(HIDDEN);
            return;
        }
        shown += pair.len();
    }
    out.push_str(piece);
}

/// Whether a value has secrets within: mostly because it is a URL.
fn tells(value: &str, secrets: &Secrets, depth: usize) -> bool {
    let value = percent_decode_str(value).decode_utf8_lossy();
    let has_user = value.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#']).next();
        authority.is_some_and(|authority| authority.contains('@'))
    });
    let mut pairs = value
        .split(['?', '&', ';', '#', '/'])
        .filter_map(|pair| pair.split_once('='))
        .filter(|(_, value)| !value.is_empty());
    has_user
        || pairs.any(|(name, value)| {
            secrets.has(name) || depth == 0 || tells(value, secrets, depth - 1)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        Secrets::default().url(&Url::parse(url).unwrap())
    }

    #[test]
    fn what_is_no_secret_is_shown_byte_for_byte() {
        for url in [
            "http://h/",
            "http://h:81/a%20b/c;v=1/?q=%7e+x&&y=a=b;c&z#",
            "https://h/x?X-Amz-Date=20250101T000000Z&X-Amz-Expires=60&se=2025&sp=r",
            "https://h/?keyword=a&page=2&monkey=1&author=me&tokens=3&next=%2Fa%3Fb%3Dc",
            "https://[::1]:8080/?",
            "http://h/?token=&sig",
        ] {
            assert_eq!(shown(url), url);
        }
    }

    #[test]
    fn the_values_of_secret_parameters_are_hidden_however_they_are_written() {
        for name in [
            "X-Amz-Signature",
            "X-Amz-Credential",
            "x-amz-security-token",
            "X-Goog-Signature",
            "X-Goog-Credential",
            "AWSAccessKeyId",
            "Signature",
            "sig",
            "temp_url_sig",
            "token",
            "ACCESS_TOKEN",
            "id_token",
            "refreshToken",
            "auth",
            "api_key",
            "apikey",
            "api-key",
            "key",
            "password",
            "passwd",
            "pwd",
            "secret",
            "client_secret",
            "code",
            "session",
            "sid",
            "jwt",
            "PHPSESSID",
            "user[password]",
            "user%5Bpassword%5D",
            "t%6Fken",
            "openid.sig",
            "amp;token",
        ] {
            let url = format!("http://h/?a=1&{name}=s3cret%3D;s3cret&b=2");
            assert_eq!(shown(&url), format!("http://h/?a=1&{name}=…&b=2"));
        }
    }

    #[test]
    fn secrets_in_other_places_are_hidden_too() {
        for (url, hidden) in [
            ("http://u:s3cret@h/", "http://h/"),
            ("http://s3cret@h/", "http://h/"),
            ("http://h/#access_token=s3cret", "http://h/#…"),
            ("http://h/?a#s3cret", "http://h/?a#…"),
            (
                "http://h/x;jsessionid=s3cret?a=1",
                "http://h/x;jsessionid=…?a=1",
            ),
            (
                "http://h/hdnts=exp=1~hmac=s3cret/film",
                "http://h/hdnts=…/film",
            ),
            (
                "http://h/?to=https%3A%2F%2Fo%2F%3Fa%3D1%26token%3Ds3cret",
                "http://h/?to=…",
            ),
            (
                "http://h/?to=https%3A%2F%2Fo%2F%3Fto%3D%252F%253Ftoken%253Ds3cret",
                "http://h/?to=…",
            ),
            ("http://h/?to=https://u:s3cret@o/&a=1", "http://h/?to=…&a=1"),
        ] {
            assert_eq!(shown(url), hidden);
        }
    }

    #[test]
    fn the_caller_names_more() {
        let secrets = Secrets::and(&["X-Mine".to_owned()]);
        let url = Url::parse("http://h/?x_mine=s3cret&x-other=1&sig=s3cret").unwrap();
        assert_eq!(secrets.url(&url), "http://h/?x_mine=…&x-other=1&sig=…");
        assert_eq!(secrets.text("x/?xmine=s3cret#s3cret"), "x/?xmine=…#…");
    }

    #[test]
    fn no_value_at_all_is_shown_where_it_is_not_known_which_are_secret() {
        let url = Url::parse("http://u:s3cret@h/a/b;c=s3cret?x=s3cret&s3cret&y=#s3cret").unwrap();
        assert_eq!(without_values(&url), "http://h/a/b;c=…?x=…&…&y=#…");
        assert_eq!(text_without_values("/a?b=s3cret"), "/a?b=…");
    }

    #[test]
    fn a_value_that_nests_without_end_ends() {
        let url = format!("http://h/?a{}", "=b".repeat(20_000));
        assert_eq!(shown(&url), "http://h/?a=…");
    }
}
