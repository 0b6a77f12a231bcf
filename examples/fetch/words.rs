//! Errors in the words of the command: the library's know its settings, and not our options.

use std::error::Error as _;
use std::io;

use fetchpool::{Error, ErrorKind, Report};

use crate::input::{Form, Text};

/// What went wrong and, where there is something to do, what.
pub(crate) fn of(error: &Error) -> String {
    if form(error) == Some(Form::Excess) {
        let text = error.url().unwrap_or_default();
        return format!(
            "{text:?}: a line is a URL, or URL<TAB>NAME: leave out what stands after that"
        );
    }
    let said = with_options(&error.to_string());
    // Those that name an option have said it.
    match hint(error).filter(|_| !said.contains("'--")) {
        Some(hint) => format!("{said}; {hint}"),
        None => said,
    }
}

/// With the option in the place of the setting that does the same, and without a setting for
/// which there is none.
fn with_options(said: &str) -> String {
    let said = said.replace("`Builder::add_root_pem`", "'--ca-cert'");
    let Some((before, (setting, after))) = said
        .split_once(" (see `")
        .and_then(|(before, rest)| Some((before, rest.split_once("`)")?)))
    else {
        return said;
    };
    match setting {
        "OnExist" => format!("{before} (see '--on-exist'){after}"),
        "connect_timeout" | "idle_timeout" | "timeout" => {
            let option = setting.replace('_', "-");
            format!("{before} (see '--{option}'){after}")
        }
        _ => format!("{before}{after}"),
    }
}

fn hint(error: &Error) -> Option<String> {
    let hint = match error.kind() {
        ErrorKind::Dns => "check how the name is spelt, and that this machine is online",
        ErrorKind::Connect => "check the host and the port, or try later",
        ErrorKind::Tls => {
            "check the host and the port; '--ca-cert' trusts more certificates, and nothing turns \
             the check off"
        }
        ErrorKind::Status => return status_hint(error),
        ErrorKind::Redirect => {
            "give the URL that it should end at itself, or a cookie with '--header'"
        }
        ErrorKind::Timeout | ErrorKind::Truncated => "try later, or more often with '--retries'",
        ErrorKind::Protocol => "the server is at fault, unless the port is another service's",
        ErrorKind::Digest => "fetch it again, or correct the list of '--checksums'",
        ErrorKind::TooLarge => "raise '--max-size', or leave it out",
        ErrorKind::Io if is_file_against_directory(error) => {
            "name the file in the list of '--input' (URL<TAB>NAME), or choose another directory with \
             '--output'"
        }
        // Of a file. Other errors of this kind say what to do themselves.
        ErrorKind::Io if error.source().is_some() => {
            "make room or permit it there, or choose another directory with '--output'"
        }
        ErrorKind::Cancelled => "fetch it again",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// One stands where the other is wanted, as for `/a` and `/a/b` laid out as a tree.
fn is_file_against_directory(error: &Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref());
    matches!(
        cause.map(io::Error::kind),
        Some(io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory)
    )
}

/// Of the text that it was made of.
fn form(error: &Error) -> Option<Form> {
    let text: Option<&Text> = error.report().map(Report::request)?.tag_ref();
    text.map(|text| text.form)
}

fn status_hint(error: &Error) -> Option<String> {
    if let Some(pause) = error.retry_after().filter(|pause| !pause.is_zero()) {
        return Some(format!("try again after {} s", pause.as_secs()));
    }
    let hint = match error.status()?.as_u16() {
        401 | 403 => "if you have access, send what proves it with '--header'",
        408 | 429 | 500.. => {
            "try later, more often with '--retries', or less at a time with '--per-host'"
        }
        _ if form(error) == Some(Form::Blank) => {
            "check the URL; if the second part is a name, separate it by a tab"
        }
        _ => "check the URL",
    };
    Some(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::process;
    use std::thread;
    use std::time::Duration;

    use clap::Parser;
    use fetchpool::{Downloader, Request};

    use super::*;
    use crate::args::Args;

    fn said_of(reply: &'static str, is_silent: bool, option: [&str; 2]) -> String {
        said_of_text(reply, is_silent, option, Form::Plain)
    }

    /// What is said of a server that answers this, and then is silent or gone.
    fn said_of_text(reply: &'static str, is_silent: bool, option: [&str; 2], form: Form) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}/a", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(reply.as_bytes());
            if is_silent {
                thread::sleep(Duration::from_secs(5));
            }
        });
        let args = ["fetch", "--retries", "0", option[0], option[1], &url];
        let downloader = Args::parse_from(args).downloader().unwrap();
        let request = Request::new(&url).tag(Text { line: None, form });
        let said = of(&downloader
            .fetch_with([request], |mut body| body.read_to_end(&mut Vec::new()))
            .next()
            .unwrap()
            .unwrap_err());
        assert!(said.starts_with(&format!("{url}: ")), "{said}");
        said
    }

    #[test]
    fn an_error_says_what_to_do_about_it() {
        let none = ["--workers", "1"];
        for (reply, is_silent, option, what_to_do) in [
            (
                "HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n",
                false,
                none,
                "check the URL",
            ),
            (
                "HTTP/1.1 401 x\r\ncontent-length: 0\r\n\r\n",
                false,
                none,
                "'--header'",
            ),
            (
                "HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n",
                false,
                none,
                "'--retries'",
            ),
            (
                "HTTP/1.1 503 x\r\nretry-after: 99\r\ncontent-length: 0\r\n\r\n",
                false,
                none,
                "after 99 s",
            ),
            (
                "HTTP/1.1 302 x\r\nlocation: /a\r\ncontent-length: 0\r\n\r\n",
                false,
                none,
                "'--header'",
            ),
            (
                "HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\nx",
                false,
                none,
                "'--retries'",
            ),
            ("SSH-2.0-x\r\n\r\n", false, none, "port"),
            (
                "HTTP/1.1 200 x\r\ncontent-length: 1\r\n\r\nx",
                false,
                ["--max-size", "0"],
                "raise '--max-size'",
            ),
            (
                "",
                true,
                ["--idle-timeout", "0.05"],
                "(see '--idle-timeout')",
            ),
            ("", true, ["--timeout", "0.05"], "(see '--timeout')"),
        ] {
            let said = said_of(reply, is_silent, option);
            assert!(said.contains(what_to_do), "{what_to_do}: {said}");
        }
    }

    #[test]
    fn a_line_that_is_not_as_it_should_be_is_told_how_it_should() {
        let missing = "HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n";
        for (form, is_told) in [(Form::Plain, false), (Form::Blank, true)] {
            let said = said_of_text(missing, false, ["--workers", "1"], form);
            assert_eq!(said.contains("separate it by a tab"), is_told, "{said}");
        }
        let (line, form) = (Some(1), Form::Excess);
        let request = Request::new("<http://u:hunter2@h/a\tx\t_y>").tag(Text { line, form });
        let said = of(&Downloader::new().fetch(request).unwrap_err());
        assert!(said.contains("x\\t_y>\": a line is a URL"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }

    #[test]
    fn a_file_that_stands_against_a_directory_is_to_be_named() {
        let directory = env::temp_dir().join(format!("fetch-words-{}", process::id()));
        fs::create_dir_all(directory.join("a")).unwrap();
        fs::write(directory.join("b"), "").unwrap();
        let nobody = "http://127.0.0.1:9/";
        for (name, what) in [
            ("a", "a directory stands there"),
            #[cfg(unix)]
            ("b/c", "b/c: "),
        ] {
            let request = Request::new(nobody).save_as(name);
            let mut batch = Downloader::new().save_all([request], &directory);
            let said = of(&batch.next().unwrap().unwrap_err());
            assert!(said.contains(what), "{said}");
            assert!(said.contains("(URL<TAB>NAME)"), "{said}");
        }
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn settings_are_shown_as_the_options_that_they_are() {
        for (said, shown) in [
            (
                "late (see `connect_timeout`): x",
                "late (see '--connect-timeout'): x",
            ),
            (
                "it is there (see `OnExist`)",
                "it is there (see '--on-exist')",
            ),
            ("late (see `header_timeout`) twice", "late twice"),
            (
                "add it with `Builder::add_root_pem`",
                "add it with '--ca-cert'",
            ),
            ("(see `x", "(see `x"),
        ] {
            assert_eq!(with_options(said), shown);
        }
    }
}
