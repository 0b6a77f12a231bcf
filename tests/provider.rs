//! What the program has chosen to encrypt with is what encrypts, whatever features are on; all
//! that holds for TLS is held to it. A program of its own, since that choice is the process's.

#[path = "support/mod.rs"]
mod support;
#[path = "promises/tls/mod.rs"]
mod tls;

use std::num::NonZeroUsize;
use std::sync::{Once, mpsc};

use fetchpool::{Builder, Downloader, ErrorKind, RetryPolicy};
use rustls::CipherSuite;
use rustls::crypto::ring::{self, cipher_suite};

use tls::{Server, answer, read_request};

fn n(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("not zero")
}

/// A builder, after the program has made its choice: only ciphers that no default is limited to.
fn builder() -> Builder {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| {
        let nothing_chosen = Downloader::builder().build();
        if cfg!(any(feature = "ring", feature = "aws-lc-rs")) {
            nothing_chosen.expect("something is built in");
        } else {
            let error = nothing_chosen.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Tls);
            assert!(error.to_string().contains("install_default"), "{error}");
        }
        let mut chosen = ring::default_provider();
        chosen.cipher_suites = vec![
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ];
        chosen.install_default().expect("nobody else does");
    });
    // Each request once.
    Downloader::builder().retry(RetryPolicy::none())
}

/// A downloader with these settings.
fn with(settings: impl FnOnce(Builder) -> Builder) -> Downloader {
    settings(builder()).build().expect("valid settings")
}

#[test]
fn the_programs_provider_goes_before_those_that_are_built_in() {
    let (sender, receiver) = mpsc::channel();
    // Left to itself it would take AES.
    let server = Server::start(1, move |mut stream| {
        let suite = stream.conn.negotiated_cipher_suite().expect("agreed on");
        sender.send(suite.suite()).expect("somebody listens");
        read_request(&mut stream);
        answer(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    });
    let page = server.trusting().fetch(server.url("localhost"));
    page.expect("fetched");
    let suite = receiver.recv().expect("sent");
    assert_eq!(suite, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
}
