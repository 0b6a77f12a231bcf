//! Beginnings and ends: many origins, none left behind, dead addresses, the process's own figures.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use crate::support::{self, Client, Dead, Gate, Origin, Reply};

#[test]
fn origins_are_many_and_cheap_and_anywhere_on_loopback() {
    let mut origins = Origin::many(100, |incoming| Reply::ok(incoming.host()));
    if cfg!(target_os = "linux") {
        origins.push(Origin::bind("127.0.0.5:0", |incoming| {
            Reply::ok(incoming.host())
        }));
        assert!(origins[100].url("/p").starts_with("http://127.0.0.5:"));
    }
    for origin in &origins {
        Client::get(origin.addr(), "/")
            .expect("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\norigin.test");
        assert_eq!(origin.stats().connections.total, 1);
    }
    let port = origins[0].addr().port();
    assert_eq!(
        origins[0].url("/p?q"),
        format!("http://127.0.0.1:{port}/p?q")
    );
    assert_eq!(
        origins[0].url_as("LocalHost.", "/p"),
        format!("http://LocalHost.:{port}/p")
    );
}

/// Threads that wait in every way there is end with the origin, and none is left.
#[test]
fn dropping_an_origin_ends_everything_wherever_it_waits() {
    let (gate, held) = (Gate::new(), Gate::new());
    let (in_handler, in_script) = (gate.clone(), held.clone());
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/handler" => {
            in_handler.wait();
            Reply::ok("never")
        }
        "/gate" => Reply::ok("never").after(&in_script),
        "/pause" => Reply::ok("never").after_pause(Duration::from_secs(3600)),
        "/drip" => Reply::raw("").then_drip("never", Duration::from_secs(3600)),
        "/stall" => Reply::nothing().then_stall(),
        _ => Reply::status(200).then_repeat("never read", u64::MAX),
    });
    let targets = ["/handler", "/gate", "/pause", "/drip", "/stall", "/unread"];
    let mut clients: Vec<Client> = targets
        .iter()
        .map(|target| Client::get(origin.addr(), target))
        .collect();
    let mut idle = Client::connect(origin.addr());
    let mut half = Client::connect(origin.addr());
    half.send("GET / HT");
    gate.wait_for_waiters(1);
    held.wait_for_waiters(1);
    origin.wait_until(|stats| (stats.requests.now, stats.connections.now) == (6, 8));
    let name = origin.thread_name().to_owned();
    #[cfg(target_os = "linux")]
    support::eventually("each thread has its name", || {
        support::threads_named(&name) == 9
    });

    let begin = Instant::now();
    drop(origin);
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!((gate.waiters(), held.waiters()), (0, 0));
    #[cfg(target_os = "linux")]
    support::eventually("no thread of the origin is left", || {
        support::threads_named(&name) == 0
    });
    for client in clients[..3].iter_mut().chain([&mut idle, &mut half]) {
        assert_eq!(client.rest().0, "");
    }
}

#[test]
fn a_handlers_panic_is_raised_in_the_test() {
    let origin =
        Origin::start(|_| panic!("the handler is at fault (printed by a test that wants it)"));
    assert_eq!(Client::get(origin.addr(), "/").rest().0, "");
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(origin)));
    let message = dropped.expect_err("the panic is passed on");
    assert!(
        message
            .downcast_ref::<String>()
            .is_some_and(|text| text.contains("the handler is at fault"))
    );
}

#[test]
fn the_dead_are_dead_in_three_ways() {
    let limit = Duration::from_millis(200);
    let refused = TcpStream::connect(Dead::refusing().addr()).map(drop);
    assert_eq!(
        refused.expect_err("nobody listens").kind(),
        ErrorKind::ConnectionRefused
    );

    let mute = Dead::mute();
    let mut stream =
        TcpStream::connect_timeout(&mute.addr(), support::PATIENCE).expect("the kernel accepts");
    stream
        .set_read_timeout(Some(limit))
        .expect("a socket takes a timeout");
    let silence = stream.read(&mut [0]).expect_err("nobody speaks");
    assert!(
        matches!(silence.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{silence}"
    );

    #[cfg(target_os = "linux")]
    {
        let unreachable = Dead::unreachable();
        let lost = TcpStream::connect_timeout(&unreachable.addr(), limit).map(drop);
        assert_eq!(
            lost.expect_err("the backlog is full").kind(),
            ErrorKind::TimedOut
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn threads_and_sockets_are_counted_in_a_process_of_ones_own() {
    if !support::alone("life::threads_and_sockets_are_counted_in_a_process_of_ones_own") {
        return;
    }
    let (threads, others, sockets) = (
        support::threads(),
        support::threads_not_of_origins(),
        support::open_sockets(),
    );
    assert!(threads >= 1 && others == threads && sockets == 0);
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| Reply::ok("x").after(&held));
    let clients = [(); 3].map(|()| Client::get(origin.addr(), "/"));
    gate.wait_for_waiters(3);
    assert_eq!(support::threads() - threads, 4);
    assert_eq!(support::threads_not_of_origins(), others);
    assert_eq!(support::open_sockets(), 7);

    drop(clients);
    gate.open();
    origin.wait_until(|stats| stats.connections.now == 0);
    assert_eq!(support::open_sockets(), 1);
    drop(origin);
    assert_eq!(support::open_sockets(), 0);
    support::eventually("the threads are gone", || support::threads() == threads);
}
