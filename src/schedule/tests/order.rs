//! Who goes first: seen with one worker, that finds all of them waiting.

use std::time::Instant;

use super::super::{Key, Priority};
use super::key;
use super::rig::{Client, Then, plug, with_workers};

fn host(n: usize) -> Key {
    key(n)
}

fn submit_all(client: &Client, jobs: impl IntoIterator<Item = (usize, Key)>) {
    for (tag, key) in jobs {
        client.submit(tag, &[key], || {});
    }
}

#[test]
fn hosts_take_turns() {
    with_workers(1, 2, |rig| {
        let (client, other) = (rig.open(100), rig.open(1));
        let unplug = plug(&other);
        submit_all(&client, (0..20).map(|n| (n, host(n / 4))));
        drop(unplug);
        let hosts: Vec<_> = client.tags(20).into_iter().map(|tag| tag / 4).collect();
        assert_eq!(hosts, [0, 1, 2, 3, 4].repeat(4));
    });
}

#[test]
fn jobs_of_one_host_start_in_the_order_in_which_they_came() {
    with_workers(1, 1, |rig| {
        let (client, other) = (rig.open(1000), rig.open(1));
        let unplug = plug(&other);
        submit_all(&client, (0..500).map(|n| (n, host(0))));
        drop(unplug);
        assert!(client.tags(500).is_sorted());
    });
}

#[test]
fn a_higher_priority_goes_first_within_a_host_and_among_hosts() {
    use Priority::{High, Low, Normal};
    with_workers(1, 1, |rig| {
        let (client, other) = (rig.open(100), rig.open(1));
        let unplug = plug(&other);
        for (tag, priority) in [Low, Normal, High, Low, High, Normal]
            .into_iter()
            .enumerate()
        {
            client.submit_at(priority, tag, &[host(0)], || {});
        }
        client.submit_at(High, 6, &[host(1)], || {});
        client.submit_at(Low, 7, &[host(1)], || {});
        drop(unplug);
        // The hosts alternate while both have jobs of one priority.
        let tags = client.tags(8);
        assert_eq!([&tags[..3], &tags[3..5]], [&[2, 6, 4][..], &[1, 5]]);
        assert_eq!(tags[5..], [7, 0, 3]);
    });
}

#[test]
fn a_job_that_goes_on_goes_before_those_that_have_not_begun() {
    with_workers(1, 1, |rig| {
        let (client, other) = (rig.open(100), rig.open(1));
        let unplug = plug(&other);
        client.submit_act(0, &[host(0)], |_| Then::Again {
            act: Box::new(|_| Then::Done),
            keys: None,
            at: None,
        });
        // Woken by the clock, it is one that goes on as well.
        client.submit_act(1, &[host(1)], |_| Then::Again {
            act: Box::new(|_| Then::Done),
            keys: Some(vec![host(0)]),
            at: Some(Instant::now()),
        });
        submit_all(&client, (2..50).map(|n| (n, host(0))));
        drop(unplug);
        let tags = client.tags(50);
        assert_eq!(tags[0], 0);
        let fresh: Vec<_> = tags.into_iter().filter(|&tag| tag > 1).collect();
        assert!(fresh.is_sorted());
    });
}

#[test]
fn two_batches_share_a_host_fairly() {
    with_workers(1, 1, |rig| {
        let (a, b, other) = (rig.open(100), rig.open(100), rig.open(1));
        let (send, order) = crossbeam_channel::unbounded();
        let unplug = plug(&other);
        for (client, name) in [(&a, 'a'), (&b, 'b')] {
            for tag in 0..10 {
                let send = send.clone();
                client.submit(tag, &[host(0)], move || send.send(name).unwrap());
            }
        }
        drop((unplug, send));
        assert_eq!(order.iter().collect::<String>(), "ab".repeat(10));
    });
}

#[test]
fn a_redirect_waits_for_its_new_host_and_not_with_the_old_ones_token() {
    with_workers(2, 1, |rig| {
        let client = rig.open(100);
        let (open, opened) = crossbeam_channel::bounded::<()>(0);
        client.submit(0, &[host(1)], move || {
            let _ = opened.recv();
        });
        client.submit_act(1, &[host(0)], |_| Then::Again {
            act: Box::new(|_| Then::Done),
            keys: Some(vec![host(1)]),
            at: None,
        });
        submit_all(&client, (2..50).map(|n| (n, host(0))));
        assert_eq!(client.tags(48), (2..50).collect::<Vec<_>>());
        drop(open);
        let mut last = client.tags(2);
        last.sort_unstable();
        assert_eq!(last, [0, 1]);
    });
}

#[test]
fn a_slow_host_listed_first_delays_no_other() {
    with_workers(4, 3, |rig| {
        let client = rig.open(10_000);
        let (open, opened) = crossbeam_channel::bounded::<()>(0);
        for tag in 0..100 {
            let opened = opened.clone();
            client.submit(tag, &[host(0)], move || {
                let _ = opened.recv();
            });
        }
        submit_all(&client, (100..2000).map(|n| (n, host(1 + n % 50))));
        assert!(client.tags(1900).into_iter().all(|tag| tag >= 100));
        drop(open);
        assert!(client.tags(100).into_iter().all(|tag| tag < 100));
    });
}

#[test]
fn a_batch_that_nobody_reads_costs_another_nothing() {
    with_workers(2, 1, |rig| {
        let (unread, read) = (rig.open(2), rig.open(10));
        submit_all(&unread, (0..100).map(|n| (n, host(n % 2))));
        submit_all(&read, (0..1000).map(|n| (n, host(n % 2))));
        read.tags(1000);
        assert!(unread.unread() <= 2);
        unread.tags(100);
    });
}
