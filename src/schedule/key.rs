//! What a budget is of.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use url::Url;

/// Names a budget: a host, or whatever else runs out.
///
/// A host's key is its lower-case IDNA name without a trailing dot or user information, and
/// the effective port, so that `http://EXAMPLE.com/`, `http://example.com.:80/` and
/// `http://user@example.com/` are one host. The scheme does not count: `http` and `https` on
/// one port are one.
///
/// A key never holds a secret; it is what logs and metrics show.
///
/// ```
/// use fetchpool::{Key, Url};
///
/// let key = Key::host(&Url::parse("https://user:secret@EXAMPLE.com./a?b").unwrap());
/// assert_eq!(key.to_string(), "example.com:443");
/// assert_eq!(Key::named("account 7").to_string(), "account 7");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    kind: Kind,
    name: Arc<str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Host,
    Named,
}

thread_local! {
    /// Lists have their hosts in runs: the last one's key, and its port.
    static LAST: RefCell<Option<(u16, Key)>> = const { RefCell::new(None) };
}

impl Key {
    /// The key of the host that a URL's request goes to.
    #[must_use]
    pub fn host(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        // `Url` has done the rest: lower case, IDNA, brackets around an IPv6 address.
        let host = host.strip_suffix('.').unwrap_or(host);
        let port = url.port_or_known_default().unwrap_or_default();
        LAST.with_borrow_mut(|last| match last {
            Some((last_port, key)) if *last_port == port && key.is_of(host) => key.clone(),
            last => {
                let key = Self {
                    kind: Kind::Host,
                    name: format!("{host}:{port}").into(),
                };
                *last = Some((port, key.clone()));
                key
            }
        })
    }

    fn is_of(&self, host: &str) -> bool {
        let rest = self.name.strip_prefix(host);
        rest.is_some_and(|rest| rest.starts_with(':') && !rest[1..].contains(':'))
    }

    /// The key of a budget of the caller's own: an account, a disk, a licence.
    ///
    /// Give it a capacity with [`Builder::limit`](crate::Builder::limit). It is never equal
    /// to a host's key.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            kind: Kind::Named,
            name: name.into(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Host => "host",
            Kind::Named => "named",
        };
        write!(f, "Key({kind} {})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_host_are_one_key() {
        for (spelling, key) in [
            ("http://h/", "h:80"),
            ("http://H:80/x", "h:80"),
            ("http://h./", "h:80"),
            ("http://u:p@h/", "h:80"),
            ("https://h:80/", "h:80"),
            ("https://h/", "h:443"),
            ("http://BÜCHER.example/", "xn--bcher-kva.example:80"),
            ("http://xn--bcher-kva.example/", "xn--bcher-kva.example:80"),
            ("http://[::1]/", "[::1]:80"),
            ("http://[0:0:0:0:0:0:0:1]:8080/", "[::1]:8080"),
            ("http://127.1/", "127.0.0.1:80"),
            ("http://0x7f.0.0.1/", "127.0.0.1:80"),
        ] {
            let url = Url::parse(spelling).unwrap();
            assert_eq!(Key::host(&url).to_string(), key, "{spelling}");
        }
    }

    #[test]
    fn a_host_is_not_taken_for_the_one_before() {
        let key = |url| Key::host(&Url::parse(url).unwrap()).to_string();
        for _ in 0..2 {
            assert_eq!(key("http://[::1]:80/"), "[::1]:80");
            assert_eq!(key("http://[::]:80/"), "[::]:80");
            assert_eq!(key("http://h:8080/"), "h:8080");
            assert_eq!(key("http://h:80/"), "h:80");
            assert_eq!(key("http://hh:80/"), "hh:80");
            assert_eq!(key("http://h:80/"), "h:80");
        }
    }

    #[test]
    fn a_named_key_is_no_hosts() {
        let url = Url::parse("http://h/").unwrap();
        assert_ne!(Key::host(&url), Key::named("h:80"));
    }
}
