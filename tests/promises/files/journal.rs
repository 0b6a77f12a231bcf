//! A run goes on where the journal of an earlier one ends.

use std::fs;
use std::path::Path;

use fetchpool::{Directory as To, ErrorKind, HeaderName, HeaderValue, OnExist, Request, Saved};

use super::Directory;
use crate::support::{Gate, Origin, Reply};
use crate::{once, with};

fn to(directory: &Directory) -> To {
    To::new(directory.0.join("files")).journal(directory.0.join("journal"))
}

fn journal(directory: &Directory) -> String {
    fs::read_to_string(directory.0.join("journal")).unwrap()
}

fn origin() -> Origin {
    Origin::start(|incoming| match incoming.target() {
        "/bad" => Reply::status(404),
        target => Reply::ok(target).header("ETag", "\"a%b\""),
    })
}

/// One that is there.
fn directory(name: &str) -> Directory {
    let directory = Directory::new(name);
    fs::create_dir(&directory.0).unwrap();
    directory
}

#[test]
fn a_line_is_as_the_documentation_says() {
    let origin = origin();
    let directory = directory("journal-line");
    let digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
    let url = origin
        .url("/a%20%C3%BC?sig=hunter2")
        .replace("http://", "http://u:hunter2@");
    let requests = [
        Request::new(&url),
        Request::new(origin.url("/bad")),
        Request::new(origin.url("/wrong")).expect_digest(digest.parse().unwrap()),
    ];
    once().save_all(requests, to(&directory)).for_each(drop);
    let port = origin.addr().port();
    let lines = journal(&directory);
    let mut lines: Vec<_> = lines
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .collect();
    lines[1..].sort();
    for line in &mut lines[1..] {
        // The key is of the port as well.
        assert!(line[1].len() == 24 && line[1].bytes().all(|byte| byte.is_ascii_hexdigit()));
        line[1] = "KEY";
    }
    let (good, bad, wrong) = (
        format!("http://127.0.0.1:{port}/a%2520%25C3%25BC?sig=%E2%80%A6"),
        format!("http://127.0.0.1:{port}/bad"),
        format!("http://127.0.0.1:{port}/wrong"),
    );
    assert_eq!(
        lines,
        [
            vec!["fetchpool journal 1"],
            vec!["digest", "KEY", "-", "-", "-", "-", "-", &wrong],
            vec![
                "saved",
                "KEY",
                "23",
                "a %C3%BC",
                "\"a%25b\"",
                "-",
                "-",
                &good
            ],
            vec!["status", "KEY", "-", "-", "-", "-", "-", &bad],
        ]
    );
    assert!(!journal(&directory).contains("hunter2"));
}

#[test]
fn what_is_done_is_not_asked_for_and_the_rest_is_fetched() {
    let origin = origin();
    let directory = directory("journal-rest");
    let urls = |names: &[&str]| -> Vec<_> { names.iter().map(|name| origin.url(name)).collect() };
    let run = |names: &[&str]| -> Vec<_> {
        let batch = once().save_all(urls(names), to(&directory)).in_order();
        batch
            .map(|saved| saved.map(|saved| saved.was_present()).map_err(|e| e.kind()))
            .collect()
    };
    assert_eq!(
        run(&["/a", "/b", "/bad"]),
        [Ok(false), Ok(false), Err(ErrorKind::Status)]
    );
    assert_eq!(origin.log().len(), 3);
    let again = run(&["/a", "/b", "/bad", "/c"]);
    assert_eq!(
        again,
        [Ok(true), Ok(true), Err(ErrorKind::Status), Ok(false)]
    );
    assert_eq!(origin.targets()[3..].len(), 2, "{:?}", origin.targets());
    // What is said already is not said again.
    assert_eq!(
        journal(&directory)
            .lines()
            .filter(|line| line.ends_with("/a"))
            .count(),
        1
    );
}

/// It is named by the response: without the journal nobody knew what stands there.
#[test]
fn what_is_done_is_so_whatever_the_policy() {
    let origin = Origin::start(|_| {
        Reply::ok("x").header("Content-Disposition", "attachment; filename=told")
    });
    for policy in [OnExist::Overwrite, OnExist::KeepBoth, OnExist::Error] {
        let directory = directory(&format!("journal-{policy:?}"));
        let save = || -> Saved {
            let to = to(&directory).on_exist(policy);
            once()
                .save_all([origin.url("/f")], to)
                .next()
                .unwrap()
                .unwrap()
        };
        let first = save();
        let asked = origin.log().len();
        let again = save();
        assert!(again.was_present());
        assert_eq!((again.path(), again.status()), (first.path(), None));
        assert_eq!(origin.log().len(), asked);
    }
}

#[test]
fn a_file_that_is_gone_or_of_another_length_is_not_done() {
    let origin = origin();
    let directory = directory("journal-gone");
    let save = || {
        let to = to(&directory).on_exist(OnExist::Overwrite);
        once()
            .save_all([origin.url("/f")], to)
            .next()
            .unwrap()
            .unwrap()
    };
    let path = save().path().to_owned();
    fs::remove_file(&path).unwrap();
    assert!(!save().was_present());
    fs::write(&path, "longer than it was").unwrap();
    assert!(!save().was_present());
    assert_eq!(fs::read(&path).unwrap(), b"/f");
    assert!(save().was_present());
}

#[test]
fn a_file_is_done_for_the_digests_that_it_was_judged_by() {
    let origin = origin();
    let directory = directory("journal-digest");
    // `printf /f | sha256sum`
    let right = "sha256:84ea6f6e20fe9a5cc90d0c9f5ba128ad91544bda6071caf9c79ce48018b6ea13".parse();
    let right: fetchpool::Digest = right.unwrap();
    let wrong = "sha1:0000000000000000000000000000000000000000"
        .parse()
        .unwrap();
    let save = |digest: Option<fetchpool::Digest>| {
        let request = Request::new(origin.url("/f"));
        let request = digest.into_iter().fold(request, Request::expect_digest);
        once().save_all([request], to(&directory)).next().unwrap()
    };
    save(Some(right)).unwrap();
    assert!(save(Some(right)).unwrap().was_present());
    assert!(save(None).unwrap().was_present());
    assert_eq!(origin.log().len(), 1);
    assert_eq!(save(Some(wrong)).unwrap_err().kind(), ErrorKind::Digest);
    // What failed takes nothing back.
    let asked = origin.log().len();
    assert!(save(None).unwrap().was_present());
    assert_eq!(origin.log().len(), asked);
}

#[test]
fn a_torn_last_line_is_as_good_as_none() {
    let origin = origin();
    let directory = directory("journal-torn");
    let run = || {
        once()
            .save_all(["/a", "/b"].map(|path| origin.url(path)), to(&directory))
            .in_order()
    };
    run().for_each(drop);
    let whole = journal(&directory);
    let second = whole.trim_end().rfind('\n').unwrap() + 1;
    let last = if whole[second..].contains("/a") { 0 } else { 1 };
    for end in second..whole.len() {
        fs::write(directory.0.join("journal"), &whole[..end]).unwrap();
        let asked = origin.log().len();
        let present: Vec<_> = run()
            .map(|saved| saved.unwrap().status().is_none())
            .collect();
        assert!(present[1 - last], "{end}");
        assert_eq!(origin.log().len(), asked + 1, "{end}");
        assert_eq!(journal(&directory).lines().count(), 3, "{end}");
    }
    // Killed before the first line.
    fs::write(directory.0.join("journal"), "").unwrap();
    assert_eq!(run().filter(Result::is_ok).count(), 2);
    assert!(journal(&directory).starts_with("fetchpool journal 1\n"));
}

#[test]
fn two_batches_never_share_one() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| Reply::ok("x").after(&held));
    let directory = directory("journal-shared");
    std::thread::scope(|scope| {
        let (origin, directory) = (&origin, &directory);
        let first = scope.spawn(move || {
            once()
                .save_all([origin.url("/1")], to(directory))
                .next()
                .unwrap()
                .unwrap();
        });
        gate.wait_for_waiters(1);
        let second = ["/2", "/3"].map(|path| origin.url(path));
        for outcome in once().save_all(second, to(directory)) {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(
                error.to_string().contains("another run is using it"),
                "{error}"
            );
        }
        assert_eq!(origin.log().len(), 1);
        gate.open();
        first.join().unwrap();
    });
    once()
        .save_all([origin.url("/2")], to(&directory))
        .next()
        .unwrap()
        .unwrap();
}

/// The lines that are there, or are not yet, are as they were, and the batch has it after that.
#[test]
fn a_check_of_what_is_right_changes_nothing() {
    let origin = origin();
    let directory = Directory::new("journal-check");
    for was_present in [false, true] {
        to(&directory).check().unwrap();
        assert!(directory.0.join("files").is_dir());
        let mut batch = once().save_all([origin.url("/f")], to(&directory));
        let saved = batch.next().unwrap().unwrap();
        assert_eq!(saved.was_present(), was_present);
    }
    assert_eq!(origin.log().len(), 1);
    assert_eq!(journal(&directory).lines().count(), 2);
}

#[test]
fn what_is_no_journal_is_left_as_it_is() {
    let origin = origin();
    let directory = directory("journal-none");
    fs::write(directory.0.join("notes"), "my notes\n").unwrap();
    fs::write(directory.0.join("later"), "fetchpool journal 2\n").unwrap();
    fs::create_dir(directory.0.join("one")).unwrap();
    for (name, says) in [
        ("notes", "not a journal"),
        ("later", "another version"),
        ("notes/journal", ""),
        ("one", ""),
    ] {
        let path = directory.0.join(name);
        let to = To::new(&directory.0).journal(&path);
        let early = to.check().unwrap_err();
        let mut batch = once().save_all([origin.url("/f")], to);
        for error in [early, batch.next().unwrap().unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Io);
            let text = error.to_string();
            assert!(
                text.contains(says) && text.contains(path.to_str().unwrap()),
                "{text}"
            );
            assert!(text.ends_with("name another file"), "{text}");
        }
    }
    assert_eq!(fs::read(directory.0.join("notes")).unwrap(), b"my notes\n");
    assert_eq!(origin.log().len(), 0);
}

/// The next run asks for the URL that is in its list.
#[test]
fn what_a_mirror_gave_is_done_as_well() {
    let origin = origin();
    let directory = directory("journal-mirror");
    let save = || {
        let request = Request::new(origin.url("/bad")).mirror(origin.url("/good"));
        once()
            .save_all([request], to(&directory))
            .next()
            .unwrap()
            .unwrap()
    };
    assert!(!save().was_present());
    assert!(save().was_present());
    assert_eq!(origin.targets(), ["/bad", "/good"]);
}

#[test]
fn urls_that_differ_in_a_secret_are_not_one() {
    let origin = Origin::start(|incoming| Reply::ok(incoming.target()));
    let directory = directory("journal-secret");
    let urls = ["/f?key=1", "/f?key=2"].map(|path| origin.url(path));
    for present in [false, true] {
        let batch = once().save_all(&urls, to(&directory)).in_order();
        let bodies: Vec<_> = batch
            .map(|saved| {
                let saved = saved.unwrap();
                assert_eq!(saved.was_present(), present);
                fs::read_to_string(saved.path()).unwrap()
            })
            .collect();
        assert_eq!(bodies, ["/f?key=1", "/f?key=2"]);
    }
}

/// As ^C does it: what was done is not done again.
#[test]
fn a_batch_that_is_dropped_half_way_is_gone_on_with() {
    let origin = origin();
    let directory = directory("journal-half-way");
    let urls: Vec<_> = (0..100).map(|i| origin.url(&format!("/{i}"))).collect();
    let few = with(|b| b.workers(2));
    assert_eq!(
        few.save_all(&urls, to(&directory))
            .take(30)
            .filter(Result::is_ok)
            .count(),
        30
    );
    let known = || journal(&directory).lines().count() - 1;
    drop(few);
    let done = known();
    assert!((30..100).contains(&done), "{done}");
    // Just those are not asked for.
    let unasked = once()
        .save_all(&urls, to(&directory))
        .filter(|saved| saved.as_ref().unwrap().status().is_none());
    assert_eq!(unasked.count(), done);
    assert_eq!(known(), 100);
    assert_eq!(
        fs::read_dir(Path::new(&directory.0.join("files")))
            .unwrap()
            .count(),
        100
    );
}

/// As the run that was killed after the first of them goes on.
#[test]
fn a_request_is_done_by_its_own_file() {
    let origin = origin();
    let language = |tongue| {
        let name = HeaderName::from_static("accept-language");
        Request::new(origin.url("/f")).header(name, HeaderValue::from_static(tongue))
    };
    let sets = [
        ["a.bin", "b.bin"].map(|name| Request::new(origin.url("/f")).save_as(name)),
        ["de", "fr"].map(language),
        ["x", "x"].map(|_| Request::new(origin.url("/f"))),
    ];
    for (i, [first, second]) in sets.into_iter().enumerate() {
        let directory = directory(&format!("journal-own-{i}"));
        once().save_all([&first], to(&directory)).for_each(drop);
        let outcomes: Vec<_> = once()
            .save_all([&first, &second], to(&directory))
            .in_order()
            .collect();
        let [first, second] = &outcomes[..] else {
            panic!("two in, two out");
        };
        let [first, second] = [first, second].map(|saved| saved.as_ref().unwrap());
        assert!(first.was_present() && !second.was_present(), "{i}");
        assert_eq!(second.status().unwrap(), 200, "{i}");
        assert_ne!(first.path(), second.path(), "{i}");
    }
}

/// Its workers may be on their way out still.
#[test]
fn a_batch_that_is_over_does_not_keep_it_from_the_next() {
    let origin = origin();
    let directory = directory("journal-next");
    let urls: Vec<_> = (0..8).map(|i| origin.url(&format!("/{i}"))).collect();
    let downloader = once();
    for i in 0..60 {
        let mut batch = downloader.save_all(&urls, to(&directory).on_exist(OnExist::Overwrite));
        // Read to its end, or dropped.
        let wanted = if i % 2 == 0 { 9 } else { 1 };
        for saved in batch.by_ref().take(wanted) {
            saved.unwrap_or_else(|error| panic!("{i}: {error}"));
        }
        if i % 10 == 0 {
            fs::remove_file(directory.0.join("journal")).unwrap();
        }
    }
}

/// Its length is expected as much as its digest.
#[test]
fn a_file_of_another_length_than_expected_is_not_done() {
    let origin = origin();
    let directory = directory("journal-length");
    let save = |request: Request| once().save_all([request], to(&directory)).next().unwrap();
    save(Request::new(origin.url("/f"))).unwrap();
    let error = save(Request::new(origin.url("/f")).expect_length(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Digest);
    for policy in [OnExist::Skip, OnExist::Update, OnExist::SameOrBoth] {
        let to = To::new(directory.0.join("files")).on_exist(policy);
        let request = Request::new(origin.url("/f")).expect_length(5);
        let error = once().save_all([request], to).next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Digest, "{policy:?}");
    }
}

/// Its run may just be ending.
#[test]
fn a_journal_that_is_free_in_a_moment_is_waited_for() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/1" => Reply::ok("x").after(&held),
        _ => Reply::ok("x"),
    });
    let directory = directory("journal-moment");
    std::thread::scope(|scope| {
        let save = |path| {
            let url = origin.url(path);
            let saved = once().save_all([url], to(&directory)).next().unwrap();
            saved.map(drop)
        };
        let first = scope.spawn(move || save("/1"));
        gate.wait_for_waiters(1);
        let second = scope.spawn(move || save("/2"));
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!second.is_finished());
        gate.open();
        first.join().unwrap().unwrap();
        second.join().unwrap().unwrap();
    });
}

/// Its directory is made, as that of the files is.
#[test]
fn a_journal_may_be_in_the_directory_of_the_files() {
    let origin = origin();
    let directory = Directory::new("journal-within");
    for present in [false, true] {
        let to = To::new(&directory.0).journal(directory.0.join(".journal"));
        let saved = once().save_all([origin.url("/f")], to).next().unwrap();
        assert_eq!(saved.unwrap().was_present(), present);
    }
    assert_eq!(directory.files(), [".journal", "f"]);
}

/// Its path means the same to the next run, which has another name for the directory, or is started
/// somewhere else.
#[cfg(unix)]
#[test]
fn a_file_outside_of_the_directory_is_found_again() {
    let origin = origin();
    let directory = directory("journal-outside");
    let here = std::env::current_dir().unwrap();
    let mut outside: std::path::PathBuf = here.components().skip(1).map(|_| "..").collect();
    outside.push(directory.0.join("outside").strip_prefix("/").unwrap());
    let save = || {
        let to = to(&directory).on_exist(OnExist::KeepBoth);
        let request = Request::new(origin.url("/f")).save_to(&outside);
        once().save_all([request], to).next().unwrap().unwrap()
    };
    assert!(!save().was_present());
    assert!(save().was_present());
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_need_not_be_unicode() {
    use std::os::unix::ffi::OsStrExt;

    let origin = origin();
    let directory = directory("journal-bytes");
    let path = std::ffi::OsStr::from_bytes(b"\xff\t%\n/f");
    let path = directory.0.join("files").join(path);
    let save = || {
        let to = to(&directory).on_exist(OnExist::KeepBoth);
        let request = Request::new(origin.url("/f")).save_to(&path);
        once().save_all([request], to).next().unwrap().unwrap()
    };
    assert!(!save().was_present());
    let again = save();
    assert!(again.was_present());
    assert_eq!(again.path(), path);
    assert!(journal(&directory).contains("\t%FF%09%25%0A/f\t"));
}

#[test]
fn a_journal_goes_with_another_directory_as_well() {
    let origin = origin();
    let directory = directory("journal-directories");
    let save = |below: &str| {
        let to = To::new(directory.0.join(below)).journal(directory.0.join("journal"));
        let saved = once().save_all([origin.url("/f")], to).next().unwrap();
        let saved = saved.unwrap();
        assert_eq!(saved.path(), directory.0.join(below).join("f"));
        saved.was_present()
    };
    let present = ["one", "other", "one", "other"].map(save);
    assert_eq!(present, [false, false, true, true]);
}

#[test]
fn a_digest_that_a_file_is_judged_by_later_is_noted() {
    let origin = origin();
    let directory = directory("journal-later-digest");
    // `printf /f | sha256sum`
    let right = "sha256:84ea6f6e20fe9a5cc90d0c9f5ba128ad91544bda6071caf9c79ce48018b6ea13";
    let save = |digest: Option<fetchpool::Digest>| {
        let request = Request::new(origin.url("/f"));
        let request = digest.into_iter().fold(request, Request::expect_digest);
        let saved = once().save_all([request], to(&directory)).next().unwrap();
        saved.unwrap().was_present()
    };
    let right = Some(right.parse().unwrap());
    assert!(!save(None));
    assert!(save(right) && save(right) && save(None));
    let text = journal(&directory);
    let outcomes: Vec<_> = text.lines().skip(1).map(|line| &line[..5]).collect();
    assert_eq!(outcomes, ["saved", "prese"]);
    assert_eq!(origin.log().len(), 1);
}

#[test]
fn what_is_no_url_has_a_line_as_well() {
    let origin = origin();
    let directory = directory("journal-bad-url");
    let run = || {
        let urls = [
            "ftp://u:hunter2@h/?sig=hunter2".to_owned(),
            origin.url("/a"),
        ];
        once().save_all(urls, to(&directory)).for_each(drop);
    };
    run();
    let text = journal(&directory);
    let line = text.lines().nth(1).unwrap();
    assert_eq!(
        line,
        "invalid-url\t-\t-\t-\t-\t-\t-\tftp://%E2%80%A6@h/?sig=%E2%80%A6"
    );
    run();
    assert_eq!(origin.log().len(), 1);
}

/// Which part it is of is in no URL.
#[test]
fn a_part_that_the_caller_asks_for_is_not_taken_for_another() {
    let origin = Origin::start(|incoming| {
        let Some(start) = incoming.range_start() else {
            return Reply::ok("whole");
        };
        Reply::status(206)
            .header("Content-Range", format!("bytes {start}-{}/9", start + 2))
            .body(format!("at{start}"))
    });
    let directory = directory("journal-range");
    let save = |starts: &[u64]| -> Vec<Vec<u8>> {
        let requests = starts.iter().map(|start| {
            let range = format!("bytes={start}-{}", start + 2);
            let range = HeaderValue::try_from(range).unwrap();
            Request::new(origin.url("/f")).header(HeaderName::from_static("range"), range)
        });
        let to = to(&directory).on_exist(OnExist::KeepBoth);
        let requests: Vec<_> = requests.collect();
        let batch = once().save_all(requests, to).in_order();
        batch
            .map(|saved| fs::read(saved.unwrap().path()).unwrap())
            .collect()
    };
    assert_eq!(save(&[0]), [b"at0"]);
    assert_eq!(save(&[0, 3]), [b"at0", b"at3"]);
    let whole = once().save_all([origin.url("/f")], to(&directory)).next();
    let whole = whole.unwrap().unwrap();
    assert_eq!(fs::read(whole.path()).unwrap(), b"whole");
}

/// Killed as the server is asked for the eleventh of twenty.
#[cfg(unix)]
#[test]
fn a_killed_process_is_gone_on_with() {
    use super::killed::{TO, URL, start};

    const TEST: &str = "files::journal::a_killed_process_is_gone_on_with";
    let save = |url: &str, to: To| -> usize {
        let urls = (0..20).map(|i| format!("{url}{i}"));
        let one_by_one = with(|b| b.workers(1));
        one_by_one.save_all(urls, to).filter(Result::is_ok).count()
    };
    if let (Ok(url), Some(within)) = (std::env::var(URL), std::env::var_os(TO)) {
        let within = Path::new(&within);
        save(
            &url,
            To::new(within.join("files")).journal(within.join("journal")),
        );
        return;
    }
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/10" if incoming.visit() == 1 => Reply::ok("late").after(&held),
        target => Reply::ok(target),
    });
    let directory = directory("journal-killed");
    let mut child = start(TEST, &origin.url("/"), &directory.0);
    gate.wait_for_waiters(1);
    child.kill().unwrap();
    child.wait().unwrap();
    gate.open();

    let asked = origin.log().len();
    assert_eq!(save(&origin.url("/"), to(&directory)), 20);
    let rest: Vec<_> = (10..20).map(|i| format!("/{i}")).collect();
    assert_eq!(origin.targets()[asked..], rest);
}

/// By another run, or by this one.
#[test]
fn a_path_that_went_to_another_since_is_not_done() {
    for same_run in [false, true] {
        let origin = Origin::start(|incoming| {
            let named = "attachment; filename=x.txt";
            Reply::ok(incoming.target()).header("Content-Disposition", named)
        });
        let directory = directory(&format!("journal-path-{same_run}"));
        let run = |paths: &[&str]| {
            let urls: Vec<_> = paths.iter().map(|path| origin.url(path)).collect();
            let to = to(&directory).on_exist(OnExist::Overwrite);
            let saved = with(|b| b.workers(1)).save_all(urls, to).in_order();
            saved.map(Result::unwrap).collect::<Vec<_>>()
        };
        run(&["/a"]);
        let last = if same_run {
            run(&["/b", "/a"])
        } else {
            run(&["/b"]);
            run(&["/a"])
        };
        let saved = last.last().unwrap();
        // In one run it keeps its place: it was let in before the other's name was known.
        assert_eq!(saved.was_present(), same_run);
        assert_eq!(fs::read(saved.path()).unwrap(), b"/a");
        // And now it is.
        assert!(run(&["/a"])[0].was_present());
    }
}

/// What an earlier run has made is nobody's to replace, as a file of this run is not.
#[test]
fn what_is_done_keeps_its_place_in_the_next_run() {
    for last in ["/a", "/b"] {
        let origin = Origin::start(|incoming| {
            let named = "attachment; filename=x.txt";
            Reply::ok(incoming.target()).header("Content-Disposition", named)
        });
        let directory = directory(&format!("journal-place-{}", &last[1..]));
        let run = |paths: &[&str]| {
            let urls: Vec<_> = paths.iter().map(|path| origin.url(path)).collect();
            let to = to(&directory).on_exist(OnExist::Overwrite);
            let saved = with(|b| b.workers(1)).save_all(urls, to).in_order();
            saved.map(Result::unwrap).collect::<Vec<_>>()
        };
        run(&["/a"]);
        let first = if last == "/a" { "/b" } else { "/a" };
        for saved in run(&[first, last]) {
            let is_of = saved.report().request().url().unwrap().path();
            assert_eq!(fs::read_to_string(saved.path()).unwrap(), is_of);
        }
    }
}

/// Whether or not the server still has it, and from the moment in which it is let in.
#[test]
fn what_is_done_is_not_replaced_by_one_behind_it() {
    for policy in [OnExist::Overwrite, OnExist::Update, OnExist::SameOrBoth] {
        let origin = Origin::start(|incoming| match incoming.target() {
            "/told" if incoming.visit() > 1 => Reply::status(404),
            "/told" => {
                let named = "attachment; filename=x.txt";
                Reply::ok("told").header("Content-Disposition", named)
            }
            _ => Reply::ok("new"),
        });
        let directory = directory(&format!("journal-behind-{policy:?}"));
        let run = |paths: &[&str]| {
            let urls: Vec<_> = paths.iter().map(|path| origin.url(path)).collect();
            let to = to(&directory).on_exist(policy);
            let saved = once().save_all(urls, to).in_order();
            saved.map(Result::unwrap).collect::<Vec<_>>()
        };
        run(&["/told"]);
        for was_present in [false, true] {
            let saved = run(&["/told", "/new/x.txt"]);
            assert_eq!(saved[1].was_present(), was_present);
            for (saved, is) in saved.iter().zip(["told", "new"]) {
                assert_eq!(fs::read_to_string(saved.path()).unwrap(), is);
            }
        }
    }
}

/// However a path is spelled, what was there is not done any more once another has it.
#[test]
fn a_path_that_went_to_another_by_another_spelling_is_not_done() {
    let origin = origin();
    let directory = directory("journal-spelled");
    let name = directory.0.file_name().unwrap();
    let there = directory.0.join("there");
    let again = directory.0.join("..").join(name).join("there");
    let run = |path: &str, place: &Path| {
        let request = Request::new(origin.url(path)).save_to(place);
        let to = to(&directory).on_exist(OnExist::Overwrite);
        once().save_all([request], to).next().unwrap().unwrap()
    };
    run("/a", &there);
    run("/b", &again);
    let saved = run("/a", &there);
    assert!(!saved.was_present());
    assert_eq!(fs::read(&there).unwrap(), b"/a");
}

/// Such as a backup made of links.
#[cfg(unix)]
#[test]
fn a_journal_may_go_by_another_name_as_well() {
    let origin = origin();
    let directory = directory("journal-linked");
    let run = || {
        let mut batch = once().save_all([origin.url("/a")], to(&directory));
        batch.next().unwrap().unwrap()
    };
    run();
    fs::hard_link(directory.0.join("journal"), directory.0.join("backup")).unwrap();
    assert!(run().was_present());
}

/// Lines come and go between runs: what is done is known by what it is, not by where it stands.
#[test]
fn what_is_done_is_so_wherever_it_stands_in_the_list() {
    for policy in [OnExist::SameOrBoth, OnExist::Overwrite, OnExist::Update] {
        let origin = Origin::start(|incoming| {
            // As long and as old as each other: nothing but the journal tells them apart.
            let dated = Reply::ok(incoming.target());
            dated.header("Last-Modified", super::archive::DATE)
        });
        let directory = directory(&format!("journal-order-{policy:?}"));
        let run = |paths: &[&str]| {
            let urls: Vec<_> = paths.iter().map(|path| origin.url(path)).collect();
            let to = to(&directory).on_exist(policy);
            let saved = once().save_all(urls, to).in_order();
            let saved: Vec<_> = saved.map(Result::unwrap).collect();
            for (saved, path) in saved.iter().zip(paths) {
                assert_eq!(
                    fs::read_to_string(saved.path()).unwrap(),
                    *path,
                    "{policy:?}"
                );
            }
            saved.iter().map(Saved::was_present).collect::<Vec<_>>()
        };
        assert_eq!(run(&["/a/f", "/b/f"]), [false, false]);
        assert_eq!(run(&["/b/f"]), [true]);
        assert_eq!(run(&["/b/f", "/a/f"]), [true, true]);
        assert_eq!(run(&["/b/f", "/c/f"]), [true, false]);
        assert_eq!(origin.log().len(), 3);
    }
}

#[test]
fn a_file_that_the_journal_knows_to_be_anothers_is_not_taken_for_this_ones() {
    let origin = Origin::start(|incoming| {
        // Such a server answers by date, whatever is asked for.
        match incoming.header("if-modified-since") {
            Some(_) => Reply::status(304),
            None => Reply::ok(incoming.target()).header("Last-Modified", super::archive::DATE),
        }
    });
    let directory = directory("journal-anothers");
    let run = |paths: &[&str]| {
        let urls: Vec<_> = paths.iter().map(|path| origin.url(path)).collect();
        let saved = once().save_all(urls, to(&directory)).in_order();
        for (saved, path) in saved.zip(paths) {
            assert_eq!(fs::read_to_string(saved.unwrap().path()).unwrap(), *path);
        }
    };
    run(&["/b/f"]);
    // One is put before it.
    run(&["/a/f", "/b/f"]);
    assert_eq!(origin.targets(), ["/b/f", "/a/f"]);
}

#[test]
fn the_same_request_twice_is_two_files_in_the_next_run_as_well() {
    let origin = origin();
    let directory = directory("journal-twice");
    let url = origin.url("/f");
    for present in [false, true] {
        let saved = once().save_all([&url, &url], to(&directory)).in_order();
        let saved: Vec<_> = saved.map(Result::unwrap).collect();
        assert!(saved.iter().all(|saved| saved.was_present() == present));
        assert_ne!(saved[0].path(), saved[1].path());
    }
    assert_eq!(origin.log().len(), 2);
}

/// As a list of URLs is signed anew for each run.
#[test]
fn a_signature_makes_no_other_request() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let directory = directory("journal-signed");
    for run in 1..3 {
        let signed = format!("/f?X-Amz-Date={run}&v=7&X-Amz-Signature={run}");
        let mut batch = once().save_all([origin.url(&signed)], to(&directory));
        assert_eq!(batch.next().unwrap().unwrap().was_present(), run > 1);
    }
    assert_eq!(origin.log().len(), 1);
}
