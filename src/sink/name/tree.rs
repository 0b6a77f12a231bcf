//! Files that are laid out as their URLs are.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

use super::of;
use super::safe::safe;

/// Between the host and the name.
const MAX_DIRECTORIES: usize = 30;
/// All of them, with their separators. Host and name have 200 bytes each at most, a temporary name
/// some 40 more: of macOS's 1024 bytes, the shortest limit of a path, that leaves 180 for the
/// directory where the tree begins.
const MAX_BYTES: usize = 400;

/// `host/path…/name`, or `host_PORT/…` where the port is not the scheme's. Each of them is safe as
/// a name is; the query has no part in it.
///
/// What a URL has in its path a tree cannot always have: `/a` and `/a/b` want `a` to be a file and
/// a directory. Whichever comes second is an error then, and the sink's to report. Paths that
/// differ in nothing but empty segments, or in what is not safe, are one.
pub(crate) fn tree(url: &Url) -> PathBuf {
    let mut path = PathBuf::from(host(url));
    path.extend(bounded(directories(url)));
    path.push(of(url));
    path
}

fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let name = match url.port() {
        Some(port) => safe(&format!("{host}_{port}")),
        None => safe(host),
    };
    // A host of dots is one that no resolver knows, but a URL may have it.
    if name.is_empty() {
        "_".to_owned()
    } else {
        name
    }
}

struct Directory<'a> {
    /// As the URL has it.
    segment: &'a str,
    name: String,
}

/// `Url` resolves `..` and `%2e%2e`; what is decoded to it only here, as part of `..%2f..`, has no
/// separator any more when it is safe, and what is nothing but dots is not there at all.
fn directories(url: &Url) -> Vec<Directory<'_>> {
    let segments = url.path_segments().into_iter().flatten();
    let mut directories: Vec<_> = segments
        .map(|segment| Directory {
            segment,
            name: safe(&percent_decode_str(segment).decode_utf8_lossy()),
        })
        .collect();
    directories.pop();
    directories.retain(|directory| !directory.name.is_empty());
    directories
}

/// Those that there is room for. All behind them are one, whose name tells them from others: what
/// a path needs room for is known from its directories alone, so files that are beside each other
/// stay so.
fn bounded(directories: Vec<Directory<'_>>) -> Vec<String> {
    let room = fitting(&directories, MAX_DIRECTORIES, MAX_BYTES);
    if room == directories.len() {
        return directories.into_iter().map(|d| d.name).collect();
    }
    let room = fitting(&directories, MAX_DIRECTORIES - 1, MAX_BYTES - 18);
    let behind = format!("_{:016x}", hash(&directories[room..]));
    let names = directories.into_iter().take(room).map(|d| d.name);
    names.chain([behind]).collect()
}

fn fitting(directories: &[Directory<'_>], count: usize, bytes: usize) -> usize {
    let mut left = bytes;
    directories
        .iter()
        .take(count)
        .take_while(|directory| {
            let needed = directory.name.len() + 1;
            let fits = needed <= left;
            left = left.saturating_sub(needed);
            fits
        })
        .count()
}

/// FNV-1a, since std's hashes may be others tomorrow, and a second run should find what the first
/// one made. Whoever makes two paths of one hash has both in one directory, which is to be had for
/// less.
fn hash(directories: &[Directory<'_>]) -> u64 {
    let bytes = directories
        .iter()
        .flat_map(|d| d.segment.bytes().chain([b'/']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::super::tests::{encoded, hostile, is_safe};
    use super::*;

    fn laid_out(url: &str) -> String {
        let path = tree(&Url::parse(url).unwrap());
        path.to_str().unwrap().replace('\\', "/")
    }

    #[test]
    fn a_tree_is_as_its_urls_are() {
        for (url, path) in [
            ("http://h", "h/index.html"),
            ("http://h/a/b/", "h/a/b/index.html"),
            (
                "https://H.example:443/a%20b/c.txt?q#f",
                "h.example/a b/c.txt",
            ),
            ("https://h:80/a", "h_80/a"),
            ("http://u:p@h/a", "h/a"),
            ("http://[::1]:8080/a", "[__1]_8080/a"),
            ("http://bücher.example/ü", "xn--bcher-kva.example/ü"),
            ("http://aux.example./con/nul", "_aux.example/_con/_nul"),
            ("http://h//a///b", "h/a/b"),
            ("http://h/.git/-x/~/b", "h/_.git/_-x/_~/b"),
        ] {
            assert_eq!(laid_out(url), path, "{url}");
        }
    }

    #[test]
    fn nothing_leads_out_of_it() {
        for (url, path) in [
            ("http://../x", "_/x"),
            ("http://...:81/x", "_..._81/x"),
            ("http://h/../../x", "h/x"),
            ("http://h/%2e%2E/.%2e/x", "h/x"),
            ("http://h/..%2f..%2fx/y", "h/_.._.._x/y"),
            ("http://h/..%5c..%5cx/y", "h/_.._.._x/y"),
            ("http://h/%2e%2e%20/x", "h/x"),
            ("http://h/%2e%2e%2e/x", "h/x"),
            ("http://h/%2fetc/x", "h/_etc/x"),
            ("http://h/C:/x", "h/C_/x"),
            ("http://h/a%00/x", "h/a_/x"),
        ] {
            assert_eq!(laid_out(url), path, "{url}");
        }
    }

    #[test]
    fn what_is_too_deep_or_too_long_is_in_a_directory_of_its_own() {
        let deep = |count| format!("http://h/{}", "a/".repeat(count));
        assert_eq!(
            laid_out(&deep(30)),
            format!("h/{}index.html", "a/".repeat(30))
        );
        let deeper = laid_out(&deep(31));
        assert!(
            deeper.starts_with(&format!("h/{}_", "a/".repeat(29))),
            "{deeper}"
        );
        assert_ne!(deeper, laid_out(&deep(32)));
        assert_eq!(deeper, laid_out(&deep(31)));

        let long = format!("http://h/{0}/{0}/{0}", "b".repeat(150));
        let path = tree(&Url::parse(&format!("{long}/x/y")).unwrap());
        assert_eq!(path.components().count(), 5);
        let beside = tree(&Url::parse(&format!("{long}/x/{}", "z".repeat(300))).unwrap());
        assert_eq!(path.parent(), beside.parent());
        let elsewhere = tree(&Url::parse(&format!("{long}/w/y")).unwrap());
        assert_ne!(path, elsewhere);
    }

    proptest! {
        #[test]
        fn whatever_the_url_its_file_is_below_the_directory(
            host in prop_oneof!["[a-z.]{1,20}", "[a-z_.-]{1,250}", Just("[::1]".to_owned())],
            port in prop::option::of(any::<u16>()),
            segments in prop::collection::vec((hostile(), any::<bool>()), 0..50),
        ) {
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            let segments = segments.iter().map(|(s, raw)| if *raw { s.clone() } else { encoded(s) });
            let path = segments.collect::<Vec<_>>().join("/");
            let Ok(url) = Url::parse(&format!("http://{host}{port}/{path}")) else {
                return Ok(());
            };
            let path = tree(&url);
            prop_assert!(path.as_os_str().len() <= 200 + 1 + MAX_BYTES + 200);
            prop_assert!((2..=32).contains(&path.components().count()));
            for component in path.components() {
                let Component::Normal(name) = component else {
                    return Err(TestCaseError::fail(format!("{component:?}")));
                };
                prop_assert!(is_safe(name.to_str().unwrap()), "{:?}", name);
            }
            prop_assert!(Path::new("/base").join(&path).starts_with("/base"));
            prop_assert_eq!(path.file_name().unwrap().to_str().unwrap(), of(&url));
        }
    }
}
