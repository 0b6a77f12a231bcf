//! Where files go: as their URL, their response or their request has it, and never elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use fetchpool::{Directory as To, ErrorKind, Layout, NameFrom, OnExist, Request, Saved};

use super::Directory;
use crate::once;
use crate::support::{Origin, Reply};

fn origin() -> Origin {
    Origin::start(|incoming| match incoming.target() {
        "/moved" => Reply::redirect(302, "/v2/real.zip"),
        "/told" => {
            Reply::ok("told").header("Content-Disposition", "attachment; filename=\"report.pdf\"")
        }
        target => Reply::ok(target),
    })
}

/// Relative to the directory.
fn place(saved: &Saved, directory: &Directory) -> String {
    let below = saved.path().strip_prefix(&directory.0).unwrap();
    below.to_str().unwrap().replace('\\', "/")
}

fn places(to: To, directory: &Directory, requests: Vec<Request>) -> Vec<String> {
    let saved = once().save_all(requests, to).in_order();
    saved
        .map(|saved| place(&saved.unwrap(), directory))
        .collect()
}

#[test]
fn a_file_is_named_by_the_response_or_else_by_one_of_the_urls() {
    let origin = origin();
    let requests = || vec![origin.url("/told").into(), origin.url("/moved").into()];
    for (which, names) in [
        (NameFrom::FirstUrl, ["report.pdf", "moved"]),
        (NameFrom::FinalUrl, ["report.pdf", "real.zip"]),
    ] {
        let directory = Directory::new(&format!("named-{which:?}"));
        let to = To::new(&directory.0).name_from(which);
        assert_eq!(places(to.clone(), &directory, requests()), names);
        // That the files are the same is only known when all has come: no dates are told.
        let again = once()
            .save_all(requests(), to)
            .map(|saved| saved.unwrap().was_present());
        assert_eq!(again.filter(|&was_present| was_present).count(), 2);
        assert_eq!(directory.files().len(), 2);
    }
}

#[test]
fn a_tree_is_as_its_urls_are() {
    let origin = origin();
    let port = origin.addr().port();
    let paths = [
        "/a/b/c.txt",
        "/a/b/",
        "/a//d",
        "/%2e%2e/%2e%2e/e",
        "/..%2f..%2fg/f",
        "/a/b/c.txt?q",
    ];
    let directory = Directory::new("tree");
    let to = To::new(&directory.0).layout(Layout::Tree);
    let requests = paths.map(|path| origin.url(path).into()).to_vec();
    let expected = [
        "a/b/c.txt",
        "a/b/index.html",
        "a/d",
        "e",
        "_.._.._g/f",
        "a/b/c (1).txt",
    ];
    let expected = expected.map(|path| format!("127.0.0.1_{port}/{path}"));
    assert_eq!(places(to, &directory, requests), expected);
}

/// A file and a directory of one name.
#[test]
fn what_a_tree_cannot_have_is_an_error_of_the_second() {
    let origin = origin();
    let directory = Directory::new("tree-clash");
    let to = To::new(&directory.0).layout(Layout::Tree);
    let mut batch = once().save_all([origin.url("/a")], to.clone());
    batch.next().unwrap().unwrap();
    let error = once()
        .save_all([origin.url("/a/b")], to)
        .next()
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

/// Unless it may have another name.
#[test]
fn what_a_tree_has_as_a_directory_is_an_error_or_gets_a_number() {
    let origin = origin();
    let directory = Directory::new("tree-clash-again");
    let save = |path, policy| {
        let to = To::new(&directory.0).layout(Layout::Tree).on_exist(policy);
        once().save_all([origin.url(path)], to).next().unwrap()
    };
    save("/a/b", OnExist::default()).unwrap();
    for policy in [OnExist::SameOrBoth, OnExist::Skip, OnExist::Update] {
        let error = save("/a", policy).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        let said = error.to_string();
        assert!(said.contains("/a: a directory stands there"), "{said}");
    }
    let overwritten = save("/a", OnExist::Overwrite).unwrap_err();
    assert_eq!(overwritten.kind(), ErrorKind::Io);
    let kept = save("/a", OnExist::KeepBoth).unwrap();
    assert!(kept.path().ends_with("a (1)"), "{:?}", kept.path());
}

#[test]
fn a_request_names_its_file_and_the_directory_keeps_it() {
    let origin = origin();
    let directory = Directory::new("save-as");
    let elsewhere = Directory::new("save-to");
    let to = To::new(directory.0.join("in"));
    let named = |path: &str| Request::new(origin.url("/told")).save_as(path);
    let requests = vec![
        named("x/y.txt"),
        named("../../up"),
        named("/etc/passwd"),
        named("a/../b"),
        named("../.."),
        named("con/.hidden"),
        named("a?b"),
    ];
    let names = places(to.clone(), &directory, requests);
    assert_eq!(
        names,
        [
            "in/x/y.txt",
            "in/up",
            "in/etc/passwd",
            "in/a/b",
            "in/index.html",
            "in/_con/_.hidden",
            "in/a_b"
        ]
    );
    let just_there = Request::new(origin.url("/told")).save_to(elsewhere.0.join("z"));
    let saved = once().save_all([just_there], to).next().unwrap().unwrap();
    assert_eq!(saved.path(), elsewhere.0.join("z"));
    assert_eq!(
        (directory.files(), elsewhere.files()),
        (vec!["in".to_owned()], vec!["z".to_owned()])
    );
}

#[test]
fn two_requests_of_one_name_are_two_files_in_the_order_of_the_input() {
    let origin = origin();
    let directory = Directory::new("save-as-twice");
    let named = |url: &str, name: &str| Request::new(origin.url(url)).save_as(name);
    let requests = vec![
        named("/1", "f.tar.gz"),
        named("/2", "F.tar.gz"),
        named("/3", "f.tar.gz"),
    ];
    let names = places(To::new(&directory.0), &directory, requests);
    assert_eq!(names, ["f.tar.gz", "F (1).tar.gz", "f (2).tar.gz"]);
    assert_eq!(directory.read("F (1).tar.gz"), b"/2");
}

#[test]
fn a_function_says_where_a_response_goes() {
    let origin = origin();
    let directory = Directory::new("function");
    let to = To::new(&directory.0).place(|response| {
        let path: &Path = response.url().path().as_ref();
        Path::new("../by/length")
            .join(response.content_length().unwrap().to_string())
            .join(path)
    });
    let requests = vec![origin.url("/one").into(), origin.url("/told").into()];
    assert_eq!(places(to, &directory, requests), ["one", "told"]);
    let relative = To::new(&directory.0).place(|response| {
        let name = response.url().path().trim_start_matches('/');
        [
            "..",
            "by",
            &response.content_length().unwrap().to_string(),
            name,
        ]
        .iter()
        .collect()
    });
    let requests = vec![origin.url("/one").into(), origin.url("/told").into()];
    assert_eq!(
        places(relative, &directory, requests),
        ["by/4/one", "by/4/told"]
    );
}

#[test]
fn a_function_that_panics_is_the_outcome_of_its_request() {
    let origin = origin();
    let directory = Directory::new("function-panics");
    let to = To::new(&directory.0).place(|response| match response.url().path() {
        "/bad" => panic!("no idea"),
        path => PathBuf::from(path),
    });
    let urls = ["/bad", "/good"].map(|path| origin.url(path));
    let outcomes: Vec<_> = once().save_all(urls, to).in_order().collect();
    assert_eq!(
        outcomes[0].as_ref().unwrap_err().kind(),
        ErrorKind::Panicked
    );
    outcomes[1].as_ref().unwrap();
    assert_eq!(directory.files(), ["good"]);
}

/// Found there by its name only once the response has told that.
#[test]
fn what_the_response_names_is_not_fetched_again_either() {
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    let origin = Origin::start(|_| {
        Reply::ok("told")
            .header("Content-Disposition", "attachment; filename=f")
            .header("Last-Modified", DATE)
    });
    for policy in [OnExist::SameOrBoth, OnExist::Update, OnExist::Skip] {
        let directory = Directory::new(&format!("told-{policy:?}"));
        let save = || {
            let to = To::new(&directory.0).on_exist(policy);
            once()
                .save_all([origin.url("/x")], to)
                .next()
                .unwrap()
                .unwrap()
        };
        assert!(!save().was_present());
        assert!(save().was_present());
        assert_eq!(directory.files(), ["f"]);
        assert_eq!(fs::read(directory.0.join("f")).unwrap(), b"told");
    }
}

/// However the two are spelled.
#[test]
fn one_file_is_not_written_by_two_that_spell_its_path_differently() {
    let origin = origin();
    let directory = Directory::new("spelled");
    let outside = Directory::new("spelled-outside");
    let name = |directory: &Directory| directory.0.file_name().unwrap().to_owned();
    let again = |directory: &Directory| directory.0.join("..").join(name(directory)).join("x");
    let to = || To::new(&directory.0).on_exist(OnExist::Overwrite);
    let at = |path| Request::new(origin.url("/f")).save_to(path);
    let requests = [
        Request::new(origin.url("/x")),
        at(again(&directory)),
        at(outside.0.join("x")),
        at(again(&outside)),
    ];
    for directory in [&directory, &outside] {
        fs::create_dir_all(&directory.0).unwrap();
    }
    let saved = once().save_all(requests, to()).in_order();
    let saved: Vec<_> = saved.map(Result::unwrap).collect();
    assert_eq!(directory.files(), ["x", "x (1)"]);
    assert_eq!(outside.files(), ["x", "x (1)"]);
    assert!(saved.iter().all(|saved| saved.path().exists()));
}

/// Through a link, or back out of a directory that is not there yet.
#[cfg(unix)]
#[test]
fn nor_is_one_by_two_that_are_led_to_it() {
    let origin = origin();
    let directory = Directory::new("led");
    fs::create_dir_all(directory.0.join("sub")).unwrap();
    std::os::unix::fs::symlink("sub", directory.0.join("alias")).unwrap();
    let request = || Request::new(origin.url("/f"));
    let requests = [
        request().save_as("sub/x"),
        request().save_as("alias/x"),
        request().save_as("y"),
        request().save_to(directory.0.join("new/../y")),
        request().save_as("alias/spared"),
    ];
    let to = To::new(&directory.0)
        .on_exist(OnExist::Overwrite)
        .spare(directory.0.join("sub/spared"));
    let saved = once().save_all(requests, to).in_order();
    let names = saved.map(|saved| saved.unwrap().path().file_name().unwrap().to_owned());
    let names: Vec<_> = names.collect();
    assert_eq!(names, ["x", "x (1)", "y", "y (1)", "spared (1)"]);
}

#[test]
fn the_current_directory_needs_no_name() {
    assert_eq!(To::new("").path(), std::path::Path::new("."));
}

#[test]
fn a_path_of_the_callers_is_taken_as_it_is_or_is_an_error() {
    let origin = origin();
    let directory = Directory::new("just-there");
    fs::create_dir(&directory.0).unwrap();
    let save = |path: PathBuf| {
        let request = Request::new(origin.url("/f")).save_to(path);
        once().save_all([request], &directory.0).next().unwrap()
    };
    let within = |name| directory.0.join(name);
    for path in ["".into(), within(".."), within("new/"), within("new/.")] {
        assert_eq!(save(path).unwrap_err().kind(), ErrorKind::Io);
    }
    // As long as a name can be.
    let longest = directory.0.join("ü".repeat(127));
    assert_eq!(save(longest.clone()).unwrap().path(), longest);
    #[cfg(target_os = "linux")]
    for byte in [0xfe, 0xff] {
        use std::os::unix::ffi::OsStrExt;
        let path = directory.0.join(std::ffi::OsStr::from_bytes(&[b'f', byte]));
        let saved = save(path.clone()).unwrap();
        assert_eq!((saved.path(), saved.was_present()), (&*path, false));
    }
}

/// As servers of releases say it: the URL's own name once more is not another's.
#[test]
fn a_name_that_is_told_and_is_the_urls_own_has_no_number() {
    for policy in [
        OnExist::SameOrBoth,
        OnExist::Skip,
        OnExist::Update,
        OnExist::Overwrite,
        OnExist::KeepBoth,
        OnExist::Error,
    ] {
        let origin = Origin::start(|incoming| {
            let name = "attachment; filename=\"f.zip\"";
            Reply::ok(incoming.target()).header("Content-Disposition", name)
        });
        let directory = Directory::new(&format!("own-name-{policy:?}"));
        let to = || To::new(&directory.0).on_exist(policy);
        let requests = || vec![Request::new(origin.url("/f.zip"))];
        assert_eq!(places(to(), &directory, requests()), ["f.zip"]);
        let again = once().save_all(requests(), to()).next().unwrap();
        assert_eq!(again.is_err(), policy == OnExist::Error);
        let files = match policy {
            OnExist::KeepBoth => &["f (1).zip", "f.zip"][..],
            _ => &["f.zip"],
        };
        assert_eq!(directory.files(), files, "{policy:?}");
    }
    // Two of that name have one each, in the order of the list.
    let origin = Origin::start(|incoming| {
        let name = "attachment; filename=f.zip";
        Reply::ok(incoming.target()).header("Content-Disposition", name)
    });
    let directory = Directory::new("own-names");
    let requests = ["/a/f.zip", "/b/f.zip"].map(|path| Request::new(origin.url(path)));
    let named = places(To::new(&directory.0), &directory, requests.into());
    assert_eq!(named, ["f.zip", "f (1).zip"]);
    assert_eq!(directory.read("f (1).zip"), b"/b/f.zip");
}
