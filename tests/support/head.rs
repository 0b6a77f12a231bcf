//! The head of a reply: status line, fields and framing.

/// Everything before the body, not yet written out.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) version: &'static str,
    pub(super) status: u16,
    pub(super) fields: Vec<(String, Vec<u8>)>,
    pub(super) framing: Framing,
}

/// What tells the client where the body ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Framing {
    /// As many bytes as the steps send.
    Length,
    /// That many bytes, whatever the steps send.
    Declared(u64),
    Chunked {
        ended: bool,
    },
    UntilClose,
}

impl Head {
    pub(super) fn new(status: u16) -> Self {
        Self {
            version: "HTTP/1.1",
            status,
            fields: Vec::new(),
            framing: Framing::Length,
        }
    }

    fn bodiless(&self) -> bool {
        matches!(self.status, 100..=199 | 204 | 304)
    }

    /// Whether the client takes the reply for whole when `sent` bytes have followed the head.
    pub(super) fn is_met_by(&self, sent: u64) -> bool {
        match self.framing {
            _ if self.bodiless() => true,
            Framing::Length => true, // as many as the steps send
            Framing::Declared(length) => sent >= length,
            Framing::Chunked { ended } => ended,
            Framing::UntilClose => false,
        }
    }

    pub(super) fn says_close(&self) -> bool {
        let mut fields = self.fields.iter();
        match fields.find(|field| field.0.eq_ignore_ascii_case("connection")) {
            Some((_, value)) => value.eq_ignore_ascii_case(b"close"),
            None => self.version == "HTTP/1.0",
        }
    }

    pub(super) fn into_bytes(self, body: u64) -> Vec<u8> {
        let framing = match self.framing {
            Framing::Length if self.bodiless() => String::new(),
            Framing::Length => format!("Content-Length: {body}\r\n"),
            Framing::Declared(length) => format!("Content-Length: {length}\r\n"),
            Framing::Chunked { .. } => "Transfer-Encoding: chunked\r\n".to_owned(),
            Framing::UntilClose => String::new(),
        };
        let mut bytes = format!(
            "{} {} {}\r\n",
            self.version,
            self.status,
            reason(self.status)
        )
        .into_bytes();
        for (name, value) in &self.fields {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(framing.as_bytes());
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        407 => "Proxy Authentication Required",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Scripted",
    }
}
