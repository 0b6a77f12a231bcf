//! What a server sends behind a response: it is no part of that one nor of the next, and takes
//! nothing from it.

use std::io::Write;

use super::{Server, Stream, answer, read_request};

const FAKE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";

fn put(stream: &mut Stream, bytes: usize) {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
    let body = vec![b'x'; bytes];
    let mut writer = stream.conn.writer();
    writer.write_all(head.as_bytes()).expect("room");
    writer.write_all(&body).expect("room");
}

/// What has been put, as it is on the wire.
fn sealed(stream: &mut Stream) -> Vec<u8> {
    let mut wire = Vec::new();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut wire).expect("memory");
    }
    wire
}

/// TLS is opened some at a time: what comes with a response that is about as long as that is still sealed
/// when the response has been read.
#[test]
fn what_is_still_sealed_is_not_taken_for_the_next_response_or_for_one() {
    let lengths = (3_900..4_200).step_by(20).chain([5, 16_384, 40_000]);
    for bytes in lengths {
        for (behind, connections) in [(Some(FAKE), 2), (None, 1)] {
            let server = Server::start(connections, move |mut stream| {
                // With the first come tickets.
                read_request(&mut stream);
                answer(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                while read_request(&mut stream) {
                    put(&mut stream, bytes);
                    match behind {
                        Some(fake) => stream.conn.writer().write_all(fake).expect("room"),
                        // Which is no byte of anything.
                        None => stream.conn.refresh_traffic_keys().expect("TLS 1.3"),
                    }
                    stream.flush().expect("the client reads");
                }
            });
            let downloader = server.trusting();
            for length in [0, bytes, if behind.is_some() { 0 } else { bytes }] {
                let page = downloader.fetch(server.url("127.0.0.1")).unwrap();
                assert!(page.body() == vec![b'x'; length], "{bytes}");
            }
            drop(downloader);
            assert_eq!(server.handshakes().len(), connections, "{bytes}");
        }
    }
}

/// The start of a record stays with who opens them, where nothing is to be read and nothing is to be peeked at.
#[test]
fn nor_is_a_record_of_which_only_the_start_has_come() {
    for start in [1, 4, 5, 6, 20, FAKE.len()] {
        for bytes in [0, 5, 4_000, 60_000] {
            let server = Server::start(2, move |mut stream| {
                read_request(&mut stream);
                put(&mut stream, bytes);
                let mut wire = sealed(&mut stream);
                stream.conn.writer().write_all(FAKE).expect("room");
                let fake = sealed(&mut stream);
                wire.extend(&fake[..start]);
                stream.sock.write_all(&wire).expect("the client reads");
                if read_request(&mut stream) {
                    let _ = stream.sock.write_all(&fake[start..]);
                }
            });
            let downloader = server.trusting();
            for _ in 0..2 {
                let page = downloader.fetch(server.url("127.0.0.1")).unwrap();
                assert!(page.body() == vec![b'x'; bytes], "{start}, {bytes}");
            }
            drop(downloader);
            assert_eq!(server.handshakes().len(), 2, "{start}, {bytes}");
        }
    }
}

#[test]
fn what_is_wrong_behind_a_response_takes_nothing_from_it() {
    /// A record that cannot be opened.
    const DAMAGED: &[u8] = &[
        23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
    ];
    const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    // As if it was the client's: the answer is an alert.
    let alert = |stream: &mut Stream| {
        stream.conn.read_tls(&mut &DAMAGED[..]).expect("room");
        stream.conn.process_new_packets().unwrap_err();
        sealed(stream)
    };
    let wrongs: [fn(&mut Stream) -> Vec<u8>; 3] =
        [|_| NOT_TLS.to_vec(), |_| DAMAGED.to_vec(), alert];
    for wrong in wrongs {
        for bytes in [0, 5, 3_000, 60_000] {
            let server = Server::start(2, move |mut stream| {
                while read_request(&mut stream) {
                    put(&mut stream, bytes);
                    let wire = [sealed(&mut stream), wrong(&mut stream)].concat();
                    stream.sock.write_all(&wire).expect("the client reads");
                }
            });
            let downloader = server.trusting();
            for _ in 0..2 {
                let page = downloader.fetch(server.url("127.0.0.1")).unwrap();
                assert!(page.body() == vec![b'x'; bytes], "{bytes}");
            }
            drop(downloader);
            assert_eq!(server.handshakes().len(), 2, "{bytes}");
        }
    }
}
