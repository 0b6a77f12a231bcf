//! Runs a client as a process of its own and tells what that cost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::load::Load;

/// Counts allocations where that is switched on; else it costs a load.
pub struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicI64 = AtomicI64::new(0);

fn count(allocations: u64, bytes: i64) {
    if COUNTS.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(allocations, Ordering::Relaxed);
        HELD.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: All is left to the system's allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        unsafe { System.dealloc(pointer, layout) }
    }
}

pub fn count_allocations() {
    COUNTS.store(true, Ordering::Relaxed);
}

pub fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Bytes that have been allocated since they are counted, and not freed.
pub fn held() -> i64 {
    HELD.load(Ordering::Relaxed)
}

/// The most that this process has been resident, in KiB.
pub fn peak_rss() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    number.and_then(|n| n.parse().ok()).expect("VmHWM")
}

/// What one run cost.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// User and system time of the process, its start included.
    pub cpu: Duration,
    /// From the client's first step to its last, without the start of the process.
    pub wall: Duration,
    pub rss_kib: u64,
    pub switches: i64,
    allocations: u64,
    held: u64,
}

/// How clients are run.
pub struct Runner<'a> {
    pub directory: &'a Path,
    /// Clients on the last core, servers on the first.
    pub core: Option<usize>,
}

impl Runner<'_> {
    /// Runs a client.
    pub fn run(&self, client: &str, load: &Load) -> Result<Sample, String> {
        self.sample(client, load, &[], &[])
    }

    /// The allocations of a run; those of C code are not seen.
    pub fn allocations(&self, client: &str, load: &Load) -> Result<u64, String> {
        let sample = self.sample(client, load, &[], &["count"])?;
        Ok(sample.allocations)
    }

    /// The bytes that a client holds when all is fetched.
    pub fn held(&self, client: &str, load: &Load) -> Result<u64, String> {
        let sample = self.sample(client, load, &[], &["count"])?;
        Ok(sample.held)
    }

    /// The system calls of a run, those of the process's start included.
    pub fn syscalls(&self, client: &str, load: &Load) -> Result<u64, String> {
        let file = self.directory.join("strace");
        let file = file.to_str().ok_or("the directory's name is not UTF-8")?;
        let strace = ["strace", "-c", "-f", "-U", "calls,name", "-o", file];
        self.sample(client, load, &strace, &[])?;
        let table = fs::read_to_string(file).map_err(|error| error.to_string())?;
        let total = table
            .lines()
            .find(|line| line.trim_end().ends_with(" total"));
        let calls = total.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
        calls.ok_or_else(|| format!("strace says {table}"))
    }

    fn sample(
        &self,
        client: &str,
        load: &Load,
        under: &[&str],
        more: &[&str],
    ) -> Result<Sample, String> {
        let exe = env::current_exe().map_err(|error| error.to_string())?;
        let mut words = Vec::new();
        if let Some(core) = self.core {
            words.extend(["taskset".to_owned(), "-c".to_owned(), core.to_string()]);
        }
        words.extend(under.iter().map(|&word| word.to_owned()));
        words.push(exe.display().to_string());
        words.extend(["client".to_owned(), client.to_owned()]);
        words.extend(load.to_args());
        words.extend(more.iter().map(|&word| word.to_owned()));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.stderr(Stdio::inherit());

        // No other child is waited for meanwhile.
        let before = children()?;
        let output = command.output().map_err(|error| error.to_string())?;
        let after = children()?;
        let told = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!("{client}: {}", output.status));
        }
        let find = |key: &str| {
            let mut pairs = told.split_ascii_whitespace();
            let value = pairs.find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
            value.and_then(|value| value.parse::<u64>().ok())
        };
        let missing = || format!("{client} says {told}");
        Ok(Sample {
            cpu: cpu(&after) - cpu(&before),
            wall: Duration::from_micros(find("wall_us").ok_or_else(missing)?),
            rss_kib: find("rss_kib").ok_or_else(missing)?,
            switches: switches(&after) - switches(&before),
            allocations: find("allocations").ok_or_else(missing)?,
            held: find("held").ok_or_else(missing)?,
        })
    }
}

/// What all children so far have used. Of a process that ended, this has its exit as well.
fn children() -> Result<Usage, String> {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())
}

/// The largest of this process's children, in KiB.
pub fn child_rss() -> u64 {
    children().map_or(0, |usage| usage.max_rss() as u64)
}

fn cpu(usage: &Usage) -> Duration {
    duration(usage.user_time()) + duration(usage.system_time())
}

fn duration(time: TimeVal) -> Duration {
    Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000)
}

fn switches(usage: &Usage) -> i64 {
    usage.voluntary_context_switches() + usage.involuntary_context_switches()
}

/// The middle one, or the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => f64::NAN,
        _ => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}
