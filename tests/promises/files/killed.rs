//! After `kill -9` the same command comes to the same file, and fetches only what was missing.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Directory;
use super::archive::Content;
use crate::once;
use crate::support::{Gate, Origin, Reply};

const SIZE: usize = 3_000_000;

/// Tells the process that is to be killed what to fetch, and where to.
const URL: &str = "FETCHPOOL_TEST_URL";
const TO: &str = "FETCHPOOL_TEST_TO";

fn start(test: &str, url: &str, to: &Path) -> Child {
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

fn part_size(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let mut entries = entries.map(Result::unwrap);
    let part = entries.find(|entry| entry.file_name().to_str().unwrap().ends_with(".part"));
    part.map_or(0, |entry| entry.metadata().unwrap().len())
}
