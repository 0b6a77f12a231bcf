//! What holds for http holds for https.

mod behind;
mod client_cert;
#[cfg(all(feature = "platform-verifier", target_os = "linux"))]
mod platform;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use fetchpool::{Builder, Downloader, ErrorKind};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{
    ALL_VERSIONS, HandshakeKind, ServerConfig, ServerConnection, StreamOwned,
    SupportedProtocolVersion,
};

use crate::support::{Dead, PATIENCE};
use crate::{builder, n, with};

pub(crate) type Stream = StreamOwned<ServerConnection, TcpStream>;

/// A TLS server that takes as many connections as it is told, one after the other.
pub(crate) struct Server {
    addr: SocketAddr,
    listener: TcpListener,
    root_pem: String,
    thread: JoinHandle<Vec<Option<HandshakeKind>>>,
}

impl Server {
    pub(crate) fn start(connections: usize, serve: impl Fn(Stream) + Send + 'static) -> Self {
        let nobody = WebPkiClientVerifier::no_client_auth();
        Self::asking(nobody, ALL_VERSIONS, connections, serve)
    }

    /// One that asks for a client certificate, as the verifier says.
    fn asking(
        verifier: Arc<dyn ClientCertVerifier>,
        versions: &[&'static SupportedProtocolVersion],
        connections: usize,
        serve: impl Fn(Stream) + Send + 'static,
    ) -> Self {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("versions")
            .with_client_cert_verifier(Arc::clone(&verifier))
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a configuration");
        if verifier.offer_client_auth() {
            // A ticket would tell the client that it has been let in.
            config.send_tls13_tickets = 0;
        }
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let accepting = listener.try_clone().expect("a handle");
        let thread = std::thread::spawn(move || {
            let accept = |_| {
                let (socket, _) = accepting.accept().expect("a connection");
                socket
                    .set_read_timeout(Some(PATIENCE))
                    .expect("a time limit");
                let server = ServerConnection::new(Arc::clone(&config)).expect("a server");
                let mut stream = StreamOwned::new(server, socket);
                // A client that does not trust us ends the handshake: nothing to serve then.
                if stream.conn.complete_io(&mut stream.sock).is_err() {
                    return None;
                }
                let kind = stream.conn.handshake_kind();
                serve(stream);
                kind
            };
            (0..connections).map(accept).collect()
        });
        Self {
            addr,
            listener,
            root_pem: made.cert.pem(),
            thread,
        }
    }

    pub(crate) fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/", self.addr.port())
    }

    pub(crate) fn trusting(&self) -> Downloader {
        self.trusting_with(|b| b)
    }

    pub(crate) fn trusting_with(&self, settings: impl FnOnce(Builder) -> Builder) -> Downloader {
        with(|b| {
            settings(b.add_root_pem(self.root_pem.as_str()))
                .workers(1)
                .per_host(n(1))
        })
    }

    /// How the handshakes went of all the connections that were made.
    pub(crate) fn handshakes(self) -> Vec<Option<HandshakeKind>> {
        let handshakes = self.thread.join().expect("the server works");
        self.listener.set_nonblocking(true).expect("a listener");
        let more = self.listener.accept();
        assert!(more.is_err(), "a connection too many: {more:?}");
        handshakes
    }
}

/// Reads one request; `false` at the end of the connection.
pub(crate) fn read_request(stream: &mut Stream) -> bool {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    true
}

pub(crate) fn answer(stream: &mut Stream, bytes: &[u8]) {
    stream
        .write_all(bytes)
        .and_then(|()| stream.flush())
        .expect("the client reads");
}

fn say_goodbye(mut stream: Stream) {
    stream.conn.send_close_notify();
    let _ = stream.conn.complete_io(&mut stream.sock);
}

#[test]
fn bodies_are_whole_and_connections_kept() {
    let long = vec![b'x'; 200_000];
    let body = long.clone();
    let server = Server::start(1, move |mut stream| {
        while read_request(&mut stream) {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            answer(&mut stream, &[head.as_bytes(), &body].concat());
        }
    });
    let downloader = server.trusting();
    let url = server.url("127.0.0.1");
    for page in downloader.fetch_all((0..20).map(|_| url.as_str())) {
        let page = page.expect("fetched");
        assert_eq!(page.body(), long);
        assert_eq!(
            page.report().timings().tls().is_zero(),
            page.report().index() > 0
        );
    }
    drop(downloader);
    assert_eq!(server.handshakes(), [Some(HandshakeKind::Full)]);
}

#[test]
fn a_body_that_ends_with_the_connection_is_whole_only_after_close_notify() {
    let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nsome";
    for (goodbye, expected) in [
        (true, Ok(b"some".to_vec())),
        (false, Err(ErrorKind::Truncated)),
    ] {
        let server = Server::start(1, move |mut stream| {
            read_request(&mut stream);
            answer(&mut stream, head);
            if goodbye {
                say_goodbye(stream);
            }
        });
        let got = server.trusting().fetch(server.url("localhost"));
        let got = got
            .map(fetchpool::Fetched::into_body)
            .map_err(|error| error.kind());
        assert_eq!(got, expected);
    }
}

#[test]
fn a_body_cut_short_is_truncated() {
    let server = Server::start(1, |mut stream| {
        read_request(&mut stream);
        answer(
            &mut stream,
            b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf",
        );
        say_goodbye(stream);
    });
    let error = server
        .trusting()
        .fetch(server.url("127.0.0.1"))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated);
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_a_tls_error() {
    let server = Server::start(1, |_| {});
    let error = with(|b| b).fetch(server.url("127.0.0.1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls);
    assert!(error.to_string().contains("add_root_pem"), "{error}");
    assert_eq!(server.handshakes(), [None]);
}

#[test]
fn a_certificate_of_another_host_is_a_tls_error() {
    let server = Server::start(1, |_| {});
    // The certificate names 127.0.0.1 and localhost, not the address in its IPv6 form.
    let url = format!("https://[::ffff:127.0.0.1]:{}/", server.addr.port());
    let error = server.trusting().fetch(url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls);
    assert!(error.to_string().contains("not valid for"), "{error}");
    assert_eq!(server.handshakes(), [None]);
}

#[test]
fn a_server_that_does_not_speak_tls_is_an_error_and_one_that_is_silent_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let plain = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?;
        io::copy(&mut socket, &mut io::sink())
    });
    let error = with(|b| b).fetch(url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls);
    // Reset or closed, as the client pleased.
    let _ = plain.join().unwrap();

    let mute = Dead::mute();
    let downloader = with(|b| b.connect_timeout(std::time::Duration::from_millis(200)));
    let error = downloader
        .fetch(format!("https://{}/", mute.addr()))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[test]
fn a_session_is_resumed_on_a_new_connection() {
    let server = Server::start(2, |mut stream| {
        read_request(&mut stream);
        answer(
            &mut stream,
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx",
        );
        say_goodbye(stream);
    });
    let downloader = server.trusting();
    let url = server.url("localhost");
    assert_eq!(downloader.fetch_all([&url, &url]).flatten().count(), 2);
    let kinds = server.handshakes();
    assert_eq!(
        kinds,
        [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)]
    );
}

#[test]
fn roots_that_are_none_are_refused_when_the_downloader_is_built() {
    for (pem, why) in [
        ("", "there is no certificate"),
        ("nonsense", "there is no certificate"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "a root certificate cannot be used",
        ),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n", "has no end"),
    ] {
        let error = builder().add_root_pem(pem).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Tls);
        assert!(error.to_string().contains(why), "{why}: {error}");
    }
}
