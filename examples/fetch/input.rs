//! The URLs to fetch, one by one: those of the command line, then those of a file.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::num::NonZeroUsize;
use std::path::Path;
use std::vec;

use fetchpool::{Digest, Request};
use percent_encoding::percent_decode_str;

use crate::args::{self, Args};
use crate::checksums::Checksums;

/// Draws URLs as the library asks for them, so that a list of any length costs one line.
pub(crate) struct Input {
    arguments: vec::IntoIter<String>,
    lines: Option<Lines>,
    checksums: Option<Checksums>,
    segments: NonZeroUsize,
    /// URLs of which that says nothing.
    unlisted: u64,
    /// Why the file was not read to its end, if it was not.
    error: Option<io::Error>,
}

/// What a request was made of: its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// The line of the input file that it stands on, if it is from there.
    pub(crate) line: Option<u64>,
    pub(crate) form: Form,
}

/// How the text is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `URL`, or `URL<TAB>NAME`.
    Plain,
    /// With a blank within the URL, which may have been meant as a tab.
    Blank,
    /// With something after the name.
    Excess,
}

impl Input {
    /// Opens the input file and the list of checksums, if there are any.
    pub(crate) fn open(args: &Args) -> Result<Self, clap::Error> {
        let lines = args.input.as_deref().map(Lines::open).transpose()?;
        Ok(Self {
            arguments: args.urls.clone().into_iter(),
            lines,
            checksums: args.checksums()?,
            segments: args.segments,
            unlisted: 0,
            error: None,
        })
    }

    /// How many URLs are not in the list of checksums, if there is one.
    pub(crate) fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// The error that ended the reading of the file early, if one did.
    pub(crate) fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    fn next_of_file(&mut self) -> Option<Request> {
        let lines = self.lines.as_mut()?;
        match lines.next_text().transpose()? {
            Ok(text) => {
                let line = Some(lines.number);
                Some(self.request(&text, line))
            }
            Err(e) => {
                self.lines = None;
                self.error = Some(e);
                None
            }
        }
    }

    /// `URL`, or `URL<TAB>NAME`; an empty name is none.
    fn request(&mut self, text: &str, line: Option<u64>) -> Request {
        let (url, name) = match text.split_once('\t') {
            Some((url, name)) => (url, Some(name.trim()).filter(|name| !name.is_empty())),
            None => (text, None),
        };
        let form = match name {
            Some(name) if name.contains('\t') => Form::Excess,
            _ if url.trim().contains(' ') => Form::Blank,
            _ => Form::Plain,
        };
        let source = Text { line, form };
        if form == Form::Excess {
            // So it is no URL, and fails as others that are none do: by itself, in its turn.
            return Request::new(format!("<{text}>")).tag(source);
        }
        let mut request = Request::new(url).tag(source);
        if self.segments.get() > 1 {
            request = request.segments(self.segments);
        }
        if let Some(digest) = self.checksum(&request, name) {
            request = request.expect_digest(digest);
        }
        match name {
            Some(name) => request.save_as(name),
            None => request,
        }
    }

    fn checksum(&mut self, request: &Request, name: Option<&str>) -> Option<Digest> {
        let checksums = self.checksums.as_ref()?;
        let by_name = name.and_then(|name| checksums.of(name));
        let url = request.url()?;
        // A list made within a tree names the host as well.
        let port = url
            .port()
            .map(|port| format!("_{port}"))
            .unwrap_or_default();
        let path = percent_decode_str(url.path()).decode_utf8_lossy();
        let path = format!("{}{port}{path}", url.host_str()?);
        let digest = by_name.or_else(|| checksums.of(&path));
        self.unlisted += u64::from(digest.is_none());
        digest
    }
}

impl Iterator for Input {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        match self.arguments.next() {
            Some(url) => Some(self.request(&url, None)),
            None => self.next_of_file(),
        }
    }
}

/// The lines of a list that hold URLs.
struct Lines {
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
    /// Counted from 1.
    number: u64,
}

impl Lines {
    fn open(file: &Path) -> Result<Self, clap::Error> {
        let reader: Box<dyn BufRead> = if file == Path::new("-") {
            Box::new(BufReader::new(io::stdin()))
        } else {
            Box::new(open_file(file).map_err(|e| {
                args::usage(format!(
                    "cannot read URLs from {}: {e}; '--input' wants a file of one URL a line, or '-'",
                    file.display()
                ))
            })?)
        };
        Ok(Self {
            reader,
            line: Vec::new(),
            number: 0,
        })
    }

    fn next_text(&mut self) -> io::Result<Option<String>> {
        loop {
            self.line.clear();
            if self.reader.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let text = url_text(&self.line);
            if !text.is_empty() && !text.starts_with('#') {
                return Ok(Some(text));
            }
        }
    }
}

fn open_file(file: &Path) -> io::Result<BufReader<File>> {
    let mut reader = BufReader::new(File::open(file)?);
    // A directory opens like a file on Unix; only reading it fails.
    reader.fill_buf()?;
    Ok(reader)
}

/// A line as the text of a URL. A byte that is not UTF-8 stands for itself, as
/// in the links of old pages, and so becomes `%XX`.
fn url_text(line: &[u8]) -> String {
    // Editors of one large vendor begin a file with this mark.
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    let mut text = String::with_capacity(line.len());
    for chunk in line.trim_ascii().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(list: &'static str, checksums: Option<Checksums>) -> Input {
        Input {
            arguments: Vec::new().into_iter(),
            lines: Some(Lines {
                reader: Box::new(list.as_bytes()),
                line: Vec::new(),
                number: 0,
            }),
            checksums,
            segments: NonZeroUsize::MIN,
            unlisted: 0,
            error: None,
        }
    }

    #[test]
    fn each_line_is_a_request_that_knows_its_place() {
        let list = "# list\n\nhttp://h/a\r\nno url\n http://h/b\tsome name.txt \nhttp://h/c\t\n";
        let found: Vec<_> = input(list, None)
            .map(|request| {
                let line = request.tag_ref::<Text>().unwrap().line.unwrap();
                (line, request.url().map(|url| url.path().to_owned()))
            })
            .collect();
        let path = |path: &str| Some(path.to_owned());
        assert_eq!(
            found,
            [(3, path("/a")), (4, None), (5, path("/b")), (6, path("/c"))]
        );
    }

    #[test]
    fn a_line_is_a_url_and_perhaps_a_name_and_nothing_else() {
        let list =
            "http://h/a\tx y.txt\nhttp://h/a x.txt\nhttp://h/a\tx.txt\t_extra\nhttp://h/a\t\tx\n";
        let found: Vec<_> = input(list, None)
            .map(|request| {
                let form = request.tag_ref::<Text>().unwrap().form;
                (form, request.url().is_some())
            })
            .collect();
        assert_eq!(
            found,
            [
                (Form::Plain, true),
                (Form::Blank, true),
                (Form::Excess, false),
                (Form::Plain, true)
            ]
        );
    }
}
