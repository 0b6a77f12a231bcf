//! Histories of a few moves: those that random ones have found, and the far ends.

use std::time::Duration;

use super::super::{Ended, Priority};
use super::run::{Run, of};
use super::steps::Step;
use super::{key, limits, some};

fn submit(batch: usize, keys: &[usize], priority: Priority) -> Step {
    let keys = keys.to_vec();
    Step::Submit {
        batch,
        keys,
        priority,
        within: None,
    }
}

fn normal(batch: usize, keys: &[usize]) -> Step {
    submit(batch, keys, Priority::Normal)
}

fn acquire(keys: &[usize]) -> Step {
    let keys = keys.to_vec();
    Step::Acquire { keys }
}

const OPEN: Step = Step::Open { unread: 9 };
const FINISH: Step = Step::Finish {
    job: 0,
    resident: true,
    held: None,
    more: 0,
};
const RELEASE: Step = Step::Release { permit: 0 };

/// Each step is checked against the model.
fn after(workers: usize, steps: &[&[Step]]) -> Run {
    let mut run = Run::new(limits(workers, 2));
    for step in steps.iter().copied().flatten() {
        run.step(step.clone())
            .unwrap_or_else(|| panic!("{step:?} does nothing"));
        run.check();
    }
    run
}

#[test]
fn a_waiter_does_not_wait_for_the_worker_of_the_lane_before_it() {
    let busy = [OPEN, normal(0, &[1]), Step::Dispatch];
    let held = [acquire(&[0]), acquire(&[0])];
    let line = [normal(0, &[0]), acquire(&[0])];
    let run = after(1, &[&busy, &held, &line, &[RELEASE]]);
    assert_eq!((run.permits(), run.running()), (2, vec![0]));
}

#[test]
fn a_lane_whose_token_a_waiter_took_waits_at_the_head_again() {
    let busy = [OPEN, OPEN, normal(0, &[1]), Step::Dispatch];
    let held = [acquire(&[0]), acquire(&[0])];
    let line = [
        normal(0, &[0]),
        normal(1, &[0]),
        acquire(&[0]),
        acquire(&[0]),
    ];
    // The worker that comes finds nothing; the next token is for the first lane.
    let passed_over = [RELEASE, FINISH];
    let run = after(
        1,
        &[
            &busy,
            &held,
            &line,
            &passed_over,
            &[RELEASE, Step::Dispatch],
        ],
    );
    assert_eq!((run.permits(), run.running()), (1, vec![1]));
}

#[test]
fn a_gate_can_be_closed_before_anybody_comes() {
    let closed = Step::CloseGate { key: 0, millis: 10 };
    let mut run = after(1, &[&[OPEN, closed, normal(0, &[0]), Step::Dispatch]]);
    assert_eq!(run.running(), []);
    run.step(Step::Wait { millis: 10 });
    run.step(Step::Dispatch);
    assert_eq!(run.running(), [0]);
}

#[test]
fn a_more_urgent_job_does_not_wait_behind_less_urgent_ones_in_a_line_that_has_room() {
    let closed = Step::CloseGate { key: 0, millis: 10 };
    let lines = [
        normal(0, &[0]),
        normal(0, &[0, 1]),
        Step::Wait { millis: 10 },
    ];
    let urgent = submit(0, &[0, 1], Priority::High);
    after(1, &[&[OPEN, closed], &lines, &[urgent, Step::Dispatch]]);
}

#[test]
fn a_batch_that_its_reader_kept_from_growing_is_told_once_he_reads() {
    let fills = [Step::Open { unread: 1 }, normal(0, &[0]), Step::Dispatch];
    let more = Step::WantsMore { batch: 0 };
    after(1, &[&fills, &[FINISH, more, Step::Read { outcome: 0 }]]);
}

#[test]
fn a_batch_that_a_running_job_kept_from_growing_is_told_once_that_sleeps() {
    let fills = [Step::Open { unread: 1 }, normal(0, &[0]), Step::Dispatch];
    let other = [OPEN, normal(1, &[1])];
    let sleeps = Step::Again {
        job: 0,
        keys: None,
        after: Some(10),
        held: None,
    };
    let more = Step::WantsMore { batch: 0 };
    after(4, &[&fills, &other, &[more, sleeps]]);
}

#[test]
fn after_the_stop_nothing_is_let_in() {
    let mut run = after(1, &[&[OPEN, normal(0, &[0])]]);
    run.stop();
    assert_eq!(run.state.entries(), 0);
}

#[test]
fn after_the_stop_nothing_idles() {
    let held = [normal(0, &[0]), acquire(&[1]), Step::Dispatch];
    let closed = Step::CloseGate { key: 0, millis: 10 };
    let mut run = after(1, &[&[OPEN], &held, &[closed]]);
    run.state.stop(Ended::Shutdown);
    for step in [FINISH, RELEASE] {
        run.step(step);
    }
    assert_eq!(run.state.entries(), 0);
    assert_eq!(run.state.clock.next(), None);
}

#[test]
fn connections_may_be_kept_for_ever() {
    let mut limits = limits(1, 1);
    limits.idle_age = Duration::MAX;
    let mut run = Run::new(limits);
    for step in [OPEN, normal(0, &[0]), Step::Dispatch, FINISH] {
        run.step(step);
    }
    assert_eq!(run.state.idle_entries(), 1);
}

#[test]
fn a_capacity_without_bound_costs_no_memory() {
    let mut run = after(1, &[&[OPEN, acquire(&[0])]]);
    run.state.set_capacity(&key(0), some(usize::MAX));
    for _ in 0..1000 {
        run.state.try_acquire(of(&[key(0)])).expect("a token");
    }
    assert_eq!(run.state.in_use(&key(0)), Some(1001));
}

#[test]
fn nothing_goes_before_it_has_been_idle_for_long() {
    let jobs = [OPEN, normal(0, &[0]), normal(0, &[1]), Step::Dispatch];
    let half = Step::Wait { millis: 40_000 };
    let mut run = after(1, &[&jobs, &[FINISH, half.clone(), FINISH]]);
    let mut idle_after = |step| {
        run.step(step);
        run.check();
        run.state.idle_entries()
    };
    assert_eq!(idle_after(Step::Wait { millis: 1 }), 2);
    assert_eq!(idle_after(half.clone()), 1);
    assert_eq!(idle_after(half), 0);
}

#[test]
fn who_tries_does_not_go_before_those_who_wait() {
    let closed = Step::CloseGate { key: 0, millis: 10 };
    let lines = [normal(0, &[0]), normal(1, &[0]), Step::Wait { millis: 10 }];
    // One lane is in the ring, and the other in the line: there are two tokens.
    let mut run = after(1, &[&[OPEN, OPEN, closed], &lines]);
    assert_eq!(run.step(Step::TryAcquire { keys: vec![0] }), None);
    run.check();
}

#[test]
fn waiters_are_served_in_their_order() {
    let closed = Step::CloseGate { key: 0, millis: 10 };
    let urgent = submit(0, &[0], Priority::High);
    let opens = Step::Wait { millis: 10 };
    // A worker could come for the urgent one, so the first waiter is not served at once.
    let run = after(
        1,
        &[&[OPEN, closed, acquire(&[0]), urgent, opens, acquire(&[0])]],
    );
    assert_eq!(run.permits(), 0);
}

#[test]
fn alarms_of_jobs_that_are_gone_do_not_pile_up() {
    let mut run = after(1, &[&[OPEN]]);
    for _ in 0..5000 {
        let submit = Step::Submit {
            batch: 0,
            keys: vec![0],
            priority: Priority::Normal,
            within: Some(1_000_000),
        };
        for step in [submit, Step::Dispatch, FINISH, Step::Read { outcome: 0 }] {
            run.step(step);
        }
    }
    assert!(run.alarms() < 2000, "{}", run.alarms());
}

#[test]
fn who_relied_on_an_urgent_job_that_is_late_goes_before_the_rest_of_its_lane() {
    let urgent = Step::Submit {
        batch: 0,
        keys: vec![0, 2],
        priority: Priority::High,
        within: Some(20),
    };
    let gate = Step::CloseGate { key: 0, millis: 10 };
    let waiting = [normal(0, &[0, 2]), submit(1, &[0], Priority::High)];
    let wait = Step::Wait { millis: 30 };
    let run = after(
        1,
        &[
            &[OPEN, OPEN, gate, urgent],
            &waiting,
            &[wait, Step::Dispatch],
        ],
    );
    assert_eq!(run.running(), vec![2]);
}

#[test]
fn a_batch_that_a_running_job_kept_from_growing_is_told_once_that_ends_as_none() {
    let fills = [Step::Open { unread: 2 }, normal(0, &[0]), Step::Dispatch];
    let divides = Step::Divide {
        job: 0,
        keys: None,
        parts: 2,
        held: None,
    };
    let more = Step::WantsMore { batch: 0 };
    // Of the two that run, the first to end leaves no outcome to be read.
    let run = after(4, &[&fills, &[divides, Step::Dispatch, more, FINISH]]);
    assert_eq!(run.running(), [2]);
}

#[test]
fn what_a_job_is_divided_into_goes_before_what_has_not_begun() {
    let divides = Step::Divide {
        job: 0,
        keys: None,
        parts: 3,
        held: None,
    };
    let lane = [normal(0, &[0]), normal(0, &[0]), Step::Dispatch];
    let run = after(2, &[&[OPEN], &lane, &[divides, Step::Dispatch]]);
    assert_eq!(run.running(), [2, 3]);
}
