//! After `kill -9` the same command comes to the same file, and fetches only what was missing.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fetchpool::Request;

use super::Directory;
use super::archive::Content;
use crate::support::{Gate, Incoming, Origin, Reply};
use crate::{n, once, with};

const SIZE: usize = 3_000_000;

/// Tells the process that is to be killed what to fetch, and where to.
pub(super) const URL: &str = "FETCHPOOL_TEST_URL";
pub(super) const TO: &str = "FETCHPOOL_TEST_TO";

pub(super) fn start(test: &str, url: &str, to: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact"])
        .env(URL, url)
        .env(TO, to)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Killed as the server has sent so many bytes, and waits.
#[test]
fn a_killed_process_leaves_nothing_but_what_the_next_goes_on_with() {
    const TEST: &str =
        "files::killed::a_killed_process_leaves_nothing_but_what_the_next_goes_on_with";
    if let (Ok(url), Some(to)) = (std::env::var(URL), std::env::var_os(TO)) {
        once().save_all([url], to).for_each(drop);
        return;
    }
    let content = Content::new(SIZE, 0);
    for sent in [0, 1, 100_000, 1_000_000, SIZE - 1] {
        let gate = Gate::new();
        let (held, served) = (gate.clone(), content.clone());
        let origin = Origin::start(move |incoming| match incoming.visit() {
            1 => Reply::status(200)
                .header("ETag", "\"v1\"")
                .declared_length(SIZE as u64)
                .then_send(&served.body[..sent])
                .then_wait(&held),
            _ => served.reply(incoming),
        });
        let directory = Directory::new(&format!("killed-{sent}"));
        let url = origin.url("/big.bin");
        let mut child = start(TEST, &url, &directory.0);
        gate.wait_for_waiters(1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!directory.0.join("big.bin").exists());
        let left = part_size(&directory.0);

        let saved = once()
            .save_all([&url], &directory.0)
            .next()
            .unwrap()
            .unwrap();
        gate.open();
        let resumed = saved.report().resumed_from().unwrap_or(0);
        assert_eq!(resumed, left);
        assert_eq!(origin.log()[1].range_start().unwrap_or(0), left);
        assert_eq!(directory.files(), ["big.bin"]);
        assert_eq!(directory.read("big.bin"), *content.body);
    }
}

/// Killed as two pieces are under way, of which so much has come, and one is through.
#[test]
fn a_killed_process_leaves_its_pieces_to_go_on_with() {
    const TEST: &str = "files::killed::a_killed_process_leaves_its_pieces_to_go_on_with";
    const MIB: usize = 1024 * 1024;
    const LARGE: usize = 13 * MIB;
    let request = |url: &str| Request::new(url).segments(n(3));
    if let (Ok(url), Some(to)) = (std::env::var(URL), std::env::var_os(TO)) {
        let two = with(|b| b.per_host(n(2)));
        two.save_all([request(&url)], to).for_each(drop);
        return;
    }
    let content = Content::new(LARGE, 0);
    for sent in [0, 1, 1_000_000, 4 * MIB - 1] {
        let gate = Gate::new();
        let (held, served) = (gate.clone(), content.clone());
        let origin = Origin::start(move |incoming| match incoming.visit() {
            1 | 2 | 5.. => served.reply(incoming),
            _ => {
                let start = incoming.range_start().unwrap() as usize;
                let end = incoming.range_end().unwrap() as usize;
                Reply::status(206)
                    .header("ETag", "\"v1\"")
                    .header("Content-Range", format!("bytes {start}-{end}/{LARGE}"))
                    .declared_length((end + 1 - start) as u64)
                    .then_send(&served.body[start..start + sent])
                    .then_wait(&held)
            }
        });
        let directory = Directory::new(&format!("killed-pieces-{sent}"));
        let url = origin.url("/big.bin");
        let mut child = start(TEST, &url, &directory.0);
        gate.wait_for_waiters(2);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!directory.0.join("big.bin").exists());

        let saved = once().save_all([request(&url)], &directory.0).next();
        let saved = saved.unwrap().unwrap();
        gate.open();
        let had = saved.report().resumed_from().unwrap() as usize;
        // What the process had not taken out of its sockets is lost with it.
        assert!((5 * MIB..=5 * MIB + 2 * sent).contains(&had), "{had}");
        let log = &origin.log()[4..];
        let asked = |i: &Incoming| (i.range_end().unwrap() + 1 - i.range_start().unwrap()) as usize;
        assert_eq!(log.len(), 2);
        assert_eq!(log.iter().map(|i| asked(i)).sum::<usize>(), LARGE - had);
        assert_eq!(directory.files(), ["big.bin"]);
        assert!(directory.read("big.bin") == *content.body);
    }
}

fn part_size(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let mut entries = entries.map(Result::unwrap);
    let part = entries.find(|entry| entry.file_name().to_str().unwrap().ends_with(".part"));
    part.map_or(0, |entry| entry.metadata().unwrap().len())
}
