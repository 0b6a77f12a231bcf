//! One accepted connection: requests in, replies out, until one side ends it.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::incoming::Incoming;
use super::origin::Shared;
use super::player::{Then, play};
use super::stop;

/// More than any test's header block; what never ends must not eat the memory.
const HEAD_LIMIT: usize = 8 * 1024 * 1024;

/// A connection and the thread's hold on its socket; dropping it closes that, in the way the last reply asked for.
pub(super) struct Connection {
    shared: Arc<Shared>,
    id: u64,
    /// Taken when it is closed; there must be no other hold by then, or a reset would not happen.
    stream: Option<Arc<TcpStream>>,
    /// Read from the socket and not yet part of a request.
    unread: Vec<u8>,
    reset: bool,
}

impl Connection {
    /// Enters a fresh socket into the ledger; `None` once the origin stops.
    pub(super) fn new(shared: &Arc<Shared>, stream: TcpStream) -> Option<Self> {
        // So that each flush of a script is on the wire before its next step.
        let _ = stream.set_nodelay(true);
        let stream = Arc::new(stream);
        let id = shared.ledger.accepted(&stream)?;
        Some(Self {
            shared: shared.clone(),
            id,
            stream: Some(stream),
            unread: Vec::new(),
            reset: false,
        })
    }

    /// Serves until the end; the body of the connection's thread.
    pub(super) fn run(mut self) {
        let shared = self.shared.clone();
        stop::obey(shared.stop.clone());
        // An I/O error means that the client has gone or the origin stops: an end like another.
        let served = stop::catch(|| drop(self.serve()));
        if let Err(message) = served {
            shared.ledger.failed(message);
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut number = 0;
        while let Some(head) = self.read_head()? {
            number += 1;
            let Ok(incoming) = Incoming::parse(head, self.id, number) else {
                return self.refuse();
            };
            let incoming = self.shared.ledger.begun(self.id, incoming);
            incoming.set_body(self.read_exactly(incoming.body_length())?);
            let script = (self.shared.handler)(&incoming).into_script(&incoming);
            let then = play(&script, self.stream(), || self.shared.ledger.ended(self.id))?;
            match then {
                Then::NextRequest => self.shared.ledger.ended(self.id),
                Then::Close => return Ok(()),
                Then::Reset => {
                    self.reset = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn stream(&self) -> &TcpStream {
        self.stream
            .as_ref()
            .expect("only dropping the connection takes its socket")
    }

    fn refuse(&self) -> io::Result<()> {
        self.shared.ledger.malformed();
        self.stream().write_all(
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        )
    }

    /// The bytes up to and with the next empty line; `None` when the client has closed its side instead. What cannot become
    /// a request line (TLS, say) is handed out at once, for its end may never come.
    fn read_head(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            let found = self.unread[searched..]
                .windows(4)
                .position(|four| four == b"\r\n\r\n");
            if let Some(at) = found {
                let rest = self.unread.split_off(searched + at + 4);
                return Ok(Some(std::mem::replace(&mut self.unread, rest)));
            }
            let hopeless = self
                .unread
                .first()
                .is_some_and(|first| !first.is_ascii_uppercase());
            if hopeless || self.unread.len() > HEAD_LIMIT {
                return Ok(Some(std::mem::take(&mut self.unread)));
            }
            searched = self.unread.len().saturating_sub(3);
            if self.read_more()? == 0 {
                return Ok(None);
            }
        }
    }

    fn read_exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < length {
            if self.read_more()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let rest = self.unread.split_off(length);
        Ok(std::mem::replace(&mut self.unread, rest))
    }

    fn read_more(&mut self) -> io::Result<usize> {
        let mut piece = [0; 16 * 1024];
        let read = self.stream().read(&mut piece)?;
        self.unread.extend_from_slice(&piece[..read]);
        Ok(read)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let ledger = &self.shared.ledger;
        ledger.closing(self.id);
        if let Some(stream) = self.stream.take() {
            if self.reset {
                let linger = socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO));
                if linger.is_err() {
                    ledger.failed("a connection could not be made to end with a reset".to_owned());
                }
            } else {
                finish(&stream);
            }
            ledger.let_go(self.id);
            drop(stream);
        }
        ledger.closed();
    }
}

/// Sends the FIN, then takes out what the client has sent meanwhile: closing a socket with unread bytes would be a reset.
fn finish(mut stream: &TcpStream) {
    // Every failure here means that the client has gone first.
    let _ = stream.shutdown(Shutdown::Write);
    if stream.set_nonblocking(true).is_ok() {
        let mut scrap = [0; 16 * 1024];
        for _ in 0..64 {
            if !matches!(stream.read(&mut scrap), Ok(1..)) {
                break;
            }
        }
    }
}
