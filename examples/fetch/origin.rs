//! A small web server on loopback, for `--demo`. One port plays one host.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// A connection that the visitor has closed for the sake of another counts until
/// its thread notices. So what is counted is what is there a moment later.
const MOMENT: Duration = Duration::from_millis(20);

/// How a host treats its visitors.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    Prompt,
    /// Thinks this long about every answer.
    Slow(Duration),
    /// Of eight requests in a row, answers one with 503 and cuts the body of another.
    Flaky,
}

/// A host that serves until the process ends.
#[derive(Debug)]
pub(crate) struct Origin {
    address: SocketAddr,
    log: Arc<Log>,
}

/// What a host has seen.
#[derive(Debug, Default)]
struct Log {
    open: AtomicUsize,
    most_open: AtomicUsize,
    requests: AtomicUsize,
    spoilt: AtomicUsize,
}

impl Origin {
    pub(crate) fn start(manner: Manner) -> io::Result<Self> {
        // An address of 127.0.0.0/8 for each host would read better, but macOS
        // has only the first of them.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let log = Arc::<Log>::default();
        thread::spawn({
            let log = Arc::clone(&log);
            move || listen(&listener, manner, &log)
        });
        Ok(Self { address, log })
    }

    pub(crate) fn url(&self, file: usize) -> String {
        format!("http://{}/file-{file}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The most connections that were ever open at once, for a [`MOMENT`] at least.
    pub(crate) fn most_connections(&self) -> usize {
        self.log.most_open.load(SeqCst)
    }

    /// How many answers were spoilt on purpose.
    pub(crate) fn spoilt(&self) -> usize {
        self.log.spoilt.load(SeqCst)
    }
}

fn listen(listener: &TcpListener, manner: Manner, log: &Arc<Log>) {
    for stream in listener.incoming().flatten() {
        let connection = Connection::count(stream, log);
        thread::spawn(move || {
            // Visitors may leave when they like.
            let _ = connection.serve(manner);
        });
        let log = Arc::clone(log);
        thread::spawn(move || {
            thread::sleep(MOMENT);
            log.most_open.fetch_max(log.open.load(SeqCst), SeqCst);
        });
    }
}

/// An open connection, counted for as long as it lives.
struct Connection {
    stream: TcpStream,
    log: Arc<Log>,
}

impl Connection {
    fn count(stream: TcpStream, log: &Arc<Log>) -> Self {
        log.open.fetch_add(1, SeqCst);
        Self {
            stream,
            log: Arc::clone(log),
        }
    }

    fn serve(&self, manner: Manner) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        let mut reader = BufReader::new(&self.stream);
        while let Some(path) = read_request(&mut reader)? {
            let number = self.log.requests.fetch_add(1, SeqCst);
            if let Manner::Slow(pause) = manner {
                thread::sleep(pause);
            }
            let body = body_of(&path);
            match (manner, number % 8) {
                (Manner::Flaky, 2) => {
                    self.log.spoilt.fetch_add(1, SeqCst);
                    self.answer("503 Service Unavailable", b"later, perhaps\n")?;
                }
                (Manner::Flaky, 5) => {
                    self.log.spoilt.fetch_add(1, SeqCst);
                    return self.send("200 OK", body.len(), &body[..body.len() / 2]);
                }
                _ => self.answer("200 OK", &body)?,
            }
        }
        Ok(())
    }

    fn answer(&self, status: &str, body: &[u8]) -> io::Result<()> {
        self.send(status, body.len(), body)
    }

    /// In one write, so that no answer waits for the acknowledgement of its head.
    fn send(&self, status: &str, length: usize, body: &[u8]) -> io::Result<()> {
        let mut message = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
        )
        .into_bytes();
        message.extend_from_slice(body);
        (&self.stream).write_all(&message)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The fields are dropped after this: the count falls before the visitor
        // can know that he may come again.
        self.log.open.fetch_sub(1, SeqCst);
    }
}

/// The path of the next request, or `None` at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut path = None;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => return Ok(path),
            line if path.is_none() => path = line.split(' ').nth(1).map(str::to_owned),
            _header => {}
        }
    }
}

/// From 2 to 199 KiB, always the same for one path.
fn body_of(path: &str) -> Vec<u8> {
    let hash = path.bytes().fold(7_usize, |hash, byte| {
        (hash * 31 + usize::from(byte)) % 65_521
    });
    vec![b'.'; 1024 * (2 + hash % 198)]
}
