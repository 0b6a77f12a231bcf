//! What the scheduler costs a job: it should not depend on how many hosts or jobs there are.
//!
//! `cargo bench --bench schedule` shows wall-clock times, as divan measures them;
//! `cargo bench --bench schedule -- --cpu` the time on the processors, of all threads, which
//! a busy machine does not blur (Linux only).

#![allow(
    clippy::duplicate_mod,
    reason = "the state alone, and again with its threads"
)]

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use divan::Bencher;

/// The scheduler with its threads, which knows nothing of the rest of the crate.
#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    clippy::needless_pass_by_ref_mut
)]
#[path = "../src/schedule/mod.rs"]
mod schedule;

/// Its state alone, which `schedule` shows nobody.
#[allow(dead_code, unused_imports, unreachable_pub, missing_docs)]
#[path = "../src/schedule"]
mod alone {
    mod budget;
    mod clock;
    mod ids;
    mod key;
    mod lane;
    mod slab;
    mod state;

    use std::collections::{HashMap, VecDeque};
    use std::sync::Arc;
    use std::time::Instant;

    use super::{Shape, some};
    use ids::BatchId;
    use key::Key;
    use lane::Priority;
    use state::{Assignment, Limits, State};

    // What `state` asks of its surroundings.

    pub(super) trait Work: Sized {
        type Resident;
        fn keys(&self) -> Keys<'_>;
        fn priority(&self) -> Priority;
        fn latest_start(&self) -> Option<Instant>;
    }

    pub(super) trait Feed: Send + Sync {}

    #[derive(Clone, Copy)]
    pub(super) enum Ended {
        Cancelled,
        Late,
    }

    #[derive(Clone, Copy)]
    pub(super) struct Keys<'a> {
        first: &'a Key,
        more: &'a [Key],
    }

    impl<'a> Keys<'a> {
        fn iter(self) -> impl Iterator<Item = &'a Key> {
            std::iter::once(self.first).chain(self.more)
        }
    }

    struct Job(Arc<[Key]>);

    impl Work for Job {
        type Resident = ();

        fn keys(&self) -> Keys<'_> {
            Keys {
                first: &self.0[0],
                more: &self.0[1..],
            }
        }

        fn priority(&self) -> Priority {
            Priority::Normal
        }

        fn latest_start(&self) -> Option<Instant> {
            None
        }
    }

    struct Deaf;

    impl Feed for Deaf {}

    /// So many jobs wait, and as many run as there are workers and tokens.
    pub(super) struct Steady {
        state: State<Job>,
        batch: BatchId,
        hosts: Vec<Arc<[Key]>>,
        next: usize,
        running: VecDeque<Assignment<Job>>,
    }

    impl Steady {
        pub(super) fn new(shape: Shape) -> Self {
            let (limits, capacities) = (
                Limits {
                    workers: some(super::WORKERS),
                    per_host: some(super::PER_HOST),
                    idle_age: super::IDLE_AGE,
                    idle_entries: super::IDLE_ENTRIES,
                },
                HashMap::from([(Key::named("proxy"), some(super::PER_PROXY))]),
            );
            let mut state = State::new(limits, capacities);
            let batch = state.open(Arc::new(Deaf), some(1000));
            let mut steady = Self {
                state,
                batch,
                hosts: shape.keys(Key::named).map(Into::into).collect(),
                next: 0,
                running: VecDeque::new(),
            };
            (0..shape.waiting).for_each(|_| steady.submit());
            (0..super::WORKERS).for_each(|_| steady.step());
            steady
        }

        fn submit(&mut self) {
            let host = Arc::clone(&self.hosts[self.next]);
            self.next = (self.next + 1) % self.hosts.len();
            self.state.submit(self.batch, Job(host));
        }

        fn finish(&mut self) {
            let job = self.running.pop_front().expect("one runs");
            self.state.finish(job.needs, None, 0);
            self.state.read(job.batch);
        }

        /// One comes, one ends, one starts.
        pub(super) fn step(&mut self) {
            self.submit();
            if self.running.len() == super::WORKERS {
                self.finish();
            }
            let picked = loop {
                match self.state.pick() {
                    Some(picked) => break picked,
                    None => self.finish(),
                }
            };
            self.running.push_back(picked);
        }
    }
}

const WORKERS: usize = 32;
const PER_HOST: usize = 6;
/// Less than there are workers, so that nearly all jobs wait in its line.
const PER_PROXY: usize = 16;
const IDLE_AGE: Duration = Duration::from_secs(60);
const IDLE_ENTRIES: usize = 1000;

fn some(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("not zero")
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    hosts: usize,
    waiting: usize,
    /// All jobs need a token of it, too.
    by_proxy: bool,
}

impl Shape {
    fn all() -> impl Iterator<Item = Self> {
        [false, true].into_iter().flat_map(|by_proxy| {
            [10, 1_000, 100_000].into_iter().flat_map(move |hosts| {
                [10, 1_000, 1_000_000].into_iter().map(move |waiting| Self {
                    hosts,
                    waiting,
                    by_proxy,
                })
            })
        })
    }

    fn keys<K>(self, named: fn(&str) -> K) -> impl Iterator<Item = Vec<K>> {
        (0..self.hosts).map(move |n| {
            let host = named(&format!("host-{n}.example:443"));
            let proxy = self.by_proxy.then(|| named("proxy"));
            std::iter::once(host).chain(proxy).collect()
        })
    }
}

/// Jobs that run as fast as they can, each of which submits another as it ends.
struct Circle {
    ticket: schedule::Ticket<Job>,
    hosts: Vec<Arc<[schedule::Key]>>,
    next: AtomicUsize,
    ran: AtomicUsize,
    /// A word for every so many.
    thousands: Sender<()>,
}

struct Job {
    keys: Arc<[schedule::Key]>,
    circle: Arc<Circle>,
}

impl schedule::Work for Job {
    type Resident = ();

    fn keys(&self) -> schedule::Keys<'_> {
        schedule::Keys {
            first: &self.keys[0],
            more: &self.keys[1..],
        }
    }

    fn priority(&self) -> schedule::Priority {
        schedule::Priority::Normal
    }

    fn latest_start(&self) -> Option<Instant> {
        None
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn run(self, turn: &mut schedule::Turn<'_, Self>) {
        turn.finish(0);
        self.circle.ticket.read(1);
        submit(&self.circle);
        if self.circle.ran.fetch_add(1, Ordering::Relaxed) % 1000 == 999 {
            let _ = self.circle.thousands.send(());
        }
    }

    fn end(self, _: schedule::Ended) {}
}

fn submit(circle: &Arc<Circle>) {
    let next = circle.next.fetch_add(1, Ordering::Relaxed) % circle.hosts.len();
    circle.ticket.submit(Job {
        keys: Arc::clone(&circle.hosts[next]),
        circle: Arc::clone(circle),
    });
}

struct Deaf;

impl schedule::Feed for Deaf {
    fn more(&self) {}
}

/// The threads are at it until this is dropped.
struct Threads {
    thousands: Receiver<()>,
    _scheduler: schedule::Scheduler<Job>,
}

impl Threads {
    fn new(shape: Shape) -> Self {
        let limits = schedule::Limits {
            workers: some(WORKERS),
            per_host: some(PER_HOST),
            idle_age: IDLE_AGE,
            idle_entries: IDLE_ENTRIES,
        };
        let capacities = HashMap::from([(schedule::Key::named("proxy"), some(PER_PROXY))]);
        let scheduler = schedule::Scheduler::new(limits, capacities);
        let (send, thousands) = unbounded();
        let circle = Arc::new(Circle {
            ticket: scheduler.open(Arc::new(Deaf), some(1000)),
            hosts: shape.keys(schedule::Key::named).map(Into::into).collect(),
            next: AtomicUsize::new(0),
            ran: AtomicUsize::new(0),
            thousands: send,
        });
        (0..shape.waiting).for_each(|_| submit(&circle));
        thousands.try_iter().for_each(drop);
        Self {
            thousands,
            _scheduler: scheduler,
        }
    }

    fn run_a_thousand(&self) {
        self.thousands.recv().expect("the circle goes on");
    }
}

#[divan::bench(args = Shape::all(), sample_size = 1000)]
fn state(bencher: Bencher<'_, '_>, shape: Shape) {
    let mut steady = alone::Steady::new(shape);
    bencher.bench_local(|| steady.step());
}

#[divan::bench(args = Shape::all(), sample_size = 1)]
fn a_thousand_on_threads(bencher: Bencher<'_, '_>, shape: Shape) {
    let threads = Threads::new(shape);
    bencher.bench_local(|| threads.run_a_thousand());
}

/// Nanoseconds that this process has had a processor, by the kernel's account of its threads.
fn on_cpu() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let times = tasks.flatten().map(|task| {
        let times = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let first = times.split(' ').next().and_then(|time| time.parse().ok());
        first.unwrap_or(0)
    });
    times.sum()
}

/// Of the rounds that which the rest of the machine disturbed the least, in nanoseconds. The
/// kernel counts in ticks of some milliseconds.
fn cpu_per_job(mut run_a_thousand: impl FnMut()) -> u64 {
    let rounds = (0..5).map(|_| {
        let before = on_cpu();
        (0..100).for_each(|_| run_a_thousand());
        (on_cpu() - before) / 100_000
    });
    rounds.min().unwrap_or(0)
}

fn main() {
    if !std::env::args().any(|argument| argument == "--cpu") {
        return divan::main();
    }
    println!("   hosts   waiting  proxy  state ns/job  threads ns/job");
    for shape in Shape::all() {
        let Shape {
            hosts,
            waiting,
            by_proxy,
        } = shape;
        let mut steady = alone::Steady::new(shape);
        let state = cpu_per_job(|| (0..1000).for_each(|_| steady.step()));
        drop(steady);
        let running = Threads::new(shape);
        let threads = cpu_per_job(|| running.run_a_thousand());
        println!("{hosts:8} {waiting:9} {by_proxy:>6} {state:13} {threads:15}");
    }
}
