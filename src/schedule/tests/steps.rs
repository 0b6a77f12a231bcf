//! Random histories: whatever comes between, the state does as the model says.

use proptest::prelude::*;

use super::super::Priority;
use super::limits;
use super::model::KEYS;
use super::run::{IDLE_AGE, Run, WORKERS};

const CAPACITY: usize = 2;

/// Which of those there are: taken modulo their number.
pub(super) type Which = usize;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Open {
        unread: usize,
    },
    Submit {
        batch: Which,
        keys: Vec<usize>,
        priority: Priority,
        within: Option<u64>,
    },
    Dispatch,
    Finish {
        job: Which,
        resident: bool,
        held: Option<u64>,
        more: usize,
    },
    Again {
        job: Which,
        keys: Option<Vec<usize>>,
        after: Option<u64>,
        held: Option<u64>,
    },
    Divide {
        job: Which,
        keys: Option<Vec<usize>>,
        parts: usize,
        held: Option<u64>,
    },
    PutBack {
        job: Which,
    },
    Read {
        outcome: Which,
    },
    WantsMore {
        batch: Which,
    },
    Cancel {
        batch: Which,
    },
    EndAt {
        batch: Which,
        millis: u64,
    },
    Acquire {
        keys: Vec<usize>,
    },
    TryAcquire {
        keys: Vec<usize>,
    },
    Abandon {
        waiter: Which,
    },
    Release {
        permit: Which,
    },
    SetCapacity {
        key: usize,
        capacity: usize,
    },
    CloseGate {
        key: usize,
        millis: u64,
    },
    Wait {
        millis: u64,
    },
}

/// Out of plain numbers: strategies nested per step take longer than all that is tested.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(
        (0..54_u8, 0..1000_usize, any::<u32>()).prop_map(step),
        1..300,
    )
}

fn step((kind, which, bits): (u8, Which, u32)) -> Step {
    let keys = (0..=bits % 3)
        .map(|n| (bits >> (8 + 2 * n)) as usize % KEYS)
        .collect();
    let key = (bits >> 8) as usize % KEYS;
    let is_rare = (bits >> 16) % 5 == 0;
    let millis = 1 + u64::from(bits >> 16) % if is_rare { 2 * IDLE_AGE } else { 100 };
    let (job, batch) = (which, which);
    match kind {
        0 => Step::Open {
            unread: 1 + which % 4,
        },
        1..9 => {
            let priority = match bits >> 28 {
                0..3 => Priority::Low,
                3..6 => Priority::High,
                _ => Priority::Normal,
            };
            Step::Submit {
                batch,
                keys,
                priority,
                within: ((bits >> 4) % 4 == 0).then_some(millis),
            }
        }
        9..17 => Step::Dispatch,
        17..23 => Step::Finish {
            job,
            resident: bits % 2 == 0,
            held: ((bits >> 4) % 4 == 0).then_some(millis),
            more: [0, 0, 1, 5][(bits >> 2) as usize % 4],
        },
        23..26 => {
            let keys = (bits >> 30 == 0).then_some(keys);
            let after = (bits >> 29 & 1 == 0).then_some(millis);
            let held = ((bits >> 4) % 4 == 0).then_some(millis);
            Step::Again {
                job,
                keys,
                after,
                held,
            }
        }
        26 => Step::PutBack { job },
        // At least into one: into none goes who is not the last, when he finishes.
        52..54 => Step::Divide {
            job,
            keys: (bits >> 30 == 0).then_some(keys),
            parts: 1 + (bits >> 20) as usize % 4,
            held: ((bits >> 4) % 4 == 0).then_some(millis),
        },
        27..33 => Step::Read { outcome: which },
        33..35 => Step::WantsMore { batch },
        35 if is_rare => Step::EndAt { batch, millis },
        35 => Step::Cancel { batch },
        36..39 => Step::Acquire { keys },
        39 => Step::TryAcquire { keys },
        40 => Step::Abandon { waiter: which },
        41..45 => Step::Release { permit: which },
        45..47 => Step::SetCapacity {
            key,
            capacity: 1 + which % 3,
        },
        47..49 => Step::CloseGate { key, millis },
        _ => Step::Wait { millis },
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_history_keeps_the_promises(steps in steps(), stops in any::<bool>()) {
        let mut run = Run::new(limits(WORKERS, CAPACITY));
        for step in steps {
            run.step(step);
            run.check();
        }
        if stops {
            run.stop();
        } else {
            run.drain();
        }
        run.check();
        assert_eq!(run.state.entries(), 0, "{}", run.state.dump());
    }
}
