//! Which resource has answered: what a validator is of (RFC 9110, section 8.8.3).

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};
use url::Url;

use crate::outcome::Report;

/// Of the one that answers, or is asked now.
pub(super) fn resource(report: &Report) -> Option<String> {
    Some(fingerprint(&unsigned(report.current_url()?)))
}

/// A URL that is signed is another one each time, for the same resource. So the signature, and what
/// only serves it, have no part in it. All else has, secret or not: `?key=a.bin` may be what names the
/// file.
fn unsigned(url: &Url) -> Cow<'_, Url> {
    let is_of_azure = url.query_pairs().any(|(name, _)| name == "sig")
        && url.query_pairs().any(|(name, _)| name == "sv");
    let is_signing = |name: &str| signs(name) || is_of_azure && AZURE.contains(&name);
    if !url.query_pairs().any(|(name, _)| is_signing(&name)) {
        return Cow::Borrowed(url);
    }
    let mut bare = url.clone();
    let rest = url.query_pairs().filter(|(name, _)| !is_signing(name));
    bare.query_pairs_mut().clear().extend_pairs(rest);
    Cow::Owned(bare)
}

/// Names that mean nothing else.
///
/// - AWS: Signature Version 4 (`X-Amz-…`), Version 2 and CloudFront. Google: V4 (`X-Goog-…`) and V2.
///   Alibaba: V4 (`x-oss-…`) and V1.
/// - OpenStack's temporary URLs. Akamai's tokens.
fn signs(name: &str) -> bool {
    const PREFIXES: [&str; 3] = ["x-amz-", "x-goog-", "x-oss-"];
    const NAMES: [&str; 13] = [
        "AWSAccessKeyId",
        "Expires",
        "GoogleAccessId",
        "Key-Pair-Id",
        "OSSAccessKeyId",
        "Policy",
        "Signature",
        "__gda__",
        "hdnea",
        "hdntl",
        "hdnts",
        "temp_url_expires",
        "temp_url_sig",
    ];
    let has = |prefix: &str| {
        let start = name.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    NAMES.contains(&name) || PREFIXES.into_iter().any(has)
}

/// Of a shared access signature of Azure's, whose names are too short to mean that anywhere else; and
/// `jwt`, which GitHub puts beside it.
const AZURE: [&str; 17] = [
    "jwt", "se", "sig", "sip", "ske", "skoid", "sks", "skt", "sktid", "skv", "sp", "spr", "sr",
    "srt", "ss", "st", "sv",
];

/// Of all of a URL but its password: people choose such as can be guessed, with a hash to try them on.
pub(super) fn fingerprint(url: &Url) -> String {
    fingerprint_of(url, "")
}

/// The same, of the URL and something else.
pub(super) fn fingerprint_of(url: &Url, more: &str) -> String {
    let mut url = Cow::Borrowed(url);
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
            ("a=1&b=%20", "a=1&b=%20"),
            (
                "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=f&versionId=2",
                "versionId=2",
            ),
            ("AWSAccessKeyId=a&Expires=1&Signature=s", ""),
            ("Policy=p&Signature=s&Key-Pair-Id=k&f=1", "f=1"),
            (
                "X-Goog-Credential=c&X-Goog-Signature=s&generation=7",
                "generation=7",
            ),
            (
                "sp=r&sv=2018-11-09&sr=b&spr=https&se=x&rscd=attachment&skoid=a&jwt=t&sig=s",
                "rscd=attachment",
            ),
            ("temp_url_sig=s&temp_url_expires=1&f=1", "f=1"),
        ] {
            assert_eq!(unsigned_of(query), is, "{query}");
        }
    }

    /// Whatever looks like a secret may be what names the file.
    #[test]
    fn all_else_has() {
        for query in [
            "file=A&sig=1",
            "key=A.bin",
            "token=A",
            "code=A",
            "ticket=A",
            "jwt=A",
            "se=A&sv=1",
            "password=A",
            "signature=A",
            "expires=A",
            "",
        ] {
            assert_eq!(unsigned_of(query), query);
        }
    }
}
