//! What the disk does not take is an error of its file, and harms no other.

use std::fs;
use std::path::Path;

use fetchpool::{Directory as To, ErrorKind, OnExist, Request};

use super::Directory;
use super::archive::Content;
use crate::support::{Gate, Origin, Reply};
use crate::{n, once, with};

/// Says where the small file system is, to the test in a process of its own.
#[cfg(target_os = "linux")]
const SMALL: &str = "FETCHPOOL_TEST_SMALL_DISK";

/// Whether this runs with a file system of 128 KiB, whose place is given then. The first time it
/// does not, and the test is run so.
#[cfg(target_os = "linux")]
fn on_a_small_disk(test: &str) -> Option<std::path::PathBuf> {
    use std::process::Command;
    if let Some(path) = std::env::var_os(SMALL) {
        return Some(path.into());
    }
    let directory = Directory::new(test);
    fs::create_dir(&directory.0).unwrap();
    let mount = "mount -t tmpfs -o size=128k none \"$0\"";
    let in_a_namespace = |then: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        command.arg(format!("{mount} && {then}")).arg(&directory.0);
        command
    };
    // Some systems let nobody do that.
    if !in_a_namespace("true")
        .output()
        .is_ok_and(|made| made.status.success())
    {
        eprintln!("not tested: there are no namespaces to be had");
        return None;
    }
    let output = in_a_namespace("exec \"$@\"")
        .arg(std::env::current_exe().unwrap())
        .args([&format!("files::disk::{test}"), "--exact", "--nocapture"])
        .env(SMALL, &directory.0)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = said + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
    None
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_its_file_and_the_rest_fails_fast() {
    let Some(disk) = on_a_small_disk("a_full_disk_ends_its_file_and_the_rest_fails_fast") else {
        return;
    };
    let origin = Origin::start(|incoming| match incoming.target() {
        "/small" => Reply::ok(vec![b's'; 30_000]),
        // Of a length that nobody knows before.
        "/large" => Reply::status(200).chunked(vec![vec![b'l'; 50_000]; 4]),
        _ => Reply::ok("never asked for"),
    });
    let urls = ["/small", "/large", "/after"].map(|path| origin.url(path));
    let one_by_one = with(|b| b.workers(1));
    let outcomes: Vec<_> = one_by_one.save_all(&urls, &disk).in_order().collect();
    assert_eq!(outcomes[0].as_ref().unwrap().bytes(), 30_000);
    for (outcome, says) in outcomes[1..]
        .iter()
        .zip(["/large: cannot write", "/after: not tried"])
    {
        let error = outcome.as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains(says), "{error}");
    }
    assert!(
        outcomes[1]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains(".part: No space")
    );
    assert_eq!(origin.targets(), ["/small", "/large"]);
    let left: Vec<_> = fs::read_dir(&disk)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["small"]);
    assert_eq!(fs::read(disk.join("small")).unwrap(), vec![b's'; 30_000]);
}

/// Its stamp is made before it, and there is no room for that either.
#[cfg(target_os = "linux")]
#[test]
fn on_a_disk_that_is_full_from_the_start_nothing_is_left() {
    use std::io::Write;
    let test = "on_a_disk_that_is_full_from_the_start_nothing_is_left";
    let Some(disk) = on_a_small_disk(test) else {
        return;
    };
    let mut full = fs::File::create(disk.join("full")).unwrap();
    while full.write(&[7; 4096]).is_ok_and(|amount| amount > 0) {}
    let origin = Origin::start(|_| Reply::ok(vec![b'a'; 100_000]).header("ETag", "\"v1\""));
    let outcome = once().save_all([origin.url("/a")], &disk).next().unwrap();
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_no_other_disk() {
    let Some(disk) = on_a_small_disk("a_full_disk_is_no_other_disk") else {
        return;
    };
    let origin = Origin::start(|incoming| match incoming.target() {
        "/large" => Reply::status(200).chunked(vec![vec![b'l'; 50_000]; 4]),
        _ => Reply::ok("small"),
    });
    let directory = Directory::new("another-disk");
    let to_disk = |path: &str| Request::new(origin.url(path)).save_to(disk.join(&path[1..]));
    let requests = [
        to_disk("/large"),
        to_disk("/there"),
        Request::new(origin.url("/here")),
    ];
    let outcomes: Vec<_> = with(|b| b.workers(1))
        .save_all(requests, &directory.0)
        .in_order()
        .collect();
    for outcome in &outcomes[..2] {
        assert_eq!(outcome.as_ref().unwrap_err().kind(), ErrorKind::Io);
    }
    assert_eq!(outcomes[2].as_ref().unwrap().bytes(), 5);
    assert_eq!(origin.targets(), ["/large", "/here"]);
}

/// Not after an hour, but before its first byte.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_has_no_room_is_known_by_its_length() {
    let Some(disk) = on_a_small_disk("a_file_that_has_no_room_is_known_by_its_length") else {
        return;
    };
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        let head = Reply::status(200)
            .header("ETag", "\"v1\"")
            .declared_length(1 << 40);
        // Until the test is through: the length alone decides.
        head.then_send("beginning").then_wait(&held)
    });
    let error = once()
        .save_all([origin.url("/f")], &disk)
        .next()
        .unwrap()
        .unwrap_err();
    gate.open();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains(" are free"), "{error}");
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0);
}

/// The room for all pieces is taken before the first of them.
#[cfg(target_os = "linux")]
#[test]
fn a_file_in_pieces_that_has_no_room_is_known_by_its_first_part() {
    let test = "a_file_in_pieces_that_has_no_room_is_known_by_its_first_part";
    let Some(disk) = on_a_small_disk(test) else {
        return;
    };
    let content = Content::new(6 * 1024 * 1024, 0);
    let origin = Origin::start(move |incoming| content.reply(incoming));
    let request = Request::new(origin.url("/f")).segments(n(2));
    let error = once()
        .save_all([request], &disk)
        .next()
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains(" are free"), "{error}");
    assert_eq!(origin.targets(), ["/f"]);
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0);
}

/// What came before the disk was full is good, once there is room.
#[cfg(target_os = "linux")]
#[test]
fn a_part_on_a_full_disk_is_gone_on_with() {
    let Some(disk) = on_a_small_disk("a_part_on_a_full_disk_is_gone_on_with") else {
        return;
    };
    fs::write(disk.join("ballast"), vec![0; 60_000]).unwrap();
    let content = Content::new(100_000, 0);
    let served = content.clone();
    let origin = Origin::start(move |incoming| served.reply(incoming));
    let save = || once().save_all([origin.url("/f")], &disk).next().unwrap();
    assert_eq!(save().unwrap_err().kind(), ErrorKind::Io);
    fs::remove_file(disk.join("ballast")).unwrap();
    let saved = save().unwrap();
    assert_eq!(saved.report().resumed_from(), origin.log()[1].range_start());
    assert_eq!(fs::read(saved.path()).unwrap(), *content.body);
}

#[test]
fn a_directory_in_the_files_place_is_an_error_of_that_file() {
    let origin = Origin::start(|_| Reply::ok("x"));
    for policy in [
        OnExist::SameOrBoth,
        OnExist::Overwrite,
        OnExist::Update,
        OnExist::Skip,
    ] {
        let directory = Directory::new(&format!("in-place-{policy:?}"));
        fs::create_dir_all(directory.0.join("f/below")).unwrap();
        let to = To::new(&directory.0).on_exist(policy);
        let urls = ["/f", "/g"].map(|path| origin.url(path));
        let outcomes: Vec<_> = once().save_all(&urls, to).in_order().collect();
        let error = outcomes[0].as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{policy:?}");
        assert!(error.to_string().contains("/f: "), "{error}");
        outcomes[1].as_ref().unwrap();
        assert_eq!(directory.files(), ["f", "g"]);
    }
}

/// Root may write anywhere: then there is nothing to test.
#[cfg(unix)]
#[test]
fn a_directory_for_reading_only_is_an_error_with_the_path() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("read-only");
    fs::create_dir(&directory.0).unwrap();
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o555)).unwrap();
    let is_root = fs::write(directory.0.join("probe"), "").is_ok();
    let origin = Origin::start(|_| Reply::ok("x"));
    let outcome = once()
        .save_all([origin.url("/f")], &directory.0)
        .next()
        .unwrap();
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o755)).unwrap();
    if is_root {
        outcome.unwrap();
        return;
    }
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error.to_string().contains(&*directory.0.to_string_lossy()),
        "{error}"
    );
}

/// A link in a directory for all could lead to any file of its user's.
#[cfg(unix)]
#[test]
fn a_link_in_the_parts_place_is_not_followed() {
    let content = Content::new(300_000, 0);
    let served = content.cut_after(200_000);
    let origin = Origin::start(move |incoming| served.reply(incoming));
    let directory = Directory::new("links");
    let save = || {
        once()
            .save_all([origin.url("/f")], &directory.0)
            .next()
            .unwrap()
    };
    save().unwrap_err();
    let victim = Directory::new("victim");
    fs::write(&victim.0, "precious").unwrap();
    for name in directory.files() {
        let path = directory.0.join(name);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim.0, path).unwrap();
    }
    let error = save().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(fs::read(&victim.0).unwrap(), b"precious");
    fs::remove_file(&victim.0).unwrap();
}

#[cfg(target_os = "linux")]
fn can_trace() -> bool {
    let mut strace = std::process::Command::new("strace");
    let traced = strace.args(["-e", "trace=none", "true"]).output();
    let can = traced.is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("not tested: there is no strace, or it may not trace");
    }
    can
}

/// The order that a power cut cannot harm: bytes on the disk, then the name, then the directory.
#[cfg(target_os = "linux")]
#[test]
fn a_file_is_on_the_disk_before_it_has_its_name() {
    use std::process::Command;
    const TEST: &str = "files::disk::a_file_is_on_the_disk_before_it_has_its_name";
    const TRACED: &str = "FETCHPOOL_TEST_TRACED";
    if let Some(path) = std::env::var_os(TRACED) {
        let origin = Origin::start(|_| Reply::ok("x"));
        for sync in [true, false] {
            let to = To::new(Path::new(&path)).sync(sync);
            let url = origin.url(&format!("/sync-{sync}"));
            once().save_all([url], to).next().unwrap().unwrap();
        }
        return;
    }
    if !can_trace() {
        return;
    }
    let directory = Directory::new("traced");
    let log = Directory::new("trace");
    let traced = Command::new("strace")
        .args([
            "-f",
            "-y",
            "-e",
            "trace=fsync,fdatasync,rename,renameat,renameat2,linkat",
            "-o",
        ])
        .arg(&log.0)
        .arg(std::env::current_exe().unwrap())
        .args([TEST, "--exact", "--nocapture"])
        .env(TRACED, &directory.0)
        .output()
        .unwrap();
    assert!(traced.status.success(), "{traced:?}");
    let calls = fs::read_to_string(&log.0).unwrap();
    fs::remove_file(&log.0).unwrap();
    let place = |what: &dyn Fn(&str) -> bool| {
        let at: Vec<_> = calls
            .lines()
            .enumerate()
            .filter(|(_, line)| what(line))
            .map(|(i, _)| i)
            .collect();
        assert_eq!(at.len(), 1, "{calls}");
        at[0]
    };
    let name = directory.0.to_string_lossy().into_owned();
    let synced = place(&|line| line.contains("fsync(") && line.contains(".sync-true."));
    let renamed = place(&|line| line.contains("rename") && line.contains("/sync-true\""));
    let directory_synced =
        place(&|line| line.contains("fsync(") && line.contains(&format!("{name}>")));
    assert!(synced < renamed && renamed < directory_synced, "{calls}");
    place(&|line| line.contains("rename") && line.contains("/sync-false\""));
}

/// What the system could not write it may forget, and say no more of it.
#[cfg(target_os = "linux")]
#[test]
fn what_could_not_be_brought_to_the_disk_is_not_gone_on_with() {
    use std::process::Command;
    const TEST: &str = "files::disk::what_could_not_be_brought_to_the_disk_is_not_gone_on_with";
    const FAULTY: &str = "FETCHPOOL_TEST_FAULTY";
    if let Some(path) = std::env::var_os(FAULTY) {
        let content = Content::new(300_000, 0);
        let origin = Origin::start(move |incoming| content.reply(incoming));
        let url = origin.url("/f");
        let error = once().save_all([url], path).next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        return;
    }
    if !can_trace() {
        return;
    }
    let directory = Directory::new("faulty");
    let faulty = Command::new("strace")
        .args(["-f", "-q", "-e", "trace=fsync"])
        .args(["-e", "inject=fsync:error=EIO:when=1"])
        .arg(std::env::current_exe().unwrap())
        .args([TEST, "--exact", "--nocapture"])
        .env(FAULTY, &directory.0)
        .output()
        .unwrap();
    assert!(faulty.status.success(), "{faulty:?}");
    assert!(directory.files().is_empty(), "{:?}", directory.files());
}

#[test]
fn many_files_of_many_workers_are_all_whole() {
    let origin = Origin::start(|incoming| Reply::ok(incoming.target().repeat(100)));
    let directory = Directory::new("many");
    let urls = (0..500).map(|i| origin.url(&format!("/{}/{}", i, i % 50)));
    let many = with(|b| b.workers(16).per_host(n(16)));
    for saved in many.save_all(urls, To::new(&directory.0).sync(false)) {
        let saved = saved.unwrap();
        let body = saved.url().path().repeat(100);
        assert_eq!(fs::read_to_string(saved.path()).unwrap(), body);
    }
    assert_eq!(directory.files().len(), 500);
}

/// Who says that may be wrong, and what others want may be little.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_said_to_be_too_large_is_no_full_disk() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/lie" => Reply::status(200).declared_length(1 << 50).then_stall(),
        _ => Reply::ok("small"),
    });
    let directory = Directory::new("lie");
    let one_by_one = with(|b| b.workers(1));
    let urls = ["/lie", "/1", "/2"].map(|path| origin.url(path));
    let outcomes: Vec<_> = one_by_one.save_all(urls, &directory.0).in_order().collect();
    let error = outcomes[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error
            .to_string()
            .contains("it takes 1125899906842624 bytes"),
        "{error}"
    );
    assert!(outcomes[1..].iter().all(Result::is_ok));
    assert_eq!(directory.files(), ["1", "2"]);
}

/// They would keep a worker for ever, or feed it until there is no memory left.
#[cfg(target_os = "linux")]
#[test]
fn what_is_no_file_in_a_parts_place_is_an_error_or_passed_over() {
    use std::process::Command;
    let origin = Origin::start(|_| Reply::ok("x"));
    let content = Content::new(300_000, 0).cut_after(200_000);
    let broken = Origin::start(move |incoming| content.reply(incoming));
    for (i, ending) in [".part.from", ".part"].into_iter().enumerate() {
        let directory = Directory::new(&format!("fifo-{i}"));
        let _ = once().save_all([broken.url("/f")], &directory.0).next();
        let name = directory
            .files()
            .into_iter()
            .find(|name| name.ends_with(ending))
            .unwrap();
        let path = directory.0.join(name);
        fs::remove_file(&path).unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        // Nobody is at the other end of it.
        let _ = once()
            .save_all([broken.url("/f")], &directory.0)
            .next()
            .unwrap();
    }
    let directory = Directory::new("fifo-journal");
    fs::create_dir(&directory.0).unwrap();
    let path = directory.0.join("journal");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    let to = To::new(&directory.0).journal(&path);
    let error = once()
        .save_all([origin.url("/f")], to)
        .next()
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

/// `ulimit -f`: of one file, not of the disk.
#[cfg(unix)]
#[test]
fn a_file_larger_than_the_process_may_write_is_an_error_of_that_file() {
    use std::process::Command;
    const TEST: &str =
        "files::disk::a_file_larger_than_the_process_may_write_is_an_error_of_that_file";
    const LIMITED: &str = "FETCHPOOL_TEST_LIMITED";
    if std::env::var_os(LIMITED).is_none() {
        // 100 blocks of 512 or 1024 bytes. What goes beyond gets a signal that ends it.
        let output = Command::new("sh")
            .args(["-c", "ulimit -f 100; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args([TEST, "--exact", "--nocapture"])
            .env(LIMITED, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = said + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
        return;
    }
    let origin = Origin::start(|incoming| match incoming.target() {
        "/small" => Reply::ok(vec![b's'; 40_000]),
        "/untold" => Reply::status(200).chunked(vec![vec![b'l'; 50_000]; 6]),
        _ => Reply::ok(vec![b'l'; 3_000_000]),
    });
    let directory = Directory::new("ulimit");
    // The journal may get no longer either.
    let journal = directory.0.join("journal");
    let failing = (0..200).map(|i| origin.url(&format!("/told/{i}/{}", "x".repeat(600))));
    let to = To::new(&directory.0).journal(&journal);
    assert_eq!(once().save_all(failing, to).count(), 200);
    assert!(fs::metadata(&journal).unwrap().len() > 50_000);
    fs::remove_file(&journal).unwrap();
    let urls = ["/untold", "/told", "/small"].map(|path| origin.url(path));
    let outcomes: Vec<_> = once().save_all(&urls, &directory.0).in_order().collect();
    for outcome in &outcomes[..2] {
        let error = outcome.as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains(".part"), "{error}");
    }
    assert_eq!(outcomes[2].as_ref().unwrap().bytes(), 40_000);
    assert_eq!(directory.files(), ["small"]);
}
