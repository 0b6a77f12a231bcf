//! The builder of replies.

use std::time::Duration;

use super::head::{Framing, Head};
use super::script::{Script, Step};
use super::{Gate, Incoming};

/// A reply: a head, and then steps that send, wait, pause and end the connection.
///
/// The head is the status line, the fields in the order in which they were added, and one field for the framing; nothing
/// else. Unless told otherwise the framing is a `Content-Length` that counts what all the steps send, and none for 1xx, 204
/// and 304. A reply to `HEAD` sends its head only. [`Reply::raw`] has no head: its bytes are all that is sent.
///
/// The connection stays open after a whole reply, unless one of the two sides said `Connection: close` or speaks HTTP/1.0;
/// after any other it is closed.
#[derive(Clone, Debug)]
pub struct Reply {
    /// What comes before the head.
    lead: Vec<Step>,
    head: Option<Head>,
    steps: Vec<Step>,
}

/// How a reply begins.
impl Reply {
    /// Sends nothing; what follows says more, and otherwise the connection is closed.
    pub fn nothing() -> Self {
        Self {
            lead: Vec::new(),
            head: None,
            steps: Vec::new(),
        }
    }

    /// Exactly these bytes. The connection stays open; in flight is over with the script's last byte.
    pub fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::nothing().then_send(bytes)
    }

    /// A reply of this status, without a body so far.
    pub fn status(status: u16) -> Self {
        Self {
            head: Some(Head::new(status)),
            ..Self::nothing()
        }
    }

    /// `200 OK` with a body.
    pub fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::status(200).body(body)
    }

    /// A redirect; the location is sent as it is, whatever bytes it has.
    pub fn redirect(status: u16, location: impl AsRef<[u8]>) -> Self {
        Self::status(status).header("Location", location)
    }

    /// `206` with `whole` from byte `from` on, or `416` if it has no such byte.
    pub fn partial(whole: impl AsRef<[u8]>, from: u64) -> Self {
        let whole = whole.as_ref();
        let length = whole.len();
        match usize::try_from(from)
            .ok()
            .and_then(|from| whole.get(from..))
        {
            Some(rest) if !rest.is_empty() => {
                let range = format!("bytes {from}-{}/{length}", length - 1);
                Self::status(206).header("Content-Range", range).body(rest)
            }
            _ => Self::status(416).header("Content-Range", format!("bytes */{length}")),
        }
    }
}

/// The head.
impl Reply {
    fn head_mut(&mut self) -> &mut Head {
        self.head
            .as_mut()
            .expect("a raw reply has no head to change")
    }

    fn framed(mut self, framing: Framing) -> Self {
        self.head_mut().framing = framing;
        self
    }

    /// Adds a field as it is, even one that is there already or that contradicts the framing.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.head_mut()
            .fields
            .push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// `HTTP/1.0` in the status line, and the connection closed at the end unless `Connection: keep-alive` is added.
    pub fn http10(mut self) -> Self {
        self.head_mut().version = "HTTP/1.0";
        self
    }

    /// Declares this `Content-Length`, whatever is sent. If less is sent the connection is closed at the end;
    /// if more, the request counts as in flight until the last of it.
    pub fn declared_length(self, length: u64) -> Self {
        self.framed(Framing::Declared(length))
    }

    /// No length: these bytes and what further steps send, until the connection is closed at the end.
    pub fn close_delimited(self, bytes: impl AsRef<[u8]>) -> Self {
        self.framed(Framing::UntilClose).then_send(bytes)
    }

    /// A chunked body, last chunk included.
    pub fn chunked(self, chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        self.chunked_part(chunks).then_last_chunk()
    }

    /// A chunked body that lacks the last chunk so far: go on with [`then_chunk`](Self::then_chunk) and
    /// [`then_last_chunk`](Self::then_last_chunk), or leave it cut.
    pub fn chunked_part(self, chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let reply = self.framed(Framing::Chunked { ended: false });
        chunks.into_iter().fold(reply, Self::then_chunk)
    }
}

/// The steps.
impl Reply {
    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds to the body; another name for [`then_send`](Self::then_send).
    pub fn body(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then_send(bytes)
    }

    /// Sends bytes as they are: no chunk is made of them.
    pub fn then_send(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Sends `total` bytes of `pattern` repeated, without ever holding them: byte `i` is `pattern[i % pattern.len()]`.
    pub fn then_repeat(self, pattern: impl AsRef<[u8]>, total: u64) -> Self {
        self.then_repeat_from(pattern, 0, total)
    }

    /// The same, beginning at byte `start` of the repetition: for ranges.
    pub fn then_repeat_from(self, pattern: impl AsRef<[u8]>, start: u64, total: u64) -> Self {
        let pattern = pattern.as_ref().to_vec();
        assert!(!pattern.is_empty(), "nothing to repeat");
        self.step(Step::Repeat {
            pattern,
            start,
            total,
        })
    }

    /// Sends one byte at a time, with a pause between each two. For tests of which time is the subject.
    pub fn then_drip(self, bytes: impl AsRef<[u8]>, every: Duration) -> Self {
        self.step(Step::Drip {
            bytes: bytes.as_ref().to_vec(),
            every,
        })
    }

    /// Sends one chunk. An empty one would end the body: use [`then_last_chunk`](Self::then_last_chunk).
    pub fn then_chunk(self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        assert!(!bytes.is_empty(), "an empty chunk is the last chunk");
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.then_send(chunk)
    }

    /// Sends the last chunk: the chunked body is whole.
    pub fn then_last_chunk(self) -> Self {
        self.then_trailers("")
    }

    /// Sends the last chunk with these trailer lines, each ended by CRLF.
    pub fn then_trailers(mut self, lines: &str) -> Self {
        if let Some(Head {
            framing: Framing::Chunked { ended },
            ..
        }) = &mut self.head
        {
            *ended = true;
        }
        self.then_send(format!("0\r\n{lines}\r\n"))
    }

    /// Waits for the gate.
    pub fn then_wait(self, gate: &Gate) -> Self {
        self.step(Step::Wait(gate.clone()))
    }

    /// Waits for a time. For tests of which time is the subject.
    pub fn then_pause(self, time: Duration) -> Self {
        self.step(Step::Pause(time))
    }

    /// Keeps the connection open and silent until the client or the origin goes.
    pub fn then_stall(self) -> Self {
        self.step(Step::Stall)
    }

    /// Ends the connection in good order: FIN, behind everything sent.
    pub fn then_close(self) -> Self {
        self.step(Step::Close)
    }

    /// Ends the connection with RST. What the client's window had no room for yet is lost: where a test relies on more than
    /// some KiB having arrived, let it open a gate before the reset when it has read them.
    pub fn then_reset(self) -> Self {
        self.step(Step::Reset)
    }

    /// Goes on with another reply, head and all, which then decides about framing and connection. So
    /// `Reply::raw("HTTP/1.1 103 Early Hints\r\n\r\n").then(Reply::ok("x"))`.
    pub fn then(self, next: Self) -> Self {
        let mut lead = self.into_steps();
        lead.extend(next.lead);
        Self { lead, ..next }
    }

    /// This reply, head included, once the gate has let it through.
    pub fn after(self, gate: &Gate) -> Self {
        Self::nothing().then_wait(gate).then(self)
    }

    /// This reply, head included, after a time.
    pub fn after_pause(self, time: Duration) -> Self {
        Self::nothing().then_pause(time).then(self)
    }
}

/// What it comes to.
impl Reply {
    pub(super) fn into_script(mut self, incoming: &Incoming) -> Script {
        let to_head = incoming.method() == "HEAD";
        let whole = match &self.head {
            Some(head) => to_head || head.is_met_by(bytes(&self.steps)),
            None => bytes(&self.lead) + bytes(&self.steps) > 0,
        };
        let close =
            !whole || incoming.wants_close() || self.head.as_ref().is_some_and(Head::says_close);
        if to_head {
            self = self.without_body();
        }
        Script {
            steps: self.into_steps(),
            whole,
            close,
        }
    }

    fn without_body(mut self) -> Self {
        if let Some(head) = self.head.take() {
            let head = head.into_bytes(bytes(&self.steps));
            self.steps.retain(|step| step.bytes() == 0);
            self.lead.push(Step::Send(head));
        }
        self
    }

    fn into_steps(self) -> Vec<Step> {
        let body = bytes(&self.steps);
        let head = self.head.map(|head| Step::Send(head.into_bytes(body)));
        self.lead
            .into_iter()
            .chain(head)
            .chain(self.steps)
            .collect()
    }
}

fn bytes(steps: &[Step]) -> u64 {
    steps.iter().map(Step::bytes).sum()
}
