//! Digests as people and servers write them.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;

use base64::alphabet::STANDARD;
use base64::engine::Engine;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

use super::{Digest, DigestAlgorithm};

/// As RFC 9651, section 4.2.7, wants it read: whatever the bits are that no byte needs.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, NO_PAD.with_decode_allow_trailing_bits(true));

/// A text is not a [`Digest`]. What it prints says what would be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDigestError(Why);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// Of no form that is known, or of an algorithm that is not.
    Form,
    /// The algorithm is known, what follows is not its result.
    Value(DigestAlgorithm),
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        // The padding is not needed, and looks like a separator.
        let text = text.trim().trim_end_matches('=');
        let Some((name, value)) = text.rsplit_once([':', '=', '-']) else {
            return bare(text).ok_or(ParseDigestError(Why::Form));
        };
        let algorithm = DigestAlgorithm::named(name).ok_or(ParseDigestError(Why::Form))?;
        Self::decode(algorithm, value).ok_or(ParseDigestError(Why::Value(algorithm)))
    }
}

impl Digest {
    /// From hex or base64, padded or not. No text is both: their lengths differ.
    pub(super) fn decode(algorithm: DigestAlgorithm, text: &str) -> Option<Self> {
        let bytes = if text.len() == 2 * algorithm.length() {
            hex(text)?
        } else {
            BASE64.decode(text.trim_end_matches('=')).ok()?
        };
        Self::from_slice(algorithm, &bytes)
    }
}

/// Hex whose length tells the algorithm.
fn bare(text: &str) -> Option<Digest> {
    let mut all = DigestAlgorithm::ALL.into_iter();
    let algorithm = all.find(|one| 2 * one.length() == text.len())?;
    Digest::from_slice(algorithm, &hex(text)?)
}

/// Of an even number of digits.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks_exact(2);
    let bytes = pairs.map(|pair| u8::try_from(16 * digit(pair[0])? + digit(pair[1])?).ok());
    bytes.collect()
}

impl fmt::Display for ParseDigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Why::Form => f.write_str(
                "not a digest; it should be like sha256:HEX or sha256-BASE64, with sha512, sha256, \
                 sha1 or md5, or hex alone, of 128, 64, 40 or 32 digits",
            ),
            Why::Value(algorithm) => {
                let (hex, base64) = (2 * algorithm.length(), algorithm.length().div_ceil(3) * 4);
                write!(
                    f,
                    "not a digest: {algorithm} has {hex} digits of hex, or {base64} of base64"
                )
            }
        }
    }
}

impl StdError for ParseDigestError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn parse(text: &str) -> Result<Digest, String> {
        text.parse().map_err(|e: ParseDigestError| e.to_string())
    }

    #[test]
    fn every_form_of_a_sha256_is_the_same_digest() {
        let upper = ABC.to_uppercase();
        for text in [
            ABC,
            &upper,
            &format!(" {ABC}\r\n"),
            &format!("sha256:{ABC}"),
            &format!("SHA256:{upper}"),
            &format!("sha-256={ABC}"),
            &format!("SHA-256={ABC}"),
            &format!("sha256-{ABC}"),
            "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
            "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0",
            "sha-256=ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
            "sha256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
            // The two bits that no byte needs are not zero.
            "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa3=",
        ] {
            let digest = parse(text).unwrap_or_else(|e| panic!("{text:?}: {e}"));
            assert_eq!(digest.to_string(), format!("sha256:{ABC}"), "{text:?}");
        }
    }

    #[test]
    fn the_length_of_bare_hex_tells_the_algorithm() {
        for (length, is) in [
            (32, Digest::md5([0xAA; 16])),
            (40, Digest::sha1([0xAA; 20])),
            (64, Digest::sha256([0xAA; 32])),
            (128, Digest::sha512([0xAA; 64])),
        ] {
            assert_eq!(parse(&"a".repeat(length)), Ok(is));
            assert_eq!(is.as_bytes().len() * 2, length);
        }
    }

    #[test]
    fn each_algorithm_has_its_names() {
        use DigestAlgorithm::{Md5, Sha1, Sha256, Sha512};
        for (names, is) in [
            (["md5", "MD5", "Md5"].as_slice(), Md5),
            (&["sha1", "sha-1", "SHA", "Sha-1"], Sha1),
            (&["sha256", "SHA-256"], Sha256),
            (&["sha512", "sha-512"], Sha512),
        ] {
            for name in names {
                let text = format!("{name}:{}", "0".repeat(2 * is.length()));
                assert_eq!(parse(&text).map(|digest| digest.algorithm()), Ok(is));
            }
        }
        for name in [
            "",
            "sha-",
            "sha2",
            "sha224",
            "sha384",
            "sha--256",
            "md-5",
            "sha256:sha-256",
        ] {
            assert_eq!(DigestAlgorithm::named(name), None, "{name:?}");
        }
    }

    #[test]
    fn what_is_no_digest_is_told_what_would_be_one() {
        let base64 = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
        for text in [
            "",
            "=",
            "abc",
            "sha256",
            &ABC[1..],
            &ABC.replace('b', "g"),
            &format!("0x{}", &ABC[2..]),
            &format!("+{}", &ABC[1..]),
            base64,
            &format!("sha384-{}", "A".repeat(64)),
            &format!("sha256 {ABC}"),
            &format!("sha256-{base64} sha256-{base64}"),
            &"\u{661}".repeat(32),
        ] {
            let error = parse(text).expect_err(text);
            assert!(
                error.contains("like sha256:HEX or sha256-BASE64"),
                "{error}"
            );
        }
        for text in [
            "sha256:",
            "sha256:abc",
            &format!("sha256:{}", &ABC[2..]),
            &format!("sha256:{ABC}00"),
            &format!("sha256:{}", &ABC.replace('b', "g")),
            &format!("sha256-{}", &base64[4..]),
            &format!("sha256-{}", base64.replace('+', "*")),
        ] {
            let wanted = "not a digest: sha256 has 64 digits of hex, or 44 of base64";
            assert_eq!(parse(text), Err(wanted.to_owned()), "{text:?}");
        }
    }

    fn any_digest() -> impl Strategy<Value = Digest> {
        let bytes = prop::collection::vec(any::<u8>(), 64);
        (prop::sample::select(&DigestAlgorithm::ALL[..]), bytes).prop_map(|(algorithm, bytes)| {
            Digest::from_slice(algorithm, &bytes[..algorithm.length()]).unwrap()
        })
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(digest in any_digest()) {
            let shown = digest.to_string();
            let (name, hex) = shown.split_once(':').unwrap();
            prop_assert_eq!(parse(&shown), Ok(digest));
            prop_assert_eq!(parse(&shown.to_uppercase()), Ok(digest));
            prop_assert_eq!(parse(hex), Ok(digest));
            let base64 = base64::prelude::BASE64_STANDARD.encode(digest.as_bytes());
            prop_assert_eq!(parse(&format!("{name}-{base64}")), Ok(digest));
        }

        #[test]
        fn whatever_is_read_is_a_digest_or_an_error(
            text in prop_oneof![".{0,80}", "(md5|sha-?(1|256|512))[:=-][0-9a-zA-Z+/=:-]{0,130}"],
        ) {
            if let Ok(digest) = parse(&text) {
                prop_assert_eq!(parse(&digest.to_string()), Ok(digest));
            }
        }
    }
}
