//! A whole response, from a server on loopback to the caller: status line, header, framing.
//!
//! The first byte of the input says where the rest, which is the response, is cut into two
//! writes. The server closes after it.

#![no_main]

mod naive;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use fetchpool::{Downloader, ErrorKind, Fetched, RetryPolicy};
use libfuzzer_sys::{Corpus, fuzz_target};

use naive::{Answer, Body};

/// Everything happens on one machine at once.
const LIMIT: Duration = Duration::from_secs(5);

fuzz_target!(|bytes: &[u8]| -> Corpus {
    static ORIGIN: OnceLock<Origin> = OnceLock::new();
    let Some((&cut, response)) = bytes.split_first() else {
        return Corpus::Reject;
    };
    // A redirect would lead to where others are.
    let is_redirect = |bytes: &[u8]| bytes.eq_ignore_ascii_case(b"location");
    if response.windows(8).any(is_redirect) {
        return Corpus::Reject;
    }
    let got = ORIGIN.get_or_init(Origin::start).answer(cut, response);
    compare(&naive::read(response), got);
    Corpus::Keep
});

/// The client agrees with the slow reading: takes nothing that is not whole, refuses nothing that
/// is by the letter, and says what is wrong.
fn compare(right: &Answer, got: Result<Fetched, fetchpool::Error>) {
    let Answer {
        status,
        body,
        is_strict,
    } = right;
    match (body, got) {
        (
            Body::Whole {
                bytes,
                is_delimited,
            },
            Ok(page),
        ) => {
            assert_eq!(page.body(), bytes, "{right:?}");
            assert_eq!(Some(page.status().as_u16()), *status, "{right:?}");
            assert!(page.status().as_u16() < 400);
            assert!(
                !matches!(page.status().as_u16(), 101 | 206 | 304),
                "unasked"
            );
            assert!(*is_delimited || !page.length_verified(), "{right:?}");
            if *is_strict {
                assert_eq!(page.length_verified(), *is_delimited, "{right:?}");
            }
        }
        (_, Ok(page)) => panic!("not whole, and yet {page:?}: {right:?}"),
        (_, Err(error)) => {
            let kind = error.kind();
            match kind {
                ErrorKind::Status => {
                    assert!(
                        status.is_some_and(|status| status >= 400),
                        "{error}: {right:?}"
                    );
                    assert_eq!(error.status().map(|s| s.as_u16()), *status);
                }
                ErrorKind::Protocol | ErrorKind::Truncated => {}
                // A length that could be anything.
                ErrorKind::TooLarge => assert_eq!(*body, Body::Cut),
                _ => panic!("{error}: {right:?}"),
            }
            let unasked = status.is_some_and(|status| matches!(status, 101 | 206 | 304));
            let is_status = status.is_some_and(|status| status >= 400);
            match body {
                Body::Whole { .. } if *is_strict && unasked => {
                    assert_eq!(kind, ErrorKind::Protocol, "{error}");
                }
                Body::Whole { .. } if *is_strict => {
                    assert!(is_status && kind == ErrorKind::Status, "{error}: {right:?}");
                }
                Body::Cut if *is_strict && !unasked && !is_status => {
                    let is_right = matches!(kind, ErrorKind::Truncated | ErrorKind::TooLarge);
                    assert!(is_right, "{error}: {right:?}");
                }
                _ => {}
            }
        }
    }
}

struct Origin {
    downloader: Downloader,
    url: String,
    responses: Sender<(u8, Vec<u8>)>,
    answered: Receiver<TcpStream>,
}

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (responses, to_send) = bounded::<(u8, Vec<u8>)>(1);
        let (done, answered) = bounded(1);
        std::thread::spawn(move || {
            for (cut, response) in to_send {
                done.send(serve(&listener, cut, &response)).unwrap();
            }
        });
        Self {
            downloader: downloader(address),
            url: format!("http://{address}/"),
            responses,
            answered,
        }
    }

    fn answer(&self, cut: u8, response: &[u8]) -> Result<Fetched, fetchpool::Error> {
        self.responses.send((cut, response.to_vec())).unwrap();
        let got = self.downloader.fetch(&*self.url);
        let served = self
            .answered
            .recv_timeout(LIMIT)
            .expect("the server was asked");
        // Nothing is left to be sent. Ports are spent otherwise: each would wait for a minute.
        let _ = socket2::SockRef::from(&served).set_linger(Some(Duration::ZERO));
        got
    }
}

fn downloader(address: SocketAddr) -> Downloader {
    Downloader::builder()
        .workers(1)
        .per_host(NonZeroUsize::MIN)
        // A socket that is bound there cannot reach anything else.
        .local_address(address.ip())
        .connect_timeout(LIMIT)
        .idle_timeout(LIMIT)
        // One response an input; and the next is not to wait for what this one asks.
        .retry(RetryPolicy::none().longest_retry_after(Duration::ZERO))
        .build()
        .unwrap()
}

fn serve(listener: &TcpListener, cut: u8, response: &[u8]) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(amount) => request.extend_from_slice(&piece[..amount]),
        }
    }
    let (one, two) = response.split_at(response.len() * usize::from(cut) / 256);
    // A client that has seen enough may be gone.
    let _ = stream.write_all(one);
    if !one.is_empty() && !two.is_empty() {
        std::thread::yield_now();
    }
    let _ = stream.write_all(two);
    let _ = stream.shutdown(Shutdown::Write);
    stream
}
