//! Everything at once.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::super::{Key, Keys, Turn};
use super::rig::{Client, Fate, Job, Rig, Then, Uncaught, with_workers};
use super::{key, some};

const HOSTS: usize = 12;
/// Shared by every other job.
const PROXY: usize = HOSTS;
const CAPACITY: usize = 3;
const BATCHES: usize = 12;
const JOBS: usize = 2000;

/// How many are at each of the budgets.
#[derive(Clone, Default)]
struct Meter(Arc<[AtomicUsize; HOSTS + 1]>, Arc<AtomicUsize>);

impl Meter {
    /// Stays at these for a moment.
    fn visit(&self, keys: &[usize]) {
        for &key in keys {
            let others = self.0[key].fetch_add(1, Ordering::SeqCst);
            self.1.fetch_max(others + 1, Ordering::SeqCst);
        }
        std::thread::yield_now();
        for &key in keys {
            self.0[key].fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// The most that were at one budget at once.
    fn peak(&self) -> usize {
        self.1.load(Ordering::SeqCst)
    }
}

fn keys_of(n: usize) -> Vec<usize> {
    let host = n % HOSTS;
    match n % 4 {
        0 => vec![host, PROXY],
        1 => vec![PROXY, host],
        _ => vec![host],
    }
}

fn names(keys: &[usize]) -> Vec<Key> {
    keys.iter().copied().map(key).collect()
}

/// One hop of a job: some panic, some go on elsewhere, at once or later.
fn hop(meter: &Meter, n: usize) -> Then {
    meter.visit(&keys_of(n));
    match n % 11 {
        3 => resume_unwind(Box::new("caught by the job")),
        4 => resume_unwind(Box::new(Uncaught)),
        5 | 6 => {
            let (meter, next) = (meter.clone(), n / 2 + 1);
            let soon = Instant::now() + Duration::from_micros(n as u64 % 500);
            Then::Again {
                keys: Some(names(&keys_of(next))),
                act: Box::new(move |_: &mut Turn<'_, Job>| hop(&meter, next)),
                at: (n % 2 == 0).then_some(soon),
            }
        }
        _ => Then::Done,
    }
}

fn submit_all(client: &Client, meter: &Meter) {
    for n in 0..JOBS {
        let meter = meter.clone();
        client.submit_act(n, &names(&keys_of(n)), move |_| hop(&meter, n));
    }
}

/// All come out, each once.
fn read_all(client: &Client, may_end: bool, mut seen: impl FnMut(usize)) {
    let mut fates = [None; JOBS];
    for n in 0..JOBS {
        seen(n);
        let (tag, fate) = client.next();
        assert_eq!(fates[tag].replace(fate), None, "{tag} came out twice");
        assert!(may_end || fate.has_run());
        assert!(fate != Fate::Lost || tag % 11 >= 4, "{tag} is lost");
    }
}

fn one_batch(rig: &Rig, meter: &Meter, number: usize) {
    let client = rig.open(1 + number * 5);
    let is_cancelled = number % 3 == 2;
    std::thread::scope(|scope| {
        scope.spawn(|| submit_all(&client, meter));
        read_all(&client, is_cancelled, |n| {
            if is_cancelled && n == JOBS / 3 {
                client.cancel();
            }
        });
    });
}

fn permits(rig: &Rig, meter: &Meter, is_over: &AtomicBool) {
    let mut n = 0;
    while !is_over.load(Ordering::Relaxed) {
        n += 1;
        let keys = keys_of(n);
        let names = names(&keys);
        let wanted = Keys {
            first: &names[0],
            more: &names[1..],
        };
        let permit = match n % 8 {
            0 => rig.scheduler.acquire(wanted, None),
            1 => rig.scheduler.try_acquire(wanted),
            _ => {
                let brief = Duration::from_micros(n as u64 % 60);
                rig.scheduler.acquire(wanted, Some(Instant::now() + brief))
            }
        };
        if let Ok(_permit) = permit {
            meter.visit(&keys);
        }
    }
}

fn capacities(rig: &Rig, is_over: &AtomicBool) {
    let mut n = 0;
    while !is_over.load(Ordering::Relaxed) {
        n += 1;
        let capacity = some(1 + n % CAPACITY);
        rig.scheduler.set_capacity(&key(n % (HOSTS + 1)), capacity);
        std::thread::yield_now();
    }
}

#[test]
fn whatever_comes_between_no_budget_is_exceeded_and_every_job_comes_out() {
    with_workers(6, CAPACITY, |rig| {
        let (meter, is_over) = (Meter::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| permits(&rig, &meter, &is_over));
            scope.spawn(|| permits(&rig, &meter, &is_over));
            scope.spawn(|| capacities(&rig, &is_over));
            let batches = [0, 1, 2].map(|first| {
                let (rig, meter) = (&rig, &meter);
                scope.spawn(move || {
                    (first..BATCHES)
                        .step_by(3)
                        .for_each(|n| one_batch(rig, meter, n));
                })
            });
            let results = batches.map(std::thread::ScopedJoinHandle::join);
            is_over.store(true, Ordering::Relaxed);
            results.into_iter().for_each(Result::unwrap);
        });
        assert!(meter.peak() <= CAPACITY && rig.started() <= 6);
        let state = rig.scheduler.shared.state.lock();
        state.check();
        assert_eq!(state.entries(), 0, "{}", state.dump());
    });
}

#[test]
fn no_more_jobs_of_a_host_run_at_once_than_it_has_tokens() {
    with_workers(8, CAPACITY, |rig| {
        let (meter, client) = (Meter::default(), rig.open(100));
        for n in 0..20_000 {
            let meter = meter.clone();
            client.submit(n, &names(&keys_of(n)), move || meter.visit(&keys_of(n)));
        }
        client.tags(20_000);
        assert_eq!(meter.peak(), CAPACITY);
    });
}
