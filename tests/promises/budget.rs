//! No host ever sees more connections than its budget, and all of the budget is used.

use fetchpool::{Key, Request, Url};

use crate::support::{Gate, Origin, Reply};
use crate::{n, once, with};

fn held_origin(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |_| Reply::ok("x").after(&gate))
}

fn drain<T>(batch: impl Iterator<Item = Result<T, fetchpool::Error>>) -> usize {
    batch.fold(0, |count, item| {
        assert!(item.is_ok(), "{:?}", item.err());
        count + 1
    })
}

#[test]
fn six_at_a_time_and_all_six_are_used() {
    let gate = Gate::new();
    let origin = held_origin(&gate);
    let downloader = once();
    let urls: Vec<_> = (0..60).map(|i| origin.url(&format!("/{i}"))).collect();
    let fetching = std::thread::spawn(move || drain(downloader.fetch_all(urls)));
    gate.wait_for_waiters(6);
    // A seventh would wait in the gate before long; that it does not is shown by the peak in the end.
    gate.open();
    assert_eq!(fetching.join().unwrap(), 60);
    let stats = origin.stats();
    assert_eq!(stats.requests.total, 60);
    assert_eq!(stats.requests.peak, 6);
}

#[test]
fn connections_are_kept_so_that_sixty_requests_need_no_more_than_six() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = once();
    let urls = (0..60).map(|i| origin.url(&format!("/{i}")));
    assert_eq!(drain(downloader.fetch_all(urls)), 60);
    assert!(
        origin.stats().connections.total <= 6,
        "{:?}",
        origin.stats()
    );
}

#[test]
fn a_capacity_of_ones_own_and_one_changed_while_it_runs_are_kept_to() {
    let gate = Gate::new();
    let origin = held_origin(&gate);
    let url = Url::parse(&origin.url("/")).unwrap();
    let key = Key::host(&url);
    let downloader = with(|b| b.limit(key.clone(), n(2)));
    let urls: Vec<_> = (0..40).map(|i| origin.url(&format!("/{i}"))).collect();
    let other = downloader.clone();
    let fetching = std::thread::spawn(move || drain(other.fetch_all(urls)));
    gate.wait_for_waiters(2);
    downloader.set_limit(&key, n(9));
    gate.wait_for_waiters(9);
    downloader.set_limit(&key, n(1));
    gate.open();
    assert_eq!(fetching.join().unwrap(), 40);
    assert_eq!(origin.stats().requests.peak, 9);
    // Lowered for good.
    let gate = Gate::new();
    let held = gate.clone();
    let again = Origin::start(move |_| Reply::ok("x").after(&held));
    downloader.set_limit(&Key::host(&Url::parse(&again.url("/")).unwrap()), n(1));
    let urls: Vec<_> = (0..8).map(|i| again.url(&format!("/{i}"))).collect();
    let fetching = std::thread::spawn(move || drain(downloader.fetch_all(urls)));
    gate.wait_for_waiters(1);
    gate.open();
    assert_eq!(fetching.join().unwrap(), 8);
    assert_eq!(again.stats().requests.peak, 1);
}

#[test]
fn a_slow_host_listed_first_delays_no_other() {
    let gate = Gate::new();
    let slow = held_origin(&gate);
    let fast: Vec<_> = (0..10)
        .map(|_| Origin::start(|_| Reply::ok("fast")))
        .collect();
    let downloader = with(|b| b.workers(8));
    let mut urls: Vec<_> = (0..60).map(|i| slow.url(&format!("/{i}"))).collect();
    for i in 0..20 {
        urls.extend(fast.iter().map(|origin| origin.url(&format!("/{i}"))));
    }
    let mut batch = downloader.fetch_all(urls);
    // All of the fast ones come out while the slow host has not answered once.
    for _ in 0..200 {
        let page = batch.next().unwrap().expect("fetched");
        assert_eq!(page.body(), b"fast");
    }
    assert_eq!(slow.stats().requests.peak, 6);
    gate.open();
    assert_eq!(drain(batch), 60);
}

#[test]
fn spellings_of_one_host_share_a_budget() {
    let gate = Gate::new();
    let origin = held_origin(&gate);
    let port = origin.addr().port();
    let hosts = [
        "127.0.0.1",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "user:pw@127.0.0.1",
    ];
    let urls: Vec<_> = (0..20)
        .map(|i| format!("hTTp://{}:{port}/{i}", hosts[i % hosts.len()]))
        .collect();
    let downloader = with(|b| b.per_host(n(3)));
    let fetching = std::thread::spawn(move || drain(downloader.fetch_all(urls)));
    gate.wait_for_waiters(3);
    gate.open();
    assert_eq!(fetching.join().unwrap(), 20);
    assert_eq!(origin.stats().requests.peak, 3);
}

#[test]
fn a_budget_of_the_callers_own_spans_hosts() {
    let gate = Gate::new();
    let origins: Vec<_> = (0..4).map(|_| held_origin(&gate)).collect();
    let account = Key::named("account");
    let downloader = with(|b| b.limit(account.clone(), n(5)));
    let requests: Vec<_> = (0..40)
        .map(|i| Request::new(origins[i % 4].url(&format!("/{i}"))).budget(account.clone()))
        .collect();
    let fetching = std::thread::spawn(move || drain(downloader.fetch_all(requests)));
    gate.wait_for_waiters(5);
    let now = |o: &Origin| o.stats().requests.now;
    assert_eq!(origins.iter().map(now).sum::<u64>(), 5);
    gate.open();
    assert_eq!(fetching.join().unwrap(), 40);
}

#[test]
fn a_redirects_target_obeys_its_own_budget_and_the_old_hosts_token_is_given_back() {
    let gate = Gate::new();
    let target = held_origin(&gate);
    let to = target.url("/target");
    let source = Origin::start(move |_| Reply::redirect(302, &to));
    let downloader = with(|b| b.per_host(n(2)));
    let urls: Vec<_> = (0..20).map(|i| source.url(&format!("/{i}"))).collect();
    let key = source.url("/");
    let other = downloader.clone();
    let fetching = std::thread::spawn(move || drain(other.fetch_all(urls)));
    gate.wait_for_waiters(2);
    // While all of the redirects wait for two tokens of the target, the source's are free.
    source.wait_until(|stats| stats.requests.total == 20);
    let _both = (
        downloader.permit(key.as_str()).expect("a permit"),
        downloader.permit(key.as_str()).expect("a permit"),
    );
    gate.open();
    assert_eq!(fetching.join().unwrap(), 20);
    assert_eq!(target.stats().requests.peak, 2);
    assert!(source.stats().requests.peak <= 2);
}

#[test]
fn the_permit_is_held_to_the_last_byte() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        Reply::status(200)
            .declared_length(8)
            .then_send("head")
            .then_wait(&held)
            .then_send("tail")
    });
    let downloader = with(|b| b.per_host(n(1)));
    let url = origin.url("/");
    let mut batch = downloader.fetch_all([url.clone()]);
    std::thread::scope(|scope| {
        let page = scope.spawn(move || batch.next().unwrap().expect("fetched"));
        gate.wait_for_waiters(1);
        let while_read = downloader.try_permit(&url).unwrap();
        assert!(while_read.is_none(), "the body is still being read");
        gate.open();
        assert_eq!(page.join().unwrap().body(), b"headtail");
    });
    assert!(downloader.try_permit(&url).unwrap().is_some());
}

#[test]
fn the_permit_is_held_until_the_closure_returns() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let gate = Gate::new();
    let downloader = with(|b| b.per_host(n(1)));
    let url = origin.url("/");
    let held = gate.clone();
    let mut batch = downloader.fetch_with([url.clone()], move |body| {
        held.wait();
        std::io::read_to_string(body)
    });
    std::thread::scope(|scope| {
        let text = scope.spawn(move || batch.next().unwrap().expect("fetched"));
        gate.wait_for_waiters(1);
        assert!(downloader.try_permit(&url).unwrap().is_none());
        gate.open();
        assert_eq!(text.join().unwrap(), "x");
    });
    assert!(downloader.try_permit(&url).unwrap().is_some());
}
