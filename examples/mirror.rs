//! `mirror`: keeps a local copy of a list of URLs up to date.
//!
//! ```text
//! cargo run --release --example mirror -- urls.txt mirror
//! ```
//!
//! Files are laid out as their URLs are. The second run transfers headers and nothing else for what has not
//! changed, and for what has, the new file takes the place of the old one when it is whole. What broke off
//! goes on where it was. Nothing is deleted: what leaves the list stays in the copy.

use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use fetchpool::{Directory, Downloader, Layout, OnExist};

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let (Some(list), Some(directory), None) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        eprintln!("usage: mirror LIST DIR (LIST: a file of URLs, one a line)");
        return ExitCode::from(2);
    };
    let list = Path::new(&list);
    let lines = match File::open(list) {
        Ok(file) => BufReader::new(file),
        Err(e) => {
            eprintln!("cannot read URLs from {}: {e}", list.display());
            return ExitCode::from(2);
        }
    };
    let copy = Directory::new(directory)
        .layout(Layout::Tree)
        .on_exist(OnExist::Update)
        .spare(list)
        .keep_etag(true);
    match mirror(lines, copy) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("cannot read the rest of the list: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Returns how many files could not be brought up to date.
fn mirror(list: impl BufRead, copy: Directory) -> io::Result<u64> {
    let (mut new, mut bytes, mut same, mut failed) = (0, 0, 0, 0);
    // The list is read as it is needed; an error in it ends it, and is told at the end.
    let mut broken = None;
    let urls = list
        .lines()
        .map_while(|line| line.map_err(|e| broken = Some(e)).ok())
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    for file in Downloader::new().save_all(urls, copy) {
        match file {
            Ok(file) if file.was_present() => same += 1,
            Ok(file) => {
                println!("{}", file.path().display());
                new += 1;
                bytes += file.bytes() - file.report().resumed_from().unwrap_or(0);
            }
            Err(error) => {
                eprintln!("{error}");
                failed += 1;
            }
        }
    }
    println!("{new} new or changed ({bytes} bytes), {same} as they were, {failed} failed");
    broken.map_or(Ok(failed), Err)
}
