//! A running job is reached where it waits, and no other in its place.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::super::{Ended, Interrupt, Key, Post, Turn};
use super::key;
use super::rig::{Client, Fate, Job, LONG, Rig, Then, with_workers};

/// Something to wait on, that can be interrupted.
pub(super) struct Wire {
    cut: Sender<()>,
    is_cut: Receiver<()>,
    cuts: AtomicUsize,
}

impl Interrupt for Wire {
    fn interrupt(&self) {
        self.cuts.fetch_add(1, Ordering::SeqCst);
        let _ = self.cut.try_send(());
    }
}

impl Wire {
    fn new() -> Arc<Self> {
        let (cut, is_cut) = bounded(1);
        let cuts = AtomicUsize::new(0);
        Arc::new(Self { cut, is_cut, cuts })
    }

    /// How often it was interrupted.
    pub(super) fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }

    fn attach(self: &Arc<Self>, post: &Post) {
        let wire = Arc::clone(self) as Arc<dyn Interrupt>;
        post.waits_on(Arc::downgrade(&wire));
    }

    /// Runs until it is interrupted.
    fn wait(self: &Arc<Self>, turn: &Turn<'_, Job>) -> Then {
        self.attach(turn.post());
        self.is_cut.recv_timeout(LONG).expect("to be interrupted");
        assert!(turn.post().is_interrupted());
        Then::Done
    }
}

fn wait(turn: &mut Turn<'_, Job>) -> Then {
    Wire::new().wait(turn)
}

/// Submits a job that runs until it is interrupted, and waits until it does.
pub(super) fn run_until_cut(client: &Client, tag: usize, key: &Key) -> Arc<Wire> {
    let wire = Wire::new();
    let (begun, begins) = bounded(1);
    let inner = Arc::clone(&wire);
    client.submit_act(tag, slice::from_ref(key), move |turn| {
        begun.send(()).unwrap();
        inner.wait(turn)
    });
    begins.recv().unwrap();
    wire
}

#[test]
fn a_job_that_is_taken_while_it_is_cancelled_is_interrupted() {
    with_workers(2, 2, |rig| {
        for round in 0..2000 {
            let client = rig.open(10);
            for tag in 0..3 {
                client.submit_act(tag, &[key(round % 2)], wait);
            }
            client.cancel();
            let interrupted =
                |(_, fate)| fate == Fate::Ran || fate == Fate::Ended(Ended::Cancelled);
            assert!(client.take(3).into_iter().all(interrupted));
        }
    });
}

/// Ends a job that the one worker has in hand: its last one has given its tokens back, taken
/// this one's, and not returned yet.
fn end_in_hand(end: impl FnOnce(&Rig, &Client) + Send + 'static) {
    with_workers(1, 1, |rig| {
        let client = rig.open(10);
        let (go, goes) = bounded::<()>(1);
        let (finished, is_finished) = bounded(1);
        let (leave, left) = bounded::<()>(0);
        client.submit_act(0, &[key(0)], move |turn| {
            goes.recv().unwrap();
            turn.finish(0);
            finished.send(()).unwrap();
            let _ = left.recv();
            Then::Done
        });
        client.submit_act(1, &[key(1)], wait);
        go.send(()).unwrap();
        is_finished.recv().unwrap();
        end(&rig, &client);
        drop(leave);
        assert_eq!(client.tags(2), [0, 1]);
    });
}

#[test]
fn a_job_that_a_worker_has_in_hand_as_it_is_cancelled_is_interrupted() {
    end_in_hand(|_, client| client.cancel());
}

#[test]
fn a_job_that_a_worker_has_in_hand_as_the_stop_comes_is_interrupted() {
    end_in_hand(|rig, _| rig.scheduler.stop());
}

#[test]
fn the_next_job_on_a_worker_does_not_take_the_last_ones_interruption_for_its_own() {
    with_workers(1, 1, |rig| {
        let (client, next) = (rig.open(10), rig.open(10));
        run_until_cut(&client, 0, &key(0));
        let wire = Wire::new();
        let inner = Arc::clone(&wire);
        next.submit_act(1, &[key(0)], move |turn| {
            inner.attach(turn.post());
            assert!(!turn.post().is_interrupted());
            Then::Done
        });
        client.cancel();
        assert_eq!((client.tags(1), next.tags(1)), (vec![0], vec![1]));
        assert_eq!(wire.cuts(), 0);
    });
}

#[test]
fn a_job_that_has_given_its_tokens_back_is_not_interrupted() {
    with_workers(1, 1, |rig| {
        let client = rig.open(10);
        let (finished, is_finished) = bounded(1);
        let (leave, left) = bounded::<()>(0);
        let wire = Wire::new();
        let inner = Arc::clone(&wire);
        client.submit_act(0, &[key(0)], move |turn| {
            inner.attach(turn.post());
            turn.finish(0);
            finished.send(()).unwrap();
            let _ = left.recv();
            Then::Done
        });
        is_finished.recv().unwrap();
        // What it waited on may be another's by now.
        client.cancel();
        assert_eq!(wire.cuts(), 0);
        drop(leave);
        client.tags(1);
    });
}
