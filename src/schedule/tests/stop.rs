//! The end: of a batch, of everything.

use std::slice;
use std::sync::{Arc, Barrier, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::super::{Ended, Feed, Key, Shared};
use super::interrupts::run_until_cut;
use super::rig::{Client, Fate, Job, LONG, Rig, Then, with, with_workers};
use super::{key, limits};

fn sleep(client: &Client, tag: usize, key: &Key) {
    client.submit_act(tag, slice::from_ref(key), |_| Then::Again {
        act: Box::new(|_| Then::Done),
        keys: None,
        at: Some(Instant::now() + 2 * LONG),
    });
}

/// One of each: asleep, running, waiting for a token.
fn one_of_each(client: &Client) {
    sleep(client, 0, &key(0));
    run_until_cut(client, 1, &key(1));
    client.submit(2, &[key(1)], || {});
}

fn fates(client: &Client) -> [Fate; 3] {
    let mut fates = client.take(3);
    fates.sort_unstable_by_key(|&(tag, _)| tag);
    [fates[0].1, fates[1].1, fates[2].1]
}

#[test]
fn the_stop_ends_what_waits_sleeps_and_runs() {
    with_workers(2, 1, |rig| {
        let client = rig.open(10);
        one_of_each(&client);
        rig.scheduler.stop();
        let ended = Fate::Ended(Ended::Shutdown);
        assert_eq!(fates(&client), [ended, Fate::Ran, ended]);
        client.submit(3, &[key(0)], || {});
        assert_eq!(client.next(), (3, ended));
        let late = rig.open(10);
        late.submit(4, &[key(0)], || {});
        assert_eq!(late.next(), (4, ended));
    });
}

#[test]
fn a_cancelled_batch_ends_and_no_other_notices() {
    with_workers(3, 1, |rig| {
        let (client, other) = (rig.open(10), rig.open(10));
        one_of_each(&client);
        let wire = run_until_cut(&other, 0, &key(2));
        other.submit(1, &[key(1)], || {});
        client.cancel();
        assert_eq!(wire.cuts(), 0);
        let ended = Fate::Ended(Ended::Cancelled);
        assert_eq!(fates(&client), [ended, Fate::Ran, ended]);
        assert_eq!(other.tags(1), [1]);
        drop(client);
        other.cancel();
        assert_eq!(other.tags(1), [0]);
        drop(other);
        assert_eq!(rig.scheduler.entries(), 0);
    });
}

#[test]
fn every_job_ends_once_however_the_stop_comes_between() {
    for round in 0..30 {
        with_workers(3, 2, move |rig| {
            let clients = [(); 3].map(|()| rig.open(50));
            std::thread::scope(|scope| {
                for client in &clients {
                    scope.spawn(move || {
                        for tag in 0..100 {
                            client.submit(tag, &[key(tag % 5)], || {});
                        }
                    });
                    scope.spawn(move || {
                        let mut tags: Vec<_> = client.take(100);
                        tags.sort_unstable_by_key(|&(tag, _)| tag);
                        assert!(tags.iter().map(|&(tag, _)| tag).eq(0..100));
                        assert!(tags.iter().all(|&(_, fate)| fate != Fate::Lost));
                    });
                }
                (0..round * 50).for_each(|_| std::thread::yield_now());
                rig.scheduler.stop();
            });
            drop(clients);
            assert_all_is_gone(rig);
        });
    }
}

#[test]
fn a_job_on_its_way_to_a_worker_ends_with_the_stop() {
    with_workers(1, 1, |rig| {
        let client = rig.open(10);
        let (finished, is_finished) = bounded(1);
        let (leave, left) = bounded::<()>(0);
        client.submit_act(0, &[key(0)], move |turn| {
            turn.finish(0);
            finished.send(()).unwrap();
            let _ = left.recv();
            Then::Done
        });
        is_finished.recv().unwrap();
        // For the worker that is about to be free.
        client.submit(1, &[key(1)], || {});
        rig.scheduler.stop();
        assert_eq!(client.next(), (1, Fate::Ended(Ended::Shutdown)));
        assert_eq!(rig.scheduler.entries(), 0);
        drop(leave);
        assert_eq!(client.next(), (0, Fate::Ran));
    });
}

#[test]
fn a_job_that_comes_with_the_stop_ends_once() {
    with_workers(1, 1, |_| {
        for round in 0..1000 {
            let rig = Rig::new(limits(1, 1));
            let client = rig.open(10);
            let shared = Arc::clone(&rig.scheduler.shared);
            let both = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    both.wait();
                    (0..round % 50 * 10).for_each(|_| std::hint::spin_loop());
                    drop(rig);
                });
                both.wait();
                client.submit(0, &[key(0)], || {});
            });
            assert_ne!(client.next(), (0, Fate::Lost));
            assert_eq!(shared.state.lock().entries(), 0);
            assert!(shared.threads.lock().handles.is_empty());
        }
    });
}

/// A thread may have picked it before the stop, and be late to send it.
#[test]
fn a_job_that_is_sent_after_the_stop_ends_and_gives_its_tokens_back() {
    with_workers(1, 1, |rig| {
        let client = rig.open(10);
        let shared = &rig.scheduler.shared;
        let mut state = shared.state.lock();
        state.submit(client.ticket.id, client.factory(&[key(0)])());
        let picked = state.pick().expect("it can run");
        drop(state);
        rig.scheduler.stop();
        shared.send(picked);
        shared.start_worker(0);
        assert_eq!(client.next(), (0, Fate::Ended(Ended::Shutdown)));
        assert_eq!(rig.scheduler.entries(), 0);
        assert!(shared.threads.lock().handles.is_empty());
    });
}

/// Each thread holds the shared part, and the watchdog does.
fn assert_all_is_gone(rig: Rig) {
    let shared: Weak<Shared<Job>> = Arc::downgrade(&rig.scheduler.shared);
    drop(rig);
    let left = shared.upgrade().expect("the watchdog's");
    assert_eq!(left.state.lock().entries(), 0);
    assert!(left.threads.lock().handles.is_empty());
    drop(left);
    assert_eq!(shared.strong_count(), 1, "all threads have been joined");
}

#[test]
fn dropping_the_scheduler_joins_its_threads() {
    with_workers(4, 1, |rig| {
        let client = rig.open(100);
        sleep(&client, 0, &key(0));
        for tag in 1..4 {
            run_until_cut(&client, tag, &key(tag));
        }
        drop(client);
        assert_all_is_gone(rig);
    });
}

#[test]
fn the_last_owner_may_be_a_job() {
    with_workers(3, 1, |rig| {
        let client = rig.open(100);
        let (give, take) = bounded::<Rig>(1);
        run_until_cut(&client, 0, &key(0));
        client.submit(1, &[key(1)], move || drop(take.recv().unwrap()));
        client.submit(2, &[key(1)], || {});
        give.send(rig).unwrap();
        let ended = Fate::Ended(Ended::Shutdown);
        assert_eq!(fates(&client), [Fate::Ran, Fate::Ran, ended]);
    });
}

/// Owns what it lives in.
struct Owner {
    rig: Receiver<Rig>,
    gone: Sender<()>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        drop(self.rig.recv().unwrap());
        self.gone.send(()).unwrap();
    }
}

#[test]
fn the_last_owner_may_be_dropped_by_the_clock() {
    let mut limits = limits(1, 1);
    limits.idle_age = Duration::from_millis(100);
    with(limits, |rig| {
        let (give, take) = bounded(1);
        let (gone, is_gone) = bounded(1);
        let client = rig.open(1);
        client.submit_act(0, &[key(0)], move |turn| {
            let owner = Owner { rig: take, gone };
            assert!(turn.resident().set(Box::new(owner)).is_ok());
            Then::Done
        });
        give.send(rig).unwrap();
        client.next();
        is_gone.recv().unwrap();
    });
}

/// Looks, as it goes, whether a lock is held.
struct Wary(Mutex<Option<Box<dyn Fn() + Send + Sync>>>, Sender<()>);

impl Feed for Wary {
    fn more(&self) {}
}

impl Drop for Wary {
    fn drop(&mut self) {
        if let Some(probe) = self.0.lock().take() {
            probe();
            self.1.send(()).unwrap();
        }
    }
}

#[test]
fn what_a_batch_owns_is_let_go_under_no_lock() {
    with_workers(1, 1, |rig| {
        let (gone, is_gone) = bounded(2);
        let open = || {
            let probe: Box<dyn Fn() + Send + Sync> = Box::new(rig.probe());
            let feed = Wary(Mutex::new(Some(probe)), gone.clone());
            rig.open_with(Arc::new(feed), 1, bounded(1).1)
        };
        drop(open());
        is_gone.recv().unwrap();
        rig.scheduler.stop();
        drop(open());
        is_gone.recv().unwrap();
    });
}
