//! How long the pauses are, where the server does not say.

use std::time::Duration;

/// The pause before retry `n`, counted from 1: uniformly between half of `d` and `d`, which is
/// `base` doubled with each retry, up to `cap`.
///
/// Half is fixed, so that a pause is one; half is random, so that jobs which failed together do
/// not come back together. It depends on the arguments alone: no lock, no state.
pub(super) fn pause(base: Duration, cap: Duration, n: u32, seed: u64, job: u64) -> Duration {
    // In nanoseconds, up to five hundred years of them.
    let cap = nanos(cap);
    let factor = 1_u64.checked_shl(n.saturating_sub(1)).unwrap_or(u64::MAX);
    let longest = nanos(base).saturating_mul(factor).min(cap);
    let shortest = longest / 2;
    let random = mix(mix(mix(seed) ^ job) ^ u64::from(n));
    // A fraction of the span without division (Lemire 2019), both ends included.
    let span = u128::from(longest - shortest) + 1;
    let more = (span * u128::from(random)) >> 64;
    Duration::from_nanos(shortest + more as u64)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// One step of splitmix64 (Steele, Lea, Flood 2014): neighbours become strangers.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const BASE: Duration = Duration::from_millis(500);
    const CAP: Duration = Duration::from_secs(30);

    #[test]
    fn a_pause_is_twice_the_last_up_to_the_cap() {
        for (n, longest) in [
            (1, 500),
            (2, 1000),
            (3, 2000),
            (6, 16_000),
            (7, 30_000),
            (33, 30_000),
            (64, 30_000),
            (65, 30_000),
            (u32::MAX, 30_000),
        ] {
            let longest = Duration::from_millis(longest);
            for job in 0..100 {
                let pause = pause(BASE, CAP, n, 1, job);
                assert!((longest / 2..=longest).contains(&pause), "{n}: {pause:?}");
            }
        }
    }

    #[test]
    fn a_base_of_zero_is_no_pause_and_one_above_the_cap_is_the_cap() {
        for n in [1, 2, 64, 65, 200, u32::MAX] {
            assert_eq!(pause(Duration::ZERO, CAP, n, 1, 1), Duration::ZERO);
            assert_eq!(pause(BASE, Duration::ZERO, n, 1, 1), Duration::ZERO);
            assert!(pause(CAP * 2, CAP, n, 1, 1) >= CAP / 2);
            assert!(pause(CAP * 2, CAP, n, 1, 1) <= CAP);
        }
    }

    #[test]
    fn jobs_that_failed_together_do_not_come_back_together() {
        let pauses: HashSet<_> = (0..1000).map(|job| pause(BASE, CAP, 1, 7, job)).collect();
        assert!(pauses.len() > 990, "{}", pauses.len());
        let halves = pauses.iter().filter(|&&p| p < BASE * 3 / 4).count();
        assert!((400..600).contains(&halves), "{halves}");
    }

    #[test]
    fn the_jitter_is_the_seeds() {
        let of = |seed| (1..50).map(|n| pause(BASE, CAP, n, seed, 3)).collect();
        let (one, again, another): (Vec<_>, Vec<_>, Vec<_>) = (of(1), of(1), of(2));
        assert_eq!(one, again);
        assert_ne!(one, another);
    }

    fn durations() -> impl Strategy<Value = Duration> {
        prop_oneof![
            (0..u64::MAX).prop_map(Duration::from_nanos),
            (0..100_000_u64).prop_map(Duration::from_millis),
            any::<(u64, u32)>().prop_map(|(s, n)| Duration::new(s, n % 1_000_000_000)),
            Just(Duration::MAX),
        ]
    }

    proptest! {
        #[test]
        fn a_pause_is_between_half_and_all_of_what_it_should_be(
            base in durations(),
            cap in durations(),
            n in prop_oneof![1..100_u32, any::<u32>()],
            seed in any::<u64>(),
            job in any::<u64>(),
        ) {
            let most = Duration::from_nanos(u64::MAX);
            // 2^127 ns is beyond any `Duration`.
            let factor = 1_u128 << n.saturating_sub(1).min(127);
            let longest = base.min(most).as_nanos().saturating_mul(factor);
            let longest = longest.min(cap.min(most).as_nanos());
            let pause = pause(base, cap, n, seed, job).as_nanos();
            prop_assert!(pause >= longest / 2 && pause <= longest, "{} of {}", pause, longest);
        }
    }
}
