//! A server of one large file, which behaves as servers of files do.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::support::{Incoming, Origin, Reply};

pub(super) const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
pub(super) const LATER: &str = "Mon, 07 Nov 1994 08:49:37 GMT";

/// What it serves.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) body: Arc<Vec<u8>>,
    pub(super) etag: Option<&'static str>,
    pub(super) date: Option<&'static str>,
    /// After so many bytes of a response the connection ends.
    pub(super) cut_after: Option<usize>,
    pub(super) takes_ranges: bool,
}

impl Content {
    /// So many bytes, none of them like those of another seed at the same place.
    pub(super) fn new(bytes: usize, seed: u8) -> Self {
        let body = (0..bytes).map(|i| (i / 251 + i % 251) as u8 ^ seed);
        Self {
            body: Arc::new(body.collect()),
            etag: Some("\"v1\""),
            date: Some(DATE),
            cut_after: None,
            takes_ranges: true,
        }
    }

    pub(super) fn cut_after(self, bytes: usize) -> Self {
        let cut_after = Some(bytes);
        Self { cut_after, ..self }
    }

    /// What a server says to a request, by RFC 9110, section 13.2.2.
    pub(super) fn reply(&self, incoming: &Incoming) -> Reply {
        let is_same = |name, ours: Option<&str>| {
            let theirs = incoming.header(name);
            theirs.is_some() && theirs == ours
        };
        if is_same("if-none-match", self.etag)
            || incoming.header("if-none-match").is_none() && is_same("if-modified-since", self.date)
        {
            return self.named(Reply::status(304));
        }
        let is_wanted = incoming.header("if-range").is_none() || is_same("if-range", self.etag);
        let start = incoming
            .range_start()
            .filter(|_| self.takes_ranges && is_wanted);
        let Some(start) = start.map(|start| start as usize) else {
            return self.send(Reply::status(200), 0, self.body.len());
        };
        let length = self.body.len();
        if start >= length {
            let range = format!("bytes */{length}");
            return Reply::status(416).header("Content-Range", range);
        }
        let end = incoming.range_end().map(|last| last as usize + 1);
        let end = end.map_or(length, |end| end.min(length));
        let range = format!("bytes {start}-{}/{length}", end - 1);
        let reply = Reply::status(206).header("Content-Range", range);
        self.send(reply, start, end)
    }

    fn named(&self, mut reply: Reply) -> Reply {
        if let Some(etag) = self.etag {
            reply = reply.header("ETag", etag);
        }
        if let Some(date) = self.date {
            reply = reply.header("Last-Modified", date);
        }
        reply
    }

    fn send(&self, reply: Reply, start: usize, end: usize) -> Reply {
        let rest = &self.body[start..end];
        let reply = self.named(reply).declared_length(rest.len() as u64);
        match self.cut_after.filter(|&bytes| bytes < rest.len()) {
            Some(bytes) => reply.then_send(&rest[..bytes]).then_close(),
            None => reply.then_send(rest),
        }
    }
}

/// The server, whose content can be changed between requests.
pub(super) struct Archive {
    pub(super) origin: Origin,
    content: Arc<Mutex<Content>>,
}

impl Archive {
    pub(super) fn start(content: Content) -> Self {
        let content = Arc::new(Mutex::new(content));
        let served = Arc::clone(&content);
        let origin = Origin::start(move |incoming| served.lock().reply(incoming));
        Self { origin, content }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Content)) {
        change(&mut self.content.lock());
    }

    pub(super) fn url(&self) -> String {
        self.origin.url("/data/big.bin")
    }

    /// Of the last request: what range it asked for.
    pub(super) fn last_range(&self) -> Option<u64> {
        self.origin
            .log()
            .last()
            .and_then(|incoming| incoming.range_start())
    }

    pub(super) fn requests(&self) -> usize {
        self.origin.log().len()
    }
}
