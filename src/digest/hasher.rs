//! The digests of bytes as they pass.

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

use super::{Digest, DigestAlgorithm};

/// Computes digests of what it is shown, piece by piece. One of no algorithm allocates and does
/// nothing.
pub(crate) struct Hasher(Vec<State>);

enum State {
    Md5(Md5),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    /// Each algorithm counts once.
    pub(crate) fn new(algorithms: impl IntoIterator<Item = DigestAlgorithm>) -> Self {
        let mut wanted = Vec::new();
        for algorithm in algorithms {
            if !wanted.contains(&algorithm) {
                wanted.push(algorithm);
            }
        }
        Self(wanted.into_iter().map(State::new).collect())
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        for state in &mut self.0 {
            state.update(piece);
        }
    }

    /// One digest for each algorithm, in the order in which they were given.
    pub(crate) fn finish(self) -> Vec<Digest> {
        self.0.into_iter().map(State::finish).collect()
    }
}

impl State {
    fn new(algorithm: DigestAlgorithm) -> Self {
        match algorithm {
            DigestAlgorithm::Md5 => Self::Md5(Md5::new()),
            DigestAlgorithm::Sha1 => Self::Sha1(Sha1::new()),
            DigestAlgorithm::Sha256 => Self::Sha256(Sha256::new()),
            DigestAlgorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    fn update(&mut self, piece: &[u8]) {
        match self {
            Self::Md5(state) => state.update(piece),
            Self::Sha1(state) => state.update(piece),
            Self::Sha256(state) => state.update(piece),
            Self::Sha512(state) => state.update(piece),
        }
    }

    fn finish(self) -> Digest {
        match self {
            Self::Md5(state) => Digest::md5(state.finalize().into()),
            Self::Sha1(state) => Digest::sha1(state.finalize().into()),
            Self::Sha256(state) => Digest::sha256(state.finalize().into()),
            Self::Sha512(state) => Digest::sha512(state.finalize().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::digest::{Digest, DigestAlgorithm, Hasher};

    /// Of these pieces, by all algorithms, strongest first.
    fn digests<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Digest> {
        let mut hasher = Hasher::new(DigestAlgorithm::ALL.into_iter().rev());
        for piece in pieces {
            hasher.update(piece);
        }
        hasher.finish()
    }

    #[test]
    fn the_test_vectors_of_the_standards_hold() {
        // RFC 1321, A.5; FIPS 180-4 by its examples (RFC 6234, section 8.5).
        let million = "a".repeat(1_000_000);
        for (input, expected) in [
            (
                "",
                [
                    "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce\
                     47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
                    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
                    "d41d8cd98f00b204e9800998ecf8427e",
                ],
            ),
            (
                "abc",
                [
                    "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                     2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
                    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                    "a9993e364706816aba3e25717850c26c9cd0d89d",
                    "900150983cd24fb0d6963f7d28e17f72",
                ],
            ),
            (
                &million,
                [
                    "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973eb\
                     de0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b",
                    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
                    "34aa973cd4c4daa4f61eeb2bdbad27316534016f",
                    "7707d6ae4e027c70eea2a935c2296f21",
                ],
            ),
        ] {
            let expected = expected.map(|hex| hex.parse::<Digest>().unwrap());
            assert_eq!(digests([input.as_bytes()]), expected);
        }
        let message = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".as_slice();
        assert_eq!(
            digests([message])[1].to_string(),
            "sha256:248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
        let message = b"12345678901234567890123456789012345678901234567890\
                        123456789012345678901234567890";
        assert_eq!(
            digests([message.as_slice()])[3].to_string(),
            "md5:57edf4a22be3c955ac49da2e2107b67a"
        );
    }

    #[test]
    fn nothing_is_computed_that_nobody_wants() {
        let mut hasher = Hasher::new([]);
        hasher.update(b"abc");
        assert_eq!(hasher.0.capacity(), 0);
        assert_eq!(hasher.finish(), []);
    }

    #[test]
    fn an_algorithm_that_is_wanted_twice_is_computed_once() {
        use DigestAlgorithm::{Md5, Sha256};
        let digests = Hasher::new([Sha256, Md5, Sha256]).finish();
        let algorithms: Vec<_> = digests.iter().map(Digest::algorithm).collect();
        assert_eq!(algorithms, [Sha256, Md5]);
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_does_not_matter(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
        ) {
            let whole = pieces.concat();
            prop_assert_eq!(digests(pieces.iter().map(Vec::as_slice)), digests([&*whole]));
        }
    }
}
