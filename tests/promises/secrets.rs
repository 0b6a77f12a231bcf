//! No secret is shown: not by an error, not by `Debug`, not in a log.

use std::error::Error as _;
use std::fmt::Debug;
use std::time::Duration;

use fetchpool::{Builder, Error, ErrorKind, HeaderName, HeaderValue, Request, RetryPolicy, Url};
use parking_lot::Mutex;

use crate::files::Directory;
use crate::support::{self, Dead, Incoming, Origin, Reply};
use crate::{builder, with};

/// Stands in every place that a secret can have.
const SECRET: &str = "hunter2";
/// base64("u:hunter2"), without what depends on the end.
const BASIC: &str = "dTpodW50ZXIy";

#[track_caller]
fn assert_tells_nothing(shown: &str) {
    for secret in [SECRET, BASIC] {
        assert!(!shown.contains(secret), "a secret is shown:\n{shown}");
    }
}

#[track_caller]
fn assert_debug_tells_nothing(value: &impl Debug) {
    assert_tells_nothing(&format!("{value:?} {value:#?}"));
}

#[track_caller]
fn assert_error_tells_nothing(error: &Error) {
    assert_debug_tells_nothing(error);
    assert_debug_tells_nothing(&error.report());
    assert_tells_nothing(&format!("{error} {}", error.url().unwrap_or_default()));
    if let Some(report) = error.report() {
        assert_tells_nothing(&report.shown_url());
    }
    let mut source = error.source();
    while let Some(error) = source {
        assert_tells_nothing(&format!("{error} {error:?}"));
        source = error.source();
    }
}

/// What the library logs, however fine, and what the crates underneath do as it advises.
struct Log(Mutex<Vec<(String, String)>>);

static LOG: Log = Log(Mutex::new(Vec::new()));

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("fetchpool") || metadata.level() <= log::Level::Debug
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = record.args().to_string();
            self.0.lock().push((record.target().to_owned(), line));
        }
    }

    fn flush(&self) {}
}

const QUERY: &str =
    "?a=1&X-Amz-Signature=hunter2&X-Mine=hunter2&url=http%3A%2F%2Fo%2F%3Ftoken%3Dhunter2";

fn with_secrets(builder: Builder) -> Builder {
    let mut of_all = HeaderValue::from_static("hunter2");
    of_all.set_sensitive(true);
    builder
        .header(HeaderName::from_static("x-of-all"), of_all)
        .header(
            HeaderName::from_static("x-unmarked"),
            HeaderValue::from_static("hunter2"),
        )
        .secret_parameter("x_mine")
}

fn request(url: String) -> Request {
    let mut key = HeaderValue::from_static("hunter2");
    key.set_sensitive(true);
    let name = HeaderName::from_static;
    let mut request = Request::new(url).header(name("x-key"), key);
    for (header, value) in [("authorization", "Bearer hunter2"), ("cookie", "a=hunter2")] {
        request = request.header(name(header), HeaderValue::from_static(value));
    }
    request
}

fn reply(incoming: &Incoming) -> Reply {
    let path = incoming.target().split('?').next().expect("a path");
    let to = |location: &str| Reply::redirect(302, location);
    match path {
        "/cut" => Reply::ok("half").declared_length(8).then_close(),
        "/garbage" => Reply::raw("SSH-2.0-OpenSSH_9.2\r\n").then_close(),
        "/coding" => Reply::status(200).header("transfer-encoding", "x"),
        "/missing" => Reply::status(404).body(SECRET),
        "/relative" => to("/ok?access_token=hunter2#hunter2"),
        "/loop" => to(&format!("/loop{QUERY}")),
        "/user" => to(&format!("http://u:hunter2@{}/ok{QUERY}", incoming.host())),
        "/user-missing" => to(&format!(
            "http://u:hunter2@{}/missing{QUERY}",
            incoming.host()
        )),
        "/no-url" => to(&format!("http://u:hunter2@:99999/{QUERY}")),
        "/scheme" => to(&format!("ftp://u:hunter2@h/{QUERY}")),
        "/private" => to(&format!("/refused{QUERY}#hunter2")),
        "/endless" => {
            let count = incoming.target().matches("code=").count();
            to(&format!("/endless?{}", "code=hunter2&".repeat(count + 1)))
        }
        _ => Reply::ok("x").header("set-cookie", "a=hunter2"),
    }
}

#[test]
fn no_error_no_debug_and_no_log_line_shows_a_secret() {
    if !support::alone("secrets::no_error_no_debug_and_no_log_line_shows_a_secret") {
        return;
    }
    log::set_logger(&LOG).expect("the only one");
    log::set_max_level(log::LevelFilter::Trace);

    let origin = Origin::start(reply);
    let dead = Dead::refusing();
    let downloader = with(|b| {
        with_secrets(b)
            // What is tried again is logged.
            .retry(RetryPolicy::new().retries(1).base(Duration::ZERO))
            .allow_redirect(|_, to| to.path() != "/refused")
            .allow_address(|address| !address.is_ipv6())
            .max_body(100)
    });
    let paths = [
        "/ok",
        "/cut",
        "/garbage",
        "/coding",
        "/missing",
        "/relative",
        "/loop",
        "/user",
        "/user-missing",
        "/no-url",
        "/scheme",
        "/private",
        "/endless",
    ];
    let mut urls: Vec<_> = paths
        .iter()
        .map(|path| origin.url(&format!("{path}{QUERY}#hunter2")))
        .collect();
    urls.extend([
        format!("http://u:hunter2@{}/ok{QUERY}#hunter2", origin.addr()),
        format!("http://u:hunter2@{}/x{QUERY}#hunter2", dead.addr()),
        format!("http://u:hunter2@[::1]:9/x{QUERY}"),
        format!("https://u:hunter2@{}/x{QUERY}", origin.addr()),
        format!(
            "http://u:hunter2@{}/{QUERY}&{}",
            origin.addr(),
            "x".repeat(100_000)
        ),
        format!("http://u:hunter2@[zz]/x{QUERY}#hunter2"),
        format!("u:hunter2@h/x{QUERY}"),
        format!("/x{QUERY}#hunter2"),
        format!("ftp://u:hunter2@h/x{QUERY}"),
    ]);

    let mut failed = 0;
    let mut batch = downloader.fetch_all(urls.iter().cloned().map(request));
    assert_debug_tells_nothing(&batch);
    for page in batch.by_ref() {
        match page {
            Ok(page) => {
                assert_debug_tells_nothing(&page);
                assert_debug_tells_nothing(page.report());
                assert_tells_nothing(&page.shown_url());
                assert_tells_nothing(&page.report().shown_url());
                for url in page.report().redirects() {
                    assert_tells_nothing(&page.report().shown(url));
                }
            }
            Err(error) => {
                assert_error_tells_nothing(&error);
                failed += 1;
            }
        }
    }
    assert_eq!(failed, urls.len() - 4, "/ok twice, /relative and /user");

    let mut buffer = Vec::new();
    for url in &urls {
        match downloader.fetch_into(request(url.clone()), &mut buffer) {
            Ok(received) => assert_debug_tells_nothing(&received),
            Err(error) => assert_error_tells_nothing(&error),
        }
        let one = request(url.clone());
        assert_debug_tells_nothing(&one);
        let outcome = downloader
            .fetch_with([one], |body| {
                assert_debug_tells_nothing(&body);
                assert_tells_nothing(&body.shown_url());
                Ok(())
            })
            .next()
            .expect("one in, one out");
        if let Err(error) = outcome {
            assert_ne!(error.kind(), ErrorKind::Panicked, "{error}");
            assert_error_tells_nothing(&error);
        }
        if let Err(error) = downloader.permit(url) {
            assert_error_tells_nothing(&error);
        }
        if let Ok(url) = Url::parse(url) {
            assert_debug_tells_nothing(&Request::from(url));
        }
    }
    let directory = Directory::new("secrets");
    for saved in downloader.save_all(urls.iter().cloned().map(request), &directory.0) {
        match saved {
            Ok(saved) => assert_debug_tells_nothing(&saved),
            Err(error) => assert_error_tells_nothing(&error),
        }
    }
    assert_debug_tells_nothing(&with_secrets(builder()));
    assert_debug_tells_nothing(&downloader);

    // It was sent, and it was logged what was done.
    let sent = origin.log().iter().any(|i| {
        let raw = String::from_utf8_lossy(i.raw());
        raw.contains(SECRET) && raw.contains("x-key") && raw.contains("X-Amz-Signature")
    });
    assert!(sent);
    let lines = LOG.0.lock();
    for target in ["ureq", "fetchpool"] {
        assert!(lines.iter().any(|line| line.0.starts_with(target)));
    }
    for (target, line) in lines.iter() {
        assert_tells_nothing(&format!("{target}: {line}"));
    }
}

#[test]
fn errors_name_the_url_and_keep_all_of_it_that_is_no_secret() {
    let dead = Dead::refusing();
    let url = format!(
        "http://u:hunter2@{}/a%20b;v=1/?q=%7e+x&&Expires=60&Signature=hunter2%3D&x-mine=hunter2&z#hunter2",
        dead.addr()
    );
    let downloader = with(|b| b.secret_parameter("X-Mine"));
    let error = downloader.fetch(&url).unwrap_err();
    let shown = dead.url("/a%20b;v=1/?q=%7e+x&&Expires=60&Signature=…&x-mine=…&z#…");
    assert_eq!(error.url(), Some(shown.as_str()));
    assert!(error.to_string().starts_with(&shown), "{error}");
    // The request is the caller's, with all that he gave.
    let request = error.report().expect("of a job").request();
    assert_eq!(request.url().map(Url::as_str), Some(url.as_str()));
}
