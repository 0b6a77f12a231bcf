//! From a host's name to its addresses.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Instant;

use http::Uri;
use ureq::config::Config;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::transport::into_ureq;
use super::wire;
use crate::error::{ErrorKind, Fault};

/// The system's resolver; addresses written as numbers cost nothing.
#[derive(Clone, Debug)]
pub(super) struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default();
        let https = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let mut found = self.empty();
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = literal.parse::<IpAddr>() {
            found.push(SocketAddr::new(address, port));
            return Ok(found);
        }
        let start = Instant::now();
        let looked_up = (host, port).to_socket_addrs();
        wire::note(|wire| wire.resolve += start.elapsed());
        let addresses = looked_up.map_err(|error| {
            let doing = format!("cannot look up {host:?}");
            into_ureq(Fault::with_source(ErrorKind::Dns, doing, error))
        })?;
        // More than ureq's array holds are left out.
        addresses.take(16).for_each(|address| found.push(address));
        Ok(found)
    }
}
