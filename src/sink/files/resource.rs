//! Which resource has answered: what a validator is of (RFC 9110, section 8.8.3).

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};
use url::Url;

use crate::outcome::Report;

/// Of the one that answers, or is asked now.
pub(super) fn resource(report: &Report) -> Option<String> {
    report.current_url().map(fingerprint)
}

/// Of all of a URL but its signature, and its password: people choose such as can be guessed, with a hash
/// to try them on.
pub(super) fn fingerprint(url: &Url) -> String {
    fingerprint_with(url, "")
}

/// The same, and of something else.
pub(super) fn fingerprint_with(url: &Url, more: &str) -> String {
    let mut url = unsigned(url);
    if url.password().is_some() {
        // Fails for URLs without a host only, which have no password.
        let _ = url.to_mut().set_password(None);
    }
    let hash = Sha256::new().chain_update(url.as_str()).chain_update(more);
    let hash = hash.finalize();
    hash[..12]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A URL that is signed is another one each time, for the same resource. So the signature, and what
/// only serves it, have no part in it. All else has, secret or not, just as it is spelled:
/// `?key=a.bin` may be what names the file.
fn unsigned(url: &Url) -> Cow<'_, Url> {
    let Some(query) = url.query() else {
        return Cow::Borrowed(url);
    };
    let Some(scheme) = SCHEMES.iter().find(|scheme| scheme.signs(query)) else {
        return Cow::Borrowed(url);
    };
    let rest = query
        .split('&')
        .filter(|pair| !scheme.is_of_it(name_of(pair)));
    let rest = rest.collect::<Vec<_>>().join("&");
    let mut bare = url.clone();
    bare.set_query(Some(&*rest).filter(|rest| !rest.is_empty()));
    Cow::Owned(bare)
}

fn name_of(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(name, _)| name)
}

/// A way to sign a URL in its query.
struct Scheme {
    /// Where all of these are, the URL is signed so: one alone may mean anything.
    proofs: &'static [&'static str],
    /// What may be there besides.
    others: &'static [&'static str],
}

/// As the services document them. Names are taken in upper and lower case alike.
const SCHEMES: [Scheme; 14] = [
    // Amazon S3, Signature Version 4.
    Scheme {
        proofs: &["X-Amz-Signature", "X-Amz-Date"],
        others: &[
            "X-Amz-Algorithm",
            "X-Amz-Credential",
            "X-Amz-Expires",
            "X-Amz-Security-Token",
            "X-Amz-SignedHeaders",
        ],
    },
    // Google Cloud Storage, Version 4.
    Scheme {
        proofs: &["X-Goog-Signature", "X-Goog-Date"],
        others: &[
            "X-Goog-Algorithm",
            "X-Goog-Credential",
            "X-Goog-Expires",
            "X-Goog-SignedHeaders",
        ],
    },
    // Azure Storage, shared access signatures: the permissions and times stand in the URL or in a
    // policy (`si`). `jwt` is what GitHub puts beside them.
    Scheme {
        proofs: &["sig", "sv"],
        others: &[
            "jwt", "saoid", "scid", "se", "si", "sip", "ske", "skoid", "sks", "skt", "sktid",
            "skv", "sp", "spr", "sr", "srt", "ss", "st", "suoid",
        ],
    },
    // Alibaba Cloud OSS, Version 4.
    Scheme {
        proofs: &["x-oss-signature", "x-oss-date"],
        others: &[
            "x-oss-additional-headers",
            "x-oss-credential",
            "x-oss-expires",
            "x-oss-security-token",
            "x-oss-signature-version",
        ],
    },
    // Tencent Cloud COS.
    Scheme {
        proofs: &["q-signature", "q-sign-time"],
        others: &[
            "q-ak",
            "q-header-list",
            "q-key-time",
            "q-sign-algorithm",
            "q-url-param-list",
            "x-cos-security-token",
        ],
    },
    // Amazon CloudFront, with a policy of its own or a canned one.
    Scheme {
        proofs: &["Signature", "Key-Pair-Id"],
        others: &["Expires", "Policy"],
    },
    // Amazon S3, Version 2.
    Scheme {
        proofs: &["Signature", "Expires", "AWSAccessKeyId"],
        others: &["x-amz-security-token"],
    },
    // Google Cloud Storage, Version 2.
    Scheme {
        proofs: &["Signature", "Expires", "GoogleAccessId"],
        others: &[],
    },
    // Alibaba Cloud OSS, Version 1.
    Scheme {
        proofs: &["Signature", "Expires", "OSSAccessKeyId"],
        others: &["security-token"],
    },
    // OpenStack Swift, temporary URLs.
    Scheme {
        proofs: &["temp_url_sig", "temp_url_expires"],
        others: &["temp_url_ip_range"],
    },
    // Akamai, whose token is in one piece.
    token(&["hdnea"]),
    token(&["hdntl"]),
    token(&["hdnts"]),
    token(&["__gda__"]),
];

const fn token(proofs: &'static [&'static str]) -> Scheme {
    Scheme {
        proofs,
        others: &[],
    }
}

impl Scheme {
    fn signs(&self, query: &str) -> bool {
        let has = |proof: &&str| query.split('&').any(|pair| are_one(name_of(pair), proof));
        self.proofs.iter().all(has)
    }

    fn is_of_it(&self, name: &str) -> bool {
        let mut names = self.proofs.iter().chain(self.others);
        names.any(|of| are_one(of, name))
    }
}

fn are_one(name: &str, other: &str) -> bool {
    name.eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsigned_of(query: &str) -> String {
        let url = Url::parse(&format!("https://h/p?{query}")).unwrap();
        unsigned(&url).query().unwrap_or_default().to_owned()
    }

    #[test]
    fn what_signs_a_url_has_no_part_in_which_resource_it_is() {
        for (query, is) in [
            (
                "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=d&X-Amz-Signature=f&versionId=2",
                "versionId=2",
            ),
            ("AWSAccessKeyId=a&Expires=1&Signature=s", ""),
            ("Policy=p&Signature=s&Key-Pair-Id=k&f=1", "f=1"),
            (
                "X-Goog-Credential=c&X-Goog-Date=d&X-Goog-Signature=s&generation=7",
                "generation=7",
            ),
            (
                "sp=r&sv=2018-11-09&sr=b&spr=https&se=x&rscd=attachment&skoid=a&jwt=t&sig=s",
                "rscd=attachment",
            ),
            ("temp_url_sig=s&temp_url_expires=1&f=1", "f=1"),
            ("hdnea=exp=1~hmac=2&f=1", "f=1"),
            (
                "q-sign-algorithm=sha1&q-sign-time=1;2&q-signature=s&versionId=1",
                "versionId=1",
            ),
        ] {
            assert_eq!(unsigned_of(query), is, "{query}");
        }
    }

    /// Whatever looks like a secret may be what names the file, and so may each of the names above
    /// by itself.
    #[test]
    fn all_else_has() {
        for query in [
            "file=A&sig=1",
            "key=A.bin",
            "token=A",
            "jwt=A&st=B&sp=C",
            "se=A&sv=1",
            "signature=A",
            "Signature=A&Expires=1",
            "Policy=A",
            "x-amz-meta-file=A&X-Amz-Date=1",
            "x-oss-process=image/resize,w_100",
            "",
        ] {
            assert_eq!(unsigned_of(query), query);
        }
    }

    #[test]
    fn the_rest_stays_as_it_is_spelled() {
        let rest = "x-oss-process=style/a%2Fb&f&g=&%FF=%20+&x-amz-meta-a=1";
        let signed = format!("X-Amz-Date=d&{rest}&X-Amz-Signature=s");
        assert_eq!(unsigned_of(&signed), rest);
    }
}
