//! The limit: a loop over a socket for each connection, which it keeps, and nothing else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::load::{Load, Tally};

pub fn run(load: &Arc<Load>, tally: &Arc<Tally>) {
    let tls = load.tls.then(|| tls(load));
    let threads = split(load).into_iter().map(|parts| {
        let (load, tally, tls) = (Arc::clone(load), Arc::clone(tally), tls.clone());
        thread::spawn(move || {
            for (host, requests) in parts {
                let address = load.address(host);
                let stream = TcpStream::connect(address).expect("a connection");
                stream.set_nodelay(true).expect("a socket");
                match &tls {
                    None => talk(stream, &load, host, requests, &tally),
                    Some(config) => {
                        let name = ServerName::from(std::net::IpAddr::from(*address.ip()));
                        let tls = ClientConnection::new(Arc::clone(config), name);
                        let stream = StreamOwned::new(tls.expect("a session"), stream);
                        talk(stream, &load, host, requests, &tally);
                    }
                }
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("a thread");
    }
}

/// What each thread does: so many requests to a host, and then to the next. Nothing is shared.
pub(super) fn split(load: &Load) -> Vec<Vec<(u32, u64)>> {
    let mut threads = Vec::new();
    let mut workers = load.workers;
    if let Some((_, requests)) = load.slow {
        workers -= load.per_host;
        threads.extend(share(requests, load.per_host).map(|n| vec![(load.hosts, n)]));
    }
    let hosts = load.hosts as usize;
    if hosts >= workers {
        let of = |thread| (thread..load.hosts).step_by(workers);
        let parts = |thread| of(thread).map(|host| (host, load.each)).collect();
        threads.extend((0..workers as u32).map(parts));
    } else {
        let each = load.per_host.min(workers / hosts);
        for host in 0..load.hosts {
            threads.extend(share(load.each, each).map(|n| vec![(host, n)]));
        }
    }
    threads
}

fn share(requests: u64, threads: usize) -> impl Iterator<Item = u64> {
    let threads = threads as u64;
    let shares = (0..threads).map(move |i| requests / threads + u64::from(i < requests % threads));
    shares.filter(|&n| n > 0)
}

fn talk(mut stream: impl Read + Write, load: &Load, host: u32, requests: u64, tally: &Tally) {
    let (address, path) = (load.address(host), load.path(host));
    let mut request = Vec::new();
    let mut buffer = vec![0; if load.is_big() { 256 * 1024 } else { 8 * 1024 }];
    for n in 0..requests {
        request.clear();
        write!(
            request,
            "GET {path}?{n} HTTP/1.1\r\nhost: {address}\r\nuser-agent: raw\r\naccept: */*\r\n\r\n"
        )
        .expect("memory");
        stream.write_all(&request).expect("a request");
        let mut filled = 0;
        let (head, length) = loop {
            let read = stream.read(&mut buffer[filled..]).expect("a response");
            assert!(read > 0, "cut");
            filled += read;
            if let Some(found) = parse(&buffer[..filled]) {
                break found;
            }
        };
        let mut bytes = (filled - head) as u64;
        while bytes < length {
            let most =
                usize::try_from(length - bytes).map_or(buffer.len(), |n| n.min(buffer.len()));
            let read = stream.read(&mut buffer[..most]).expect("a body");
            assert!(read > 0, "cut");
            bytes += read as u64;
        }
        tally.done(host == load.hosts, bytes);
    }
}

/// The lengths of the head and of the body, once the head is there.
fn parse(bytes: &[u8]) -> Option<(usize, u64)> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) = response.parse(bytes).expect("HTTP") else {
        return None;
    };
    assert_eq!(response.code, Some(200));
    let mut headers = response.headers.iter();
    let length = headers.find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = std::str::from_utf8(length.expect("a length").value);
    Some((head, length.ok()?.parse().expect("a number")))
}

fn tls(load: &Load) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(&load.ca_pem()).expect("a certificate");
    roots.add(certificate).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_root_certificates(roots);
    Arc::new(builder.with_no_client_auth())
}
