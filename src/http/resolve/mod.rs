//! From a host's name to its addresses.

mod cache;
mod lookup;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Uri;

use super::dial::Verdicts;
use super::wire;
use crate::fault::Fault;
use cache::Cache;
pub(super) use lookup::Lookups;

/// Looks names up.
///
/// Implement it to bring a resolver of your own; [`Builder::resolver`](crate::Builder::resolver)
/// takes it. Its answers are cached as the system's are.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of a host, in the order of preference. May block; runs on one of a few
    /// look-up threads.
    ///
    /// # Errors
    /// Where the name cannot be looked up. One that is known not to be there may be an empty list
    /// or an error of the kind [`NotFound`](io::ErrorKind::NotFound); after any other error it is
    /// looked up again where the [`RetryPolicy`](crate::RetryPolicy) says so.
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver (`getaddrinfo`).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        use std::net::ToSocketAddrs;
        let found = (host, 0).to_socket_addrs().map_err(|error| {
            let text = error.to_string();
            // std has no kind for it, and passes the system's words on.
            let is_unknown = UNKNOWN.iter().any(|words| text.contains(words));
            if is_unknown {
                io::Error::new(io::ErrorKind::NotFound, error)
            } else {
                error
            }
        })?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// How glibc, musl and the BSDs, and Windows say that there is no such name.
const UNKNOWN: [&str; 5] = [
    "Name or service not known",
    "Name does not resolve",
    "nodename nor servname",
    "No address associated with",
    "No such host is known",
];

/// Which of a host's addresses are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpFamily {
    /// Both, alternating, the resolver's first choice first (RFC 8305, section 4).
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl IpFamily {
    fn has(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

/// How names are resolved.
pub(crate) struct Settings {
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) fixed: Vec<(String, Vec<IpAddr>)>,
    pub(crate) family: IpFamily,
    pub(crate) ttl: Duration,
    pub(crate) limit: Duration,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("family", &self.family)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

/// The resolver of all agents.
#[derive(Clone)]
pub(crate) struct Names(Arc<Lookups>);

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

impl Names {
    pub(crate) fn new(settings: Settings) -> Self {
        Self(Arc::new(Lookups::new(settings)))
    }

    /// Forgets all answers, but for the fixed ones.
    pub(crate) fn flush(&self) {
        self.0.flush();
    }

    /// Where a URI's host is to be dialled.
    pub(super) fn addresses(&self, uri: &Uri) -> Result<Vec<SocketAddr>, Fault> {
        let host = uri.host().unwrap_or_default();
        let https = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let at = |address| SocketAddr::new(address, port);
        if let Some(address) = literal(host) {
            return Ok(vec![at(address)]);
        }
        let start = Instant::now();
        let addresses = self.0.addresses(host);
        wire::note(|wire| wire.resolve += start.elapsed());
        Ok(addresses?.into_iter().map(at).collect())
    }

    /// What becomes of a host's addresses is remembered for the next connection.
    pub(super) fn verdicts<'a>(&'a self, host: &'a str) -> impl Verdicts + 'a {
        Remembered { names: self, host }
    }
}

struct Remembered<'a> {
    names: &'a Names,
    host: &'a str,
}

impl Verdicts for Remembered<'_> {
    fn good(&self, address: SocketAddr) {
        self.names.0.judge(self.host, address.ip(), true);
    }

    fn bad(&self, address: SocketAddr) {
        self.names.0.judge(self.host, address.ip(), false);
    }
}

/// An address that is written as a number: nothing to look up.
fn literal(host: &str) -> Option<IpAddr> {
    let first = host.bytes().next()?;
    if first == b'[' {
        return host[1..].strip_suffix(']')?.parse().ok();
    }
    // `Url` has brought all ways of writing an IPv4 address into the one that starts so.
    first.is_ascii_digit().then(|| host.parse().ok())?
}

/// One name, one answer: upper case and the root's dot make no other.
fn normal(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn no_address(host: &str) -> Fault {
    Fault::new(
        crate::fault::ErrorKind::Dns,
        format!("the name {host:?} has no address that can be used"),
    )
}
