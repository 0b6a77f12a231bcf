//! `Retry-After`: bounded whatever is sent, and what another parser reads.
//!
//! The first line of the input is the `Date` (none if empty), each other a `Retry-After`.

#![no_main]

use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::{Corpus, fuzz_target};

#[path = "../../src/retry/after.rs"]
mod after;

/// As long as 32 bits can say: no clock overflows.
const LONGEST: u64 = u32::MAX as u64;

fuzz_target!(|bytes: &[u8]| -> Corpus { check(bytes) });

fn check(bytes: &[u8]) -> Corpus {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let date = lines.next().unwrap_or_default();
    let lines: Vec<&[u8]> = lines.collect();
    let mut headers = HeaderMap::new();
    if !date.is_empty() {
        let Ok(value) = HeaderValue::from_bytes(date) else {
            return Corpus::Reject;
        };
        headers.insert(DATE, value);
    }
    for line in &lines {
        let Ok(value) = HeaderValue::from_bytes(line) else {
            return Corpus::Reject;
        };
        headers.append(RETRY_AFTER, value);
    }
    let after = after::retry_after(&headers);
    assert!(after.is_none_or(|after| after <= Duration::from_secs(LONGEST)));
    assert!(after.is_none() || !lines.is_empty());

    // The first value that both understand is alone what counts.
    let Some(first) = lines.iter().find(|line| is_anything(line)) else {
        return Corpus::Keep;
    };
    let is_first = lines.first() == Some(first);
    if let Some(seconds) = seconds(first) {
        if is_first {
            assert_eq!(after, Some(Duration::from_secs(seconds)));
        }
    } else if let (Some(until), Some(now)) = (imf_date(first), imf_date(date)) {
        let seconds = until.saturating_sub(now).clamp(0, LONGEST as i64);
        if is_first {
            assert_eq!(after, Some(Duration::from_secs(seconds as u64)));
        }
    }
    Corpus::Keep
}

fn is_anything(line: &[u8]) -> bool {
    seconds(line).is_some() || imf_date(line).is_some()
}

fn trim(mut line: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = line {
        line = rest;
    }
    line
}

fn seconds(line: &[u8]) -> Option<u64> {
    let line = trim(line);
    if line.is_empty() {
        return None;
    }
    line.iter().try_fold(0, |number: u64, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        Some((number * 10 + u64::from(digit)).min(LONGEST))
    })
}

/// Seconds since 1970 of an IMF-fixdate, counted year by year.
fn imf_date(line: &[u8]) -> Option<i64> {
    const MONTHS: [(&str, i64); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let text = std::str::from_utf8(trim(line))
        .ok()
        .filter(|text| text.is_ascii())?;
    let field = |from: usize, to: usize| text.get(from..to);
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = field(from, to)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().ok())?
    };
    if text.len() != 29
        || field(3, 5) != Some(", ")
        || field(7, 8) != Some(" ")
        || field(11, 12) != Some(" ")
        || field(16, 17) != Some(" ")
        || field(19, 20) != Some(":")
        || field(22, 23) != Some(":")
        || field(25, 29) != Some(" GMT")
    {
        return None;
    }
    let (day, year) = (number(5, 7)?, number(12, 16)?);
    let (hour, minute, second) = (number(17, 19)?, number(20, 22)?, number(23, 25)?);
    let month = MONTHS
        .iter()
        .position(|(name, _)| field(8, 11) == Some(name))?;
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = |month: usize| MONTHS[month].1 + i64::from(month == 1 && is_leap(year));
    if year < 1970 || day < 1 || day > length(month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let years: i64 = (1970..year)
        .map(|year| 365 + i64::from(is_leap(year)))
        .sum();
    let days = years + (0..month).map(length).sum::<i64>() + day - 1;
    let is_weekday = field(0, 3) == Some(DAYS[(days % 7) as usize]);
    is_weekday.then_some(((days * 24 + hour) * 60 + minute) * 60 + second)
}
