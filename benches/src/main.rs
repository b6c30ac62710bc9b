//! Cost of sordino and its peers, measured in one run: `make bench`.
//!
//! Every figure is measured in rounds, its peers interleaved within each, and printed as the median with the spread.
//! `sordino-bench [NAME...]` runs some of them; `BENCH_ROUNDS` (default 5) sets the rounds and `BENCH_SECONDS` (default
//! 10) the length of rate measurements.
//!
//! | module | content |
//! |---|---|
//! | `cost`, `conditions`, `start` | the cost of a hit, of a hit that a condition rejects, and of a program's start |
//! | `rate`, `scaling`, `many` | the highest rate without loss, many writers at once, many short programs |
//! | `take_up`, `sessions` | what a session adds to the start of a program, and snapshots to its run |
//! | `gaps`, `ordinary`, `kernel` | gaps in a real-time loop and in an ordinary one, and the slowdown of ordinary work |
//! | `oslat` | npt beside rt-tests' oslat, which measures the same |
//! | `collector`, `watch` | CPU time of collectors, and of views of a session |
//! | `reading`, `queries`, `pages` | the speed of reading, of questions to a large recording, and of its page |
//! | `exports` | the speed of exports of a large recording, and of SQL |
//! | `fibers`, `sumtime`, `superlu` | events of fibers and functions: their cost, in a tree of fibers, in a solver |
//! | `peers`, `programs`, `knob`, `table` | shared: tracers, measuring programs, settings of the machine, the table |

mod collector;
mod conditions;
mod cost;
mod exports;
mod fibers;
mod gaps;
mod kernel;
mod knob;
mod many;
mod ordinary;
mod oslat;
mod pages;
mod peers;
mod programs;
mod queries;
mod rate;
mod reading;
mod scaling;
mod sessions;
mod start;
mod sumtime;
mod superlu;
mod table;
mod take_up;
mod watch;

use programs::MeasuringPrograms;
use std::process::ExitCode;
use table::FigureTable;

/// Programs and settings of every measurement.
struct Bench {
    programs: MeasuringPrograms,
    rounds: usize,
    seconds: f64,
}

type MeasurementFunction = fn(&Bench, &mut FigureTable) -> Result<(), String>;

const MEASUREMENTS: &[(&str, MeasurementFunction)] = &[
    ("cost", cost::measure),
    ("conditions", conditions::measure),
    ("gaps", gaps::measure),
    ("ordinary", ordinary::measure),
    ("scaling", scaling::measure),
    ("rate", rate::measure),
    ("collector", collector::measure),
    ("reading", reading::measure),
    ("queries", queries::measure),
    ("exports", exports::measure),
    ("start", start::measure),
    ("take-up", take_up::measure),
    ("many", many::measure),
    ("kernel", kernel::measure),
    ("sessions", sessions::measure),
    ("oslat", oslat::measure),
    ("pages", pages::measure),
    ("watch", watch::measure),
    ("fibers", fibers::measure),
    ("sumtime", sumtime::measure),
    ("superlu", superlu::measure),
];

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["cost-in-rust"] => return cost::in_rust(),
        [conditions::HIDDEN] => return conditions::in_rust(),
        _ => {}
    }
    let unknown = names.iter().find(|name| !MEASUREMENTS.iter().any(|(known, _)| known == name));
    if let Some(unknown) = unknown {
        let known: Vec<&str> = MEASUREMENTS.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no measurement '{unknown}'; there are: {}", known.join(", "));
        return ExitCode::from(2);
    }
    let number = |name: &str, default: f64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let programs = match MeasuringPrograms::build() {
        Ok(programs) => programs,
        Err(reason) => {
            eprintln!("the measuring programs can't be built: {reason}");
            return ExitCode::from(2);
        }
    };
    let bench = Bench {
        programs,
        rounds: number("BENCH_ROUNDS", 5.0) as usize,
        seconds: number("BENCH_SECONDS", 10.0),
    };
    let mut table = FigureTable::default();
    println!("{}", table::machine());
    for (name, measurement) in MEASUREMENTS {
        if names.is_empty() || names.iter().any(|names| names == name) {
            eprintln!("measuring {name} ...");
            if let Err(reason) = measurement(&bench, &mut table) {
                table.missing(name, &reason);
            }
        }
    }
    println!("{table}");
    ExitCode::SUCCESS
}
