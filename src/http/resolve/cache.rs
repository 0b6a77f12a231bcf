//! The answers, and what is known of the addresses in them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::IpFamily;

/// How long an address that took no connection stands behind all others.
const SET_ASIDE: Duration = Duration::from_secs(60);
/// A failed look-up is believed for as long as this: it may be the network's.
const NEGATIVE_TTL: Duration = Duration::from_secs(2);
/// How long past its time an answer serves while it is renewed.
const STALE: Duration = Duration::from_secs(600);
/// How many names are kept. The rest costs a look-up more.
const MAX_NAMES: usize = 10_000;

#[derive(Default)]
pub(super) struct Cache {
    names: HashMap<String, Name>,
}

struct Name {
    /// Alternating between the families.
    addresses: Vec<Address>,
    /// Why there is no address, if there is none.
    failure: Option<Failure>,
    good_until: Instant,
    /// The last that took a connection.
    good: Option<IpAddr>,
    /// Where the next connection's order begins.
    turn: usize,
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Empty where there is nothing to add.
    pub(super) why: String,
    /// Another look-up may end otherwise.
    pub(super) is_transient: bool,
}

struct Address {
    ip: IpAddr,
    bad_until: Option<Instant>,
}

/// What the cache says of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Fresh(Vec<IpAddr>),
    /// To be used, and renewed.
    Stale(Vec<IpAddr>),
    Failed(Failure),
    Unknown,
}

impl Cache {
    pub(super) fn look(&mut self, host: &str, now: Instant) -> Answer {
        let Some(name) = self.names.get_mut(host) else {
            return Answer::Unknown;
        };
        let fresh = now < name.good_until;
        match &name.failure {
            Some(failure) if fresh => Answer::Failed(failure.clone()),
            Some(_) => Answer::Unknown,
            None if fresh => Answer::Fresh(name.in_turn(now)),
            None if now < name.good_until + STALE => Answer::Stale(name.in_turn(now)),
            None => Answer::Unknown,
        }
    }

    /// What was known of an address stays known.
    pub(super) fn found(&mut self, host: &str, ips: Vec<IpAddr>, ttl: Duration, now: Instant) {
        let old = self.names.remove(host);
        let bad_until = |ip| {
            let same = |address: &&Address| address.ip == ip;
            old.as_ref()?.addresses.iter().find(same)?.bad_until
        };
        let addresses = alternate(ips).into_iter().map(|ip| Address {
            ip,
            bad_until: bad_until(ip),
        });
        let name = Name {
            addresses: addresses.collect(),
            failure: None,
            good_until: now + ttl,
            good: old.as_ref().and_then(|old| old.good),
            turn: old.as_ref().map_or(0, |old| old.turn),
        };
        self.insert(host, name, now);
    }

    pub(super) fn failed(&mut self, host: &str, why: Failure, now: Instant) {
        if let Some(name) = self.names.get_mut(host) {
            if name.failure.is_none() && now < name.good_until + STALE {
                // What has been true lately is the better guess.
                name.good_until = now + NEGATIVE_TTL;
                return;
            }
        }
        let name = Name {
            addresses: vec![],
            failure: Some(why),
            good_until: now + NEGATIVE_TTL,
            good: None,
            turn: 0,
        };
        self.insert(host, name, now);
    }

    fn insert(&mut self, host: &str, name: Name, now: Instant) {
        if self.names.len() >= MAX_NAMES {
            self.names.retain(|_, name| now < name.good_until);
        }
        if self.names.len() >= MAX_NAMES {
            self.names.clear();
        }
        self.names.insert(host.to_owned(), name);
    }

    pub(super) fn judge(&mut self, host: &str, ip: IpAddr, good: bool, now: Instant) {
        let Some(name) = self.names.get_mut(host) else {
            return;
        };
        if good {
            name.good = Some(ip);
        } else if name.good == Some(ip) {
            name.good = None;
        }
        for address in &mut name.addresses {
            if address.ip == ip {
                address.bad_until = (!good).then(|| now + SET_ASIDE);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.names.clear();
    }
}

impl Name {
    /// The last good one first, those set aside last, the others in turn.
    fn in_turn(&mut self, now: Instant) -> Vec<IpAddr> {
        let count = self.addresses.len();
        self.turn = self.turn.wrapping_add(1);
        let (mut order, mut aside) = (Vec::with_capacity(count), vec![]);
        order.extend(self.good);
        for index in 0..count {
            let address = &self.addresses[(self.turn + index - 1) % count];
            if Some(address.ip) == self.good {
                continue;
            }
            match address.bad_until {
                Some(until) if now < until => aside.push(address.ip),
                _ => order.push(address.ip),
            }
        }
        order.append(&mut aside);
        order
    }
}

/// RFC 8305, section 4: the families alternate, beginning with that of the first.
fn alternate(ips: Vec<IpAddr>) -> Vec<IpAddr> {
    let first_is_v6 = ips.first().is_some_and(IpAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        ips.into_iter().partition(|ip| ip.is_ipv6() == first_is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut order = vec![];
    loop {
        let before = order.len();
        order.extend(first.next());
        order.extend(second.next());
        if order.len() == before {
            return order;
        }
    }
}

/// Those of the family that is wanted, each once.
pub(super) fn wanted(ips: Vec<IpAddr>, family: IpFamily) -> Vec<IpAddr> {
    let mut wanted: Vec<IpAddr> = vec![];
    for ip in ips {
        if family.has(ip) && !wanted.contains(&ip) {
            wanted.push(ip);
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no() -> Failure {
        Failure {
            why: "no".to_owned(),
            is_transient: true,
        }
    }

    const TTL: Duration = Duration::from_secs(60);

    fn ips(list: &str) -> Vec<IpAddr> {
        list.split(' ').map(|ip| ip.parse().unwrap()).collect()
    }

    #[test]
    fn families_alternate_and_the_resolvers_first_choice_is_first() {
        assert_eq!(
            alternate(ips("::1 ::2 ::3 127.0.0.1")),
            ips("::1 127.0.0.1 ::2 ::3")
        );
        assert_eq!(
            alternate(ips("127.0.0.1 127.0.0.2 ::1")),
            ips("127.0.0.1 ::1 127.0.0.2")
        );
    }

    #[test]
    fn an_answer_is_fresh_then_stale_then_forgotten() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        assert_eq!(cache.look("h", now), Answer::Unknown);
        cache.found("h", ips("127.0.0.1"), TTL, now);
        assert_eq!(cache.look("h", now), Answer::Fresh(ips("127.0.0.1")));
        assert_eq!(cache.look("h", now + TTL), Answer::Stale(ips("127.0.0.1")));
        assert_eq!(cache.look("h", now + TTL + STALE), Answer::Unknown);
    }

    #[test]
    fn a_failure_is_believed_for_two_seconds_and_never_replaces_a_good_answer() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.failed("h", no(), now);
        assert_eq!(cache.look("h", now), Answer::Failed(no()));
        assert_eq!(cache.look("h", now + NEGATIVE_TTL), Answer::Unknown);
        cache.found("h", ips("127.0.0.1"), TTL, now);
        cache.failed("h", no(), now + TTL);
        assert_eq!(cache.look("h", now + TTL), Answer::Fresh(ips("127.0.0.1")));
    }

    #[test]
    fn connections_go_round_the_addresses_the_last_good_one_first_bad_ones_last() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.found("h", ips("127.0.0.1 127.0.0.2 127.0.0.3"), TTL, now);
        let look = |cache: &mut Cache, at| match cache.look("h", at) {
            Answer::Fresh(ips) | Answer::Stale(ips) => ips,
            other => panic!("{other:?}"),
        };
        assert_eq!(look(&mut cache, now), ips("127.0.0.1 127.0.0.2 127.0.0.3"));
        assert_eq!(look(&mut cache, now), ips("127.0.0.2 127.0.0.3 127.0.0.1"));
        cache.judge("h", "127.0.0.3".parse().unwrap(), false, now);
        assert_eq!(look(&mut cache, now), ips("127.0.0.1 127.0.0.2 127.0.0.3"));
        cache.judge("h", "127.0.0.2".parse().unwrap(), true, now);
        assert_eq!(look(&mut cache, now)[0], ips("127.0.0.2")[0]);
        assert_eq!(look(&mut cache, now)[2], ips("127.0.0.3")[0]);
        // A new answer does not make a bad address good; time does.
        cache.found("h", ips("127.0.0.3 127.0.0.1"), TTL, now);
        assert_eq!(*look(&mut cache, now).last().unwrap(), ips("127.0.0.3")[0]);
    }

    #[test]
    fn names_are_bounded() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        for i in 0..3 * MAX_NAMES {
            cache.found(&i.to_string(), ips("127.0.0.1"), TTL, now);
        }
        assert!(cache.names.len() <= MAX_NAMES);
    }
}
