//! What is missing, and no more, is asked for again: in this run or in the next.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use fetchpool::{Directory as To, ErrorKind, Request, RetryPolicy};

use super::super::Directory;
use super::super::archive::{Archive, Content};
use super::{
    MIB, PIECES, SIZE, all_ranges, assert_is, content, held, piece, range, ranges, request,
    run_again, save, serve,
};
use crate::support::{Gate, Reply};
use crate::{n, once, with};

#[test]
fn of_a_piece_that_is_cut_only_the_rest_is_asked_for_again() {
    const CUT: usize = 3 * MIB;
    for cut in [0, 2] {
        let sent = if cut == 0 { MIB / 2 } else { CUT };
        let origin = serve(content(), move |incoming| {
            let start = range(incoming)?.start;
            let is_begin = start == 0 || start == PIECES[1].start;
            let is_it = piece(incoming) == Some(cut) && is_begin;
            is_it.then(|| content().cut_after(sent).reply(incoming))
        });
        let directory = Directory::new(&format!("segments-cut-{cut}"));
        let retries = RetryPolicy::new().base(Duration::from_millis(1));
        let saved = save(&with(|b| b.retry(retries)), &origin, &directory).unwrap();
        assert_is(&directory, &content());
        let mut asked = all_ranges();
        let whole = asked[cut].clone().unwrap();
        asked.insert(cut + 1, Some(whole.start + sent..whole.end));
        assert_eq!(ranges(&origin), asked);
        assert_eq!(saved.report().attempts(), 2);
    }
}

/// Each has as many retries as a request has.
#[test]
fn pieces_are_tried_again_each_by_itself() {
    let origin = serve(content(), move |incoming| {
        let Range { start, .. } = range(incoming)?;
        let is_begin = PIECES.iter().any(|piece| piece.start == start);
        is_begin.then(|| content().cut_after(MIB).reply(incoming))
    });
    let directory = Directory::new("segments-each");
    let retries = RetryPolicy::new().retries(1).base(Duration::from_millis(1));
    let saved = save(&with(|b| b.retry(retries)), &origin, &directory).unwrap();
    assert_is(&directory, &content());
    assert_eq!((saved.report().attempts(), origin.log().len()), (4, 7));
}

/// The piece that is being read stops at its next read, the one that waits at its turn.
#[test]
fn a_piece_that_fails_for_good_is_the_one_error_of_its_file() {
    let (begun, read_on) = (Gate::new(), Gate::new());
    let is_begun = begun.clone();
    let served = content();
    let origin = serve(content(), move |incoming| match piece(incoming) {
        _ if incoming.target() == "/after" => {
            // It has the token of the piece that has failed.
            read_on.open();
            Some(Reply::ok("after"))
        }
        Some(1) if incoming.visit() < 4 => {
            begun.open();
            Some(held(&served, incoming, MIB, &read_on))
        }
        Some(2) if incoming.visit() < 4 => Some(Reply::status(403).after(&begun)),
        _ => None,
    });
    let directory = Directory::new("segments-failed");
    let after = || {
        is_begun.wait();
        Request::new(origin.url("/after"))
    };
    let requests = std::iter::once(request(&origin)).chain(std::iter::once_with(after));
    let two = with(|b| b.per_host(n(2)));
    let outcomes: Vec<_> = two.save_all(requests, &directory.0).in_order().collect();
    assert_eq!(outcomes.len(), 2);
    let error = outcomes[0].as_ref().unwrap_err();
    assert_eq!(error.status().unwrap(), 403, "{error}");
    assert_eq!(origin.log().len(), 4, "{:?}", ranges(&origin));
    fs::remove_file(directory.0.join("after")).unwrap();
    assert_eq!(directory.files().len(), 2, "{:?}", directory.files());

    // In whatever number of pieces the next run wants it.
    for (before, (says, wants)) in (4..).zip([
        (ErrorKind::TooLarge, Request::new(origin.url("/big.bin"))),
        (
            ErrorKind::Digest,
            request(&origin).expect_length(SIZE as u64 - 1),
        ),
    ]) {
        // The server may have another by now, and is asked; what there is stays.
        let limit = if says == ErrorKind::TooLarge {
            SIZE - 1
        } else {
            SIZE
        };
        let limited = with(|b| b.max_file(Some(limit as u64)));
        let error = limited.save_all([wants], &directory.0).next().unwrap();
        assert_eq!(error.unwrap_err().kind(), says);
        assert_eq!(origin.log().len(), before + 1);
    }
    let (asked, had) = run_again(&origin, &directory, Request::new(origin.url("/big.bin")));
    assert_eq!(asked as u64 + had, SIZE as u64);
    // The first part, and what had been read before; not what came after it.
    assert!((MIB..3 * MIB).contains(&(had as usize)), "{had}");
    assert_is(&directory, &content());
}

#[test]
fn a_failure_of_the_first_of_many_leaves_the_others_alone() {
    let origin = serve(content(), |incoming| {
        (piece(incoming) == Some(1)).then(|| Reply::status(500))
    });
    let directory = Directory::new("segments-first-fails");
    let one = with(|b| b.per_host(n(1)));
    let error = save(&one, &origin, &directory).unwrap_err();
    assert_eq!(
        (error.status().unwrap().as_u16(), origin.log().len()),
        (500, 2)
    );
}

#[test]
fn where_parts_are_not_kept_pieces_leave_nothing() {
    let origin = serve(content(), |incoming| {
        (piece(incoming) == Some(3)).then(|| Reply::status(404))
    });
    let directory = Directory::new("segments-not-kept");
    let save = || {
        let to = To::new(&directory.0).keep_parts(false);
        once().save_all([request(&origin)], to).next().unwrap()
    };
    save().unwrap_err();
    assert_eq!(directory.files(), [""; 0]);
}

#[test]
fn a_stamp_that_does_not_fit_its_part_says_nothing() {
    type Damage = fn(&Path, &Path);
    let damages: [Damage; 4] = [
        // Torn in the middle of a number.
        |_, stamp| {
            replace(
                stamp,
                "1048576 00000000000001048576 ",
                "1048576 00000000000001048570 ",
            );
        },
        // A span is missing.
        |_, stamp| {
            let text = fs::read_to_string(stamp).unwrap();
            let line = text.lines().find(|line| line.starts_with("span")).unwrap();
            replace(stamp, &format!("{line}\n"), "");
        },
        // Bytes that it says are there are not.
        |part, _| set_size(part, MIB - 1),
        |part, _| set_size(part, SIZE + 1),
    ];
    for (i, damage) in damages.into_iter().enumerate() {
        let origin = serve(content(), |incoming| {
            (piece(incoming) == Some(1) && incoming.visit() == 2).then(|| Reply::status(404))
        });
        let directory = Directory::new(&format!("segments-stamp-{i}"));
        let one = with(|b| b.per_host(n(1)));
        save(&one, &origin, &directory).unwrap_err();
        let files = directory.files();
        damage(&directory.0.join(&files[0]), &directory.0.join(&files[1]));
        let saved = save(&one, &origin, &directory).unwrap();
        assert_eq!(saved.report().resumed_from(), None, "{i}");
        assert_eq!(range(&origin.log()[2]), Some(0..MIB), "{i}");
        assert_is(&directory, &content());
    }
}

fn set_size(path: &Path, bytes: usize) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(bytes as u64).unwrap();
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// As after a power cut: the note was on the disk, and the bytes were not.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
#[test]
fn bytes_that_did_not_reach_the_disk_are_fetched_again() {
    use std::os::unix::fs::FileExt;
    let origin = serve(content(), |incoming| {
        (piece(incoming) == Some(3) && incoming.visit() == 4).then(|| Reply::status(404))
    });
    let directory = Directory::new("segments-hole");
    let one = with(|b| b.per_host(n(1)));
    save(&one, &origin, &directory).unwrap_err();
    let part = directory.0.join(&directory.files()[0]);
    let file = fs::File::create(&part).unwrap();
    file.set_len(PIECES[2].start as u64).unwrap();
    let lost = 3 * MIB..4 * MIB;
    let end = PIECES[1].end;
    let body = content().body;
    for there in [0..lost.start, lost.end..end] {
        file.write_all_at(&body[there.clone()], there.start as u64)
            .unwrap();
    }
    drop(file);
    let (asked, had) = run_again(&origin, &directory, request(&origin));
    // All of that piece behind the hole.
    let again = PIECES[0].end - lost.start + PIECES[2].len();
    assert_eq!((asked, had as usize), (again, SIZE - again));
    assert_is(&directory, &content());
}

/// What is left of one version does not keep the next from being fetched.
#[test]
fn pieces_of_another_length_than_wanted_are_none_of_it() {
    let directory = Directory::new("segments-other-length");
    let archive = Archive::start(content().cut_after(3 * MIB));
    save(&once(), &archive.origin, &directory).unwrap_err();
    assert_eq!(directory.files().len(), 2);
    let new = Content {
        etag: Some("\"v2\""),
        ..Content::new(SIZE + MIB, 1)
    };
    archive.change(|content| *content = new.clone());
    let length = new.body.len() as u64;
    let wanted = request(&archive.origin).expect_length(length);
    let to = To::new(&directory.0).sync(false);
    let saved = once().save_all([wanted], to).next().unwrap().unwrap();
    assert_eq!(saved.bytes(), length);
    assert_eq!(directory.read("big.bin"), *new.body);
}
