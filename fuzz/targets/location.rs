//! `Location`: where a redirect leads, and what it may not do.
//!
//! The first byte of the input says where the redirect comes from and what is put before the
//! rest, which is the `Location`.

#![no_main]
#![allow(dead_code, unused_imports, unreachable_pub)]

use http::header::{AUTHORIZATION, COOKIE, LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use libfuzzer_sys::{Corpus, fuzz_target};
use url::Url;

#[path = "../../src/fault.rs"]
mod fault;
#[path = "../../src/redact.rs"]
mod redact;
#[path = "../../src/http/redirect.rs"]
mod redirect;
#[path = "../../src/retry/mod.rs"]
mod retry;

use fault::ErrorKind;
use redact::Secrets;
use redirect::{Chain, Policy};

const FROM: [&str; 6] = [
    "http://h/a/x?q#f",
    "https://h/a/",
    "http://u:hunter2@h/a/b",
    "https://u:hunter2@h:8443/?q",
    "http://[::1]:8080/",
    "http://127.0.0.1/#",
];

const BEFORE: [&str; 6] = [
    "",
    "//",
    "http://",
    "https://u:hunter2@",
    "http://u:hunter2@h:81/",
    "http:",
];

fuzz_target!(|bytes: &[u8]| -> Corpus { check(bytes) });

fn check(bytes: &[u8]) -> Corpus {
    let Some((&choice, rest)) = bytes.split_first() else {
        return Corpus::Reject;
    };
    let choice = usize::from(choice);
    let from = Url::parse(FROM[choice % FROM.len()]).unwrap();
    let before = BEFORE[choice / FROM.len() % BEFORE.len()];
    let location = [before.as_bytes(), rest].concat();
    let Ok(value) = HeaderValue::from_bytes(&location) else {
        return Corpus::Reject;
    };
    let mut headers = HeaderMap::new();
    headers.insert(LOCATION, value);
    let chain = Chain {
        asked: &from,
        followed: &[],
    };
    let policy = Policy::default();
    let secrets = Secrets::default();
    match policy.target(StatusCode::FOUND, &headers, chain, &secrets) {
        Ok(target) => {
            let target = target.expect("there is a Location");
            is_where_a_request_may_go(&target, &from, &location);
            is_one_url_on_the_wire(&target);
            keeps_credentials_to_their_origin(&target, &from);
            hides_user_information(&target, &secrets);
        }
        Err(fault) => {
            assert_eq!(fault.kind, ErrorKind::Redirect);
            // What stands before an `@`, unless the server wrote another elsewhere.
            let shown = fault.to_string();
            assert!(
                rest.contains(&b'@') || !shown.contains("hunter2@"),
                "{shown}"
            );
        }
    }
    Corpus::Keep
}

fn is_where_a_request_may_go(target: &Url, from: &Url, location: &[u8]) {
    assert!(matches!(target.scheme(), "http" | "https"), "{target}");
    assert!(
        from.scheme() == "http" || target.scheme() == "https",
        "{target}"
    );
    assert!(
        target.host_str().is_some_and(|host| !host.is_empty()),
        "{target}"
    );
    assert!(
        target.fragment().is_some() || from.fragment().is_none(),
        "{target}"
    );
    let info = |url: &Url| (url.username().to_owned(), url.password().map(str::to_owned));
    let is_inherited = info(target) == info(from) && target.origin() == from.origin();
    if info(target) != (String::new(), None) && !is_inherited {
        assert!(location.contains(&b'@'), "{target} has user information");
    }
}

/// What is written into the request line and `Host` names what the URL names.
fn is_one_url_on_the_wire(target: &Url) {
    let text = target.as_str();
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
    assert_eq!(Url::parse(text).as_ref(), Ok(target));
    let mut bare = target.clone();
    bare.set_username("").unwrap();
    bare.set_password(None).unwrap();
    // Beyond this the client refuses it before.
    if bare.as_str().len() > 60 * 1024 {
        return;
    }
    let uri: Uri = match bare.as_str().parse() {
        Ok(uri) => uri,
        Err(error) => {
            // A URL's host may have a brace; no name that can be looked up has.
            let host = bare.host_str().unwrap_or_default();
            let is_of_names = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
            assert!(!host.chars().all(is_of_names), "{bare}: {error}");
            return;
        }
    };
    assert_eq!(uri.scheme_str(), Some(bare.scheme()));
    assert_eq!(uri.host(), bare.host_str());
    assert_eq!(uri.port_u16(), bare.port());
    assert_eq!(uri.path(), bare.path());
    assert_eq!(uri.query(), bare.query());
}

fn keeps_credentials_to_their_origin(target: &Url, from: &Url) {
    let is_same = target.scheme() == from.scheme()
        && target.host_str() == from.host_str()
        && target.port_or_known_default() == from.port_or_known_default();
    let followed = [target.clone()];
    let chain = Chain {
        asked: from,
        followed: &followed,
    };
    assert_eq!(
        chain.has_left_its_origin(),
        !is_same,
        "from {from} to {target}"
    );
    let mut headers = HeaderMap::new();
    for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
        headers.insert(name, HeaderValue::from_static("x"));
    }
    redirect::strip_credentials(&mut headers);
    assert!(headers.is_empty());
    redirect::add_credentials(&mut headers, target);
    let has = !target.username().is_empty() || target.password().is_some();
    assert_eq!(headers.len(), usize::from(has), "{target}");
}

fn hides_user_information(target: &Url, secrets: &Secrets) {
    let shown = secrets.url(target);
    let authority = shown.split('/').nth(2).unwrap_or_default();
    assert!(!authority.contains('@'), "{shown}");
    assert!(authority.starts_with(target.host_str().unwrap()), "{shown}");
}
