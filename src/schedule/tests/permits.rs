//! Permits of threads that are no workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

use super::super::permit::Denied;
use super::super::{Key, Keys, Permit};
use super::key;
use super::rig::{LONG, Rig, plug, with_workers};

fn one(key: &Key) -> Keys<'_> {
    Keys {
        first: key,
        more: &[],
    }
}

fn long() -> Option<Instant> {
    Some(Instant::now() + 2 * LONG)
}

fn acquire(rig: &Rig, key: &Key) -> Permit {
    rig.scheduler.acquire(one(key), long()).unwrap()
}

#[test]
fn no_more_permits_are_out_than_there_are_tokens() {
    with_workers(1, 2, |rig| {
        let held = [acquire(&rig, &key(0)), acquire(&rig, &key(0))];
        assert_eq!(
            rig.scheduler.try_acquire(one(&key(0))).err(),
            Some(Denied::TimedOut)
        );
        let soon = Some(Instant::now() + Duration::from_millis(1));
        assert_eq!(
            rig.scheduler.acquire(one(&key(0)), soon).err(),
            Some(Denied::TimedOut)
        );
        assert!(rig.scheduler.try_acquire(one(&key(1))).is_ok());
        drop(held);
        assert!(rig.scheduler.try_acquire(one(&key(0))).is_ok());
        assert_eq!(rig.scheduler.entries(), 0);
    });
}

#[test]
fn a_permit_counts_against_the_jobs() {
    with_workers(2, 1, |rig| {
        let client = rig.open(10);
        let permit = acquire(&rig, &key(0));
        client.submit(0, &[key(0)], || {});
        client.submit(1, &[key(1)], || {});
        assert_eq!(client.tags(1), [1]);
        drop(permit);
        assert_eq!(client.tags(1), [0]);
    });
}

#[test]
fn a_permit_needs_no_worker() {
    with_workers(1, 1, |rig| {
        let client = rig.open(10);
        let held = acquire(&rig, &key(0));
        let unplug = plug(&client);
        client.submit(0, &[key(0)], || {});
        std::thread::scope(|scope| {
            // Behind the job, which no worker comes for.
            let waits = scope.spawn(|| acquire(&rig, &key(0)));
            while rig.waiters(&key(0)) == 0 {
                std::thread::yield_now();
            }
            drop(held);
            drop(waits.join().unwrap());
        });
        drop(unplug);
        client.take(2);
    });
}

#[test]
fn a_token_that_was_meant_for_a_waiter_that_gives_up_goes_to_the_next() {
    with_workers(1, 1, |rig| {
        for round in 0..1000 {
            let held = acquire(&rig, &key(0));
            std::thread::scope(|scope| {
                let brief = Instant::now() + Duration::from_micros(100 + round % 200);
                let rig = &rig;
                scope.spawn(move || drop(rig.scheduler.acquire(one(&key(0)), Some(brief))));
                scope.spawn(move || drop(acquire(rig, &key(0))));
                // In the moment in which the first gives up, often.
                while Instant::now() < brief {
                    std::hint::spin_loop();
                }
                drop(held);
            });
            assert_eq!(rig.scheduler.entries(), 0);
        }
    });
}

#[test]
fn permits_come_and_go_among_jobs_and_none_is_lost() {
    with_workers(3, 2, |rig| {
        let rig = Arc::new(rig);
        let client = rig.open(10_000);
        let out = Arc::new([(); 3].map(|()| AtomicUsize::new(0)));
        let enter = |out: &[AtomicUsize; 3], n: usize| {
            assert!(
                out[n].fetch_add(1, Ordering::SeqCst) < 2,
                "more than the capacity"
            );
            std::thread::yield_now();
            out[n].fetch_sub(1, Ordering::SeqCst);
        };
        for tag in 0..3000 {
            let out = Arc::clone(&out);
            client.submit(tag, &[key(tag % 3)], move || enter(&out, tag % 3));
        }
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (rig, out) = (&rig, &out);
                scope.spawn(move || {
                    for round in 0..500 {
                        let n = (thread + round) % 3;
                        let micros = Duration::from_micros((round * 7 % 40) as u64);
                        let deadline = (round % 5 > 0).then(|| Instant::now() + micros);
                        if let Ok(_permit) = rig.scheduler.acquire(one(&key(n)), deadline) {
                            enter(out, n);
                        }
                    }
                });
            }
            client.tags(3000);
        });
        drop(client);
        assert_eq!(rig.scheduler.entries(), 0);
    });
}

#[test]
fn a_running_job_can_ask_for_a_permit() {
    with_workers(2, 1, |rig| {
        let rig = Arc::new(rig);
        let client = rig.open(100);
        let (left, all_left) = bounded::<()>(0);
        for tag in 0..100 {
            let (rig, left) = (Arc::clone(&rig), left.clone());
            client.submit(tag, &[key(tag % 2)], move || {
                drop(acquire(&rig, &key(2)));
                drop((rig, left));
            });
        }
        for tag in 100..200 {
            client.submit(tag, &[key(2)], || {});
        }
        drop(left);
        client.take(200);
        assert!(all_left.recv().is_err());
    });
}

#[test]
fn the_stop_tells_those_that_wait_for_a_permit() {
    with_workers(1, 1, |rig| {
        let held = acquire(&rig, &key(0));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| rig.scheduler.acquire(one(&key(0)), None));
            let hopes = scope.spawn(|| rig.scheduler.acquire(one(&key(0)), long()));
            while rig.waiters(&key(0)) < 2 {
                std::thread::yield_now();
            }
            rig.scheduler.stop();
            for waiter in [waits, hopes] {
                assert_eq!(waiter.join().unwrap().err(), Some(Denied::Stopped));
            }
        });
        assert_eq!(
            rig.scheduler.try_acquire(one(&key(1))).err(),
            Some(Denied::Stopped)
        );
        drop(held);
        assert_eq!(rig.scheduler.entries(), 0);
    });
}
