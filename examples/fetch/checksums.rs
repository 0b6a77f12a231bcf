//! The digests that a file such as `SHA256SUMS` lists.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use fetchpool::Digest;

use crate::args;

const NO_CHECKSUM: &str = "this is no checksum: 'HEX  NAME' or 'SHA256 (NAME) = HEX' is wanted, \
                           of SHA-512, SHA-256, SHA-1 or MD5";

/// What the files should come to, by the names that the list has for them.
#[derive(Debug)]
pub(crate) struct Checksums {
    digests: HashMap<String, Digest>,
}

impl Checksums {
    pub(crate) fn read(file: &Path) -> Result<Self, clap::Error> {
        let list = fs::read(file).map_err(|e| {
            args::usage(format!(
                "cannot read checksums from {}: {e}",
                file.display()
            ))
        })?;
        Self::parse(&list)
            .map_err(|(line, why)| args::usage(format!("{}:{line}: {why}", file.display())))
    }

    /// The error has the number of the line. One bad line is the end of it: what it was meant to
    /// guard would be taken for something that nobody vouches for.
    fn parse(list: &[u8]) -> Result<Self, (usize, String)> {
        // A name that is not UTF-8 finds nothing, and hides none of the others.
        let list = String::from_utf8_lossy(list);
        // Editors of one large vendor begin a file with this mark.
        let list = list.strip_prefix('\u{FEFF}').unwrap_or(&list);
        let mut checksums = Self {
            digests: HashMap::new(),
        };
        for (index, line) in list.lines().enumerate() {
            let line = line.trim_start();
            if !line.is_empty() && !line.starts_with('#') {
                let added = checksums.add(line);
                added.map_err(|why| (index + 1, why))?;
            }
        }
        Ok(checksums)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let (name, digest) = checksum(line).ok_or(NO_CHECKSUM)?;
        let known = self.digests.entry(name).or_insert(digest);
        if known.algorithm() == digest.algorithm() && *known != digest {
            return Err("another line has another digest for this name".to_owned());
        }
        // Some lists have a line for each of several algorithms.
        if known.algorithm() < digest.algorithm() {
            *known = digest;
        }
        Ok(())
    }

    /// The digest of what is at this path of a URL, decoded. Lists name files relative to where
    /// they lie themselves, which is not known here: so the longest end of the path counts that the
    /// list has, of whole segments.
    pub(crate) fn of(&self, path: &str) -> Option<Digest> {
        let after_slashes = path.match_indices('/').map(|(slash, _)| slash + 1);
        let mut ends = [0].into_iter().chain(after_slashes);
        ends.find_map(|start| self.digests.get(&path[start..]).copied())
    }
}

/// The name and the digest of a line. One that begins with a backslash has escapes in its name.
fn checksum(line: &str) -> Option<(String, Digest)> {
    let escaped = line.strip_prefix('\\');
    let line = escaped.unwrap_or(line);
    let (name, digest) = gnu(line).or_else(|| bsd(line))?;
    let name = match escaped {
        Some(_) => unescaped(name)?,
        None => name.to_owned(),
    };
    // As `find . -type f -exec sha256sum {} +` names them.
    let name = name.strip_prefix("./").unwrap_or(&name);
    (!name.is_empty()).then(|| (name.to_owned(), digest))
}

/// `HEX  NAME`, `HEX *NAME` of binary files, and `HEX NAME`, as some write it.
fn gnu(line: &str) -> Option<(&str, Digest)> {
    let (hex, name) = line.split_once([' ', '\t'])?;
    let name = name.strip_prefix([' ', '*']).unwrap_or(name);
    Some((name, hex.parse().ok()?))
}

/// `SHA256 (NAME) = HEX`, and `SHA256(NAME)= HEX`, as OpenSSL writes it.
fn bsd(line: &str) -> Option<(&str, Digest)> {
    let (algorithm, rest) = line.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let hex = rest.trim_start().strip_prefix('=')?.trim();
    let digest = format!("{}:{hex}", algorithm.trim_end()).parse().ok()?;
    Some((name, digest))
}

fn unescaped(name: &str) -> Option<String> {
    let mut characters = name.chars();
    let mut out = String::with_capacity(name.len());
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next()? {
                '\\' => '\\',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            character => character,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process;

    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const OTHER: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const ABC_MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

    fn parse(list: &str) -> Checksums {
        Checksums::parse(list.as_bytes()).unwrap_or_else(|e| panic!("{list:?}: {e:?}"))
    }

    fn abc() -> Option<Digest> {
        ABC.parse().ok()
    }

    fn other() -> Option<Digest> {
        OTHER.parse().ok()
    }

    #[test]
    fn every_form_of_a_line_is_read() {
        let upper = ABC.to_uppercase();
        for (line, name) in [
            (format!("{ABC}  a.iso"), "a.iso"),
            (format!("{ABC} *a.iso"), "a.iso"),
            (format!("{ABC} a.iso"), "a.iso"),
            (format!("{ABC}\ta.iso"), "a.iso"),
            (format!(" {upper}  a.iso"), "a.iso"),
            (format!("{ABC}  ./a/b.iso"), "a/b.iso"),
            (format!("{ABC}  a b (1) = c"), "a b (1) = c"),
            (format!("{ABC}  a\\nb"), "a\\nb"),
            (format!("\\{ABC}  a\\nb\\\\c\\r"), "a\nb\\c\r"),
            (format!("{ABC}  \u{e4}"), "\u{e4}"),
            (format!("SHA256 (a.iso) = {ABC}"), "a.iso"),
            (format!("SHA256 (a (1) = b) = {upper}"), "a (1) = b"),
            (format!("SHA256(a.iso)= {ABC}"), "a.iso"),
            (format!("\\SHA256 (a\\nb) = {ABC}"), "a\nb"),
        ] {
            for list in [line.clone(), format!("{line}\n"), format!("{line}\r\n")] {
                assert_eq!(parse(&list).of(name), abc(), "{list:?}");
            }
        }
    }

    #[test]
    fn what_stands_between_the_lines_is_skipped() {
        let list = format!("\u{feff}# 2 files\r\n\r\n{ABC}  a\r\n \t\n  # more\n{OTHER}  b");
        let checksums = parse(&list);
        assert_eq!(checksums.of("a"), abc());
        assert_eq!(checksums.of("b"), other());
        assert_eq!(checksums.digests.len(), 2);
        assert_eq!(parse("").of(""), None);
    }

    #[test]
    fn a_file_is_found_by_the_longest_end_of_its_path_that_is_listed() {
        let checksums = parse(&format!("{ABC}  a.iso\n{OTHER}  b/a.iso"));
        for (path, is) in [
            ("a.iso", abc()),
            ("/a.iso", abc()),
            ("/x/c/a.iso", abc()),
            ("/x/b/a.iso", other()),
            ("b/a.iso", other()),
            ("/xb/a.iso", abc()),
            ("/x/aa.iso", None),
            ("/x/a.iso/", None),
            ("", None),
        ] {
            assert_eq!(checksums.of(path), is, "{path}");
        }
    }

    #[test]
    fn the_strongest_of_several_algorithms_counts() {
        let (md5, sha256) = (
            format!("MD5 (a) = {ABC_MD5}"),
            format!("SHA256 (a) = {ABC}"),
        );
        for list in [format!("{md5}\n{sha256}"), format!("{sha256}\n{md5}")] {
            assert_eq!(parse(&list).of("a"), abc());
        }
        assert_eq!(parse(&md5).of("a"), ABC_MD5.parse().ok());
    }

    #[test]
    fn what_is_no_checksum_is_told_with_its_line() {
        for bad in [
            "oops".to_owned(),
            ABC.to_owned(),
            format!("{ABC}  "),
            format!("{}  a", &ABC[1..]),
            format!("{ABC}0  a"),
            format!("{}  a", ABC.replace('b', "g")),
            format!("\\{ABC}  a\\tb"),
            format!("\\{ABC}  a\\"),
            format!("SHA256 (a) = {ABC_MD5}"),
            format!("SHA256 (a) {ABC}"),
            format!("SHA256 a = {ABC}"),
            format!("SHA256 () = {ABC}"),
            format!("SHA999 (a) = {ABC}"),
            "-----BEGIN PGP SIGNED MESSAGE-----".to_owned(),
        ] {
            let list = format!("# one\n{ABC}  b\n\n{bad}\n{ABC}  c\n");
            let (line, why) = Checksums::parse(list.as_bytes()).expect_err(&bad);
            assert_eq!((line, &*why), (4, NO_CHECKSUM), "{bad:?}");
        }
    }

    #[test]
    fn a_name_has_one_digest() {
        assert_eq!(parse(&format!("{ABC}  a\n{ABC} *./a")).of("a"), abc());
        let list = format!("{ABC}  a\n{OTHER}  a");
        let (line, why) = Checksums::parse(list.as_bytes()).unwrap_err();
        assert_eq!(line, 2);
        assert!(why.contains("another digest"), "{why}");
    }

    #[test]
    fn a_name_that_is_not_utf_8_hides_none_of_the_others() {
        let list = [ABC.as_bytes(), b"  \xFF\n", OTHER.as_bytes(), b"  b"].concat();
        assert_eq!(Checksums::parse(&list).unwrap().of("b"), other());
    }

    #[test]
    fn an_error_names_the_file_and_the_line() {
        let file = env::temp_dir().join(format!("fetch-checksums-{}", process::id()));
        let missing = Checksums::read(&file).unwrap_err().to_string();
        fs::write(&file, format!("{ABC}  a\noops\n")).unwrap();
        let bad = Checksums::read(&file).unwrap_err().to_string();
        fs::remove_file(&file).unwrap();
        let name = file.display();
        assert!(
            missing.contains(&format!("cannot read checksums from {name}: ")),
            "{missing}"
        );
        assert!(
            bad.contains(&format!("{name}:2: this is no checksum")),
            "{bad}"
        );
    }
}
