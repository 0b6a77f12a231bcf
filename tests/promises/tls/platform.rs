//! The platform's verifier. On Linux its roots are in files, which these variables name.

use std::path::PathBuf;
use std::{env, fs, process};

use fetchpool::{Downloader, ErrorKind};

use super::{Server, answer, read_request};
use crate::support::alone_in;
use crate::{builder, with};

const FILE: &str = "SSL_CERT_FILE";
const DIRECTORIES: &str = "SSL_CERT_DIR";

/// A server, asked by a client who trusts its root, or the platform's roots, or both.
fn fetch(server: &Server, downloader: &Downloader) -> Result<(), ErrorKind> {
    match downloader.fetch(server.url("localhost")) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.kind()),
    }
}

fn server(connections: usize) -> Server {
    Server::start(connections, |mut stream| {
        read_request(&mut stream);
        answer(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    })
}

#[test]
fn the_platform_is_asked_where_the_switch_is_set_and_nowhere_else() {
    let name = "tls::platform::the_platform_is_asked_where_the_switch_is_set_and_nowhere_else";
    let file: PathBuf = env::temp_dir().join(format!("fetchpool-roots-{}.pem", process::id()));
    if !alone_in(
        name,
        &[(FILE, file.as_os_str()), (DIRECTORIES, "".as_ref())],
    ) {
        return;
    }
    let file = PathBuf::from(env::var_os(FILE).expect("set"));

    let error = builder().platform_verifier(true).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls);
    assert!(error.to_string().contains("ca-certificates"), "{error}");

    // Those of the caller's are enough, and trusted besides the platform's.
    let (known, added) = (server(3), server(1));
    let trusts_added = added.trusting_with(|b| b.platform_verifier(true));
    assert_eq!(fetch(&known, &trusts_added), Err(ErrorKind::Tls));
    fs::write(&file, &known.root_pem).expect("a file");
    let trusts_both = added.trusting_with(|b| b.platform_verifier(true));
    assert_eq!(fetch(&known, &trusts_both), Ok(()));
    assert_eq!(fetch(&added, &trusts_both), Ok(()));

    assert_eq!(fetch(&known, &with(|b| b)), Err(ErrorKind::Tls));
    fs::remove_file(file).expect("written above");
}
