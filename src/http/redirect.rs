//! Where a redirect leads.

use std::fmt;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine};
use http::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderValue, StatusCode};
use percent_encoding::percent_decode_str;
use url::{Position, Url};

use crate::fault::{ErrorKind, Fault};
use crate::redact::Secrets;

/// As many as browsers follow (Fetch standard, HTTP-redirect fetch, step 5).
const MAX_REDIRECTS: usize = 20;

/// Of a long chain an error names the first few and the last few.
const FIRST_NAMED: usize = 3;
const LAST_NAMED: usize = 4;
/// And of a long URL its begin and its end, in characters.
const LONGEST_NAMED: usize = 120;

/// From, to.
pub(crate) type Allows = dyn Fn(&Url, &Url) -> bool + Send + Sync;

/// Which redirects are followed.
#[derive(Clone, Default)]
pub(crate) struct Policy {
    pub(crate) allow_downgrade: bool,
    pub(crate) allows: Option<Arc<Allows>>,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            allow_downgrade,
            allows,
        } = self;
        f.debug_struct("Policy")
            .field("allow_downgrade", allow_downgrade)
            .field("allows", &allows.is_some())
            .finish()
    }
}

/// The URLs that a job has asked for, one hop after the other.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'a> {
    pub(crate) asked: &'a Url,
    pub(crate) followed: &'a [Url],
}

impl<'a> Chain<'a> {
    fn urls(self) -> impl Iterator<Item = &'a Url> {
        std::iter::once(self.asked).chain(self.followed)
    }

    /// Whether a redirect has led to another origin, be it that a later one has led back: who
    /// has been handed on by a stranger is not trusted again.
    pub(crate) fn has_left_its_origin(self) -> bool {
        self.followed
            .iter()
            .any(|url| !same_origin(self.asked, url))
    }

    /// Whether this would be asked for a second time.
    fn has(self, target: &Url) -> bool {
        self.urls()
            .any(|url| url[..Position::AfterQuery] == target[..Position::AfterQuery])
    }

    /// For people: `a -> b -> c`, and on to the target.
    fn shown(self, target: &Url, secrets: &Secrets) -> String {
        let count = self.followed.len() + 2;
        let mut shown = String::new();
        for (index, url) in self.urls().chain([target]).enumerate() {
            let left_out = FIRST_NAMED..count.saturating_sub(LAST_NAMED);
            if left_out.contains(&index) {
                if index == left_out.start {
                    shown.push_str(&format!(" -> ({} more)", left_out.len()));
                }
                continue;
            }
            if index > 0 {
                shown.push_str(" -> ");
            }
            shown.push_str(&shortened(secrets.url(url)));
        }
        shown
    }
}

fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host() == other.host()
        && one.port_or_known_default() == other.port_or_known_default()
}

fn shortened(url: String) -> String {
    let length = url.chars().count();
    if length <= LONGEST_NAMED {
        return url;
    }
    let begin = url.chars().take(LONGEST_NAMED * 2 / 3);
    let end = url.chars().skip(length - LONGEST_NAMED / 3);
    begin.chain("[…]".chars()).chain(end).collect()
}

impl Policy {
    /// The target, if this is a redirect that is to be followed (RFC 9110, section 15.4).
    ///
    /// Calls the caller's code.
    pub(crate) fn target(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        chain: Chain<'_>,
        secrets: &Secrets,
    ) -> Result<Option<Url>, Fault> {
        if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        // Without a target it is a response like another.
        let Some(location) = headers.get(LOCATION) else {
            return Ok(None);
        };
        let from = chain.followed.last().unwrap_or(chain.asked);
        let mut target = from.join(&text(location)).map_err(|error| {
            let doing = "the server redirects to what is not a URL";
            Fault::with_source(ErrorKind::Redirect, doing, error)
        })?;
        if target.fragment().is_none() {
            // RFC 9110, section 10.2.2: the fragment is inherited.
            target.set_fragment(from.fragment());
        }
        match self.refusal(chain, from, &target, secrets) {
            Some(why) => Err(Fault::new(ErrorKind::Redirect, why)),
            None => Ok(Some(target)),
        }
    }

    fn refusal(
        &self,
        chain: Chain<'_>,
        from: &Url,
        target: &Url,
        secrets: &Secrets,
    ) -> Option<String> {
        match (from.scheme(), target.scheme()) {
            (_, "https") | ("http", "http") => {}
            (_, "http") if self.allow_downgrade => {}
            (_, "http") => {
                let target = shortened(secrets.url(target));
                return Some(format!(
                    "refused to follow a redirect from https to {target} (see `allow_downgrade`)"
                ));
            }
            (_, scheme) => {
                return Some(format!(
                    "refused to follow a redirect to the scheme {scheme:?}"
                ));
            }
        }
        if chain.has(target) {
            let chain = chain.shown(target, secrets);
            return Some(format!("redirected in a loop: {chain}"));
        }
        if chain.followed.len() >= MAX_REDIRECTS {
            let chain = chain.shown(target, secrets);
            return Some(format!(
                "redirected more than {MAX_REDIRECTS} times: {chain}"
            ));
        }
        let is_allowed = self
            .allows
            .as_ref()
            .is_none_or(|allows| allows(from, target));
        (!is_allowed).then(|| {
            let [from, target] = [from, target].map(|url| shortened(secrets.url(url)));
            format!(
                "the redirect policy refuses to go from {from} to {target} (see `allow_redirect`)"
            )
        })
    }
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

/// What was meant for one origin is not shown to another (RFC 9110, section 15.4; Fetch
/// standard, HTTP-redirect fetch, step 13): credentials, the name of the host, and what the
/// caller has marked.
pub(crate) fn strip_credentials(headers: &mut HeaderMap) {
    for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, HOST] {
        headers.remove(name);
    }
    let marked = headers.iter().filter(|(_, value)| value.is_sensitive());
    let marked: Vec<_> = marked.map(|(name, _)| name.clone()).collect();
    for name in marked {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn go(policy: &Policy, chain: &[&str], location: &[u8]) -> Result<String, Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_bytes(location).unwrap());
        let urls: Vec<_> = chain.iter().copied().map(url).collect();
        let chain = Chain {
            asked: &urls[0],
            followed: &urls[1..],
        };
        let to = policy.target(StatusCode::FOUND, &headers, chain, &Secrets::default());
        to.map(|url| url.unwrap().into())
    }

    fn follow(from: &str, location: &[u8]) -> Result<String, ErrorKind> {
        go(&Policy::default(), &[from], location).map_err(|fault| fault.kind)
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
    fn a_downgrade_is_followed_where_it_is_allowed() {
        let policy = Policy {
            allow_downgrade: true,
            ..Policy::default()
        };
        let to = go(&policy, &["https://h/"], b"http://h/").unwrap();
        assert_eq!(to, "http://h/");
        assert!(go(&policy, &["https://h/"], b"ftp://h/").is_err());
    }

    #[test]
    fn a_response_without_location_is_no_redirect() {
        let asked = url("http://h/");
        for status in [StatusCode::FOUND, StatusCode::NOT_MODIFIED, StatusCode::OK] {
            let chain = Chain {
                asked: &asked,
                followed: &[],
            };
            let headers = HeaderMap::new();
            let to = Policy::default().target(status, &headers, chain, &Secrets::default());
            assert!(to.unwrap().is_none());
        }
    }

    #[test]
    fn a_loop_is_what_this_chain_has_asked_for_but_for_the_fragment() {
        let told = |chain: &[&str], location: &str| {
            let to = go(&Policy::default(), chain, location.as_bytes());
            to.err().map(|fault| fault.to_string())
        };
        assert_eq!(
            told(&["http://h/a", "http://h/b?x"], "/a#f").as_deref(),
            Some("redirected in a loop: http://h/a -> http://h/b?x -> http://h/a#…")
        );
        assert!(told(&["http://h/a"], "").is_some());
        assert!(told(&["http://h/a#f"], "/a").is_some());
        for other in ["/a?", "/A", "//h:81/a", "https://h/a", "//u@h/a"] {
            assert_eq!(told(&["http://h/a"], other), None, "{other}");
        }
    }

    #[test]
    fn a_long_chain_is_shown_by_its_ends_and_without_secrets() {
        let urls: Vec<_> = (0..=20)
            .map(|i| format!("http://u:s3cret@h/{i}?token=s3cret"))
            .collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        let long = format!("/21{}?sig=s3cret&last", "x".repeat(1000));
        let fault = go(&Policy::default(), &urls, long.as_bytes()).unwrap_err();
        let shown = fault.to_string();
        assert_eq!(fault.kind, ErrorKind::Redirect);
        let begin = "redirected more than 20 times: http://h/0?token=… -> http://h/1?token=… \
                     -> http://h/2?token=… -> (15 more) -> http://h/18?token=… -> ";
        assert!(shown.starts_with(begin), "{shown}");
        assert!(shown.ends_with("?sig=…&last"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.len() < 500, "{shown}");
    }

    #[test]
    fn the_caller_may_refuse() {
        let policy = Policy {
            allows: Some(Arc::new(|from, to| from.host() == to.host())),
            ..Policy::default()
        };
        assert!(go(&policy, &["http://h/"], b"/x").is_ok());
        let fault = go(&policy, &["http://h/"], b"http://other/").unwrap_err();
        assert_eq!(fault.kind, ErrorKind::Redirect);
        assert_eq!(
            fault.to_string(),
            "the redirect policy refuses to go from http://h/ to http://other/ (see `allow_redirect`)"
        );
    }

    #[test]
    fn a_chain_that_has_left_its_origin_has_left_it_for_good() {
        let left = |urls: &[&str]| {
            let urls: Vec<_> = urls.iter().copied().map(url).collect();
            let (asked, followed) = (&urls[0], &urls[1..]);
            Chain { asked, followed }.has_left_its_origin()
        };
        assert!(!left(&["http://h/"]));
        assert!(!left(&["http://h/a", "http://H:80/b", "http://u@h/c"]));
        for other in ["https://h/", "http://h:81/", "http://other/", "http://h./"] {
            assert!(left(&["http://h/", other]), "{other}");
            assert!(left(&["http://h/", other, "http://h/x"]), "{other}");
        }
    }

    #[test]
    fn credentials_and_marked_headers_are_stripped_and_no_others() {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "cookie",
            "proxy-authorization",
            "host",
            "x-mine",
        ] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        // One marked value is enough.
        headers.append("x-key", HeaderValue::from_static("x"));
        let mut marked = HeaderValue::from_static("x");
        marked.set_sensitive(true);
        headers.append("x-key", marked);
        strip_credentials(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-mine"]);
    }
}
