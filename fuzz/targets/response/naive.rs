//! A response read the slow way, all bytes at hand: what the client has to agree with.

/// What the bytes on a connection are, that the server closes after them.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The last status line's, if one was read.
    pub(crate) status: Option<u16>,
    pub(crate) body: Body,
    /// By the letter of RFC 9112 throughout: no client may refuse it.
    pub(crate) is_strict: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// `is_delimited`: by more than the connection's end.
    Whole { bytes: Vec<u8>, is_delimited: bool },
    /// The connection ended before the header or body did.
    Cut,
    /// No response.
    Bad,
}

struct Reader<'a> {
    rest: &'a [u8],
    is_strict: bool,
}

/// Why there is no more.
enum Stop {
    Cut,
    Bad,
}

struct Head {
    minor: u8,
    status: u16,
    fields: usize,
    lengths: Vec<Vec<u8>>,
    codings: Vec<Vec<u8>>,
}

pub(crate) fn read(bytes: &[u8]) -> Answer {
    let mut reader = Reader {
        rest: bytes,
        is_strict: true,
    };
    let mut status = None;
    let body = reader
        .answer(&mut status)
        .unwrap_or_else(|stop| match stop {
            Stop::Cut => Body::Cut,
            Stop::Bad => Body::Bad,
        });
    Answer {
        status,
        body,
        is_strict: reader.is_strict,
    }
}

impl<'a> Reader<'a> {
    fn answer(&mut self, status: &mut Option<u16>) -> Result<Body, Stop> {
        let head = loop {
            let head = self.head(status)?;
            if !(100..200).contains(&head.status) || head.status == 101 {
                break head;
            }
            // An interim response has no body (RFC 9110, section 15.2).
            self.is_strict &= head.lengths.is_empty() && head.codings.is_empty();
            // It may have fields, but ureq-proto refuses a 100 that does.
            self.is_strict &= head.status != 100 || head.fields == 0;
        };
        // Of other classes nobody says how they end.
        self.is_strict &= (200..600).contains(&head.status);
        self.body(&head)
    }

    fn head(&mut self, status: &mut Option<u16>) -> Result<Head, Stop> {
        while self.rest.starts_with(b"\n") || self.rest.starts_with(b"\r\n") {
            self.is_strict = false;
            self.line()?;
        }
        self.is_strict &= self.rest.len() < 32 * 1024;
        if b"HTTP/1.1 200 OK\r".starts_with(self.rest) {
            return Err(Stop::Cut);
        }
        let line = self.line()?;
        let (version, line) = line.split_at_checked(8).ok_or(Stop::Bad)?;
        let minor = match version {
            b"HTTP/1.0" => 0,
            b"HTTP/1.1" => 1,
            _ => return Err(Stop::Bad),
        };
        let [b' ', code @ ..] = line else {
            return Err(Stop::Bad);
        };
        let (code, reason) = code.split_at_checked(3).ok_or(Stop::Bad)?;
        if !code.iter().all(u8::is_ascii_digit) || code[0] == b'0' {
            return Err(Stop::Bad);
        }
        match reason {
            [b' ', reason @ ..] if reason.iter().all(|byte| is_text(*byte)) => {}
            [] => self.is_strict = false,
            _ => return Err(Stop::Bad),
        }
        let mut head = Head {
            minor,
            status: code
                .iter()
                .fold(0, |n, digit| n * 10 + u16::from(digit - b'0')),
            fields: 0,
            lengths: Vec::new(),
            codings: Vec::new(),
        };
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            head.fields += 1;
            self.is_strict &= head.fields <= 100;
            let colon = line
                .iter()
                .position(|byte| *byte == b':')
                .ok_or(Stop::Bad)?;
            let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
            if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
                return Err(Stop::Bad);
            }
            if !value.iter().all(|byte| is_text(*byte)) {
                return Err(Stop::Bad);
            }
            match name.to_ascii_lowercase().as_slice() {
                b"content-length" => head.lengths.push(value.to_vec()),
                b"transfer-encoding" => head.codings.push(value.to_ascii_lowercase()),
                _ => {}
            }
        }
        *status = Some(head.status);
        Ok(head)
    }

    fn body(&mut self, head: &Head) -> Result<Body, Stop> {
        let length = self.length(&head.lengths)?;
        let codings = head.codings.join(&b","[..]);
        let is_chunked = match trim(&codings) {
            _ if head.codings.is_empty() => false,
            b"chunked" if head.minor == 1 => {
                // A sender must not; a recipient may take it for an attack (RFC 9112, section 6.3).
                self.is_strict &= length.is_none();
                true
            }
            b"identity" => {
                // Of RFC 2616.
                self.is_strict = false;
                false
            }
            _ => return Err(Stop::Bad),
        };
        let is_bodiless = matches!(head.status, 101 | 204 | 304);
        self.is_strict &= !is_bodiless || (length.is_none() && !is_chunked);
        if is_bodiless {
            return Ok(Body::Whole {
                bytes: Vec::new(),
                is_delimited: true,
            });
        }
        if is_chunked {
            return self.chunks();
        }
        match length {
            Some(length) => {
                let length = usize::try_from(length).map_err(|_| Stop::Cut)?;
                let bytes = self.rest.get(..length).ok_or(Stop::Cut)?;
                Ok(Body::Whole {
                    bytes: bytes.to_vec(),
                    is_delimited: true,
                })
            }
            None => Ok(Body::Whole {
                bytes: self.rest.to_vec(),
                is_delimited: false,
            }),
        }
    }

    fn length(&mut self, values: &[Vec<u8>]) -> Result<Option<u64>, Stop> {
        let mut length = None;
        for value in values
            .iter()
            .flat_map(|value| value.split(|byte| *byte == b','))
        {
            let value = trim(value);
            if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
                return Err(Stop::Bad);
            }
            // Larger than any: nothing could be that long.
            let value = std::str::from_utf8(value).map_err(|_| Stop::Bad)?;
            let value: u64 = value.parse().map_err(|_| Stop::Bad)?;
            // Several that agree may be taken for one or refused (RFC 9110, section 8.6).
            self.is_strict &= length.is_none();
            if length.is_some_and(|length| length != value) {
                return Err(Stop::Bad);
            }
            length = Some(value);
        }
        Ok(length)
    }

    fn chunks(&mut self) -> Result<Body, Stop> {
        let mut bytes = Vec::new();
        loop {
            let line = self.crlf_line()?;
            let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
            // Extensions may be refused for their length; nor need blanks be understood. A sign is no
            // part of a size, but the client takes one, and what it means is plain.
            self.is_strict &= line.len() == size.len() && line.len() <= 8;
            let size = std::str::from_utf8(size).map_err(|_| Stop::Bad)?;
            self.is_strict &= size.bytes().all(|byte| byte.is_ascii_hexdigit());
            let size = usize::from_str_radix(size.trim(), 16).map_err(|_| Stop::Bad)?;
            if size == 0 {
                break;
            }
            let chunk = self.rest.get(..size).ok_or(Stop::Cut)?;
            bytes.extend_from_slice(chunk);
            self.rest = &self.rest[size..];
            match self.rest {
                [b'\r', b'\n', rest @ ..] => self.rest = rest,
                [] | [b'\r'] => return Err(Stop::Cut),
                _ => return Err(Stop::Bad),
            }
        }
        // The body is whole with the last chunk (RFC 9112, section 8). What follows may be
        // refused, or not even come.
        self.is_strict &= self.rest.starts_with(b"\r\n");
        Ok(Body::Whole {
            bytes,
            is_delimited: true,
        })
    }

    /// Up to CR LF or LF.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            // What is there may be bad already.
            self.is_strict &= self.rest.is_empty();
            return Err(Stop::Cut);
        };
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        match line {
            [line @ .., b'\r'] => Ok(line),
            line => {
                self.is_strict = false;
                Ok(line)
            }
        }
    }

    /// Up to CR LF.
    fn crlf_line(&mut self) -> Result<&'a [u8], Stop> {
        let end = self.rest.windows(2).position(|pair| pair == b"\r\n");
        let Some(end) = end else {
            let digits = self.rest.strip_suffix(b"\r").unwrap_or(self.rest);
            self.is_strict &= digits.len() <= 8 && digits.iter().all(u8::is_ascii_hexdigit);
            return Err(Stop::Cut);
        };
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 2..];
        Ok(line)
    }
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 0x7f
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
