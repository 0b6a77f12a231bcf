//! The URLs to fetch, one by one: those of the command line, then those of a file.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::vec;

use crate::args::{self, Args};

/// Draws URLs as the library asks for them, so that a list of any length costs one line.
pub(crate) struct Input {
    arguments: vec::IntoIter<String>,
    lines: Option<Lines>,
    /// Why the file was not read to its end, if it was not.
    error: Option<io::Error>,
}

impl Input {
    /// Opens the input file, if there is one.
    pub(crate) fn open(args: &Args) -> Result<Self, clap::Error> {
        let lines = args.input.as_deref().map(Lines::open).transpose()?;
        Ok(Self {
            arguments: args.urls.clone().into_iter(),
            lines,
            error: None,
        })
    }

    /// The error that ended the reading of the file early, if one did.
    pub(crate) fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    fn next_of_file(&mut self) -> Option<String> {
        match self.lines.as_mut()?.next_url().transpose()? {
            Ok(url) => Some(url),
            Err(e) => {
                self.lines = None;
                self.error = Some(e);
                None
            }
        }
    }
}

impl Iterator for Input {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.arguments.next().or_else(|| self.next_of_file())
    }
}

/// The lines of a list that hold URLs.
struct Lines {
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
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
        })
    }

    fn next_url(&mut self) -> io::Result<Option<String>> {
        loop {
            self.line.clear();
            if self.reader.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
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
