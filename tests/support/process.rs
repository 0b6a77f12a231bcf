//! What this process has open and running, and how to have it to oneself.

use std::env;
use std::ffi::OsStr;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;

use super::PATIENCE;

/// Set to the test's name in the process that [`alone`] starts.
const ALONE: &str = "FETCHPOOL_TEST_ALONE";

/// Held while a process is started: until its `exec` it has a copy of every socket, and those that are closed meanwhile stay
/// open. Who counts connections waits for that.
static STARTING: Mutex<()> = Mutex::new(());

/// Runs `work` at a time at which no other process has copies of this one's sockets.
pub(super) fn without_copied_sockets<T>(work: impl FnOnce() -> T) -> T {
    let _alone = STARTING.lock();
    work()
}

/// Whether this test has the process to itself, as one must that counts threads or sockets: others run beside it.
///
/// At first it has not: then this runs the test named (its full path in the test binary) in a process of its own, panics if
/// it fails there, and returns `false`. So begin with `if !support::alone("its_name") { return; }`.
#[track_caller]
pub fn alone(test: &str) -> bool {
    alone_in(test, &[])
}

/// The same with these variables in the environment of that process.
#[track_caller]
pub fn alone_in(test: &str, variables: &[(&str, &OsStr)]) -> bool {
    let program = env::current_exe().expect("a test knows its own program");
    start_alone(test, Command::new(program), variables)
}

/// The same in a process that may have no more than so many file handles, its standard streams included.
#[cfg(unix)]
#[track_caller]
pub fn alone_with_handles(test: &str, handles: u32, variables: &[(&str, &OsStr)]) -> bool {
    let program = env::current_exe().expect("a test knows its own program");
    let mut limited = Command::new("sh");
    limited
        .arg("-c")
        .arg(format!("ulimit -n {handles} && exec \"$0\" \"$@\""))
        .arg(program);
    start_alone(test, limited, variables)
}

#[track_caller]
fn start_alone(test: &str, mut program: Command, variables: &[(&str, &OsStr)]) -> bool {
    if env::var(ALONE).as_deref() == Ok(test) {
        return true;
    }
    let child = without_copied_sockets(|| {
        let mut child = program
            .args([
                test,
                "--exact",
                "--include-ignored",
                "--test-threads=1",
                "--nocapture",
            ])
            .env(ALONE, test)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a test can start itself again");
        // Once it has said something it runs its own program, and has lost its copies.
        let output = child.stdout.as_mut().expect("its output is piped");
        let said = output.read(&mut [0]);
        said.expect("its output can be read");
        child
    });
    let run = child.wait_with_output().expect("its output can be read");
    let said = [run.stdout, run.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .join("\n");
    assert!(run.status.success(), "{test}, alone, failed:\n{said}");
    assert!(
        said.contains("1 passed"),
        "there is no test {test}:\n{said}"
    );
    false
}

/// Yields until `fact` holds: for what the kernel alone knows and tells nobody, such as that a joined thread is gone from
/// its lists. For everything else there are events.
///
/// # Panics
/// After [`PATIENCE`], naming `what`.
#[track_caller]
pub fn eventually(what: &str, mut fact: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !fact() {
        assert!(
            begin.elapsed() < PATIENCE,
            "after {PATIENCE:?} still not: {what}"
        );
        thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
pub use linux::{open_sockets, threads, threads_named, threads_not_of_origins};

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    /// The live threads of this process. One that has just been joined may be among them for a moment: see
    /// [`eventually`](super::eventually).
    pub fn threads() -> usize {
        names().len()
    }

    /// The live threads whose name begins so. The kernel keeps 15 bytes of a name.
    pub fn threads_named(prefix: &str) -> usize {
        names()
            .iter()
            .filter(|name| name.starts_with(prefix))
            .count()
    }

    /// The live threads that do not serve an origin.
    pub fn threads_not_of_origins() -> usize {
        names()
            .iter()
            .filter(|name| !name.starts_with("origin:"))
            .count()
    }

    fn names() -> Vec<String> {
        let tasks = fs::read_dir("/proc/self/task").expect("Linux lists a process's threads");
        // A thread that ends meanwhile has no name any more, and is not counted.
        tasks
            .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .collect()
    }

    /// The open sockets of this process, an origin's among them: one for its listener, one for each connection.
    pub fn open_sockets() -> usize {
        let handles = fs::read_dir("/proc/self/fd").expect("Linux lists a process's file handles");
        let targets = handles.filter_map(|handle| fs::read_link(handle.ok()?.path()).ok());
        targets
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    }
}
