//! `Retry-After`: when the server wants to be asked again (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName};

/// What longer times are taken for: 136 years, as good as for ever, and no clock overflows.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);

/// How long the server asks to be left alone; `None` if it does not say, or nothing that can be
/// understood. A date that has passed is zero.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    retry_after_at(headers, SystemTime::now)
}

fn retry_after_at(headers: &HeaderMap, now: impl Fn() -> SystemTime) -> Option<Duration> {
    values(headers, RETRY_AFTER).find_map(|value| {
        let pause = if is_number(value) {
            // It has only digits: what fails is too large.
            value.parse().map_or(LONGEST, Duration::from_secs)
        } else {
            let until = httpdate::parse_http_date(value).ok()?;
            // By the clock that the date comes from, if that can be seen: ours may be wrong.
            let now = values(headers, DATE)
                .find_map(|date| httpdate::parse_http_date(date).ok())
                .unwrap_or_else(&now);
            until.duration_since(now).unwrap_or(Duration::ZERO)
        };
        Some(pause.min(LONGEST))
    })
}

/// A header's values that are text.
fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter();
    values.filter_map(|value| {
        value
            .to_str()
            .ok()
            .map(|text| text.trim_matches([' ', '\t']))
    })
}

/// A sign is none of a number's.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// Sunday, 6 November 1994, 08:49:37.
    const NOW: Duration = Duration::from_secs(784_111_777);

    fn at(fields: &[(HeaderName, &[u8])]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        retry_after_at(&headers, || SystemTime::UNIX_EPOCH + NOW)
    }

    fn after(value: impl AsRef<[u8]>) -> Option<Duration> {
        at(&[(RETRY_AFTER, value.as_ref())])
    }

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn seconds_are_a_number_of_digits() {
        for (value, is) in [
            ("0", seconds(0)),
            ("120", seconds(120)),
            ("00007", seconds(7)),
            (" 120 ", seconds(120)),
            ("\t120\t ", seconds(120)),
            ("4294967295", Some(LONGEST)),
            ("9999999999", Some(LONGEST)),
            ("18446744073709551615", Some(LONGEST)),
            ("18446744073709551616", Some(LONGEST)),
            ("9999999999999999999999999999999999999999", Some(LONGEST)),
        ] {
            assert_eq!(after(value), is, "{value:?}");
        }
    }

    #[test]
    fn a_date_may_be_of_three_forms() {
        for value in [
            "Sun, 06 Nov 1994 08:51:37 GMT",
            "Sunday, 06-Nov-94 08:51:37 GMT",
            "Sun Nov  6 08:51:37 1994",
            "  Sun, 06 Nov 1994 08:51:37 GMT\t",
        ] {
            assert_eq!(after(value), seconds(120), "{value:?}");
        }
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), seconds(0));
        // Past.
        assert_eq!(after("Sun, 06 Nov 1994 08:49:36 GMT"), seconds(0));
        assert_eq!(after("Thu, 01 Jan 1970 00:00:00 GMT"), seconds(0));
        // As late as four digits can say.
        assert_eq!(after("Fri, 31 Dec 9999 23:59:59 GMT"), Some(LONGEST));
    }

    #[test]
    fn a_date_is_by_the_servers_clock_where_it_shows_one() {
        let until: &[u8] = b"Sun, 06 Nov 1994 08:51:37 GMT";
        let relative_to = |date: &[u8]| at(&[(DATE, date), (RETRY_AFTER, until)]);
        assert_eq!(relative_to(b"Sun, 06 Nov 1994 08:51:07 GMT"), seconds(30));
        assert_eq!(relative_to(b" Sunday, 06-Nov-94 08:51:07 GMT"), seconds(30));
        assert_eq!(relative_to(b"Sun, 06 Nov 1994 08:52:07 GMT"), seconds(0));
        assert_eq!(relative_to(b"yesterday"), seconds(120));
        // Seconds are nobody's clock's.
        let fields: [(_, &[u8]); 2] = [(DATE, until), (RETRY_AFTER, b"5")];
        assert_eq!(at(&fields), seconds(5));
    }

    #[test]
    fn nonsense_is_nothing() {
        for value in [
            "",
            " ",
            "-1",
            "+1",
            "1.5",
            "1s",
            "0x10",
            "1 2",
            "1,2",
            "soon",
            "\u{661}",
            // Not such a day, weekday, hour, zone, year.
            "Wed, 30 Feb 1994 08:49:37 GMT",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Mon, 06 Nov 0000 08:49:37 GMT",
            "Wed, 31 Dec 1969 23:59:59 GMT",
            "Sun, 06 Nov 19994 08:49:37 GMT",
        ] {
            assert_eq!(after(value), None, "{value:?}");
        }
        assert_eq!(after(b"\xff"), None);
        assert_eq!(at(&[]), None);
    }

    #[test]
    fn of_several_the_first_that_can_be_understood_counts() {
        let fields: [(_, &[u8]); 4] = [
            (RETRY_AFTER, b"soon"),
            (RETRY_AFTER, b"\xff"),
            (RETRY_AFTER, b"7"),
            (RETRY_AFTER, b"9"),
        ];
        assert_eq!(at(&fields), seconds(7));
    }

    /// What is nearly a date finds more than what is nothing like one.
    fn nearly_dates() -> impl Strategy<Value = Vec<u8>> {
        let form = prop_oneof![
            Just("Sun, 06 Nov 1994 08:51:37 GMT"),
            Just("Sunday, 06-Nov-94 08:51:37 GMT"),
            Just("Wednesday, 06-Nov-94 08:51:37 GMT"),
            Just("Sun Nov  6 08:51:37 1994"),
        ];
        let byte = prop_oneof![Just(b'9'), Just(b'0'), Just(b' '), 0x20..0x7f_u8];
        let changes = prop::collection::vec((any::<prop::sample::Index>(), byte), 0..4);
        (form, changes, 0..40_usize).prop_map(|(form, changes, length)| {
            let mut bytes = form.as_bytes().to_vec();
            for (index, byte) in changes {
                *index.get_mut(&mut bytes) = byte;
            }
            if length < 8 {
                bytes.truncate(bytes.len() - length);
            }
            bytes
        })
    }

    proptest! {
        #[test]
        fn whatever_is_sent_has_an_answer_that_no_clock_overflows_at(
            value in prop_oneof![
                nearly_dates(),
                "[0-9]{1,60}".prop_map(String::into_bytes),
                prop::collection::vec(prop_oneof![0x20..0x7f_u8, 0x80..=0xff_u8], 0..60),
            ],
            date in nearly_dates(),
        ) {
            let digits = value.iter().all(u8::is_ascii_digit);
            let after = at(&[(DATE, &date), (RETRY_AFTER, &value)]);
            prop_assert!(after.is_none_or(|after| after <= LONGEST));
            if digits && !value.is_empty() {
                prop_assert!(after.is_some());
            }
        }
    }
}
