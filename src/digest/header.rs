//! What a server says that the digest is.

use http::{HeaderMap, StatusCode};

use super::{Digest, DigestAlgorithm};

/// Of the whole representation, also where the response has only a part of it. No content coding
/// is undone, so its bytes are those that are saved.
///
/// `Repr-Digest` (RFC 9530, section 3) and its forerunner `Digest` (RFC 3230, section 4.3.2).
const OF_THE_WHOLE: [&str; 2] = ["repr-digest", "digest"];

/// `Content-Digest` (RFC 9530, section 2): of what this response has.
const OF_THE_CONTENT: &str = "content-digest";

/// RFC 1864. Servers do not agree what it is of if the response is a part, for which RFC 7231,
/// appendix B, took it out of HTTP.
const CONTENT_MD5: &str = "content-md5";

/// What a response with this status and header says about the whole body: all digests of the
/// strongest algorithm that is known and that it names. What is not of the form is as good as not
/// said.
///
/// Only the strongest, because each costs a pass over all bytes, and one that holds leaves the weaker
/// ones nothing to find but mistakes of their own.
///
/// Those of one algorithm that differ are all in it: a dictionary's last one would count (RFC 9651,
/// section 4.2), but who says two things about a body cannot vouch for it, and no body has both.
pub(crate) fn of_response(status: StatusCode, headers: &HeaderMap) -> Vec<Digest> {
    let said = all(status, headers);
    let strongest = said.iter().map(Digest::algorithm).max();
    let mut strongest_said = Vec::new();
    for digest in said {
        if Some(digest.algorithm()) == strongest && !strongest_said.contains(&digest) {
            strongest_said.push(digest);
        }
    }
    strongest_said
}

fn all(status: StatusCode, headers: &HeaderMap) -> Vec<Digest> {
    let mut said: Vec<_> = OF_THE_WHOLE
        .into_iter()
        .flat_map(|name| listed(headers, name))
        .collect();
    if status != StatusCode::PARTIAL_CONTENT {
        said.extend(listed(headers, OF_THE_CONTENT));
        let md5 = values(headers, CONTENT_MD5);
        said.extend(md5.filter_map(|value| Digest::decode(DigestAlgorithm::Md5, value)));
    }
    said
}

/// The entries of a list. No form of one has a comma within.
fn listed<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = Digest> + 'a {
    values(headers, name).flat_map(|value| value.split(',').filter_map(entry))
}

/// `sha-256=:BASE64:`, perhaps with parameters (RFC 9651, section 3.2), or the old
/// `SHA-256=BASE64`. Either is understood in all fields, since drafts of RFC 9530 mixed them.
fn entry(text: &str) -> Option<Digest> {
    let (name, value) = text.split_once('=')?;
    let value = value
        .split_once(';')
        .map_or(value, |(value, _)| value)
        .trim();
    let bytes = value
        .strip_prefix(':')
        .and_then(|rest| rest.strip_suffix(':'));
    Digest::decode(DigestAlgorithm::named(name.trim())?, bytes.unwrap_or(value))
}

/// A header's values that are text.
fn values<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter();
    values.filter_map(|value| value.to_str().ok().map(str::trim))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, StatusCode};
    use proptest::prelude::*;

    use crate::digest::{Digest, of_response};

    // All of `abc`.
    const SHA512: &str = "3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9\
                          RU1EI2Q86A4qmslPpUyknw==";
    const SHA256: &str = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
    const SHA1: &str = "qZk+NkcGgWq6PiVxeFDCbJzQ2J0=";
    const MD5: &str = "kAFQmDzST7DWlj99KOF/cg==";
    /// And of nothing.
    const OTHER: &str = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

    fn digest(text: String) -> Digest {
        text.parse().unwrap()
    }

    fn md5() -> Digest {
        digest(format!("md5-{MD5}"))
    }

    fn sha1() -> Digest {
        digest(format!("sha1-{SHA1}"))
    }

    fn sha256() -> Digest {
        digest(format!("sha256-{SHA256}"))
    }

    fn sha512() -> Digest {
        digest(format!("sha512-{SHA512}"))
    }

    fn other() -> Digest {
        digest(format!("sha256-{OTHER}"))
    }

    fn said_with(status: StatusCode, fields: &[(&'static str, &str)]) -> Vec<Digest> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        of_response(status, &headers)
    }

    fn said(fields: &[(&'static str, &str)]) -> Vec<Digest> {
        said_with(StatusCode::OK, fields)
    }

    #[test]
    fn every_field_is_understood_in_every_form_it_has() {
        for (name, value, is) in [
            ("repr-digest", format!("sha-256=:{SHA256}:"), sha256()),
            ("repr-digest", format!("sha-512=:{SHA512}:"), sha512()),
            ("repr-digest", format!("sha=:{SHA1}:"), sha1()),
            ("repr-digest", format!("md5=:{MD5}:"), md5()),
            (
                "repr-digest",
                format!(" sha-256=:{SHA256}:;a;b=\"c\" "),
                sha256(),
            ),
            (
                "repr-digest",
                format!("sha-256=:{}:", &SHA256[..43]),
                sha256(),
            ),
            (
                "repr-digest",
                format!("crc32c=:AAAAAA==:,\tsha-256=:{SHA256}:"),
                sha256(),
            ),
            ("repr-digest", format!("sha-256={SHA256}"), sha256()),
            ("content-digest", format!("sha-256=:{SHA256}:"), sha256()),
            ("digest", format!("SHA-256={SHA256}"), sha256()),
            (
                "digest",
                format!("sha-256={SHA256},unixsum=30637"),
                sha256(),
            ),
            ("digest", format!("id-sha-256={OTHER}, SHA={SHA1}"), sha1()),
            ("digest", format!("md5 = {MD5}"), md5()),
            ("digest", format!("MD5={MD5}"), md5()),
            (
                "digest",
                "md5=900150983cd24fb0d6963f7d28e17f72".to_owned(),
                md5(),
            ),
            ("content-md5", MD5.to_owned(), md5()),
            ("content-md5", format!("\t{MD5} "), md5()),
        ] {
            assert_eq!(said(&[(name, &value)]), [is], "{name}: {value}");
        }
    }

    #[test]
    fn what_is_not_of_the_form_is_as_good_as_not_said() {
        for (name, value) in [
            ("repr-digest", String::new()),
            ("repr-digest", "sha-256".to_owned()),
            ("repr-digest", "sha-256=".to_owned()),
            ("repr-digest", "sha-256=:".to_owned()),
            ("repr-digest", "sha-256=::".to_owned()),
            ("repr-digest", format!("=:{SHA256}:")),
            ("repr-digest", format!("sha-256=:{SHA256}")),
            ("repr-digest", format!("sha-256={SHA256}:")),
            ("repr-digest", format!("sha-256=\"{SHA256}\"")),
            ("repr-digest", format!("sha-256=(:{SHA256}:)")),
            ("repr-digest", format!("sha-256=:{SHA1}:")),
            ("repr-digest", format!("sha-256=:{}:", &SHA256[1..])),
            (
                "repr-digest",
                format!("sha-256=:{}:", SHA256.replace('+', "-")),
            ),
            ("repr-digest", format!("sha-512=:{SHA256}:")),
            ("repr-digest", format!("sha-257=:{SHA256}:")),
            ("repr-digest", format!("sha-256=:{SHA256}:\u{e9}")),
            ("digest", SHA256.to_owned()),
            ("digest", format!("sha-256 {SHA256}")),
            ("digest", ",,=,;=,:".to_owned()),
            ("content-md5", format!("md5={MD5}")),
            ("content-md5", SHA256.to_owned()),
            ("want-repr-digest", format!("sha-256=:{SHA256}:")),
        ] {
            assert_eq!(said(&[(name, &value)]), [], "{name}: {value}");
        }
    }

    #[test]
    fn a_bad_entry_does_not_take_the_good_ones_with_it() {
        let value = format!("sha-512=:oops:, sha-256=:{SHA256}:, ,md5");
        assert_eq!(said(&[("repr-digest", &value)]), [sha256()]);
        let bad = format!("sha-256=:{OTHER}:\u{e9}");
        let good = format!("sha-256=:{SHA256}:");
        assert_eq!(said(&[("digest", &bad), ("digest", &good)]), [sha256()]);
    }

    #[test]
    fn only_the_strongest_counts_wherever_it_stands() {
        let old = format!("sha-256={SHA256},md5={MD5}");
        let new = format!("sha-512=:{SHA512}:");
        assert_eq!(said(&[("digest", &old)]), [sha256()]);
        assert_eq!(said(&[("content-md5", MD5), ("digest", &old)]), [sha256()]);
        assert_eq!(said(&[("digest", &old), ("repr-digest", &new)]), [sha512()]);
        assert_eq!(
            said(&[("content-digest", &new), ("digest", &old)]),
            [sha512()]
        );
    }

    #[test]
    fn contradictions_are_kept_and_repetitions_are_not() {
        let good = format!("sha-256=:{SHA256}:");
        let both = format!("sha-256=:{SHA256}:, sha-256=:{OTHER}:");
        assert_eq!(said(&[("repr-digest", &both)]), [sha256(), other()]);
        let bad = format!("SHA-256={OTHER}");
        assert_eq!(
            said(&[("repr-digest", &good), ("digest", &bad)]),
            [sha256(), other()]
        );
        let fields = [
            ("repr-digest", &*good),
            ("repr-digest", &good),
            ("content-digest", &good),
        ];
        assert_eq!(said(&fields), [sha256()]);
    }

    #[test]
    fn what_is_of_a_part_is_not_taken_for_the_whole() {
        let part = StatusCode::PARTIAL_CONTENT;
        let value = format!("sha-256=:{SHA256}:");
        assert_eq!(said_with(part, &[("content-digest", &value)]), []);
        assert_eq!(said_with(part, &[("content-md5", MD5)]), []);
        assert_eq!(said_with(part, &[("repr-digest", &value)]), [sha256()]);
        assert_eq!(said_with(part, &[("digest", &value)]), [sha256()]);
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_of_one_algorithm(
            fields in prop::collection::vec(
                (
                    prop::sample::select(&["repr-digest", "content-digest", "digest", "content-md5"][..]),
                    prop_oneof![
                        "[ -~\t\u{80}-\u{ff}]{0,40}",
                        "((sha-512|sha-256|SHA|md5|x)[ =:;,]{0,3}[A-Za-z0-9+/]{0,90}[ =:;,]{0,4}){0,4}",
                        "sha-256=:[A-Za-z0-9+/]{43}=:(, sha-512=:[A-Za-z0-9+/]{86}==:)?(,md5=[A-Za-z0-9+/]{22})?",
                    ],
                ),
                0..4,
            ),
            is_part in any::<bool>(),
        ) {
            let status = if is_part { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
            let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, &**value)).collect();
            let said = said_with(status, &fields);
            prop_assert!(said.windows(2).all(|two| two[0].algorithm() == two[1].algorithm()));
            prop_assert!(said.windows(2).all(|two| two[0] != two[1]));
        }
    }
}
