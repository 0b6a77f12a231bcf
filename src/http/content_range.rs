//! `Content-Range`: which part a response is of what (RFC 9110, section 14.4).

use http::HeaderValue;

/// What a `Content-Range` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentRange {
    /// The bytes from `start` to `end`, both included.
    Part {
        start: u64,
        end: u64,
        /// The length of the whole, if the server knows it.
        total: Option<u64>,
    },
    /// What was asked for is not in what there is, which is as long as this: `*/total`.
    Unsatisfied { total: u64 },
}

impl ContentRange {
    /// `None` for what is not of the form, or contradicts itself: a body must not be put where
    /// nobody can be sure that it belongs.
    ///
    /// Blanks may stand between the tokens, as RFC 2616 (section 2.1) let servers write them.
    /// `bytes=0-1/2`, the form of a request, is refused: whoever writes it has not read what a
    /// range is.
    pub(crate) fn parse(value: &HeaderValue) -> Option<Self> {
        let text = trim(value.to_str().ok()?);
        let (unit, range) = text.split_once([' ', '\t'])?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (part, total) = range.split_once('/')?;
        let (part, total) = (trim(part), trim(total));
        if part == "*" {
            let total = number(total)?;
            return Some(Self::Unsatisfied { total });
        }
        let (start, end) = part.split_once('-')?;
        let (start, end) = (number(trim(start))?, number(trim(end))?);
        let total = match total {
            "*" => None,
            total => Some(number(total)?),
        };
        let is_part = start <= end && total.is_none_or(|total| end < total);
        is_part.then_some(Self::Part { start, end, total })
    }
}

/// Without a sign, and no larger than it can be.
fn number(text: &str) -> Option<u64> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| text.parse().ok())?
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(value: &str) -> Option<ContentRange> {
        ContentRange::parse(&HeaderValue::from_bytes(value.as_bytes()).unwrap())
    }

    fn part(start: u64, end: u64, total: impl Into<Option<u64>>) -> Option<ContentRange> {
        let total = total.into();
        Some(ContentRange::Part { start, end, total })
    }

    #[test]
    fn a_part_is_of_a_whole_whose_length_may_be_unknown() {
        for (value, is) in [
            ("bytes 0-499/1234", part(0, 499, 1234)),
            ("bytes 42-1233/1234", part(42, 1233, 1234)),
            ("bytes 42-1233/*", part(42, 1233, None)),
            ("bytes 0-0/1", part(0, 0, 1)),
            ("BYTES 0-0/1", part(0, 0, 1)),
            ("bytes 007-8/0010", part(7, 8, 10)),
            ("bytes  0-1/2", part(0, 1, 2)),
            (" bytes 0-1/2\t", part(0, 1, 2)),
            ("bytes 0 - 1 / 2", part(0, 1, 2)),
            ("bytes\t0-1/2", part(0, 1, 2)),
            (
                "bytes 4294967296-18446744073709551614/18446744073709551615",
                part(1 << 32, u64::MAX - 1, u64::MAX),
            ),
        ] {
            assert_eq!(parse(value), is, "{value:?}");
        }
    }

    #[test]
    fn a_range_that_cannot_be_satisfied_tells_the_length() {
        let unsatisfied = |total| Some(ContentRange::Unsatisfied { total });
        assert_eq!(parse("bytes */1234"), unsatisfied(1234));
        assert_eq!(parse("Bytes  * / 0"), unsatisfied(0));
        assert_eq!(parse("bytes */*"), None);
        assert_eq!(parse("bytes */"), None);
    }

    #[test]
    fn what_is_not_of_the_form_is_refused() {
        for value in [
            "",
            "bytes",
            "bytes ",
            "bytes=0-1/2",
            "bytes= 0-1/2",
            "bytes =0-1/2",
            "bytes: 0-1/2",
            "bytes0-1/2",
            "0-1/2",
            "octets 0-1/2",
            "bytes 0-1",
            "bytes 0-1/",
            "bytes 0-/2",
            "bytes -1/2",
            "bytes 0/2",
            "bytes -0-1/2",
            "bytes +0-1/2",
            "bytes 0--1/2",
            "bytes 0-1/-2",
            "bytes 0-1/2/3",
            "bytes 0-1,3-4/5",
            "bytes 0-1/2, bytes 0-1/2",
            "bytes 0x0-1/2",
            "bytes 0 1-2/3",
            "bytes *-1/2",
            "bytes \u{661}-1/2",
        ] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }

    #[test]
    fn what_contradicts_itself_or_overflows_is_refused() {
        for value in [
            "bytes 1-0/2",
            "bytes 0-2/2",
            "bytes 0-1/1",
            "bytes 0-0/0",
            "bytes 0-18446744073709551616/*",
            "bytes 18446744073709551616-18446744073709551617/*",
            "bytes 0-1/18446744073709551616",
            "bytes */18446744073709551616",
        ] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_by_the_form_is_read_back(
            start in any::<u64>(),
            more in any::<u64>(),
            beyond in prop::option::of(any::<u64>()),
        ) {
            let end = start.saturating_add(more).min(u64::MAX - 1);
            let start = start.min(end);
            let total = beyond.map(|beyond| end.saturating_add(beyond).max(end + 1));
            let shown = total.map_or_else(|| "*".to_owned(), |total| total.to_string());
            prop_assert_eq!(parse(&format!("bytes {start}-{end}/{shown}")), part(start, end, total));
        }

        #[test]
        fn whatever_is_sent_is_a_part_or_none(
            value in prop_oneof!["[ -~]{0,40}", "bytes[ =][0-9*/ -]{0,60}"],
        ) {
            if let Some(ContentRange::Part { start, end, total }) = parse(&value) {
                prop_assert!(start <= end && total.is_none_or(|total| end < total));
                prop_assert!(!value.contains('='));
            }
        }
    }
}
