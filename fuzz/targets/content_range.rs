//! `Content-Range`: what is read is what another parser reads, and never contradicts itself.

#![no_main]

use http::HeaderValue;
use libfuzzer_sys::{Corpus, fuzz_target};

#[path = "../../src/http/content_range.rs"]
mod content_range;

use content_range::ContentRange;

fuzz_target!(|bytes: &[u8]| -> Corpus { check(bytes) });

fn check(bytes: &[u8]) -> Corpus {
    let Ok(value) = HeaderValue::from_bytes(bytes) else {
        return Corpus::Reject;
    };
    let read = ContentRange::parse(&value);
    if let Some(ContentRange::Part { start, end, total }) = read {
        assert!(start <= end);
        assert!(total.is_none_or(|total| end < total));
    }
    assert_eq!(read, naive(bytes));
    Corpus::Keep
}

/// Byte by byte, in numbers that cannot overflow before they are too large.
fn naive(bytes: &[u8]) -> Option<ContentRange> {
    let mut rest = bytes;
    blanks(&mut rest);
    for letter in b"bytes" {
        let (first, others) = rest.split_first()?;
        if first.to_ascii_lowercase() != *letter {
            return None;
        }
        rest = others;
    }
    if blanks(&mut rest) == 0 {
        return None;
    }
    if take(&mut rest, b'*') {
        blanks(&mut rest);
        if !take(&mut rest, b'/') {
            return None;
        }
        blanks(&mut rest);
        let total = number(&mut rest)?;
        blanks(&mut rest);
        return rest
            .is_empty()
            .then_some(ContentRange::Unsatisfied { total });
    }
    let start = number(&mut rest)?;
    blanks(&mut rest);
    if !take(&mut rest, b'-') {
        return None;
    }
    blanks(&mut rest);
    let end = number(&mut rest)?;
    blanks(&mut rest);
    if !take(&mut rest, b'/') {
        return None;
    }
    blanks(&mut rest);
    let total = if take(&mut rest, b'*') {
        None
    } else {
        Some(number(&mut rest)?)
    };
    blanks(&mut rest);
    if !rest.is_empty() || start > end || total.is_some_and(|total| total <= end) {
        return None;
    }
    Some(ContentRange::Part { start, end, total })
}

fn blanks(rest: &mut &[u8]) -> usize {
    let mut count = 0;
    while take(rest, b' ') || take(rest, b'\t') {
        count += 1;
    }
    count
}

fn take(rest: &mut &[u8], byte: u8) -> bool {
    match rest.split_first() {
        Some((first, others)) if *first == byte => {
            *rest = others;
            true
        }
        _ => false,
    }
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = None;
    while let Some((digit @ b'0'..=b'9', others)) = rest.split_first() {
        let so_far = number.unwrap_or(0_u128) * 10 + u128::from(digit - b'0');
        number = Some(so_far.min(1 << 64));
        *rest = others;
    }
    number.and_then(|number| u64::try_from(number).ok())
}
