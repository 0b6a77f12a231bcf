//! libcurl: many transfers on one thread, and the command that does the same.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use curl::easy::{Easy2, Handler, HttpVersion, WriteError};
use curl::multi::{Easy2Handle, Multi};

use crate::load::{Load, Tally, Target};

struct Count {
    slow: bool,
    bytes: u64,
}

impl Handler for Count {
    fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        self.bytes += data.len() as u64;
        Ok(data.len())
    }
}

pub fn run(load: &Arc<Load>, tally: &Arc<Tally>) {
    let mut multi = Multi::new();
    multi.set_max_host_connections(load.per_host).expect("curl");
    multi
        .set_max_connects(load.hosts as usize + load.workers)
        .expect("curl");
    let mut targets = load.targets();
    // Without more than the workers there is no need for a limit on all connections, in which
    // libcurl counts idle ones. Those of the slow host that wait for it are let in besides.
    let transfers = match load.slow {
        Some((_, requests)) => load.workers - load.per_host + requests as usize,
        // So that there are enough hosts among them.
        None if load.grouped => load.workers.div_ceil(load.per_host) * load.each as usize,
        None => load.connections(),
    };
    let mut active: Vec<Option<Easy2Handle<Count>>> = Vec::new();
    for token in 0..transfers {
        let Some(target) = targets.next() else { break };
        active.push(Some(start(&multi, easy(load), load, target, token)));
    }
    let mut left = active.len();
    let mut done = Vec::new();
    while left > 0 {
        multi.perform().expect("curl");
        multi.messages(|message| {
            let token = message.token().expect("a token");
            let handle = active[token].as_ref().expect("an active one");
            message
                .result_for2(handle)
                .expect("its own")
                .expect("a response");
            done.push(token);
        });
        for token in done.drain(..) {
            let handle = active[token].take().expect("an active one");
            let easy = multi.remove2(handle).expect("curl");
            assert_eq!(easy.response_code().expect("curl"), 200);
            tally.done(easy.get_ref().slow, easy.get_ref().bytes);
            match targets.next() {
                Some(target) => active[token] = Some(start(&multi, easy, load, target, token)),
                None => left -= 1,
            }
        }
        if left > 0 {
            multi.poll(&mut [], Duration::from_secs(1)).expect("curl");
        }
    }
}

fn easy(load: &Load) -> Easy2<Count> {
    let mut easy = Easy2::new(Count {
        slow: false,
        bytes: 0,
    });
    easy.http_version(HttpVersion::V11).expect("curl");
    easy.useragent("curl").expect("curl");
    if load.is_big() {
        easy.buffer_size(64 * 1024).expect("curl");
    }
    if load.tls {
        easy.cainfo(&load.ca).expect("curl");
    }
    easy
}

fn start(
    multi: &Multi,
    mut easy: Easy2<Count>,
    load: &Load,
    target: Target,
    token: usize,
) -> Easy2Handle<Count> {
    easy.url(&target.url).expect("a URL");
    easy.get_mut().slow = target.host == load.hosts;
    easy.get_mut().bytes = 0;
    let mut handle = multi.add2(easy).expect("curl");
    handle.set_token(token).expect("curl");
    handle
}

/// The command, for one host: its own limit is one over all.
pub fn run_command(load: &Arc<Load>, tally: &Arc<Tally>) {
    let (address, path, last) = (load.address(0), load.path(0), load.each - 1);
    let scheme = if load.tls { "https" } else { "http" };
    let config = load.ca.with_file_name("curl.conf");
    let text = format!(
        "url = \"{scheme}://{address}{path}?[0-{last}]\"\noutput = /dev/null\n\
         write-out = \"%{{size_download}}\\n\"\ncacert = \"{}\"\n\
         silent\nshow-error\nno-progress-meter\nfail\nparallel\nparallel-immediate\nparallel-max = {}\n",
        load.ca.display(),
        load.per_host,
    );
    std::fs::write(&config, text).expect("a file");
    let mut command = Command::new("curl");
    command.arg("--disable").arg("--config").arg(&config);
    let output = command.stderr(Stdio::inherit()).output().expect("curl");
    assert!(output.status.success(), "{}", output.status);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        tally.done(false, line.parse().expect("a number"));
    }
}
