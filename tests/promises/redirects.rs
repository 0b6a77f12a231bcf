//! Redirects: which are followed, what goes along, and what an error says of the way.

use std::sync::{Arc, OnceLock};

use fetchpool::{Downloader, ErrorKind, HeaderName, HeaderValue, Request, Url};
use parking_lot::Mutex;

use crate::support::{Incoming, Origin, Reply};
use crate::tls::{Server, answer, read_request};
use crate::{n, once, with};

fn header(name: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
    (
        HeaderName::from_static(name),
        HeaderValue::from_static(value),
    )
}

fn marked(name: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
    let (name, mut value) = header(name, value);
    value.set_sensitive(true);
    (name, value)
}

/// `/7` leads to `/8`, and so on.
fn staircase(incoming: &Incoming) -> Reply {
    let step: u32 = incoming.target()[1..].parse().expect("a number");
    match step {
        20 => Reply::ok("there"),
        step => Reply::redirect(302, format!("/{}", step + 1)),
    }
}

#[test]
fn a_loop_is_an_error_that_names_the_chain_and_is_not_walked_again() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/a" => Reply::redirect(302, "/b?token=hunter2"),
        "/self" => Reply::redirect(307, "#there"),
        _ => Reply::redirect(302, "/a"),
    });
    let downloader = once();
    let error = downloader.fetch(origin.url("/a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Redirect);
    let host = origin.url("");
    assert_eq!(
        error.to_string(),
        format!("{host}/a: redirected in a loop: {host}/a -> {host}/b?token=… -> {host}/a")
    );
    assert_eq!(origin.targets(), ["/a", "/b?token=hunter2"]);
    // A fragment makes no other resource.
    let error = downloader.fetch(origin.url("/self")).unwrap_err();
    assert!(error.to_string().contains("in a loop"), "{error}");
    assert_eq!(origin.targets().len(), 3);
}

#[test]
fn twenty_redirects_are_followed_and_not_one_more() {
    let origin = Origin::start(staircase);
    let page = once().fetch(origin.url("/0")).unwrap();
    assert_eq!(page.body(), b"there");
    assert_eq!(page.report().redirects().len(), 20);

    let endless = Origin::start(|incoming| {
        let longer = format!("{}x", incoming.target());
        Reply::redirect(302, longer)
    });
    let error = once().fetch(endless.url("/")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Redirect);
    assert_eq!(endless.targets().len(), 21);
    let said = error.to_string();
    let last = format!(" -> {}", endless.url(&format!("/{}", "x".repeat(21))));
    assert!(said.contains("more than 20 times"), "{said}");
    assert!(said.contains(" -> (15 more) -> "), "{said}");
    assert!(said.ends_with(&last), "{said}");
}

#[test]
fn from_https_to_http_only_where_it_is_allowed_and_then_without_credentials() {
    for allowed in [false, true] {
        let open = Origin::start(|_| Reply::ok("in the open"));
        let location = open.url("/there");
        let server = Server::start(1, move |mut stream| {
            assert!(read_request(&mut stream));
            let redirect =
                format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
            answer(&mut stream, redirect.as_bytes());
        });
        let downloader = server.trusting_with(|b| b.allow_downgrade(allowed));
        let (name, value) = header("authorization", "Bearer hunter2");
        let request = Request::new(server.url("127.0.0.1")).header(name, value);
        let page = downloader.fetch(request);
        if allowed {
            assert_eq!(page.unwrap().body(), b"in the open");
            assert_eq!(open.log()[0].header("authorization"), None);
        } else {
            let error = page.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Redirect);
            assert!(error.to_string().contains("from https to http"), "{error}");
            assert_eq!(open.stats().connections.total, 0);
        }
    }
}

#[test]
fn credentials_and_marked_headers_stay_at_the_first_origin_and_do_not_come_back() {
    let origin = Arc::new(OnceLock::<String>::new());
    let back = Arc::clone(&origin);
    let other = Origin::start(move |_| {
        let origin = back.get().expect("it was asked before");
        Reply::redirect(302, format!("{origin}/back"))
    });
    let out = other.url("/out");
    let first = Origin::start(move |incoming| match incoming.target() {
        "/start" => Reply::redirect(302, "/same"),
        "/same" => Reply::redirect(302, &out),
        _ => Reply::ok("x"),
    });
    origin.set(first.url("")).expect("set once");

    let downloader = with(|b| {
        [
            header("authorization", "of all"),
            marked("x-key-of-all", "x"),
            header("x-of-all", "x"),
        ]
        .into_iter()
        .fold(b, |b, (name, value)| b.header(name, value))
    });
    let request = [
        header("cookie", "a=b"),
        header("proxy-authorization", "x"),
        marked("x-key", "x"),
        header("x-mine", "x"),
    ]
    .into_iter()
    .fold(Request::new(first.url("/start")), |r, (name, value)| {
        r.header(name, value)
    });
    downloader.fetch(request).unwrap();

    let secret = [
        "authorization",
        "x-key-of-all",
        "cookie",
        "proxy-authorization",
        "x-key",
    ];
    let seen = [first.log(), other.log()].concat();
    let targets: Vec<_> = seen.iter().map(|incoming| incoming.target()).collect();
    assert_eq!(targets, ["/start", "/same", "/back", "/out"]);
    for incoming in &seen {
        let at_home = matches!(incoming.target(), "/start" | "/same");
        for name in secret {
            let is_sent = incoming.header(name).is_some();
            assert_eq!(is_sent, at_home, "{name} to {}", incoming.target());
        }
        for name in ["x-of-all", "x-mine", "user-agent"] {
            assert!(incoming.header(name).is_some(), "{name}");
        }
    }
}

#[test]
fn a_host_header_of_the_callers_is_for_the_first_origin() {
    let other = Origin::start(|_| Reply::ok("x"));
    let out = other.url("/");
    let first = Origin::start(move |_| Reply::redirect(302, &out));
    let (name, value) = header("host", "virtual.test");
    let request = Request::new(first.url("/")).header(name, value);
    once().fetch(request).unwrap();
    assert_eq!(first.log()[0].host(), "virtual.test");
    assert_eq!(other.log()[0].host(), other.addr().to_string());
}

#[test]
fn user_and_password_of_a_location_are_sent_where_it_leads() {
    let other = Origin::start(|_| Reply::ok("x"));
    let out = format!("http://u:p@{}/", other.addr());
    let first = Origin::start(move |_| Reply::redirect(302, &out));
    let (name, value) = header("authorization", "Bearer hunter2");
    let downloader = with(|b| b.header(name, value));
    let page = downloader.fetch(first.url("/")).unwrap();
    // base64("u:p")
    assert_eq!(other.log()[0].header("authorization"), Some("Basic dTpw"));
    assert_eq!(page.url().as_str(), other.url("/"));
}

#[test]
fn the_caller_is_asked_about_each_redirect_and_may_refuse() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/a" => Reply::redirect(302, "/b"),
        "/b" => Reply::redirect(302, "/private?sig=hunter2"),
        // What is refused in any case is not for the caller to judge.
        "/ftp" => Reply::redirect(302, "ftp://127.0.0.1/"),
        _ => Reply::ok("x"),
    });
    let asked = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&asked);
    let downloader = with(|b| {
        b.allow_redirect(move |from: &Url, to: &Url| {
            note.lock().push(format!("{}>{}", from.path(), to.path()));
            to.path() != "/private"
        })
    });
    let error = downloader.fetch(origin.url("/a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Redirect);
    let said = error.to_string();
    assert!(said.contains("the redirect policy refuses"), "{said}");
    assert!(said.contains("/private?sig=…"), "{said}");
    assert!(downloader.fetch(origin.url("/ftp")).is_err());
    assert_eq!(*asked.lock(), ["/a>/b", "/b>/private"]);
    assert_eq!(origin.targets(), ["/a", "/b", "/ftp"]);
}

#[test]
fn the_redirect_policy_runs_under_no_lock_and_its_panic_is_that_jobs_outcome() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/there" | "/bomb" => Reply::ok("x"),
        target if target.ends_with("bomb") => Reply::redirect(302, "/bomb"),
        _ => Reply::redirect(302, "/there"),
    });
    let handle = Arc::new(OnceLock::<Downloader>::new());
    let inner = Arc::clone(&handle);
    let downloader = with(|b| {
        b.workers(1).per_host(n(1)).allow_redirect(move |_, to| {
            assert!(to.path() != "/bomb", "boom");
            // Each of these takes the scheduler's lock or the cache's.
            let downloader = inner.get().expect("it is running");
            downloader.flush_dns();
            let permit = downloader.try_permit(to).expect("a good URL");
            permit.is_none()
        })
    });
    handle.set(downloader.clone()).expect("set once");
    let urls = ["/0", "/1bomb", "/2"].map(|path| origin.url(path));
    let outcomes: Vec<_> = downloader.fetch_all(urls).in_order().collect();
    let kinds = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().err().map(|error| error.kind()));
    assert!(kinds.eq([None, Some(ErrorKind::Panicked), None]));
    let said = outcomes[1].as_ref().unwrap_err().to_string();
    assert!(said.contains("boom"), "{said}");
    // The token has come back.
    let permit = downloader.try_permit(origin.url("/")).unwrap();
    assert!(permit.is_some());
}
