//! Which addresses are dialled at all.

use std::error::Error as StdError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use crate::fault::{ErrorKind, Fault};

/// How many refused addresses an error names.
const MOST_NAMED: usize = 4;

/// The caller's word on addresses. It is asked about what a name was resolved to, as that is
/// dialled: so neither a name server nor a redirect gets round it.
#[derive(Clone, Default)]
pub(crate) struct Policy(Option<Arc<dyn Fn(IpAddr) -> bool + Send + Sync>>);

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Policy").field(&self.0.is_some()).finish()
    }
}

impl Policy {
    pub(crate) fn new(allows: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(allows)))
    }

    /// Those of the addresses that are allowed, in their order. Fails if there were some, and
    /// none is left.
    pub(super) fn allowed(&self, mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Fault> {
        let Some(allows) = &self.0 else {
            return Ok(addresses);
        };
        let mut refused = Vec::new();
        addresses.retain(|address| {
            // What the system would dial: an IPv4 address within an IPv6 one is that address.
            let address = address.ip().to_canonical();
            let is_allowed = allows(address);
            if !is_allowed {
                refused.push(address);
            }
            is_allowed
        });
        if addresses.is_empty() && !refused.is_empty() {
            let refused = Refused(refused);
            let fault = Fault::with_source(ErrorKind::Connect, "not connected", refused);
            return Err(fault.lasting());
        }
        Ok(addresses)
    }
}

/// All of a host's addresses are refused.
#[derive(Debug)]
struct Refused(Vec<IpAddr>);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the address policy refuses ")?;
        for (index, address) in self.0.iter().take(MOST_NAMED).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{address}")?;
        }
        if self.0.len() > MOST_NAMED {
            write!(f, " and {} more", self.0.len() - MOST_NAMED)?;
        }
        f.write_str(" (see `allow_address`); this is no failure of the network, nothing was sent")
    }
}

impl StdError for Refused {}

/// Whether an address is one of the public Internet: for
/// [`Builder::allow_address`](crate::Builder::allow_address), where URLs come from people who
/// must not reach what only this machine can.
///
/// By the IANA registries of special-purpose addresses for [IPv4] and [IPv6] (RFC 6890, as of
/// 2025). It is `false` for
///
/// - loopback, unspecified and "this network", private (RFC 1918), shared (100.64.0.0/10), and
///   link-local addresses, unique local (fc00::/7) and site-local ones (fec0::/10);
/// - multicast and broadcast;
/// - documentation, benchmarking, protocol assignments (192.0.0.0/24, 2001::/23), the former
///   relays of 6to4 (192.88.99.0/24), and what is reserved (240.0.0.0/4, all of IPv6 outside of
///   2000::/3);
/// - IPv6 addresses that carry an IPv4 address of these: IPv4-mapped, NAT64 (64:ff9b::/96), 6to4
///   (2002::/16), Teredo (2001::/32; either of the two that it carries); and, whatever they carry,
///   IPv4-compatible ones and the local NAT64 prefix (64:ff9b:1::/48);
/// - the metadata services of clouds: those above by their ranges (169.254.169.254,
///   fd00:ec2::254, 100.100.100.200), and Azure's 168.63.129.16, which is in none.
///
/// What it cannot know are public addresses that only this machine's network may reach, and
/// NAT64 prefixes of a network's own.
///
/// ```
/// use fetchpool::{Downloader, is_public_address};
///
/// let downloader = Downloader::builder().allow_address(is_public_address).build()?;
/// let error = downloader.fetch("http://127.0.0.1/").unwrap_err();
/// assert!(error.to_string().contains("policy"));
/// # Ok::<(), fetchpool::Error>(())
/// ```
///
/// [IPv4]: https://www.iana.org/assignments/iana-ipv4-special-registry
/// [IPv6]: https://www.iana.org/assignments/iana-ipv6-special-registry
#[must_use]
pub fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// What is not public, as address and length of the prefix.
const NOT_PUBLIC_V4: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),        // "This network": RFC 791, section 3.2
    ([10, 0, 0, 0], 8),       // Private use: RFC 1918
    ([100, 64, 0, 0], 10),    // Shared address space: RFC 6598
    ([127, 0, 0, 0], 8),      // Loopback: RFC 1122, section 3.2.1.3
    ([168, 63, 129, 16], 32), // Azure's WireServer: DHCP, DNS, keys of the machine
    ([169, 254, 0, 0], 16),   // Link-local: RFC 3927
    ([172, 16, 0, 0], 12),    // Private use: RFC 1918
    ([192, 0, 0, 0], 24),     // IETF protocol assignments: RFC 6890, section 2.1
    ([192, 0, 2, 0], 24),     // Documentation: RFC 5737
    ([192, 88, 99, 0], 24),   // 6to4 relay anycast: deprecated by RFC 7526
    ([192, 168, 0, 0], 16),   // Private use: RFC 1918
    ([198, 18, 0, 0], 15),    // Benchmarking: RFC 2544
    ([198, 51, 100, 0], 24),  // Documentation: RFC 5737
    ([203, 0, 113, 0], 24),   // Documentation: RFC 5737
    ([224, 0, 0, 0], 4),      // Multicast: RFC 5771
    ([240, 0, 0, 0], 4),      // Reserved: RFC 1112, section 4; broadcast: RFC 919
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    NOT_PUBLIC_V4
        .iter()
        .all(|&(network, length)| (bits ^ u32::from_be_bytes(network)) >> (32 - length) != 0)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let low = Ipv4Addr::from_bits(address.to_bits() as u32);
    let high = |bits: u32| Ipv4Addr::from_bits((address.to_bits() >> bits) as u32);
    match address.segments() {
        // IPv4-mapped: RFC 4291, section 2.5.5.2.
        [0, 0, 0, 0, 0, 0xffff, ..] => is_public_v4(low),
        // NAT64's well-known prefix: RFC 6052, section 2.1.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_public_v4(low),
        // Teredo: the server's address, and the client's with all bits turned: RFC 4380, section 4.
        [0x2001, 0, ..] => {
            is_public_v4(high(64)) && is_public_v4(Ipv4Addr::from_bits(!low.to_bits()))
        }
        // IETF protocol assignments: RFC 2928. The few that are reachable are no web servers'.
        [0x2001, 0..=0x1ff, ..] => false,
        // Documentation: RFC 3849.
        [0x2001, 0xdb8, ..] => false,
        // 6to4: RFC 3056, section 2.
        [0x2002, ..] => is_public_v4(high(80)),
        // Documentation: RFC 9637.
        [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast is given out of 2000::/3 alone: RFC 4291, section 2.4, and IANA's
        // registry of the address space.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_public(address: &str) -> bool {
        is_public_address(address.parse().unwrap())
    }

    #[test]
    fn blocks_of_ipv4_begin_and_end_where_the_registry_says() {
        // First and last of each block, and whether the neighbours before and after are public.
        for (first, last, before, after) in [
            ("0.0.0.0", "0.255.255.255", false, true),
            ("10.0.0.0", "10.255.255.255", true, true),
            ("100.64.0.0", "100.127.255.255", true, true),
            ("127.0.0.0", "127.255.255.255", true, true),
            ("168.63.129.16", "168.63.129.16", true, true),
            ("169.254.0.0", "169.254.255.255", true, true),
            ("172.16.0.0", "172.31.255.255", true, true),
            ("192.0.0.0", "192.0.0.255", true, true),
            ("192.0.2.0", "192.0.2.255", true, true),
            ("192.88.99.0", "192.88.99.255", true, true),
            ("192.168.0.0", "192.168.255.255", true, true),
            ("198.18.0.0", "198.19.255.255", true, true),
            ("198.51.100.0", "198.51.100.255", true, true),
            ("203.0.113.0", "203.0.113.255", true, true),
            ("224.0.0.0", "239.255.255.255", true, false),
            ("240.0.0.0", "255.255.255.255", false, false),
        ] {
            let bits = |address: &str| address.parse::<Ipv4Addr>().unwrap().to_bits();
            let (first, last) = (bits(first), bits(last));
            let public = |bits: u32| is_public_address(Ipv4Addr::from_bits(bits).into());
            for inside in [first, first + (last - first) / 2, last] {
                assert!(!public(inside), "{}", Ipv4Addr::from_bits(inside));
            }
            assert_eq!(public(first.wrapping_sub(1)), before, "before {first:x}");
            assert_eq!(public(last.wrapping_add(1)), after, "after {last:x}");
        }
    }

    #[test]
    fn nothing_else_of_ipv4_is_refused() {
        // Every 65,536th address, and what std knows, which is less.
        let mut public = 0;
        for high in 0..=u16::MAX {
            let address = Ipv4Addr::from_bits(u32::from(high) << 16 | 0x0101);
            let is_public = is_public_address(address.into());
            let known = address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_unspecified();
            assert!(!(known && is_public), "{address}");
            public += u32::from(is_public);
        }
        // 3 × /8, 2 × /4; a /10, a /12, a /15; two /16. What is smaller is not met.
        assert_eq!(public, 65_536 - 3 * 256 - 2 * 4096 - 64 - 16 - 2 - 2);
    }

    #[test]
    fn blocks_of_ipv6_begin_and_end_where_the_registry_says() {
        for (first, last, before, after) in [
            ("::", "::ffff:0:0", false, false),
            (
                "64:ff9b:1::",
                "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
                false,
                false,
            ),
            ("100::", "100::ffff:ffff:ffff:ffff", false, false),
            (
                "2001:1::",
                "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
                false,
                true,
            ),
            (
                "2001:2::",
                "2001:2:0:ffff:ffff:ffff:ffff:ffff",
                false,
                false,
            ),
            (
                "2001:db8::",
                "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
                true,
                true,
            ),
            (
                "3fff::",
                "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
                true,
                true,
            ),
            (
                "4000::",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                true,
                false,
            ),
            (
                "5f00::",
                "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                false,
                false,
            ),
            (
                "fc00::",
                "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                false,
                false,
            ),
            (
                "fe80::",
                "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                false,
                false,
            ),
            (
                "fec0::",
                "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                false,
                false,
            ),
            (
                "ff00::",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                false,
                false,
            ),
        ] {
            let bits = |address: &str| address.parse::<Ipv6Addr>().unwrap().to_bits();
            let (first, last) = (bits(first), bits(last));
            let public = |bits: u128| is_public_address(Ipv6Addr::from_bits(bits).into());
            for inside in [first, first + (last - first) / 2, last] {
                assert!(!public(inside), "{}", Ipv6Addr::from_bits(inside));
            }
            assert_eq!(public(first.wrapping_sub(1)), before, "before {first:x}");
            assert_eq!(public(last.wrapping_add(1)), after, "after {last:x}");
        }
        for public in [
            "2000::",
            "2606:2800:220:1::1",
            "2a00::1",
            "2001:200::",
            "2620:4f:8000::1",
        ] {
            assert!(is_public(public), "{public}");
        }
    }

    #[test]
    fn an_ipv6_address_is_no_more_public_than_the_ipv4_address_in_it() {
        for (inner, public) in [
            ([8, 8, 8, 8], true),
            ([192, 0, 1, 1], true),
            ([127, 0, 0, 1], false),
            ([10, 1, 2, 3], false),
            ([169, 254, 169, 254], false),
            ([168, 63, 129, 16], false),
            ([0, 0, 0, 0], false),
            ([255, 255, 255, 255], false),
        ] {
            let inner = Ipv4Addr::from(inner);
            let [a, b, c, d] = inner.octets();
            let (ab, cd) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for carrier in [
                format!("::ffff:{inner}"),
                format!("64:ff9b::{inner}"),
                format!("2002:{ab:x}:{cd:x}::1"),
                // As the Teredo server's address, and as the client's.
                format!(
                    "2001:0:{ab:x}:{cd:x}:0:0:{:x}:{:x}",
                    !0x0808_u16, !0x0808_u16
                ),
                format!("2001:0:808:808:0:0:{:x}:{:x}", !ab, !cd),
            ] {
                assert_eq!(is_public(&carrier), public, "{carrier}");
            }
            for never in [format!("::{inner}"), format!("64:ff9b:1::{inner}")] {
                assert!(!is_public(&never), "{never}");
            }
        }
    }

    #[test]
    fn metadata_services_are_not_public() {
        for address in [
            "169.254.169.254", // AWS, Azure, Google, DigitalOcean, Oracle, OpenStack
            "169.254.170.2",   // AWS ECS: credentials of a task
            "169.254.170.23",  // AWS EKS: credentials of a pod
            "fd00:ec2::254",   // AWS
            "fd00:ec2::23",    // AWS EKS
            "fd20:ce::254",    // Google
            "100.100.100.200", // Alibaba
            "168.63.129.16",   // Azure
            "192.0.0.192",     // Oracle, formerly
            "169.254.42.42",   // Scaleway
            "fd00:42::42",     // Scaleway
            "169.254.0.23",    // Tencent
        ] {
            assert!(!is_public(address), "{address}");
        }
    }

    #[test]
    fn the_policy_sees_the_address_that_is_dialled_and_keeps_the_order() {
        let policy = Policy::new(|address| address != IpAddr::from([127, 0, 0, 2]));
        let dial = |addresses: &[&str]| {
            let addresses = addresses
                .iter()
                .map(|a| SocketAddr::new(a.parse().unwrap(), 80));
            policy.allowed(addresses.collect())
        };
        let left = dial(&["127.0.0.3", "127.0.0.2", "127.0.0.1"]).unwrap();
        assert_eq!(left.len(), 2);
        assert_eq!(left[0].ip(), IpAddr::from([127, 0, 0, 3]));
        let fault = dial(&["::ffff:127.0.0.2"]).unwrap_err();
        assert_eq!(fault.kind, ErrorKind::Connect);
        let whose = "refuses 127.0.0.2 (see `allow_address`);";
        assert!(fault.to_string().contains(whose), "{fault}");
        // That there is none is for others to say.
        assert!(dial(&[]).unwrap().is_empty());
        let fault = dial(&["127.0.0.2"; 6]).unwrap_err();
        assert!(fault.to_string().contains("and 2 more"), "{fault}");
    }
}
