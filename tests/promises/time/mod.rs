//! Each limit of time ends what it is for, when it is for that, and says so.
//!
//! What is promised is half a second. It is asserted with much more room, so that a loaded machine fails no test: the
//! other limits are longer still.

mod batch;
mod deadline;
mod extremes;
mod grace;
mod phases;

use std::fmt::Debug;
use std::io::Write as _;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fetchpool::{Error, ErrorKind, Resolve};

use crate::support::{Dead, Gate, Origin, Reply};

const LIMIT: Duration = Duration::from_millis(200);
/// Less than the shortest default of another limit.
const ROOM: Duration = Duration::from_secs(5);
const DRIP: Duration = Duration::from_millis(5);

/// What it ends with, which must be that the limit was over, when it was.
#[track_caller]
fn late<T: Debug>(fetch: impl FnOnce() -> Result<T, Error>) -> String {
    let begun = Instant::now();
    let error = fetch().expect_err("it has a limit");
    // A socket's limit may be off by a part, so that it need not be set anew for each read.
    assert!(begun.elapsed() >= LIMIT * 3 / 4, "early: {error}");
    told(&error, begun)
}

/// The text of a timeout that came soon enough.
#[track_caller]
fn told(error: &Error, begun: Instant) -> String {
    let took = begun.elapsed();
    println!("{took:?}: {error}");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(took < LIMIT + ROOM, "{took:?}: {error}");
    error.to_string()
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

/// A resolver that answers once the gate is open.
struct Hanging(Gate);

impl Resolve for Hanging {
    fn resolve(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        self.0.wait();
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}

/// A TLS peer whose first record comes a byte at a time, and not to its end.
struct Dripping {
    port: u16,
    thread: JoinHandle<()>,
}

impl Dripping {
    fn start(connections: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let thread = std::thread::spawn(move || {
            for _ in 0..connections {
                let (socket, _) = listener.accept().expect("a connection");
                // A handshake record of 16 KiB.
                drip(&socket, &[&[22, 3, 3, 64, 0][..], &[0; 16_384]].concat());
            }
        });
        Self { port, thread }
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}/", self.port)
    }

    fn join(self) {
        self.thread.join().expect("the peer works");
    }
}

/// Until the bytes are sent or the client has gone.
fn drip(mut socket: &TcpStream, bytes: &[u8]) {
    for byte in bytes.chunks(1) {
        if socket.write_all(byte).is_err() {
            return;
        }
        std::thread::sleep(DRIP);
    }
}

/// Each in its own way slow.
fn slow_origin() -> Origin {
    let drops = [b'x'; 10_000];
    let interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
    Origin::start(move |incoming| match incoming.target() {
        "/silent" => Reply::nothing().then_stall(),
        "/header" => Reply::raw("HTTP/1.1 200 OK\r\nx: ").then_drip(drops, DRIP),
        "/interim" => (0..10_000).fold(Reply::nothing(), |reply, _| {
            reply.then_send(interim).then_pause(DRIP)
        }),
        "/drip" => Reply::status(200).then_drip(drops, DRIP),
        "/stall" => Reply::ok("half").declared_length(8).then_stall(),
        target => panic!("what is {target}?"),
    })
}

fn over_tls(dead: &Dead) -> String {
    format!("https://{}/", dead.addr())
}
