//! Where both are kept, there are no more of them than versions, however often a list is run.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, SystemTime};

use fetchpool::{Directory as To, OnExist, Request, Saved};

use super::Directory;
use super::archive::{Archive, Content, DATE, LATER};
use crate::once;
use crate::support::{Origin, Reply};

fn save_all(urls: &[String], to: impl Into<To>) -> Vec<Saved> {
    let batch = once().save_all(urls, to).in_order();
    batch.map(|saved| saved.unwrap()).collect()
}

/// All of one name, of one length, and of one date for each version: only their bytes differ, or their tags.
fn versions(dated: bool) -> (Origin, Arc<AtomicU8>, Vec<String>) {
    let version = Arc::new(AtomicU8::new(0));
    let served = Arc::clone(&version);
    let origin = Origin::start(move |incoming| {
        let version = served.load(Ordering::SeqCst);
        let body = format!("{version} of {}", incoming.target());
        match dated {
            // Each of a day of its own.
            true => {
                let day = 10 + version * 6 + incoming.target().as_bytes()[1] - b'a';
                let date = format!("Tue, {day} Nov 1994 08:49:37 GMT");
                Reply::ok(body).header("Last-Modified", httpdate_of(&date))
            }
            false => Reply::ok(body),
        }
    });
    let urls = ["a", "b", "c", "d", "e", "f"].map(|path| origin.url(&format!("/{path}/x.txt")));
    (origin, version, urls.to_vec())
}

/// With the right day of the week.
fn httpdate_of(date: &str) -> String {
    let day: u64 = date[5..7].parse().unwrap();
    let first = SystemTime::UNIX_EPOCH + Duration::from_secs(783_679_777);
    httpdate::fmt_http_date(first + Duration::from_secs((day - 1) * 86_400))
}

#[test]
fn a_list_whose_files_have_changed_once_makes_one_copy_of_each() {
    for dated in [true, false] {
        let (_origin, version, urls) = versions(dated);
        let directory = Directory::new(&format!("copies-{dated}"));
        save_all(&urls, &directory.0);
        assert_eq!(directory.files().len(), 6);
        version.store(1, Ordering::SeqCst);
        // Whoever answers first: the order of the list is another each time.
        for run in 0..6 {
            let mut urls = urls.clone();
            urls.rotate_left(run);
            for saved in save_all(&urls, &directory.0) {
                let body = format!("1 of {}", saved.url().path());
                assert_eq!(fs::read(saved.path()).unwrap(), body.as_bytes());
                assert_eq!(saved.was_present(), run > 0, "{dated} {run}");
            }
            assert_eq!(directory.files().len(), 12, "{:?}", directory.files());
        }
    }
}

#[test]
fn a_copy_that_the_response_shows_to_be_what_comes_is_not_fetched() {
    let origin = Origin::start(|_| {
        Reply::status(200)
            .header("Last-Modified", LATER)
            .declared_length(1 << 30)
            .then_send("beginning")
            .then_stall()
    });
    let directory = Directory::new("copy-by-length");
    fs::create_dir(&directory.0).unwrap();
    fs::write(directory.0.join("f"), "old").unwrap();
    let copy = fs::File::create(directory.0.join("f (1)")).unwrap();
    copy.set_len(1 << 30).unwrap();
    copy.set_modified(httpdate::parse_http_date(LATER).unwrap())
        .unwrap();
    let saved = &save_all(&[origin.url("/f")], &directory.0)[0];
    assert!(saved.was_present());
    assert_eq!(saved.path(), directory.0.join("f (1)"));
}

#[test]
fn a_file_that_only_got_another_date_gets_it_as_well() {
    let archive = Archive::start(Content::new(1000, 0));
    let directory = Directory::new("touched");
    save_all(&[archive.url()], &directory.0);
    archive.change(|content| content.date = Some(LATER));
    for status in [200, 304] {
        let saved = &save_all(&[archive.url()], &directory.0)[0];
        assert!(saved.was_present());
        assert_eq!(saved.status().unwrap(), status);
    }
    assert_eq!(directory.files(), ["big.bin"]);
    let log = archive.origin.log();
    let asked = |run: usize| log[run].header("if-modified-since");
    assert_eq!((asked(1), asked(2)), (Some(DATE), Some(LATER)));
}

/// Others of it are just as long and as old.
#[test]
fn a_part_that_the_caller_asks_for_is_not_taken_for_another() {
    let archive = Archive::start(Content::new(1000, 0));
    for (policy, names) in [
        (OnExist::SameOrBoth, &["big (1).bin", "big.bin"][..]),
        (OnExist::Update, &["big.bin"]),
    ] {
        let directory = Directory::new(&format!("ranges-{policy:?}"));
        for range in ["0-99", "100-199", "100-199"] {
            let value = format!("bytes={range}").parse().unwrap();
            let request = Request::new(archive.url()).header(http::header::RANGE, value);
            let to = To::new(&directory.0).on_exist(policy);
            let saved = once().save_all([request], to).next().unwrap().unwrap();
            let start: usize = range.split('-').next().unwrap().parse().unwrap();
            let expected = &Content::new(1000, 0).body[start..start + 100];
            assert_eq!(fs::read(saved.path()).unwrap(), expected, "{policy:?}");
        }
        assert_eq!(directory.files(), names);
    }
}

/// Of one date, and as long: as much as the server can show without a tag.
#[test]
fn what_is_known_to_be_another_urls_is_not_asked_about() {
    if !super::on_exist::has_attributes() {
        return;
    }
    let origin = Origin::start(|incoming| {
        // Such a server compares dates, and has its own tags.
        if incoming.header("if-modified-since").is_some() {
            return Reply::status(304);
        }
        let target = incoming.target();
        Reply::ok(target)
            .header("Last-Modified", DATE)
            .header("ETag", format!("\"{target}\""))
    });
    let [one, other] = ["/dl?x=1", "/dl?x=2"].map(|target| origin.url(target));
    for policy in [OnExist::SameOrBoth, OnExist::Update] {
        let directory = Directory::new(&format!("anothers-{policy:?}"));
        let to = || To::new(&directory.0).on_exist(policy);
        save_all(&[one.clone(), other.clone()], to());
        // The first of the list has gone: the next of that name is in its place.
        let saved = &save_all(std::slice::from_ref(&other), to())[0];
        assert_eq!(fs::read(saved.path()).unwrap(), b"/dl?x=2", "{policy:?}");
        assert_eq!(directory.files().len(), 2);
    }
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_found_before_there_is_a_question() {
    let archive = Archive::start(Content::new(1000, 0));
    for policy in [OnExist::Skip, OnExist::Error] {
        let directory = Directory::new(&format!("dangling-{policy:?}"));
        fs::create_dir(&directory.0).unwrap();
        std::os::unix::fs::symlink("nowhere", directory.0.join("big.bin")).unwrap();
        let to = To::new(&directory.0).on_exist(policy);
        let error = once().save_all([archive.url()], to).next().unwrap();
        assert!(error.unwrap_err().to_string().contains("big.bin"));
        assert_eq!(directory.files(), ["big.bin"]);
    }
    assert_eq!(archive.requests(), 0);
}

/// Who is told a name finds its own file again, whichever was the first to be told it.
#[test]
fn files_of_a_name_that_is_told_do_not_grow_with_the_order_of_the_answers() {
    for dated in [true, false] {
        let origin = Origin::start(move |incoming| {
            let target = incoming.target();
            let day = 10 + target.as_bytes()[1] - b'a';
            let named = "attachment; filename=report.pdf";
            let reply = Reply::ok(target).header("Content-Disposition", named);
            match dated {
                true => reply.header("Last-Modified", httpdate_of(&format!("Tue, {day} Nov"))),
                false => reply,
            }
        });
        let mut urls = ["/a", "/b", "/c", "/d", "/e"].map(|path| origin.url(path));
        let directory = Directory::new(&format!("told-{dated}"));
        for run in 0..5 {
            for saved in save_all(&urls, &directory.0) {
                let body = fs::read_to_string(saved.path()).unwrap();
                assert_eq!(body, saved.url().path());
                assert_eq!(saved.was_present(), run > 0);
            }
            assert_eq!(directory.files().len(), 5, "{:?}", directory.files());
            urls.rotate_left(1);
        }
    }
}

/// A copy's place may have something else in it.
#[test]
fn what_is_no_file_is_passed_over_where_there_are_numbers() {
    let archive = Archive::start(Content::new(1000, 0));
    let directory = Directory::new("in-the-way");
    fs::create_dir_all(directory.0.join("big (1).bin")).unwrap();
    fs::write(directory.0.join("big.bin"), "another").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("nowhere", directory.0.join("big (2).bin")).unwrap();
    for present in [false, true] {
        let saved = &save_all(&[archive.url()], &directory.0)[0];
        assert_eq!(saved.was_present(), present);
        let number = if cfg!(unix) { 3 } else { 2 };
        let path = directory.0.join(format!("big ({number}).bin"));
        assert_eq!(saved.path(), path);
    }
}

#[cfg(unix)]
#[test]
fn what_goes_by_another_name_as_well_keeps_its_date() {
    let archive = Archive::start(Content::new(1000, 0));
    let directory = Directory::new("linked-date");
    save_all(&[archive.url()], &directory.0);
    fs::hard_link(directory.0.join("big.bin"), directory.0.join("backup")).unwrap();
    archive.change(|content| content.date = Some(LATER));
    assert!(save_all(&[archive.url()], &directory.0)[0].was_present());
    let modified = fs::metadata(directory.0.join("backup")).unwrap();
    let date = httpdate::parse_http_date(DATE).unwrap();
    assert_eq!(modified.modified().unwrap(), date);
}

/// As after a deployment all files have one date. Lines come and go, and hosts have files of one name.
#[test]
fn a_list_that_has_lost_or_got_lines_finds_the_files_of_its_urls() {
    if !super::on_exist::has_attributes() {
        return;
    }
    let origins = Origin::many(4, |incoming| {
        match incoming.header("if-modified-since") {
            // Whatever is asked for.
            Some(DATE) => Reply::status(304),
            _ => {
                let body = format!("{}{}", incoming.host(), incoming.target());
                Reply::ok(body).header("Last-Modified", DATE)
            }
        }
    });
    let of = |hosts: &[usize]| -> Vec<String> {
        let files = |&host: &usize| (0..10).map(move |file| (host, file));
        let urls = hosts.iter().flat_map(files);
        urls.map(|(host, file)| origins[host].url(&format!("/f{file}.bin")))
            .collect()
    };
    let directory = Directory::new("other-lists");
    let run = |hosts: &[usize]| {
        let saved = save_all(&of(hosts), &directory.0);
        for saved in &saved {
            let url = saved.url();
            let host = url.host_str().unwrap();
            let body = format!("{host}:{}{}", url.port().unwrap(), url.path());
            assert_eq!(fs::read_to_string(saved.path()).unwrap(), body);
        }
        saved.iter().filter(|saved| !saved.was_present()).count()
    };
    assert_eq!(run(&[0, 1, 2]), 30);
    for hosts in [&[1, 2][..], &[2], &[2, 1], &[0, 1, 2], &[1, 0, 2]] {
        assert_eq!(run(hosts), 0, "{hosts:?}");
    }
    assert_eq!(run(&[3, 1, 2]), 10);
    assert_eq!(run(&[3, 2]), 0);
    assert_eq!(directory.files().len(), 40);
}
