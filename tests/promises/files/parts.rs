//! What came of a body is not fetched again, and never joined with what is of another.

use std::fs;
use std::time::Duration;

use fetchpool::{
    Directory as To, Downloader, Error, ErrorKind, Layout, OnExist, Request, RetryPolicy, Saved,
};

use super::Directory;
use super::archive::{Archive, Content};
use crate::support::{Gate, Origin, Reply};
use crate::{once, with};

const SIZE: usize = 300_000;
const CUT: usize = 200_000;

fn content() -> Content {
    Content::new(SIZE, 0)
}

fn save(downloader: &Downloader, archive: &Archive, directory: &Directory) -> Result<Saved, Error> {
    let mut batch = downloader.save_all([archive.url()], &directory.0);
    batch.next().unwrap()
}

/// A directory in which a run has left the beginning of the file.
fn after_a_cut(name: &str, content: Content) -> (Archive, Directory) {
    let archive = Archive::start(content.cut_after(CUT));
    let directory = Directory::new(name);
    let error = save(&once(), &archive, &directory).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated);
    archive.change(|content| content.cut_after = None);
    (archive, directory)
}

#[test]
fn the_next_run_fetches_only_what_is_missing() {
    let (archive, directory) = after_a_cut("next-run", content());
    let left = directory.files();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(
        left.iter().all(|name| name.starts_with(".big.bin.")),
        "{left:?}"
    );
    let saved = save(&once(), &archive, &directory).unwrap();
    assert_eq!(archive.last_range(), Some(CUT as u64));
    assert_eq!(saved.report().resumed_from(), Some(CUT as u64));
    assert_eq!(saved.bytes(), SIZE as u64);
    assert_eq!(saved.status().unwrap(), 206);
    assert_eq!(directory.files(), ["big.bin"]);
    assert_eq!(directory.read("big.bin"), *content().body);
}

/// As far as that is known before the response; else where the URL alone puts it.
#[test]
fn a_part_is_beside_its_file() {
    let cut = content().cut_after(CUT);
    let origin = Origin::start(move |incoming| {
        let name = "attachment; filename=told";
        cut.reply(incoming).header("Content-Disposition", name)
    });
    let port = origin.addr().port();
    let directory = Directory::new("part-beside");
    let to = || To::new(&directory.0);
    let elsewhere = || to().place(|_| "sub/x".into());
    let url = || Request::new(origin.url("/d/big.bin"));
    let tree = format!("127.0.0.1_{port}/d");
    for (to, request, within, begins) in [
        (to(), url(), "", ".big.bin."),
        (to(), url().save_as("sub/dir/x"), "sub/dir", ".x."),
        (elsewhere(), url(), "", ".big.bin."),
        (elsewhere().layout(Layout::Tree), url(), &tree, ".big.bin."),
    ] {
        once().save_all([request], to).for_each(drop);
        // Removed with this, for the next.
        let within = Directory(directory.0.join(within));
        let names = within.files();
        let is_part = |name: &String| name.starts_with(begins) && name.ends_with(".part");
        assert!(names.iter().any(is_part), "{begins}: {names:?}");
    }
}

#[test]
fn an_attempt_goes_on_where_the_one_before_broke_off() {
    let gone = Gate::new();
    let held = gone.clone();
    let whole = content();
    let origin = Origin::start(move |incoming| match incoming.visit() {
        1 => whole.clone().cut_after(CUT).reply(incoming),
        // To the request that follows at once.
        2 => Reply::nothing().then_close(),
        3 => whole.reply(incoming).after(&held),
        _ => Reply::status(500),
    });
    gone.open();
    let directory = Directory::new("attempts");
    let downloader = with(|b| b.retry(RetryPolicy::new().base(Duration::from_millis(5))));
    let mut batch = downloader.save_all([origin.url("/big.bin")], &directory.0);
    let saved = batch.next().unwrap().unwrap();
    assert_eq!(saved.report().attempts(), 3);
    assert_eq!(saved.report().resumed_from(), Some(CUT as u64));
    assert_eq!(origin.log()[2].range_start(), Some(CUT as u64));
    assert_eq!(directory.read("big.bin"), *content().body);
}

#[test]
fn a_file_that_has_changed_is_fetched_anew() {
    let (archive, directory) = after_a_cut("changed", content());
    let new = Content {
        etag: Some("\"v2\""),
        ..Content::new(SIZE - 50_000, 77)
    };
    archive.change(|content| *content = new.clone());
    let saved = save(&once(), &archive, &directory).unwrap();
    assert_eq!(archive.origin.log()[1].header("if-range"), Some("\"v1\""));
    assert_eq!(
        (saved.report().resumed_from(), archive.requests()),
        (None, 2)
    );
    assert_eq!(directory.files(), ["big.bin"]);
    assert_eq!(directory.read("big.bin"), *new.body);
}

#[test]
fn a_server_that_takes_no_ranges_sends_it_anew_and_no_old_tail_is_left() {
    let (archive, directory) = after_a_cut("no-ranges", content());
    archive.change(|content| {
        *content = Content {
            takes_ranges: false,
            ..Content::new(100_000, 3)
        };
    });
    let saved = save(&once(), &archive, &directory).unwrap();
    assert_eq!(saved.bytes(), 100_000);
    assert_eq!(directory.read("big.bin"), *Content::new(100_000, 3).body);
}

#[test]
fn a_part_that_is_not_the_rest_is_not_taken_for_it() {
    let from = |start: usize, etag: &str, body: &[u8]| {
        let range = format!("bytes {start}-{}/{SIZE}", start + body.len() - 1);
        let reply = Reply::status(206).header("ETag", etag);
        reply.header("Content-Range", range).body(body)
    };
    let whole = content().body;
    let wrong = [
        from(0, "\"v1\"", &whole),
        from(CUT - 1, "\"v1\"", &whole[CUT - 1..]),
        from(CUT + 1, "\"v1\"", &whole[CUT + 1..]),
        from(CUT, "\"v2\"", &whole[CUT..]),
        from(CUT, "\"v1\"", &whole[CUT..SIZE - 1]),
        Reply::status(206)
            .header("ETag", "\"v1\"")
            .body(&whole[CUT..]),
        Reply::status(206)
            .header("ETag", "\"v1\"")
            .header("Content-Range", format!("bytes={CUT}-{}/{SIZE}", SIZE - 1))
            .body(&whole[CUT..]),
        from(CUT, "\"v1\"", &whole[CUT..]).header("Content-Encoding", "gzip"),
        from(CUT, "\"v1\"", &whole[CUT..])
            .header("Content-Type", "multipart/byteranges; boundary=x"),
        // Of two nobody knows which one is meant.
        from(CUT, "\"v1\"", &whole[CUT..]).header("ETag", "\"v2\""),
        from(CUT, "\"v1\"", &whole[CUT..]).header("Content-Range", format!("bytes 0-1/{SIZE}")),
        Reply::status(416).header("Content-Range", format!("bytes */{}", CUT - 1)),
        Reply::status(416),
        Reply::status(304),
    ];
    for (i, wrong) in wrong.into_iter().enumerate() {
        let first = content().cut_after(CUT);
        let origin = Origin::start(move |incoming| match incoming.visit() {
            1 => first.reply(incoming),
            2 => wrong.clone(),
            _ if incoming.range_start().is_some() => Reply::status(500),
            _ => Content::new(SIZE, 9).reply(incoming),
        });
        let directory = Directory::new(&format!("wrong-{i}"));
        let get = || {
            once()
                .save_all([origin.url("/big.bin")], &directory.0)
                .next()
                .unwrap()
        };
        get().unwrap_err();
        let saved = get().unwrap_or_else(|error| panic!("{i}: {error}"));
        // One attempt, though it took two requests.
        assert_eq!(
            (saved.report().attempts(), origin.log().len()),
            (1, 3),
            "{i}"
        );
        assert_eq!(
            directory.read("big.bin"),
            *Content::new(SIZE, 9).body,
            "{i}"
        );
        assert_eq!(directory.files(), ["big.bin"], "{i}");
    }
}

/// Killed between the last byte and the name.
#[test]
fn a_part_that_is_all_is_asked_about_and_not_fetched() {
    for known in [true, false] {
        let (archive, directory) = after_a_cut(&format!("all-{known}"), content());
        let files = directory.files();
        let part = directory.0.join(&files[0]);
        fs::write(&part, &*content().body).unwrap();
        let stamp = directory.0.join(&files[1]);
        if !known {
            let text = fs::read_to_string(&stamp).unwrap();
            fs::write(&stamp, text.replace(&format!("length {SIZE}\n"), "")).unwrap();
        }
        let saved = save(&once(), &archive, &directory).unwrap();
        assert_eq!(saved.status().unwrap(), if known { 304 } else { 416 });
        assert_eq!(archive.requests(), 2);
        assert_eq!(saved.report().resumed_from(), Some(SIZE as u64));
        assert!(!saved.was_present());
        assert_eq!(directory.files(), ["big.bin"]);
        assert_eq!(directory.read("big.bin"), *content().body);
    }
}

/// It was asked whether it is this one.
#[test]
fn news_of_another_version_settle_no_part() {
    let other = Content::new(SIZE, 9);
    let (first, served) = (content().cut_after(CUT), other.clone());
    let origin = Origin::start(move |incoming| match incoming.visit() {
        1 => first.reply(incoming),
        2 => Reply::status(304).header("ETag", "\"v2\""),
        _ => served.reply(incoming),
    });
    let directory = Directory::new("all-of-another");
    let save = || {
        let mut batch = once().save_all([origin.url("/big.bin")], &directory.0);
        batch.next().unwrap()
    };
    save().unwrap_err();
    fs::write(directory.0.join(&directory.files()[0]), &*content().body).unwrap();
    save().unwrap();
    assert_eq!(directory.read("big.bin"), *other.body);
}

#[test]
fn a_part_is_of_one_url() {
    let whole = content();
    let other = Content::new(SIZE, 5);
    let origin = Origin::start(
        move |incoming| match (incoming.target(), incoming.visit()) {
            ("/a/big.bin", 1) => whole.clone().cut_after(CUT).reply(incoming),
            ("/a/big.bin", _) => whole.reply(incoming),
            _ => other.reply(incoming),
        },
    );
    let directory = Directory::new("one-url");
    let get = |path| {
        once()
            .save_all([origin.url(path)], &directory.0)
            .next()
            .unwrap()
    };
    get("/a/big.bin").unwrap_err();
    assert_eq!(get("/b/big.bin").unwrap().report().resumed_from(), None);
    assert_eq!(directory.read("big.bin"), *Content::new(SIZE, 5).body);
    // What is left of the first is still good.
    let saved = get("/a/big.bin").unwrap();
    assert_eq!(saved.report().resumed_from(), Some(CUT as u64));
    assert_eq!(directory.read("big (1).bin"), *content().body);
}

#[test]
fn what_cannot_be_gone_on_with_is_not_left() {
    let weak = Content {
        etag: Some("W/\"v1\""),
        ..content()
    };
    let none = Content {
        etag: None,
        ..content()
    };
    let small = Content::new(50_000, 0);
    for (i, content) in [weak, none, small].into_iter().enumerate() {
        let archive = Archive::start(content.cut_after(40_000));
        let directory = Directory::new(&format!("not-left-{i}"));
        save(&once(), &archive, &directory).unwrap_err();
        assert_eq!(directory.files(), [""; 0], "{i}");
    }
    let archive = Archive::start(content().cut_after(CUT));
    let directory = Directory::new("not-wanted");
    let kept_not = fetchpool::Directory::new(&directory.0).keep_parts(false);
    let mut batch = once().save_all([archive.url()], kept_not);
    batch.next().unwrap().unwrap_err();
    assert_eq!(directory.files(), [""; 0]);
}

#[test]
fn a_stamp_that_is_torn_or_of_something_else_says_nothing() {
    type Damage = fn(String) -> String;
    let damages: [Damage; 4] = [
        |text| text[..text.len() / 2].to_owned(),
        |text| text.replace("part 1", "part 2"),
        |text| text.replace("\nof ", "\nof 0"),
        |_| String::new(),
    ];
    for (i, damage) in damages.into_iter().enumerate() {
        let (archive, directory) = after_a_cut(&format!("stamp-{i}"), content());
        let stamp = directory.0.join(&directory.files()[1]);
        fs::write(&stamp, damage(fs::read_to_string(&stamp).unwrap())).unwrap();
        let saved = save(&once(), &archive, &directory).unwrap();
        assert_eq!(
            (archive.last_range(), saved.report().resumed_from()),
            (None, None)
        );
        assert_eq!(directory.read("big.bin"), *content().body);
        assert_eq!(directory.files(), ["big.bin"], "{i}");
    }
}

#[test]
fn a_part_longer_than_the_whole_is_begun_anew() {
    let (archive, directory) = after_a_cut("too-long", content());
    fs::write(directory.0.join(&directory.files()[0]), vec![0; SIZE + 1]).unwrap();
    save(&once(), &archive, &directory).unwrap();
    assert_eq!(directory.read("big.bin"), *content().body);
}

#[test]
fn a_stamp_shows_no_secret() {
    let archive = Archive::start(content().cut_after(CUT));
    let directory = Directory::new("stamp-secret");
    let url = archive
        .origin
        .url("/big.bin?sig=hunter2")
        .replace("http://", "http://u:hunter2@");
    once()
        .save_all([url], &directory.0)
        .next()
        .unwrap()
        .unwrap_err();
    let stamp = String::from_utf8(directory.read(&directory.files()[1])).unwrap();
    assert!(
        stamp.contains("/big.bin?sig=…") && !stamp.contains("hunter2"),
        "{stamp}"
    );
}

#[test]
fn a_body_is_limited_with_what_there_was_of_it() {
    let (archive, directory) = after_a_cut("limited", content());
    let limited = with(|b| b.max_file(Some(SIZE as u64 - 1)));
    let error = save(&limited, &archive, &directory).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let limited = with(|b| b.max_file(Some(SIZE as u64)));
    save(&limited, &archive, &directory).unwrap();
}

/// The second comes while the first is at its part.
#[test]
fn two_at_one_url_do_not_share_a_part() {
    let gate = Gate::new();
    let held = gate.clone();
    let whole = content();
    let origin = Origin::start(move |incoming| match incoming.visit() {
        1 => Reply::status(200)
            .header("ETag", "\"v1\"")
            .declared_length(SIZE as u64)
            .then_send(&whole.body[..CUT])
            .then_wait(&held)
            .then_send(&whole.body[CUT..]),
        _ => whole.reply(incoming),
    });
    let directory = Directory::new("two");
    let (url, path) = (origin.url("/big.bin"), &directory.0);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| once().save_all([&url], path).next().unwrap());
        gate.wait_for_waiters(1);
        let second = once().save_all([&url], path).next().unwrap().unwrap();
        assert_eq!(second.report().resumed_from(), None);
        gate.open();
        let first = first.join().unwrap().unwrap();
        // It turned out to be just what the second has brought.
        assert_eq!((first.was_present(), second.was_present()), (true, false));
        assert_eq!(first.path(), second.path());
    });
    assert_eq!(directory.files(), ["big.bin"]);
    assert_eq!(directory.read("big.bin"), *content().body);
}

/// `/f` redirects to one resource first, and then to another whose tag is the same: a tag is of one
/// resource alone (RFC 9110, section 8.8.3).
#[test]
fn bytes_are_not_joined_with_those_of_where_a_redirect_leads_later() {
    // What looks like a secret may be what names the file.
    let targets = [
        ("/v1", "/v2"),
        ("/get?file=A&sig=1", "/get?file=B&sig=2"),
        ("/get?key=A.bin", "/get?key=B.bin"),
        ("/get?token=A", "/get?token=B"),
        (
            "/get?X-Amz-Signature=A&versionId=1",
            "/get?X-Amz-Signature=B&versionId=2",
        ),
    ];
    let both = |(i, to)| [(i, to, false), (i, to, true)];
    for (i, (one, two), part_is_whole) in targets.into_iter().enumerate().flat_map(both) {
        let first = content().cut_after(CUT);
        let other = Content::new(SIZE, 9);
        let served = other.clone();
        let origin = Origin::start(
            move |incoming| match (incoming.target(), incoming.visit()) {
                ("/f", 1) => Reply::redirect(302, one),
                ("/f", _) => Reply::redirect(302, two),
                (target, _) if target == one => first.reply(incoming),
                _ => served.reply(incoming),
            },
        );
        let directory = Directory::new(&format!("elsewhere-{i}-{part_is_whole}"));
        let save = || {
            once()
                .save_all([origin.url("/f")], &directory.0)
                .next()
                .unwrap()
        };
        save().unwrap_err();
        if part_is_whole {
            fs::write(directory.0.join(&directory.files()[0]), &*content().body).unwrap();
        }
        assert_eq!(save().unwrap().report().resumed_from(), None);
        assert_eq!(directory.read("f"), *other.body);
        assert_eq!(directory.files(), ["f"]);
    }
}

#[test]
fn nor_are_they_by_a_retry() {
    let (first, other) = (content().cut_after(CUT), Content::new(SIZE, 9));
    let served = other.clone();
    let origin = Origin::start(
        move |incoming| match (incoming.target(), incoming.visit()) {
            ("/f", 1) => Reply::redirect(302, "/v1"),
            ("/f", _) => Reply::redirect(302, "/v2"),
            ("/v1", 1) => first.reply(incoming),
            ("/v1", _) => Reply::status(503),
            _ => served.reply(incoming),
        },
    );
    let directory = Directory::new("elsewhere-retry");
    let retrying = with(|b| b.retry(RetryPolicy::new().base(Duration::from_millis(1))));
    retrying
        .save_all([origin.url("/f")], &directory.0)
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(directory.read("f"), *other.body);
}

/// As of a store that signs its URLs anew each time.
#[test]
fn a_signature_makes_no_other_resource() {
    let (first, whole) = (content().cut_after(CUT), content());
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/f" => {
            let visit = incoming.visit();
            let signed = format!("/store/f?X-Amz-Date={visit}&v=7&X-Amz-Signature={visit}");
            Reply::redirect(302, signed)
        }
        "/store/f?X-Amz-Date=1&v=7&X-Amz-Signature=1" => first.reply(incoming),
        _ => whole.reply(incoming),
    });
    let directory = Directory::new("signed");
    let save = || {
        once()
            .save_all([origin.url("/f")], &directory.0)
            .next()
            .unwrap()
    };
    save().unwrap_err();
    assert_eq!(save().unwrap().report().resumed_from(), Some(CUT as u64));
    assert_eq!(directory.read("f"), *content().body);
}

/// As a list of URLs is signed anew for each run.
#[test]
fn nor_does_one_of_the_first_url() {
    let (first, whole) = (content().cut_after(CUT), content());
    let origin = Origin::start(move |incoming| match incoming.target().ends_with("=1") {
        true => first.reply(incoming),
        false => whole.reply(incoming),
    });
    let directory = Directory::new("signed-first");
    let save = |run: u8| {
        let signed = format!("/f?X-Amz-Date={run}&v=7&X-Amz-Signature={run}");
        let mut batch = once().save_all([origin.url(&signed)], &directory.0);
        batch.next().unwrap()
    };
    save(1).unwrap_err();
    assert_eq!(save(2).unwrap().report().resumed_from(), Some(CUT as u64));
    assert_eq!(directory.read("f"), *content().body);
    assert_eq!(directory.files(), ["f"]);
}

/// As after a power cut: the length of the file got to the disk, and some of its bytes did not.
#[cfg(target_os = "linux")]
#[test]
fn bytes_that_are_not_on_the_disk_are_not_there() {
    const WRITTEN: u64 = 65_536;
    for whole_size in [false, true] {
        let (archive, directory) = after_a_cut(&format!("hole-{whole_size}"), content());
        let part = directory.files();
        let part = part.iter().find(|name| name.ends_with(".part")).unwrap();
        let part = directory.0.join(part);
        let file = fs::OpenOptions::new().write(true).open(part).unwrap();
        file.set_len(WRITTEN).unwrap();
        file.set_len(if whole_size { SIZE } else { CUT } as u64)
            .unwrap();
        drop(file);
        let saved = save(&once(), &archive, &directory).unwrap();
        assert_eq!(archive.last_range(), Some(WRITTEN));
        assert_eq!(saved.report().resumed_from(), Some(WRITTEN));
        assert_eq!(directory.read("big.bin"), *content().body);
    }
}

/// A backup made of links, or one who was killed between giving a file its name and taking the part's
/// away.
#[cfg(unix)]
#[test]
fn a_part_that_goes_by_another_name_is_left_to_that_and_begun_anew() {
    let (archive, directory) = after_a_cut("linked-part", content());
    let parts = directory.files();
    let part = parts.iter().find(|name| name.ends_with(".part")).unwrap();
    fs::hard_link(directory.0.join(part), directory.0.join("backup")).unwrap();
    let saved = save(&once(), &archive, &directory).unwrap();
    assert_eq!(saved.report().resumed_from(), None);
    assert_eq!(directory.read("big.bin"), *content().body);
    assert_eq!(directory.read("backup"), content().body[..CUT]);
    assert_eq!(directory.files(), ["backup", "big.bin"]);
}

/// RFC 9110, section 15.3.7: it may leave out what the first response has said.
#[test]
fn a_rest_need_not_say_again_what_the_file_is_called_and_how_old_it_is() {
    for (i, mute) in [206, 304, 416].into_iter().enumerate() {
        let whole = content();
        let origin = Origin::start(move |incoming| {
            let reply = |status, body: &[u8]| {
                Reply::status(status)
                    .header("ETag", "\"v1\"")
                    .declared_length(body.len() as u64)
            };
            let named = |reply: Reply| {
                reply
                    .header("Content-Disposition", "attachment; filename=named.bin")
                    .header("Last-Modified", super::archive::DATE)
            };
            match incoming.visit() {
                1 => {
                    let cut = &whole.body[..CUT];
                    named(reply(200, &whole.body)).then_send(cut).then_close()
                }
                _ if mute == 206 => reply(206, &whole.body[CUT..])
                    .header("Content-Range", format!("bytes {CUT}-{}/{SIZE}", SIZE - 1))
                    .then_send(&whole.body[CUT..]),
                _ if mute == 304 => Reply::status(304),
                _ => reply(416, b"").header("Content-Range", format!("bytes */{SIZE}")),
            }
        });
        let directory = Directory::new(&format!("mute-{i}"));
        let save = || {
            let mut batch = once().save_all([origin.url("/f")], &directory.0);
            batch.next().unwrap()
        };
        save().unwrap_err();
        if mute != 206 {
            let parts = directory.files();
            let part = parts.iter().find(|name| name.ends_with(".part")).unwrap();
            fs::write(directory.0.join(part), &*content().body).unwrap();
        }
        let saved = save().unwrap();
        assert_eq!(directory.files(), ["named.bin"], "{mute}");
        assert_eq!(directory.read("named.bin"), *content().body);
        let date = fs::metadata(saved.path()).unwrap().modified().unwrap();
        let date = date.duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(date.as_secs(), 784_111_777);
        assert_eq!(
            saved.headers().unwrap()["last-modified"],
            super::archive::DATE
        );
    }
}

/// A layout of the caller's own is shown the same response, be it all of it or the rest.
#[test]
fn what_is_gone_on_with_is_placed_as_what_comes_at_once() {
    for (i, rest) in [200, 206, 304].into_iter().enumerate() {
        let whole = content();
        let origin = Origin::start(move |incoming| {
            let typed = |reply: Reply| reply.header("ETag", "\"v1\"");
            let all = || typed(Reply::status(200)).header("Content-Type", "text/csv");
            match (incoming.range_start(), rest) {
                // The type need not be said again.
                (Some(_), 206) => typed(Reply::status(206))
                    .header("Content-Range", format!("bytes {CUT}-{}/{SIZE}", SIZE - 1))
                    .body(&whole.body[CUT..]),
                _ if incoming.header("if-none-match").is_some() => typed(Reply::status(304)),
                _ if incoming.visit() == 1 && rest != 200 => {
                    let cut = all().declared_length(SIZE as u64);
                    cut.then_send(&whole.body[..CUT]).then_close()
                }
                _ => all().body(&*whole.body),
            }
        });
        let directory = Directory::new(&format!("placed-{i}"));
        let save = || {
            let to = To::new(&directory.0).place(|body| {
                let kind = body.headers().get("content-type");
                let kind = kind.map_or("none", |kind| kind.to_str().unwrap());
                let length = body.content_length();
                format!("{}/{length:?}", kind.replace('/', "-")).into()
            });
            once().save_all([origin.url("/f")], to).next().unwrap()
        };
        if rest != 200 {
            save().unwrap_err();
        }
        if rest == 304 {
            let parts = directory.files();
            let part = parts.iter().find(|name| name.ends_with(".part")).unwrap();
            fs::write(directory.0.join(part), &*content().body).unwrap();
        }
        let saved = save().unwrap();
        let place = directory.0.join("text-csv").join(format!("Some({SIZE})"));
        assert_eq!(saved.path(), place, "{rest}");
        assert_eq!(saved.status().unwrap(), rest);
    }
}

/// Or something before it that takes no request with a range for a good one.
#[test]
fn a_server_that_refuses_ranges_is_asked_for_the_whole() {
    for status in [400, 403, 405, 412, 501] {
        let whole = content();
        let origin = Origin::start(move |incoming| match incoming.range_start() {
            Some(_) => Reply::status(status),
            None if incoming.visit() == 1 => whole.clone().cut_after(CUT).reply(incoming),
            None => whole.reply(incoming),
        });
        let directory = Directory::new(&format!("refused-{status}"));
        let save = |request: Request| {
            let mut batch = once().save_all([request], &directory.0);
            batch.next().unwrap()
        };
        save(Request::new(origin.url("/f"))).unwrap_err();
        let saved = save(Request::new(origin.url("/f"))).unwrap();
        assert_eq!(saved.report().resumed_from(), None);
        assert_eq!(origin.log()[1].range_start(), Some(CUT as u64));
        assert_eq!(directory.files(), ["f"]);
        assert_eq!(directory.read("f"), *content().body);
        let pieces = Request::new(origin.url("/g")).segments(crate::n(2));
        assert_eq!(save(pieces).unwrap().status().unwrap(), 200);
        assert_eq!(directory.read("g"), *content().body);
    }
}

/// It stays only as long as it may be of use.
#[test]
fn a_part_of_another_version_goes_where_the_file_is_the_servers() {
    let archive = Archive::start(content());
    let directory = Directory::new("other-version");
    save(&once(), &archive, &directory).unwrap();
    archive.change(|content| {
        *content = Content {
            etag: Some("\"v2\""),
            date: Some(super::archive::LATER),
            ..Content::new(SIZE, 1).cut_after(CUT)
        }
    });
    save(&once(), &archive, &directory).unwrap_err();
    assert_eq!(directory.files().len(), 3);
    archive.change(|changed| *changed = content());
    for status in [200, 304] {
        let saved = save(&once(), &archive, &directory).unwrap();
        assert!(saved.was_present());
        assert_eq!(saved.status().unwrap(), status);
        assert_eq!(directory.files(), ["big.bin"]);
    }
}

/// As one who cleans up, and another process that begins anew, may do it while ours is at work.
#[cfg(unix)]
#[test]
fn what_is_in_the_place_of_a_part_by_the_end_does_not_get_the_name() {
    for (name, theirs, policy) in [
        ("removed", None, OnExist::SameOrBoth),
        ("replaced", Some(&b"another's"[..]), OnExist::SameOrBoth),
        ("replaced-over", Some(b"another's"), OnExist::Overwrite),
    ] {
        // More than sockets hold: once it has been sent, some of it is in the part.
        const SENT: u64 = 32 << 20;
        let rest = Gate::new();
        let held = rest.clone();
        let origin = Origin::start(move |_| {
            let reply = Reply::status(200).header("ETag", "\"v1\"");
            let begun = reply.then_repeat("ours", SENT);
            begun.then_wait(&held).then_send("and the rest")
        });
        let directory = Directory::new(&format!("stolen-{name}"));
        let to = To::new(&directory.0).on_exist(policy);
        let batch = once().save_all([origin.url("/f")], to);
        let saving = std::thread::spawn(move || batch.collect::<Vec<_>>());
        rest.wait_for_waiters(1);
        let names = directory.files();
        let part = names.iter().find(|name| name.ends_with(".part"));
        let part = directory.0.join(part.unwrap());
        fs::remove_file(&part).unwrap();
        if let Some(theirs) = theirs {
            fs::write(&part, theirs).unwrap();
        }
        rest.open();
        let ends = saving.join().unwrap();
        let error = ends[0].as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("its part"), "{error}");
        assert!(!directory.0.join("f").exists());
        assert_eq!(fs::read(&part).ok().as_deref(), theirs);
    }
}
