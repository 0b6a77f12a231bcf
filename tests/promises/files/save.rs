//! A file has its name when it is whole, and not before.

use std::fs;
use std::path::Path;

use fetchpool::ErrorKind;

use super::Directory;
use crate::once;
use crate::support::{Gate, Origin, Reply};

#[test]
fn files_hold_their_bodies() {
    let origin = Origin::start(|incoming| Reply::ok(incoming.target()));
    let directory = Directory::new("bodies");
    let urls = ["/a/b.txt", "/c%20d?q", "/"].map(|path| origin.url(path));
    let batch = once().save_all(&urls, directory.0.join("made/below"));
    let saved: Vec<_> = batch.in_order().map(|file| file.unwrap()).collect();
    let names = saved
        .iter()
        .map(|s| s.path().file_name().unwrap().to_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["b.txt", "c d", "index.html"]);
    for file in saved {
        let body = fs::read(file.path()).unwrap();
        assert_eq!(body.len() as u64, file.bytes());
        assert!(String::from_utf8(body).unwrap().starts_with('/'));
    }
}

#[test]
fn the_name_appears_with_the_last_byte() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        Reply::status(200)
            .declared_length(8)
            .then_send("head")
            .then_wait(&held)
            .then_send("tail")
    });
    let directory = Directory::new("atomic");
    let mut batch = once().save_all([origin.url("/a.txt")], &directory.0);
    std::thread::scope(|scope| {
        let saved = scope.spawn(move || batch.next().unwrap().unwrap());
        gate.wait_for_waiters(1);
        assert!(!directory.0.join("a.txt").exists());
        gate.open();
        assert_eq!(fs::read(saved.join().unwrap().path()).unwrap(), b"headtail");
    });
    assert_eq!(directory.files(), ["a.txt"]);
}

#[test]
fn a_failed_download_leaves_nothing_and_harms_nothing() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/cut.txt" => Reply::ok("half").declared_length(8).then_close(),
        _ => Reply::status(404).body("an error page"),
    });
    let directory = Directory::new("failed");
    fs::create_dir_all(&directory.0).unwrap();
    fs::write(directory.0.join("cut.txt"), "good").unwrap();
    let urls = [origin.url("/cut.txt"), origin.url("/none.txt")];
    let batch = once().save_all(urls, &directory.0).in_order();
    let kinds: Vec<_> = batch.map(|file| file.unwrap_err().kind()).collect();
    assert_eq!(kinds, [ErrorKind::Truncated, ErrorKind::Status]);
    assert_eq!(directory.files(), ["cut.txt"]);
    assert_eq!(fs::read(directory.0.join("cut.txt")).unwrap(), b"good");
}

#[test]
fn files_of_one_name_are_all_kept() {
    let origin = Origin::start(|incoming| Reply::ok(incoming.target()));
    let directory = Directory::new("names");
    let urls: Vec<_> = (0..40)
        .map(|i| origin.url(&format!("/{i}/same.tar")))
        .collect();
    let mut bodies: Vec<_> = once()
        .save_all(&urls, &directory.0)
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 40);
    let files = directory.files();
    assert_eq!(files.len(), 40);
    assert!(files.contains(&"same.tar".to_owned()) && files.contains(&"same (39).tar".to_owned()));
}

#[test]
fn nothing_is_written_outside_of_the_directory() {
    let origin = Origin::start(|incoming| Reply::ok(incoming.target()));
    let directory = Directory::new("escape");
    let inside = directory.0.join("a/b");
    let urls = [
        "/..%2f..%2fx",
        "/%2e%2e%5c%2e%2e%5cx",
        "/%2fetc%2fx",
        "/x%00y",
        "/c:%5cx",
    ];
    let saved = once().save_all(urls.map(|path| origin.url(path)), &inside);
    let under = |path: &Path| path.parent() == Some(&inside);
    assert_eq!(
        saved
            .filter(|file| under(file.as_ref().unwrap().path()))
            .count(),
        5
    );
    assert_eq!(fs::read_dir(&inside).unwrap().count(), 5);
    assert_eq!(directory.files(), ["a"]);
}

#[test]
fn a_file_is_called_what_the_server_calls_it_and_stays_in_its_directory() {
    let told = [
        ("attachment; filename=\"told.txt\"", "told.txt"),
        (
            "attachment; filename=other; filename*=UTF-8''%e2%82%ac%20rates",
            "€ rates",
        ),
        (
            "inline; filename=\"caf\u{e9} \u{202e}txt.exe\"",
            "café _txt.exe",
        ),
        ("attachment; filename=\"../../x\"", "x"),
        ("attachment; filename=C:\\x.1", "x.1"),
        ("attachment; filename=\"C:\\x.2\"", "C_x.2"),
        (
            "attachment; filename*=UTF-8''..%2F..%2Fetc%2Fpasswd",
            "passwd",
        ),
        ("attachment; filename*=UTF-8''%2Fetc%2F%00", "_"),
        ("attachment; filename=.bashrc", "_.bashrc"),
        ("attachment; filename=\"con .txt\"", "_con .txt"),
        ("attachment; filename=told.txt", "told (1).txt"),
        ("attachment; filename=\"..\"", "11"),
        ("attachment", "12"),
    ];
    let origin = Origin::start(move |incoming| {
        let number: usize = incoming.target()[1..].parse().unwrap();
        Reply::ok(incoming.target()).header("Content-Disposition", told[number].0)
    });
    let directory = Directory::new("told");
    let inside = directory.0.join("a/b");
    let urls = (0..told.len()).map(|number| origin.url(&format!("/{number}")));
    for (url, (header, name)) in urls.zip(told) {
        let file = once().save_all([url], &inside).next().unwrap().unwrap();
        assert_eq!(file.path(), inside.join(name), "{header}");
    }
    assert_eq!(fs::read_dir(&inside).unwrap().count(), told.len());
    assert_eq!(directory.files(), ["a"]);
}

#[test]
fn a_directory_that_cannot_be_written_to_is_an_io_error_with_the_path() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let directory = Directory::new("a-file");
    fs::write(&directory.0, "not a directory").unwrap();
    let mut batch = once().save_all([origin.url("/a")], &directory.0);
    let error = batch.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("fetchpool-a-file"), "{error}");
    fs::remove_file(&directory.0).unwrap();
}
