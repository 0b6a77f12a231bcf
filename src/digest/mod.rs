//! Digests of bodies: what one should be, what a server says that it is, and what it is.

mod check;
mod hasher;
mod header;
mod parse;

pub(crate) use check::Check;
pub(crate) use hasher::Hasher;
pub(crate) use header::of_response;
pub use parse::ParseDigestError;

use std::fmt;

/// What a body's bytes should come to: an algorithm, and its result.
///
/// Parses the forms in which digests are usually published, in upper or lower case, with blanks around:
///
/// | form | of |
/// | --- | --- |
/// | `sha256:HEX` | containers and package managers; what [`Display`](fmt::Display) writes |
/// | `sha256-BASE64` | Subresource Integrity, section 3.5 |
/// | `sha-256=BASE64` | a `Digest` field (RFC 3230, section 4.3.2) |
/// | `HEX` | `sha256sum` and its like: the length tells the algorithm |
///
/// Hex and base64 may stand for each other, and so may the separators. For the names see
/// [`DigestAlgorithm`]; `sha-1` and `sha` are SHA-1, too.
///
/// ```
/// use fetchpool::{Digest, DigestAlgorithm};
///
/// let digest: Digest = "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=".parse()?;
/// assert_eq!(digest.algorithm(), DigestAlgorithm::Sha256);
/// assert_eq!(
///     digest.to_string(),
///     "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
/// );
/// # Ok::<(), fetchpool::ParseDigestError>(())
/// ```
///
/// A digest is worth what its origin and its algorithm are. Only one that came by a way of its own
/// tells that a server, or who is in between, did not change the body; and MD5 and SHA-1 tell of
/// accidents only, whatever the way: see [`DigestAlgorithm`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(Bytes);

/// With the number of bytes that belongs to each.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Bytes {
    Md5([u8; 16]),
    Sha1([u8; 20]),
    Sha256([u8; 32]),
    Sha512([u8; 64]),
}

/// How a [`Digest`] is computed, the weakest first. More may be added, at their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DigestAlgorithm {
    /// MD5 (RFC 1321): `md5`. Detects accidents and nothing else: two bodies of one digest are made
    /// in seconds (RFC 6151, section 2.1).
    Md5,
    /// SHA-1 (RFC 3174): `sha1`. Detects accidents and nothing else: two bodies of one digest have
    /// been made (RFC 9530, section 5, deprecates it for that).
    Sha1,
    /// SHA-256 (RFC 6234): `sha256`.
    Sha256,
    /// SHA-512 (RFC 6234): `sha512`.
    Sha512,
}

impl Digest {
    /// An MD5, which detects accidents only: see [`DigestAlgorithm::Md5`].
    #[must_use]
    pub const fn md5(bytes: [u8; 16]) -> Self {
        Self(Bytes::Md5(bytes))
    }

    /// A SHA-1, which detects accidents only: see [`DigestAlgorithm::Sha1`].
    #[must_use]
    pub const fn sha1(bytes: [u8; 20]) -> Self {
        Self(Bytes::Sha1(bytes))
    }

    /// A SHA-256.
    #[must_use]
    pub const fn sha256(bytes: [u8; 32]) -> Self {
        Self(Bytes::Sha256(bytes))
    }

    /// A SHA-512.
    #[must_use]
    pub const fn sha512(bytes: [u8; 64]) -> Self {
        Self(Bytes::Sha512(bytes))
    }

    /// What it was computed with.
    #[must_use]
    pub const fn algorithm(&self) -> DigestAlgorithm {
        match self.0 {
            Bytes::Md5(_) => DigestAlgorithm::Md5,
            Bytes::Sha1(_) => DigestAlgorithm::Sha1,
            Bytes::Sha256(_) => DigestAlgorithm::Sha256,
            Bytes::Sha512(_) => DigestAlgorithm::Sha512,
        }
    }

    /// The result: 16 to 64 bytes, as the algorithm has it.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Md5(bytes) => bytes,
            Bytes::Sha1(bytes) => bytes,
            Bytes::Sha256(bytes) => bytes,
            Bytes::Sha512(bytes) => bytes,
        }
    }

    /// `None` if these are not as many as the algorithm's.
    fn from_slice(algorithm: DigestAlgorithm, bytes: &[u8]) -> Option<Self> {
        Some(match algorithm {
            DigestAlgorithm::Md5 => Self::md5(bytes.try_into().ok()?),
            DigestAlgorithm::Sha1 => Self::sha1(bytes.try_into().ok()?),
            DigestAlgorithm::Sha256 => Self::sha256(bytes.try_into().ok()?),
            DigestAlgorithm::Sha512 => Self::sha512(bytes.try_into().ok()?),
        })
    }
}

impl DigestAlgorithm {
    const ALL: [Self; 4] = [Self::Md5, Self::Sha1, Self::Sha256, Self::Sha512];

    /// A short lower-case name, such as `sha256`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// Of its result, in bytes.
    const fn length(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// By a name of ours or of the HTTP registry (RFC 9530, section 5), in which SHA-1 is `sha`.
    fn named(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("sha") {
            return Some(Self::Sha1);
        }
        let name = name.to_ascii_lowercase().replacen("sha-", "sha", 1);
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// As `sha256:` and lower-case hex.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.algorithm())?;
        let mut bytes = self.as_bytes().iter();
        bytes.try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl fmt::Display for DigestAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
