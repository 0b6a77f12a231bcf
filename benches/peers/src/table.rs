//! The report, as Markdown.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::Row;
use crate::measure::{Sample, median};
use crate::plan::{Plan, Work};

/// What it was measured on, and with.
pub fn machine(plan: &Plan) -> String {
    let cores = thread::available_parallelism().map_or(0, |n| n.get());
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split(": ").nth(1))
        .unwrap_or("?");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let names = [
        "fetchpool",
        "ureq",
        "rustls",
        "reqwest",
        "hyper",
        "tokio",
        "curl",
        "httparse",
    ];
    let versions: Vec<String> = names.iter().map(|name| version(name)).collect();
    let nginx = said("nginx", "-v");
    let command = said("curl", "--version");
    let command: Vec<&str> = command.split(' ').take(2).collect();
    let (pin, quick) = (
        if plan.pin {
            "servers on one core, clients on another"
        } else {
            "not pinned"
        },
        if plan.quick { ", --quick" } else { "" },
    );
    format!(
        "{cores} × {model}, Linux {}, load {load} at the start, {pin}{quick}\n\n\
         {}, libcurl {}, {}, {}\n\n\
         Medians of {} rounds. In brackets: the least. × raw: against the first line.\n",
        kernel.trim(),
        versions.join(", "),
        curl::Version::get().version(),
        nginx.trim(),
        command.join(" "),
        plan.rounds,
    )
}

fn version(name: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let package = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
    let version = package.and_then(|(_, rest)| rest.split('"').next());
    format!("{name} {}", version.unwrap_or("?"))
}

/// The first line that a program says about itself.
fn said(program: &str, argument: &str) -> String {
    let Ok(output) = Command::new(program).arg(argument).output() else {
        return format!("no {program}");
    };
    let bytes = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.lines().next().unwrap_or_default().to_owned()
}

pub fn of(work: &Work, rows: &[Row]) -> String {
    let big = work.load.is_big();
    let amount = if big {
        (work.load.total() * work.load.body) as f64 / f64::from(1 << 30)
    } else {
        work.load.total() as f64
    };
    let mut head = vec!["".to_owned()];
    head.push(if big { "CPU ms/GiB" } else { "CPU µs/request" }.to_owned());
    head.extend(["× raw", "wall ms", "× raw"].map(str::to_owned));
    match (work.ideal, &work.alone) {
        (Some(_), _) => head.push("wall ÷ ideal".to_owned()),
        (None, Some(_)) => head.extend(["alone ms", "wall ÷ alone"].map(str::to_owned)),
        (None, None) => {}
    }
    let switches = if big {
        "switches/MiB"
    } else {
        "switches/request"
    };
    head.extend(["max RSS MiB", switches].map(str::to_owned));
    let counted = rows.iter().any(|row| row.syscalls.is_some());
    if counted {
        head.extend(["syscalls/request", "allocations/request"].map(str::to_owned));
    }
    let mut text = format!("\n### {} {}\n\n", work.id, work.title);
    line(&mut text, &head);
    let align = head.iter().enumerate();
    let align: Vec<_> = align
        .map(|(i, _)| if i == 0 { ":--" } else { "--:" }.to_owned())
        .collect();
    line(&mut text, &align);
    for row in rows.iter().filter(|row| !row.samples.is_empty()) {
        let first = (rows[0].client == "raw").then_some(&rows[0]);
        line(&mut text, &cells(work, row, first, amount, counted));
    }
    text
}

fn cells(work: &Work, row: &Row, raw: Option<&Row>, amount: f64, counted: bool) -> Vec<String> {
    let big = work.load.is_big();
    // Microseconds of a request, milliseconds of a GiB.
    let unit = if big { 1e3 } else { 1e6 };
    let cpu = |row: &Row| seconds(&row.samples, |sample| sample.cpu);
    let wall = |row: &Row| seconds(&row.samples, |sample| sample.wall);
    let ratio = |of: &dyn Fn(&Row) -> f64| match raw {
        Some(raw) => format!("{:.2}", of(row) / of(raw)),
        None => "–".to_owned(),
    };
    let cpus = row.samples.iter().map(|sample| sample.cpu.as_secs_f64());
    let least = cpus.fold(f64::INFINITY, f64::min);
    let per = |seconds: f64| seconds * unit / amount;
    let mut cells = vec![
        row.client.to_owned(),
        format!("{:.1} ({:.1})", per(cpu(row)), per(least)),
        ratio(&cpu),
        format!("{:.0}", wall(row) * 1e3),
        ratio(&wall),
    ];
    if let Some(ideal) = work.ideal {
        cells.push(format!("{:.2}", wall(row) / ideal.as_secs_f64()));
    } else if work.alone.is_some() {
        let alone = seconds(&row.alone, |sample| sample.wall);
        cells.push(format!("{:.0}", alone * 1e3));
        cells.push(format!("{:.2}", wall(row) / alone));
    }
    let rss = |sample: &Sample| sample.rss_kib as f64 / 1024.0;
    cells.push(format!(
        "{:.1}",
        median(row.samples.iter().map(rss).collect())
    ));
    let switches = |sample: &Sample| sample.switches as f64;
    let switches = median(row.samples.iter().map(switches).collect());
    let of = if big { amount * 1024.0 } else { amount };
    cells.push(format!("{:.2}", switches / of));
    if counted {
        for count in [row.syscalls, row.allocations] {
            cells.push(count.map_or("–".to_owned(), |count| format!("{count:.1}")));
        }
    }
    cells
}

fn seconds(samples: &[Sample], of: impl Fn(&Sample) -> Duration) -> f64 {
    median(
        samples
            .iter()
            .map(|sample| of(sample).as_secs_f64())
            .collect(),
    )
}

fn line(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}
