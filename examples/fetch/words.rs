//! Errors in the words of the command: the library's know its settings, and not our options.

use std::error::Error as _;

use fetchpool::{Error, ErrorKind};

/// What went wrong and, where there is something to do, what.
pub(crate) fn of(error: &Error) -> String {
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
        // Of a file. Other errors of this kind say what to do themselves.
        ErrorKind::Io if error.source().is_some() => {
            "make room or permit it there, or choose another directory with '--output'"
        }
        ErrorKind::Cancelled => "fetch it again",
        _ => return None,
    };
    Some(hint.to_owned())
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
        _ => "check the URL",
    };
    Some(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::args::Args;

    /// What is said of a server that answers this, and then is silent or gone.
    fn said_of(reply: &'static str, is_silent: bool, option: [&str; 2]) -> String {
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
        let said = of(&downloader
            .fetch_with([&url], |mut body| body.read_to_end(&mut Vec::new()))
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
