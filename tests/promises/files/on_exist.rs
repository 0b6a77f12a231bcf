//! What stands there is not lost, and not fetched again where the server shows that it is the same.

use std::fs;
use std::time::{Duration, SystemTime};

use fetchpool::{Directory as To, ErrorKind, OnExist, Request, Saved};

use super::Directory;
use super::archive::{Archive, Content, DATE, LATER};
use crate::support::{Origin, Reply};
use crate::{once, with};

fn content() -> Content {
    Content::new(1000, 0)
}

fn save(
    archive: &Archive,
    directory: &Directory,
    policy: OnExist,
) -> Result<Saved, fetchpool::Error> {
    let to = To::new(&directory.0).on_exist(policy);
    once().save_all([archive.url()], to).next().unwrap()
}

/// A directory with the file of an earlier run.
fn after_a_run(name: &str) -> (Archive, Directory) {
    let archive = Archive::start(content());
    let directory = Directory::new(name);
    let saved = save(&archive, &directory, OnExist::SameOrBoth).unwrap();
    assert!(!saved.was_present());
    (archive, directory)
}

#[test]
fn a_file_has_the_date_of_its_response() {
    let (_archive, directory) = after_a_run("date");
    let modified = |name| {
        fs::metadata(directory.0.join(name))
            .unwrap()
            .modified()
            .unwrap()
    };
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    assert_eq!(modified("big.bin"), date);
    let other = Archive::start(content());
    let undated = To::new(&directory.0).keep_date(false);
    once()
        .save_all([other.origin.url("/now")], undated)
        .next()
        .unwrap()
        .unwrap();
    assert!(modified("now") > date + Duration::from_secs(1 << 29));
}

#[test]
fn what_the_server_shows_to_be_the_same_is_not_fetched() {
    for policy in [OnExist::SameOrBoth, OnExist::Update] {
        let (archive, directory) = after_a_run(&format!("same-{policy:?}"));
        let again = save(&archive, &directory, policy).unwrap();
        assert!(again.was_present());
        assert_eq!(again.status().unwrap(), 304);
        assert_eq!(
            (again.bytes(), again.path()),
            (1000, &*directory.0.join("big.bin"))
        );
        assert_eq!(
            archive.origin.log()[1].header("if-modified-since"),
            Some(DATE)
        );
        assert_eq!(directory.files(), ["big.bin"]);
    }
}

/// One that knows nothing of conditions, but says how long and how old it is.
#[test]
fn a_response_of_its_length_and_date_shows_it_as_well() {
    let origin = Origin::start(|_| {
        Reply::status(200)
            .header("Last-Modified", DATE)
            .declared_length(1 << 30)
            .then_send("beginning")
            .then_stall()
    });
    let directory = Directory::new("by-length");
    fs::create_dir(&directory.0).unwrap();
    let file = fs::File::create(directory.0.join("f")).unwrap();
    file.set_len(1 << 30).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))
        .unwrap();
    let saved = once()
        .save_all([origin.url("/f")], &directory.0)
        .next()
        .unwrap()
        .unwrap();
    assert!(saved.was_present());
    assert_eq!(saved.status().unwrap(), 200);
    assert_eq!(directory.files(), ["f"]);
}

#[test]
fn what_has_changed_is_kept_beside_or_takes_its_place() {
    for (policy, files) in [
        (OnExist::SameOrBoth, &["big (1).bin", "big.bin"][..]),
        (OnExist::Update, &["big.bin"]),
        (OnExist::KeepBoth, &["big (1).bin", "big.bin"]),
        (OnExist::Overwrite, &["big.bin"]),
    ] {
        let (archive, directory) = after_a_run(&format!("changed-{policy:?}"));
        let new = Content {
            date: Some(LATER),
            etag: None,
            ..Content::new(1000, 1)
        };
        archive.change(|content| *content = new.clone());
        let saved = save(&archive, &directory, policy).unwrap();
        assert!(!saved.was_present());
        assert_eq!(fs::read(saved.path()).unwrap(), *new.body);
        assert_eq!(directory.files(), files, "{policy:?}");
        if files.len() == 2 {
            assert_eq!(directory.read("big.bin"), *content().body);
        }
    }
}

/// Many servers answer so to any date that is not before theirs.
#[test]
fn a_file_of_another_date_is_not_taken_for_the_servers() {
    for date in [DATE, LATER] {
        let origin = Origin::start(move |incoming| match incoming.header("if-modified-since") {
            Some(_) => Reply::status(304).header("Last-Modified", date),
            None => content().reply(incoming),
        });
        let directory = Directory::new(&format!(
            "other-date-{}",
            date.len() + usize::from(date == DATE)
        ));
        fs::create_dir(&directory.0).unwrap();
        let file = directory.0.join("f");
        fs::write(&file, "of somebody else's").unwrap();
        let of_date = fs::File::options().write(true).open(&file).unwrap();
        of_date
            .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))
            .unwrap();
        let saved = once()
            .save_all([origin.url("/f")], &directory.0)
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(saved.was_present(), date == DATE);
        assert_eq!(directory.read("f"), b"of somebody else's");
    }
}

/// Its date is that of its writing: no server's.
#[test]
fn a_file_that_somebody_wrote_is_not_asked_about_by_date() {
    let archive = Archive::start(content());
    let directory = Directory::new("written");
    fs::create_dir(&directory.0).unwrap();
    let file = directory.0.join("big.bin");
    fs::write(&file, "notes").unwrap();
    let written = fs::File::options().write(true).open(&file).unwrap();
    written
        .set_modified(SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 5_000))
        .unwrap();
    let saved = save(&archive, &directory, OnExist::SameOrBoth).unwrap();
    assert_eq!(archive.origin.log()[0].header("if-modified-since"), None);
    assert!(!saved.was_present());
    assert_eq!(directory.read("big.bin"), b"notes");
}

#[test]
fn a_file_is_skipped_without_a_question() {
    let (archive, directory) = after_a_run("skip");
    let saved = save(&archive, &directory, OnExist::Skip).unwrap();
    assert!(saved.was_present());
    assert_eq!((saved.status(), archive.requests()), (None, 1));
    assert_eq!(saved.url().as_str(), archive.url());
}

#[test]
fn or_it_is_an_error_before_a_question() {
    let (archive, directory) = after_a_run("error");
    let error = save(&archive, &directory, OnExist::Error).unwrap_err();
    assert_eq!((error.kind(), archive.requests()), (ErrorKind::Io, 1));
    assert!(
        error.to_string().contains("big.bin is there already"),
        "{error}"
    );
}

#[test]
fn a_failed_download_takes_nobodys_place() {
    for policy in [OnExist::Overwrite, OnExist::Update, OnExist::SameOrBoth] {
        let (archive, directory) = after_a_run(&format!("unharmed-{policy:?}"));
        let new = Content {
            date: Some(LATER),
            etag: None,
            ..Content::new(1000, 1)
        };
        archive.change(|content| *content = new.cut_after(500));
        save(&archive, &directory, policy).unwrap_err();
        assert_eq!(directory.files(), ["big.bin"]);
        assert_eq!(directory.read("big.bin"), *content().body);
    }
}

/// The same list gives the same names, in whatever order its bodies come.
#[test]
fn a_second_run_finds_the_files_of_the_first() {
    let origin = Origin::start(|incoming| {
        let seed = incoming.target().as_bytes()[1];
        Content {
            etag: None,
            ..Content::new(1000 + usize::from(seed), seed)
        }
        .reply(incoming)
    });
    let urls = ["/a/x.txt", "/b/X.txt", "/c/x.txt", "/d/y.txt"].map(|path| origin.url(path));
    let directory = Directory::new("second-run");
    let run = || {
        once()
            .save_all(&urls, &directory.0)
            .in_order()
            .map(Result::unwrap)
    };
    let names = |saved: Saved| saved.path().file_name().unwrap().to_owned();
    let first: Vec<_> = run().map(names).collect();
    assert_eq!(first, ["x.txt", "X (1).txt", "x (2).txt", "y.txt"]);
    let second: Vec<_> = run()
        .inspect(|saved| assert!(saved.was_present()))
        .map(names)
        .collect();
    assert_eq!(second, first);
    assert_eq!(directory.files().len(), 4);
}

#[test]
fn two_of_one_batch_never_take_each_others_place() {
    let origin = Origin::start(|incoming| Reply::ok(incoming.target()));
    let directory = Directory::new("each-other");
    let urls: Vec<_> = (0..20).map(|i| origin.url(&format!("/{i}/f"))).collect();
    let to = To::new(&directory.0).on_exist(OnExist::Overwrite);
    let paths = once()
        .save_all(&urls, to)
        .map(|saved| saved.unwrap().path().to_owned());
    let mut bodies: Vec<_> = paths.map(|path| fs::read(path).unwrap()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!((bodies.len(), directory.files().len()), (20, 20));
}

/// Some file systems have no attributes of the user's: then there is nothing to test.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(super) fn has_attributes() -> bool {
    use rustix::fs::{XattrFlags, fsetxattr};
    let directory = Directory::new("attributes");
    fs::create_dir(&directory.0).unwrap();
    let file = fs::File::create(directory.0.join("probe")).unwrap();
    let has = fsetxattr(&file, "user.fetchpool.probe", b"x", XattrFlags::empty()).is_ok();
    if !has {
        eprintln!("not tested: the file system has no attributes");
    }
    has
}

/// Where dates show nothing: none is sent, or two versions are of one second.
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[test]
fn a_remembered_tag_shows_whether_it_is_the_same() {
    if !has_attributes() {
        return;
    }
    for date in [None, Some(DATE)] {
        let content = Content { date, ..content() };
        let archive = Archive::start(content);
        let directory = Directory::new(&format!("tags-{}", date.is_some()));
        let save = || {
            let to = To::new(&directory.0)
                .on_exist(OnExist::Update)
                .keep_etag(true);
            let saved = once()
                .save_all([archive.url()], to)
                .next()
                .unwrap()
                .unwrap();
            (saved.was_present(), saved.status().unwrap().as_u16())
        };
        assert_eq!(save(), (false, 200));
        assert_eq!(save(), (true, 304));
        assert_eq!(
            archive.origin.log()[1].header("if-none-match"),
            Some("\"v1\"")
        );
        archive.change(|content| content.etag = Some("\"v2\""));
        assert_eq!(save(), (false, 200));
        assert_eq!(save(), (true, 304));
        // Somebody writes into it: it is of no tag any more, and of no date.
        let written = fs::OpenOptions::new()
            .append(true)
            .open(directory.0.join("big.bin"));
        std::io::Write::write_all(&mut written.unwrap(), b"!").unwrap();
        assert_eq!(save(), (false, 200));
        assert_eq!(directory.read("big.bin").len(), 1000);
    }
}

/// Without a date nothing shows it before its bytes are there; and then there are no two of them.
#[test]
fn a_body_that_turns_out_to_be_the_same_is_not_kept_twice() {
    let none = Content {
        date: None,
        etag: None,
        ..content()
    };
    let archive = Archive::start(none);
    let directory = Directory::new("twins");
    for was_present in [false, true, true] {
        let saved = save(&archive, &directory, OnExist::SameOrBoth).unwrap();
        assert_eq!((saved.was_present(), saved.bytes()), (was_present, 1000));
    }
    assert_eq!(directory.files(), ["big.bin"]);
    for (change, files) in [(0, 2), (999, 3)] {
        archive.change(|content| {
            let mut body = (*content.body).clone();
            body[change] ^= 1;
            content.body = body.into();
        });
        save(&archive, &directory, OnExist::SameOrBoth).unwrap();
        assert_eq!(directory.files().len(), files);
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
#[test]
fn a_tag_says_nothing_of_where_a_redirect_leads_later() {
    let origin = Origin::start(|incoming| match (incoming.target(), incoming.visit()) {
        ("/f", 1) => Reply::redirect(302, "/v1"),
        ("/f", _) => Reply::redirect(302, "/v2"),
        ("/v1", _) => Content {
            date: None,
            ..content()
        }
        .reply(incoming),
        _ => Content {
            date: None,
            ..Content::new(2000, 1)
        }
        .reply(incoming),
    });
    let directory = Directory::new("tag-elsewhere");
    let to = To::new(&directory.0)
        .on_exist(OnExist::Update)
        .keep_etag(true);
    for bytes in [1000, 2000] {
        let saved = once()
            .save_all([origin.url("/f")], to.clone())
            .next()
            .unwrap()
            .unwrap();
        assert!(!saved.was_present());
        assert_eq!(directory.read("f").len(), bytes);
    }
}

/// The name is told by the responses: to be another request's, or one's own of an earlier run.
#[test]
fn a_file_of_the_same_batch_is_not_what_stands_there() {
    let origin = Origin::start(|incoming| {
        let seed = incoming.target().as_bytes()[1];
        let reply = Content {
            etag: None,
            ..Content::new(1000, seed)
        }
        .reply(incoming);
        reply.header("Content-Disposition", "attachment; filename=r.pdf")
    });
    let urls = ["/1", "/2", "/3"].map(|path| origin.url(path));
    let one_by_one = with(|b| b.workers(1));
    for policy in [
        OnExist::SameOrBoth,
        OnExist::Update,
        OnExist::Skip,
        OnExist::Error,
        OnExist::Overwrite,
        OnExist::KeepBoth,
    ] {
        let directory = Directory::new(&format!("told-{policy:?}"));
        let to = To::new(&directory.0).on_exist(policy);
        let run = || one_by_one.save_all(&urls, to.clone()).in_order();
        for (saved, seed) in run().zip(*b"123") {
            let saved = saved.unwrap();
            assert!(!saved.was_present(), "{policy:?}");
            assert_eq!(
                fs::read(saved.path()).unwrap(),
                *Content::new(1000, seed).body
            );
        }
        assert_eq!(
            directory.files(),
            ["r (1).pdf", "r (2).pdf", "r.pdf"],
            "{policy:?}"
        );
        let present = run()
            .filter(|saved| saved.as_ref().is_ok_and(Saved::was_present))
            .count();
        match policy {
            OnExist::SameOrBoth | OnExist::Update | OnExist::Skip => assert_eq!(present, 3),
            _ => assert_eq!(present, 0),
        }
        for (name, seed) in [("r.pdf", b'1'), ("r (1).pdf", b'2'), ("r (2).pdf", b'3')] {
            assert_eq!(
                directory.read(name),
                *Content::new(1000, seed).body,
                "{policy:?}"
            );
        }
    }
}

#[test]
fn an_answer_that_is_no_file_takes_nobodys_place() {
    let origin = Origin::start(|incoming| {
        let status = incoming.target()[1..]
            .split('/')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        Reply::status(status).body(if status == 204 { "" } else { "not a file" })
    });
    for status in [201, 202, 204, 205, 226, 299, 300, 302, 304] {
        let directory = Directory::new(&format!("no-file-{status}"));
        fs::create_dir(&directory.0).unwrap();
        fs::write(directory.0.join("f"), "precious").unwrap();
        let to = To::new(&directory.0).on_exist(OnExist::Update);
        let url = origin.url(&format!("/{status}/f"));
        once().save_all([url], to).next().unwrap().unwrap_err();
        assert_eq!(directory.files(), ["f"], "{status}");
        assert_eq!(directory.read("f"), b"precious", "{status}");
    }
}

/// The second version is twice as long as the first, of one date, and broke off half way: the rest of it
/// is as long and as old as what stands there.
#[test]
fn the_rest_of_another_version_is_not_what_stands_there() {
    const FIRST: usize = 100_000;
    let (one, two) = (Content::new(FIRST, 0), Content::new(2 * FIRST, 7));
    let two = Content {
        etag: Some("\"v2\""),
        ..two
    };
    let (first, second) = (one, two.clone());
    let origin = Origin::start(move |incoming| match incoming.visit() {
        1 => first.reply(incoming),
        // It knows no dates of requests.
        2 => Reply::status(200)
            .header("ETag", "\"v2\"")
            .header("Last-Modified", DATE)
            .declared_length(2 * FIRST as u64)
            .then_send(&second.body[..FIRST])
            .then_close(),
        _ => second.reply(incoming),
    });
    let directory = Directory::new("rest-of-another");
    let save = || {
        let to = To::new(&directory.0).on_exist(OnExist::Update);
        once().save_all([origin.url("/f")], to).next().unwrap()
    };
    save().unwrap();
    save().unwrap_err();
    let saved = save().unwrap();
    assert_eq!(saved.report().resumed_from(), Some(FIRST as u64));
    assert!(!saved.was_present());
    assert!(directory.read("f") == *two.body);
    assert_eq!(directory.files(), ["f"]);
}

/// What the next run believes: no server writes that.
/// By the name that it has in the directory, too.
#[cfg(unix)]
#[test]
fn what_is_spared_through_a_link_is_so_as_well() {
    use std::os::unix::fs::symlink;
    let origin = Origin::start(|incoming| Reply::ok(incoming.target()));
    let directory = Directory::new("spared-link");
    let way = Directory::new("spared-way");
    for there in [&directory, &way] {
        fs::create_dir_all(&there.0).unwrap();
    }
    let path = |name: &str| directory.0.join(name);
    fs::write(path("list"), "ours").unwrap();
    symlink(path("list"), way.0.join("list")).unwrap();
    // The directory goes by two names, and the one of the journal is not there yet.
    symlink(&directory.0, way.0.join("to")).unwrap();
    let to = To::new(way.0.join("to"))
        .on_exist(OnExist::Overwrite)
        .journal(path("new/state"))
        .spare(way.0.join("list"));
    let save = |path: &str, name: &str| Request::new(origin.url(path)).save_as(name);
    let requests = [save("/list", "list"), save("/state", "new/state")];
    let saved = once().save_all(requests, to).in_order();
    let names = saved.map(|saved| saved.unwrap().path().file_name().unwrap().to_owned());
    let names: Vec<_> = names.collect();
    assert_eq!(names, ["list (1)", "state (1)"]);
    assert_eq!(directory.read("list"), b"ours");
}

#[test]
fn what_is_spared_is_nobodys_to_replace() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/SHA256SUMS" => Reply::ok("of a URL"),
        target => Reply::ok("of a response").header(
            "Content-Disposition",
            format!("attachment; filename={}", &target[1..]),
        ),
    });
    for (i, policy) in [
        OnExist::Overwrite,
        OnExist::Update,
        OnExist::Skip,
        OnExist::SameOrBoth,
        OnExist::KeepBoth,
        OnExist::Error,
    ]
    .into_iter()
    .enumerate()
    {
        let directory = Directory::new(&format!("spared-{i}"));
        fs::create_dir_all(&directory.0).unwrap();
        let path = |name: &str| directory.0.join(name);
        fs::write(path("SHA256SUMS"), "ours").unwrap();
        // However the two are spelt.
        let to = To::new(
            directory
                .0
                .join("../")
                .join(directory.0.file_name().unwrap()),
        )
        .on_exist(policy)
        .journal(path("state"))
        .spare(path("SHA256SUMS"));
        let urls = ["/SHA256SUMS", "/state", "/STATE"].map(|path| origin.url(path));
        let saved: Vec<_> = once().save_all(urls, to).in_order().collect();
        let names = saved.iter().map(|saved| {
            let path = saved.as_ref().unwrap().path().file_name().unwrap();
            path.to_str().unwrap().to_owned()
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names[0], "SHA256SUMS (1)", "{policy:?}");
        assert!(
            names[1..].iter().all(|name| name.contains(" (")),
            "{names:?}"
        );
        assert_eq!(directory.read("SHA256SUMS"), b"ours");
        assert!(
            directory
                .read("state")
                .starts_with(b"fetchpool journal 1\nsaved")
        );
    }
}
