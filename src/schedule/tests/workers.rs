//! How many threads there are, what they survive, and how they are kept busy.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crossbeam_channel::{bounded, unbounded};

use super::super::{Ended, Feed, Ticket};
use super::key;
use super::rig::{Act, Client, Fate, Job, Rig, Then, Uncaught, plug, plug_at, with_workers};

/// Threads that were ever started, the clock's among them.
fn threads(rig: &Rig) -> usize {
    rig.scheduler.shared.threads.lock().handles.len()
}

#[test]
fn no_thread_is_started_before_there_is_a_job_nor_beyond_the_limit() {
    with_workers(3, 1, |rig| {
        let (client, other) = (rig.open(10_000), rig.open(10));
        assert_eq!(threads(&rig), 0);
        let plugs = [0, 1, 2].map(|n| plug_at(&other, &key(n)));
        assert_eq!(rig.started(), 3);
        for tag in 0..2000 {
            client.submit(tag, &[key(tag % 100)], || {});
        }
        drop(plugs);
        client.tags(2000);
        assert_eq!((rig.started(), threads(&rig)), (3, 3));
    });
}

#[test]
fn no_more_workers_are_started_than_have_something_to_do() {
    with_workers(8, 2, |rig| {
        let client = rig.open(10_000);
        for tag in 0..2000 {
            client.submit(tag, &[key(0)], || {});
        }
        client.tags(2000);
        assert!(rig.started() <= 2);
    });
}

#[test]
fn an_idle_worker_is_used_before_another_is_started() {
    with_workers(8, 8, |rig| {
        let client = rig.open(10);
        for tag in 0..200 {
            client.submit(tag, &[key(tag)], || {});
            // Its worker has gone idle by now: an outcome is delivered after that.
            client.tags(1);
        }
        assert_eq!(rig.started(), 1);
    });
}

#[test]
fn a_panic_kills_no_worker_and_keeps_no_token() {
    with_workers(2, 1, |rig| {
        let client = rig.open(10_000);
        for tag in 0..600 {
            client.submit(tag, &[key(tag % 3), key(9)], move || match tag % 4 {
                0 => resume_unwind(Box::new("caught by the job")),
                1 => resume_unwind(Box::new(Uncaught)),
                _ => {}
            });
        }
        let mut fates = [0; 4];
        for (tag, fate) in client.take(600) {
            let expected = [Fate::Panicked, Fate::Lost, Fate::Ran, Fate::Ran][tag % 4];
            assert_eq!(fate, expected);
            fates[tag % 4] += 1;
        }
        assert_eq!(fates, [150; 4]);
        // What is not caught is told before the tokens are back: one more job waits for them.
        client.submit(600, &[key(9)], || {});
        client.tags(1);
        assert!(rig.started() <= 2);
    });
}

fn refuse_threads(rig: &Rig, refuse: bool) {
    rig.scheduler.shared.threads.lock().are_refused = refuse;
}

#[test]
fn where_the_system_gives_no_thread_all_jobs_end() {
    with_workers(4, 1, |rig| {
        let client = rig.open(10);
        refuse_threads(&rig, true);
        for tag in 0..5 {
            client.submit(tag, &[key(tag)], || {});
            assert_eq!(client.next(), (tag, Fate::Ended(Ended::NoThread)));
        }
        assert_eq!(rig.scheduler.entries(), 0);
    });
}

#[test]
fn where_the_system_gives_fewer_threads_those_do_all_jobs() {
    with_workers(4, 1, |rig| {
        let (client, other) = (rig.open(10), rig.open(10));
        let unplug = plug(&other);
        refuse_threads(&rig, true);
        for tag in 0..100 {
            client.submit(tag, &[key(tag % 3)], || {});
        }
        refuse_threads(&rig, false);
        assert_eq!(rig.started(), 1);
        drop(unplug);
        client.tags(100);
        assert_eq!((rig.started(), threads(&rig)), (1, 1));
    });
}

#[test]
fn a_clock_that_cannot_start_is_started_with_the_next_move() {
    with_workers(1, 1, |rig| {
        let client = rig.open(10);
        let unplug = plug(&client);
        refuse_threads(&rig, true);
        client.submit_act(0, &[key(0)], |_| Then::Again {
            act: Box::new(|_| Then::Done),
            keys: None,
            at: Some(Instant::now()),
        });
        drop(unplug);
        client.take(1);
        client.submit(1, &[key(0)], || {});
        assert_eq!(client.tags(1), [1]);
        refuse_threads(&rig, false);
        client.submit(2, &[key(0)], || {});
        let mut tags = client.tags(2);
        tags.sort_unstable();
        assert_eq!(tags, [0, 2]);
    });
}

/// Panics whenever it is told something.
struct Touchy;

impl Feed for Touchy {
    fn more(&self) {
        resume_unwind(Box::new("more"));
    }
}

impl Drop for Touchy {
    fn drop(&mut self) {
        resume_unwind(Box::new("dropped"));
    }
}

#[test]
fn a_panic_of_one_batchs_feed_costs_no_job_of_another() {
    with_workers(1, 1, |rig| {
        let client = rig.open(10);
        for round in 0..100 {
            let touchy = rig.open_with(Arc::new(Touchy), 10, bounded(1).1);
            let unplug = plug(&client);
            assert!(!touchy.ticket.wants_more());
            client.submit(round, &[key(0)], || {});
            drop(unplug);
            assert_eq!(client.take(2)[1], (round, Fate::Ran));
        }
    });
}

#[test]
fn a_batch_that_has_more_is_told_when_a_worker_goes_idle() {
    with_workers(1, 1, |rig| {
        let client = rig.open(10);
        assert!(client.ticket.wants_more(), "no worker is busy");
        let unplug = plug(&client);
        assert!(!client.ticket.wants_more());
        assert!(client.rung.is_empty());
        drop(unplug);
        client.rung.recv().unwrap();
        assert!(client.ticket.wants_more());
    });
}

/// Submits only while workers idle, as a batch does that reads its input lazily.
fn feed_lazily(client: &Client, jobs: usize) {
    for tag in 0..jobs {
        while !client.ticket.wants_more() {
            client.rung.recv().unwrap();
        }
        client.submit(tag, &[key(tag % 7)], || {});
    }
}

#[test]
fn no_wake_up_of_a_batch_that_reads_lazily_is_lost() {
    with_workers(3, 2, |rig| {
        let clients = [3, 100, 1].map(|unread| rig.open(unread));
        std::thread::scope(|scope| {
            for client in &clients {
                scope.spawn(move || feed_lazily(client, 2000));
                scope.spawn(move || client.tags(2000));
            }
        });
    });
}

#[test]
fn a_running_job_can_submit_others() {
    fn tree(client: &Arc<Client>, depth: usize) {
        let inner = Arc::clone(client);
        client.submit(depth, &[key(depth)], move || {
            if depth > 0 {
                (0..2).for_each(|_| tree(&inner, depth - 1));
            }
        });
    }
    with_workers(3, 1, |rig| {
        let client = Arc::new(rig.open(10));
        tree(&client, 10);
        client.tags((1 << 11) - 1);
    });
}

#[test]
fn a_job_can_submit_after_it_has_given_its_tokens_back() {
    with_workers(1, 1, |rig| {
        let client = Arc::new(rig.open(10));
        let inner = Arc::clone(&client);
        client.submit_act(0, &[key(0)], move |turn| {
            turn.finish(0);
            inner.submit(1, &[key(0)], || {});
            Then::Done
        });
        assert_eq!(client.tags(2), [0, 1]);
    });
}

/// Feeds its batch in the thread that tells it to.
struct Eager {
    ticket: std::sync::OnceLock<Arc<Ticket<Job>>>,
    left: AtomicUsize,
    job: Box<dyn Fn() -> Job + Send + Sync>,
}

impl Feed for Eager {
    fn more(&self) {
        let ticket = self.ticket.get().unwrap();
        while ticket.wants_more() {
            let left = self
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
            if left.is_err() {
                return;
            }
            ticket.submit((self.job)());
        }
    }
}

#[test]
fn a_feed_can_submit_in_the_thread_that_calls_it() {
    with_workers(2, 1, |rig| {
        let client = rig.open(usize::MAX);
        let factory = client.factory(&[key(0)]);
        let feed = Arc::new(Eager {
            ticket: std::sync::OnceLock::new(),
            left: AtomicUsize::new(2000),
            job: Box::new(factory),
        });
        let ticket = rig
            .scheduler
            .open(Arc::clone(&feed) as _, super::some(usize::MAX));
        let ticket = Arc::new(ticket);
        assert!(feed.ticket.set(Arc::clone(&ticket)).is_ok());
        feed.more();
        assert!((0..2000).all(|_| client.outcome() == (0, Fate::Ran)));
        ticket.cancel();
    });
}

#[test]
fn the_tokens_are_free_for_who_reads_the_outcome() {
    with_workers(2, 1, |rig| {
        let client = rig.open(10);
        let (send, begun) = unbounded();
        for tag in 0..500 {
            let send = send.clone();
            client.submit(tag, &[key(0)], move || send.send(()).unwrap());
            begun.recv().unwrap();
            client.tags(1);
            assert_eq!(rig.in_use(&key(0)), 0);
        }
    });
}

/// With one worker, one token, and room for one unread outcome.
#[test]
fn a_job_that_divides_leaves_all_its_tokens_to_what_it_becomes() {
    with_workers(1, 1, |rig| {
        let client = rig.open(1);
        client.submit_act(0, &[key(0)], |_| {
            let done = |tag| -> (usize, Act) { (tag, Box::new(|_| Then::Done)) };
            let none = |tag| -> (usize, Act) { (tag, Box::new(|_| Then::Divide(vec![]))) };
            Then::Divide(vec![none(1), none(2), done(3)])
        });
        assert_eq!(client.tags(1), [3]);
        assert_eq!((client.unread(), rig.in_use(&key(0))), (0, 0));
        client.submit(4, &[key(0)], || {});
        assert_eq!(client.tags(1), [4]);
    });
}

#[test]
fn what_a_job_is_divided_into_ends_with_its_batch() {
    with_workers(2, 1, |rig| {
        let client = rig.open(10);
        let (begun, begins) = bounded(0);
        let (go, gone) = bounded::<()>(0);
        client.submit_act(0, &[key(0)], move |_| {
            let waits: Act = Box::new(move |_| {
                begun.send(()).unwrap();
                let _ = gone.recv();
                Then::Divide(vec![])
            });
            Then::Divide(vec![(1, waits), (2, Box::new(|_| Then::Done))])
        });
        begins.recv().unwrap();
        client.cancel();
        assert_eq!(client.next(), (2, Fate::Ended(Ended::Cancelled)));
        drop(go);
        let other = rig.open(1);
        other.submit(3, &[key(0)], || {});
        assert_eq!(other.tags(1), [3]);
    });
}
