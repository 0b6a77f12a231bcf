//! Servers that ask who the client is.

use std::sync::Arc;

use fetchpool::ErrorKind;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, RootCertStore};

use super::{Server, Stream, answer, read_request};
use crate::builder;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A root, and one that it vouches for, who signs clients' certificates.
struct Authority {
    root: CertifiedIssuer<'static, KeyPair>,
    clerk: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        Self::named("authority")
    }

    fn named(name: &str) -> Self {
        let params = |rank| {
            let mut params = params(&format!("{name}'s {rank}"));
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        };
        let root = CertifiedIssuer::self_signed(params("root"), key()).expect("a root");
        let clerk = CertifiedIssuer::signed_by(params("clerk"), key(), &root).expect("a clerk");
        Self { root, clerk }
    }

    fn client(&self) -> Client {
        self.client_with(params("client"))
    }

    fn client_with(&self, mut params: CertificateParams) -> Client {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = key();
        let cert = params.signed_by(&key, &self.clerk).expect("a certificate");
        let chain = cert.pem() + &self.clerk.pem();
        Client { cert, chain, key }
    }

    /// Who lets nobody in but the clients of this authority.
    fn demand(&self) -> Arc<dyn ClientCertVerifier> {
        self.verifier(false)
    }

    /// Who asks, and lets everybody in.
    fn wish(&self) -> Arc<dyn ClientCertVerifier> {
        self.verifier(true)
    }

    fn verifier(&self, optional: bool) -> Arc<dyn ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.der().clone()).expect("a root");
        let provider = Arc::new(ring::default_provider());
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        if optional {
            builder = builder.allow_unauthenticated();
        }
        builder.build().expect("a verifier")
    }
}

struct Client {
    cert: Certificate,
    chain: String,
    key: KeyPair,
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn serve(mut stream: Stream) {
    while read_request(&mut stream) {
        answer(&mut stream, OK);
    }
}

/// Ends the connection as a crash does, and as an alert is lost on the way.
fn reset(stream: Stream) {
    let socket = socket2::SockRef::from(&stream.sock);
    socket
        .set_linger(Some(std::time::Duration::ZERO))
        .expect("a socket");
}

#[test]
fn a_client_with_a_certificate_is_let_in_and_its_connection_kept() {
    let authority = Authority::new();
    let client = authority.client();
    let (chain, key) = (client.chain, client.key.serialize_pem());
    let one_file = key.clone() + &chain;
    for (chain, key) in [(&chain, &key), (&one_file, &one_file)] {
        for version in [&TLS12, &TLS13] {
            let server = Server::asking(authority.demand(), &[version], 1, |stream| {
                let shown = stream.conn.peer_certificates().map(<[_]>::len);
                assert_eq!(shown, Some(2), "the whole chain");
                serve(stream);
            });
            let downloader =
                server.trusting_with(|b| b.client_cert_pem(chain.as_str(), key.as_str()));
            let url = server.url("127.0.0.1");
            for page in downloader.fetch_all([&url, &url]) {
                assert_eq!(page.expect("let in").body(), b"ok");
            }
            drop(downloader);
            assert_eq!(server.handshakes(), [Some(HandshakeKind::Full)]);
        }
    }
}

#[test]
fn a_client_without_a_certificate_is_told_to_set_one() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        let server = Server::asking(authority.demand(), &[version], 1, serve);
        let error = server
            .trusting()
            .fetch(server.url("localhost"))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
        let said = error.to_string();
        assert!(said.contains("demands a client certificate"), "{said}");
        assert!(said.contains("client_cert_pem"), "{said}");
        assert_eq!(server.handshakes(), [None], "refused once");
    }
}

#[test]
fn a_certificate_that_is_refused_is_a_tls_error_that_says_why() {
    let authority = Authority::new();
    let stranger = Authority::named("stranger").client();
    let mut old = params("client");
    old.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let expired = authority.client_with(old);
    for (client, why) in [(&stranger, "whole chain"), (&expired, "as expired")] {
        for version in [&TLS12, &TLS13] {
            let server = Server::asking(authority.demand(), &[version], 1, serve);
            let key = client.key.serialize_pem();
            let downloader =
                server.trusting_with(|b| b.client_cert_pem(client.chain.as_str(), key));
            let error = downloader.fetch(server.url("localhost")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(server.handshakes(), [None], "refused once");
        }
    }
}

#[test]
fn a_refusal_whose_alert_is_lost_is_a_tls_error_still() {
    let authority = Authority::new();
    let client = authority.client();
    for shows_one in [false, true] {
        let server = Server::asking(authority.wish(), &[&TLS13], 1, reset);
        let downloader = server.trusting_with(|b| match shows_one {
            true => b.client_cert_pem(client.chain.as_str(), client.key.serialize_pem()),
            false => b,
        });
        let error = downloader.fetch(server.url("localhost")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
        assert_eq!(
            error.to_string().contains("client_cert_pem"),
            !shows_one,
            "{error}"
        );
        assert_eq!(server.handshakes(), [Some(HandshakeKind::Full)]);
    }
}

#[test]
fn a_connection_that_breaks_is_no_refusal_where_none_is_possible() {
    let authority = Authority::new();
    // Nobody asked; it was over before the handshake; and something has come since.
    let nobody = WebPkiClientVerifier::no_client_auth();
    let unasked = Server::asking(nobody, &[&TLS13], 1, reset);
    let before = Server::asking(authority.wish(), &[&TLS12], 1, reset);
    let later = Server::asking(authority.wish(), &[&TLS13], 1, |mut stream| {
        read_request(&mut stream);
        answer(&mut stream, &OK[..20]);
        reset(stream);
    });
    for server in [unasked, before, later] {
        let error = server
            .trusting()
            .fetch(server.url("localhost"))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
        assert_eq!(server.handshakes(), [Some(HandshakeKind::Full)]);
    }
}

#[test]
fn a_server_that_only_wishes_for_a_certificate_lets_a_client_without_one_in() {
    for version in [&TLS12, &TLS13] {
        let server = Server::asking(Authority::new().wish(), &[version], 1, serve);
        let page = server.trusting().fetch(server.url("localhost"));
        assert_eq!(page.expect("let in").body(), b"ok");
        assert_eq!(server.handshakes(), [Some(HandshakeKind::Full)]);
    }
}

#[test]
fn a_certificate_or_key_that_is_none_is_refused_when_the_downloader_is_built() {
    let authority = Authority::new();
    let (client, other) = (authority.client(), authority.client());
    let (own, key) = (client.cert.pem(), client.key.serialize_pem());
    let wrong_order = authority.clerk.pem() + &own;
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let encrypted_long_ago = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\
        DEK-Info: AES-256-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let garbage = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let cut = &key[..key.len() / 2];
    let no_cert = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (chain, key, why) in [
        ("", key.as_str(), "no certificate"),
        (&key, &key, "no certificate"),
        (no_cert, &key, "client certificate cannot be used"),
        (&own, "", "no private key"),
        (&own, &own, "no private key"),
        (&own, encrypted, "openssl pkey"),
        (&own, encrypted_long_ago, "openssl pkey"),
        (
            &own,
            garbage,
            "private key of the client certificate cannot be used",
        ),
        (&own, cut, "cannot be read"),
        (&own, &other.key.serialize_pem(), "is not that of the first"),
        (&wrong_order, &key, "is not that of the first"),
    ] {
        let error = builder().client_cert_pem(chain, key).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Tls);
        assert!(error.to_string().contains(why), "{why}: {error}");
    }
}

#[test]
fn the_private_key_is_in_no_debug_output() {
    let key = "the private key";
    let shown = format!("{:?}", builder().client_cert_pem("chain", key));
    assert!(shown.contains("ClientCertPem"), "{shown}");
    for bytes in [format!("{:?}", key.as_bytes()), key.to_owned()] {
        assert!(!shown.contains(&bytes), "{shown}");
    }
}
