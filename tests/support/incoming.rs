//! A request as the origin read it.

use std::sync::OnceLock;
use std::time::Instant;

/// A request: what a handler is given, and what the log keeps.
#[derive(Debug)]
pub struct Incoming {
    raw: Vec<u8>,
    method: String,
    target: String,
    version: String,
    headers: Vec<(String, String)>,
    body_length: usize,
    /// Read after the request has been counted, which is at its last header byte.
    body: OnceLock<Vec<u8>>,
    connection: u64,
    number: u64,
    visit: u64,
    at: Instant,
}

impl Incoming {
    /// Reads the head of a request, up to and with the empty line; the error says what is wrong with it.
    pub(super) fn parse(raw: Vec<u8>, connection: u64, number: u64) -> Result<Self, String> {
        let text = String::from_utf8_lossy(&raw);
        let mut lines = text.trim_end_matches("\r\n").split("\r\n");
        let line = lines.next().unwrap_or_default();
        let parts: Vec<&str> = line.split(' ').collect();
        let [method, target, version] = parts[..] else {
            return Err(format!("not a request line: {line:?}"));
        };
        if method.is_empty() || target.is_empty() || !version.starts_with("HTTP/1.") {
            return Err(format!("not a request line: {line:?}"));
        }
        let headers = lines.map(|line| match line.split_once(':') {
            Some((name, value)) if !name.is_empty() && !name.contains([' ', '\t']) => {
                Ok((name.to_owned(), value.trim().to_owned()))
            }
            _ => Err(format!("not a header line: {line:?}")),
        });
        let headers = headers.collect::<Result<_, _>>()?;
        let mut incoming = Self {
            method: method.to_owned(),
            target: target.to_owned(),
            version: version.to_owned(),
            headers,
            body_length: 0,
            body: OnceLock::new(),
            connection,
            number,
            visit: 0,
            at: Instant::now(),
            raw,
        };
        if let Some(length) = incoming.header("content-length") {
            incoming.body_length = length
                .parse()
                .map_err(|_| format!("not a length: {length:?}"))?;
        }
        if incoming.header("transfer-encoding").is_some() {
            return Err("the origin does not read chunked requests".to_owned());
        }
        Ok(incoming)
    }

    pub(super) fn body_length(&self) -> usize {
        self.body_length
    }

    pub(super) fn set_visit(&mut self, visit: u64) {
        self.visit = visit;
    }

    pub(super) fn set_body(&self, body: Vec<u8>) {
        self.body
            .set(body)
            .expect("the body of a request is read once");
    }

    /// The head's bytes as they came, the empty line included: for what [`headers`](Self::headers) reads as text.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The method, as sent.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The request target, as sent: `/path?query`, or a whole URL, or `host:port` when the origin plays a proxy.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// All header fields, in order, names as sent, values without the blanks around them.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The first field of this name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.headers.iter();
        fields
            .find(|field| field.0.eq_ignore_ascii_case(name))
            .map(|field| field.1.as_str())
    }

    /// The `Host` header; empty if there was none.
    pub fn host(&self) -> &str {
        self.header("host").unwrap_or_default()
    }

    /// The first byte that a `Range: bytes=N-` or `bytes=N-M` asks for.
    pub fn range_start(&self) -> Option<u64> {
        let range = self.header("range")?.strip_prefix("bytes=")?;
        range.split('-').next()?.parse().ok()
    }

    /// The last byte that a `Range: bytes=N-M` asks for.
    pub fn range_end(&self) -> Option<u64> {
        self.header("range")?.rsplit('-').next()?.parse().ok()
    }

    /// The request's body.
    pub fn body(&self) -> &[u8] {
        self.body.get().map_or(&[], Vec::as_slice)
    }

    /// Which of the origin's connections it came on: 1 for the first that was accepted.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// The number of the request on its connection: 1 for the first.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How often this target has been asked for: 1 at the first time. So `match incoming.visit() { 1 => …, _ => … }`
    /// scripts a retry.
    pub fn visit(&self) -> u64 {
        self.visit
    }

    /// When the last header byte was read.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// Whether the client wants the connection closed after the reply.
    pub(super) fn wants_close(&self) -> bool {
        match self.header("connection") {
            Some(value) if value.eq_ignore_ascii_case("close") => true,
            Some(value) if value.eq_ignore_ascii_case("keep-alive") => false,
            _ => self.version == "HTTP/1.0",
        }
    }
}
