//! Entries come with the first job of a host, and go with what lived with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::super::{Limits, Turn};
use super::rig::{Client, Job, Rig, Then, with};
use super::{key, limits};

const HOSTS: usize = 100_000;

/// What lives with an entry: looks, as it goes, whether a lock is held.
struct Resident {
    tag: usize,
    alive: Arc<AtomicUsize>,
    gone: Sender<usize>,
    probe: Box<dyn Fn() + Send + Sync>,
}

impl Drop for Resident {
    fn drop(&mut self) {
        (self.probe)();
        self.alive.fetch_sub(1, Ordering::SeqCst);
        let _ = self.gone.send(self.tag);
    }
}

/// Makes jobs that leave a resident.
struct Settlers {
    alive: Arc<AtomicUsize>,
    gone: Sender<usize>,
}

impl Settlers {
    fn new() -> (Self, Receiver<usize>) {
        let (gone, is_gone) = unbounded();
        let alive = Arc::default();
        (Self { alive, gone }, is_gone)
    }

    fn submit(&self, rig: &Rig, client: &Client, tag: usize) {
        let (alive, gone, probe) = (Arc::clone(&self.alive), self.gone.clone(), rig.probe());
        client.submit_act(tag, &[key(tag)], move |turn: &mut Turn<'_, Job>| {
            let new = || {
                alive.fetch_add(1, Ordering::SeqCst);
                let probe = Box::new(probe);
                Box::new(Resident {
                    tag,
                    alive,
                    gone,
                    probe,
                }) as _
            };
            turn.resident().get_or_init(new);
            Then::Done
        });
    }
}

fn idle(idle_age: Duration, idle_entries: usize) -> Limits {
    Limits {
        idle_age,
        idle_entries,
        ..limits(4, 2)
    }
}

const AGES: Duration = Duration::from_secs(3600);
const BRIEF: Duration = Duration::from_millis(20);

#[test]
fn a_hundred_thousand_hosts_leave_nothing() {
    with(limits(4, 6), |rig| {
        let client = rig.open(1000);
        for tag in 0..HOSTS {
            client.submit(tag, &[key(tag)], || {});
        }
        client.tags(HOSTS);
        drop(client);
        assert_eq!(rig.scheduler.entries(), 0);
    });
}

#[test]
fn no_more_unused_entries_are_kept_than_asked_for() {
    with(idle(AGES, 100), |rig| {
        let (settlers, gone) = Settlers::new();
        let client = rig.open(1000);
        for tag in 0..5000 {
            settlers.submit(&rig, &client, tag);
            client.next();
            let state = rig.scheduler.shared.state.lock();
            assert!(state.idle_entries() <= 100);
        }
        assert_eq!(gone.iter().take(4900).count(), 4900);
        assert_eq!(settlers.alive.load(Ordering::SeqCst), 100);
        rig.scheduler.stop();
        assert_eq!(gone.iter().take(100).count(), 100);
        assert_eq!(rig.scheduler.entries(), 0);
    });
}

#[test]
fn what_idles_goes_when_it_is_old() {
    with(idle(BRIEF, 1000), |rig| {
        let (settlers, gone) = Settlers::new();
        let client = rig.open(1000);
        (0..500).for_each(|tag| settlers.submit(&rig, &client, tag));
        client.tags(500);
        let mut tags: Vec<_> = gone.iter().take(500).collect();
        tags.sort_unstable();
        assert!(tags.into_iter().eq(0..500));
        drop(client);
        assert_eq!(rig.scheduler.entries(), 0);
    });
}

#[test]
fn the_next_job_of_a_host_finds_what_the_last_one_left() {
    with(idle(AGES, 10), |rig| {
        let (settlers, gone) = Settlers::new();
        let client = rig.open(10);
        for _ in 0..100 {
            settlers.submit(&rig, &client, 7);
            client.next();
        }
        assert!(gone.is_empty());
        assert_eq!(settlers.alive.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn nothing_is_kept_that_is_not_to_idle() {
    with(idle(AGES, 0), |rig| {
        let (settlers, gone) = Settlers::new();
        let client = rig.open(1000);
        (0..500).for_each(|tag| settlers.submit(&rig, &client, tag % 3));
        client.take(500);
        drop(client);
        assert_eq!(rig.scheduler.entries(), 0);
        drop(settlers.gone);
        assert!(gone.iter().count() >= 3);
        assert_eq!(settlers.alive.load(Ordering::SeqCst), 0);
    });
}
