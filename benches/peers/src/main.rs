//! Runs fetchpool and other ways to fetch the same URLs, each as a process of its own, and
//! prints what they cost. See README.md.

use std::env;
use std::error::Error;
use std::process::ExitCode;

mod clients;
mod load;
mod measure;
mod plan;
mod server;
mod table;

use load::Load;
use measure::{Runner, Sample};
use plan::{Plan, Servers, Work};
use server::{Directory, Nginx, Origin};

#[global_allocator]
static ALLOCATOR: measure::Counting = measure::Counting;

const USAGE: &str = "\
usage: peers [--only 1,2] [--clients raw,fetchpool] [--rounds N] [--quick] [--pin] [--no-counts]
  --only       workloads by number; a number takes all its parts (2 is 2a and 2b)
  --clients    contenders by name
  --rounds     runs of each contender; 5 unless told
  --quick      a tenth of the work, for a look
  --pin        servers on the first core, clients on the second
  --no-counts  without the runs that count system calls and allocations";

/// What runs of one contender cost.
#[derive(Default)]
pub struct Row {
    pub client: &'static str,
    pub samples: Vec<Sample>,
    /// The same without what is in the way, where that is the question.
    pub alone: Vec<Sample>,
    /// Of a request.
    pub syscalls: Option<f64>,
    pub allocations: Option<f64>,
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let result = match args.first().map(String::as_str) {
        Some("origin") => server::origin().map_err(Into::into),
        Some("client") => client(&args[1..]),
        Some("--help") => {
            println!("{USAGE}");
            Ok(())
        }
        _ => compare(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn client(args: &[String]) -> Result<(), Box<dyn Error>> {
    let (name, rest) = args.split_first().ok_or("no name")?;
    let load = Load::from_args(rest).ok_or("not a load")?;
    if rest.iter().any(|arg| arg == "count") {
        measure::count_allocations();
    }
    Ok(clients::run(name, load)?)
}

fn compare(args: &[String]) -> Result<(), Box<dyn Error>> {
    let plan = Plan::from_args(args).ok_or(USAGE)?;
    let directory = Directory::new()?;
    let core = |core| plan.pin.then_some(core);
    let nginx = Nginx::start(&directory.0, &plan.files(), core(0))?;
    let origin = Origin::start(core(0))?;
    let servers = Servers {
        nginx: &nginx,
        origin: &origin,
    };
    let runner = Runner {
        directory: &directory.0,
        core: core(1),
    };
    print!("{}", table::machine(&plan));
    for work in plan.works(&servers) {
        let rows = measure(&plan, &work, &runner);
        print!("{}", table::of(&work, &rows));
    }
    if let Some(loads) = plan.idle(&servers) {
        println!("\n### 8 Memory of an idle connection, each to a host of its own\n");
        for load in loads {
            let held = runner.held("fetchpool", &load)?;
            let kib = held as f64 / load.total() as f64 / 1024.0;
            let scheme = if load.tls { "https" } else { "http" };
            println!("- {scheme}: {kib:.1} KiB");
        }
    }
    Ok(())
}

/// All rounds of a workload. A contender that fails is out, and the others go on.
fn measure(plan: &Plan, work: &Work, runner: &Runner<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for &client in clients::ALL
        .iter()
        .filter(|client| plan.takes(client, work))
    {
        let client = Row {
            client,
            ..Row::default()
        };
        rows.push(client);
    }
    // The file is in memory from then on, and the servers have been asked.
    let _ = runner.run("raw", &work.load);
    for round in 0..work.rounds {
        rows.retain_mut(|row| {
            eprintln!("{} round {}: {}", work.id, round + 1, row.client);
            report(row.client, run_once(work, runner, row))
        });
    }
    if plan.counts && work.counts.is_some() {
        for row in &mut rows {
            eprintln!("{} counts: {}", work.id, row.client);
            report(row.client, count(work, runner, row));
        }
    }
    rows
}

fn report(client: &str, result: Result<(), String>) -> bool {
    if let Err(error) = &result {
        eprintln!("{client} failed: {error}");
    }
    result.is_ok()
}

fn run_once(work: &Work, runner: &Runner<'_>, row: &mut Row) -> Result<(), String> {
    row.samples.push(runner.run(row.client, &work.load)?);
    if let Some(load) = &work.alone {
        row.alone.push(runner.run(row.client, load)?);
    }
    Ok(())
}

fn count(work: &Work, runner: &Runner<'_>, row: &mut Row) -> Result<(), String> {
    let Some(load) = &work.counts else {
        return Ok(());
    };
    let requests = load.total() as f64;
    row.syscalls = Some(runner.syscalls(row.client, load)? as f64 / requests);
    // What curl allocates is not seen.
    if !row.client.starts_with("curl") {
        row.allocations = Some(runner.allocations(row.client, load)? as f64 / requests);
    }
    Ok(())
}
