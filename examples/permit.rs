//! A budget around HTTP that someone else does.
//!
//! ```text
//! cargo run --example permit
//! ```
//!
//! Any client will do: here it is a bare `TcpStream`. One line in front of the
//! request, and however many threads there are, the host sees a few at a time:
//! what a channel of tokens and `defer` are in Go.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use fetchpool::Downloader;

const THREADS: usize = 12;
const PER_HOST: NonZeroUsize = NonZeroUsize::new(3).unwrap();
const PAUSE: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    let origin = Origin::start()?;
    let downloader = Downloader::builder().per_host(PER_HOST).build()?;
    println!("{THREADS} threads, {PER_HOST} permits, {PAUSE:?} an answer:");

    let start = Instant::now();
    thread::scope(|scope| {
        for n in 1..=THREADS {
            let (downloader, origin) = (&downloader, &origin);
            scope.spawn(move || match get(downloader, origin.address) {
                Ok(bytes) => println!("thread {n:>2}: {bytes} bytes after {:.0?}", start.elapsed()),
                Err(e) => println!("thread {n:>2}: {e}"),
            });
        }
    });

    let most = origin.most();
    println!("the host never saw more than {most} of us at once");
    assert!(most <= PER_HOST.get(), "the budget was overdrawn");
    Ok(())
}

fn get(downloader: &Downloader, address: SocketAddr) -> Result<usize, Box<dyn Error>> {
    // Held until the last byte is read, not only until the headers are.
    let _hold = downloader.permit(format!("http://{address}/"))?;

    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    Ok(stream.read_to_end(&mut answer)?)
}

/// A host that counts how many visitors it has.
struct Origin {
    address: SocketAddr,
    visitors: Arc<Visitors>,
}

#[derive(Default)]
struct Visitors {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Origin {
    fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let visitors = Arc::<Visitors>::default();
        thread::spawn({
            let visitors = Arc::clone(&visitors);
            move || {
                for stream in listener.incoming().flatten() {
                    let visitors = Arc::clone(&visitors);
                    thread::spawn(move || visitors.receive(stream));
                }
            }
        });
        Ok(Self { address, visitors })
    }

    fn most(&self) -> usize {
        self.visitors.most.load(SeqCst)
    }
}

impl Visitors {
    fn receive(&self, mut stream: TcpStream) -> io::Result<()> {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        let result = answer(&mut stream);
        // Before the connection closes, upon which the visitor leaves.
        self.now.fetch_sub(1, SeqCst);
        result
    }
}

fn answer(stream: &mut TcpStream) -> io::Result<()> {
    // The whole head: to close on unread bytes would be a reset.
    for line in BufReader::new(&*stream).lines() {
        if line?.is_empty() {
            break;
        }
    }
    thread::sleep(PAUSE);
    stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello\n")
}
