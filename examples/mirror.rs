//! `mirror`: keeps a local copy of a list of URLs up to date.
//!
//! ```text
//! cargo run --release --example mirror -- urls.txt mirror
//! ```
//!
//! Files are laid out as their URLs are. The second run transfers headers and nothing else for what has not
//! changed, and for what has, the new file takes the place of the old one when it is whole. What broke off
//! goes on where it was. Nothing is deleted: what leaves the list stays in the copy.
//!
//! Where a URL is also the directory of another (`/a` and `/a/b`), the second of them to come cannot be
//! had; `fetch`, whose list may name files, can have both.

use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use fetchpool::{Directory, Downloader, Layout, OnExist};

const USAGE: &str = "usage: mirror LIST DIR (LIST: a file of URLs, one a line)";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    if arguments.iter().any(|a| a == "--help" || a == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let [list, directory] = &arguments[..] else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let list = Path::new(list);
    let lines = match File::open(list) {
        Ok(file) => BufReader::new(file),
        Err(e) => {
            let list = list.display();
            eprintln!("cannot read URLs from {list}: {e}; LIST is a file of one URL a line");
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
    let mut refused = 0;
    // The list is read as it is needed; an error in it ends it, and is told at the end.
    let mut broken = None;
    let lines = list
        .lines()
        .zip(1..)
        .map_while(|(line, number)| match line {
            Ok(line) => Some((line, number)),
            Err(e) => {
                broken = Some(e);
                None
            }
        })
        .filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let urls = lines.filter_map(|(line, number): (String, u64)| {
        // Tabs in a URL are left out: what was to be a name would become its end.
        if line.trim().contains('\t') {
            eprintln!("line {number}: a tab is in it; a line is a URL and nothing else");
            refused += 1;
            return None;
        }
        Some(line)
    });
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
    failed += refused;
    println!("{new} new or changed ({bytes} bytes), {same} as they were, {failed} failed");
    broken.map_or(Ok(failed), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_name_is_refused_and_asks_nobody() {
        let directory = env::temp_dir().join(format!("mirror-{}", std::process::id()));
        let list = "# a list\n\nhttp://127.0.0.1:9/a\tx.txt\n";
        let failed = mirror(list.as_bytes(), Directory::new(&directory));
        assert_eq!(failed.unwrap(), 1);
        assert!(!directory.exists());
    }
}
