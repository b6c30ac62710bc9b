//! Gaps that a recorder makes in an ordinary loop, which has no priority over it.
//!
//! The kernel's events identify the threads on the loop's CPU: a second recorder, bound to another CPU, records its
//! switches. Other threads of the machine are therefore not counted as the recorder's.

use crate::Bench;
use crate::peers::{COLLECTOR_CPU, PROGRAM_CPU};
use crate::programs::{TargetTracer, output_of};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use serde_json::Value;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Duration in nanoseconds from which the time between two passes of the loop counts as a gap.
const GAP_NS: i64 = 500_000;
/// Longest time in nanoseconds that a recorder should run without a pause.
const STRETCH_NS: i64 = 50_000;
/// Seconds of a round, at least: five rounds are the minute for which the limit is defined.
pub(crate) const SECONDS: f64 = 12.0;

/// Results of one round; counts are scaled to a minute.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RoundResult {
    /// Gaps longer than `GAP_NS`, and those of them that the recorder filled by at least half.
    pub(crate) gaps: f64,
    pub(crate) recorders: f64,
    /// Stretches of the recorder that were longer than `STRETCH_NS`, and the longest in microseconds.
    stretches: f64,
    pub(crate) longest_us: f64,
}

#[derive(Debug, Default)]
struct RoundFigures([FigureSamples; 4]);

impl RoundFigures {
    fn push(&mut self, round: &RoundResult) {
        let figures = [round.gaps, round.recorders, round.stretches, round.longest_us];
        self.0.iter_mut().zip(figures).for_each(|(samples, figure)| samples.push(figure));
    }
}

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let place = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
    let seconds = bench.seconds.max(SECONDS);
    let both = format!("{COLLECTOR_CPU},{PROGRAM_CPU}");
    let [mut alone, mut beside, mut together] = <[RoundFigures; 3]>::default();
    for round in 0..bench.rounds {
        let path = |name: &str| place.path().join(format!("{name}{round}"));
        let rounds = [
            (&mut alone, None),
            (&mut beside, Some(both.clone())),
            (&mut together, Some(PROGRAM_CPU.to_string())),
        ];
        for (figures, cpus) in rounds {
            figures.push(&measured(bench, &path("switches"), &path("recording"), seconds, cpus.as_deref())?);
            for name in ["switches", "recording"] {
                let _ = std::fs::remove_dir_all(path(name));
            }
        }
    }
    table.heading("Gaps of an ordinary loop beside `sordino record`, by who had its CPU");
    for (figures, what) in
        [(&alone, "not recorded"), (&beside, "recorded"), (&together, "recorded, with one CPU for both")]
    {
        let [gaps, recorders, stretches, longest] = &figures.0;
        table.figure(&format!("{what}, gaps over 500 us"), gaps, "/min");
        if !std::ptr::eq(figures, &alone) {
            table.figure(&format!("{what}, of these the recorder's"), recorders, "/min");
            table.figure(&format!("{what}, recorder over 50 us"), stretches, "/min");
            table.figure(&format!("{what}, recorder's longest"), longest, "us");
        }
    }
    let worst = beside.0[1].greatest();
    table.difference(
        "gaps over 500 us that are the recorder's, at worst",
        worst,
        "/min",
        Some((0.0, LimitSide::AtMost)),
    );
    Ok(())
}

/// Runs the loop, beside a recorder that may use these CPUs, if there are any.
fn measured(
    bench: &Bench,
    switches: &Path,
    recording: &Path,
    seconds: f64,
    cpus: Option<&str>,
) -> Result<RoundResult, String> {
    let sordino = &bench.programs.sordino;
    let Some(cpus) = cpus else {
        let program = observed::<&str>(bench, switches, seconds, &[])?;
        return round_of(bench, switches, program, HashSet::new());
    };
    let beside = ["taskset", "-c", cpus].map(OsStr::new);
    let options = ["record", "--user", "bench:two", "-o"].map(OsStr::new);
    let recorder = [&beside[..], &[sordino.as_os_str()], &options, &[recording.as_os_str(), "--".as_ref()]];
    let program = observed(bench, switches, seconds, &recorder.concat())?;
    round_of(bench, switches, program, recorder_of(sordino, recording)?)
}

/// Runs the loop behind the words of a command, while another recorder keeps the switches of its CPU. Returns its
/// process id.
pub(crate) fn observed<S: AsRef<OsStr>>(
    bench: &Bench,
    switches: &Path,
    seconds: f64,
    behind: &[S],
) -> Result<i64, String> {
    let [cpu, other] = [PROGRAM_CPU, COLLECTOR_CPU].map(|cpu| cpu.to_string());
    let mut observer = Command::new("taskset");
    observer.args(["-c", &other]).arg(&bench.programs.sordino);
    observer.args(["record", "--no-user", "--kernel", "sched_switch", "--fail-on-loss"]);
    observer.args(["--kernel-buffer", "32M", "--cpus", &cpu, "-o"]).arg(switches).arg("--").args(behind);
    observer.arg(bench.programs.path("ordinary", TargetTracer::Sordino)).args([&cpu, &seconds.to_string()]);
    let output = output_of(&mut observer)?;
    let pid = output.lines().find_map(|line| line.trim().parse().ok());
    pid.ok_or_else(|| format!("no pid in: {output}"))
}

/// Returns the gaps of an observed loop, and the part that these threads have in them.
pub(crate) fn round_of(
    bench: &Bench,
    switches: &Path,
    program: i64,
    threads: HashSet<i64>,
) -> Result<RoundResult, String> {
    let mut account = GapAccount::of(program, threads);
    events(&bench.programs.sordino, switches, &["--event", "sched_switch"], |event| account.take(event))?;
    account.round()
}

/// Returns the threads that a recording attributes to its recorder.
fn recorder_of(sordino: &Path, recording: &Path) -> Result<HashSet<i64>, String> {
    let mut threads = HashSet::new();
    events(sordino, recording, &["--statedump", "--event", "sordino_statedump_recorder"], |event| {
        threads.extend(event["fields"]["tid"].as_i64());
    })?;
    if threads.is_empty() { Err(format!("{} names no recorder", recording.display())) } else { Ok(threads) }
}

/// Lists a recording's events, and passes each to `take`.
fn events(
    sordino: &Path,
    recording: &Path,
    which: &[&str],
    mut take: impl FnMut(&Value),
) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", recording.display());
    let mut list = Command::new(sordino);
    let mut list = list
        .args(["events", "--json"])
        .args(which)
        .arg(recording)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    let lines = list.stdout.take().map(|output| BufReader::new(output).lines());
    for line in lines.into_iter().flatten() {
        let line = line.map_err(|error| failed(&error))?;
        take(&serde_json::from_str(&line).map_err(|error| failed(&error))?);
    }
    let status = list.wait().map_err(|error| failed(&error))?;
    if status.success() { Ok(()) } else { Err(failed(&status)) }
}

/// Adds up the recorder's time in the gaps of the loop.
#[derive(Debug, Default)]
struct GapAccount {
    program: i64,
    recorder: HashSet<i64>,
    /// First and last times of the loop on the CPU, in nanoseconds.
    lived: Option<(i64, i64)>,
    /// Time at which the loop lost the CPU, and the recorder's time on it since.
    away: Option<(i64, i64)>,
    /// Time at which the recorder got the CPU.
    since: Option<i64>,
    round: RoundResult,
}

impl GapAccount {
    fn of(program: i64, recorder: HashSet<i64>) -> Self {
        Self { program, recorder, ..Self::default() }
    }

    fn take(&mut self, event: &Value) {
        let field = |name: &str| event["fields"][name].as_i64();
        let (Some(now), Some(prev), Some(next)) =
            (event["time_ns"].as_i64(), field("prev_tid"), field("next_tid"))
        else {
            return;
        };
        if let Some(since) = self.since.take() {
            self.ran(now - since);
        }
        if self.recorder.contains(&next) {
            self.since = Some(now);
        }
        if prev == self.program {
            // A thread that sleeps or ends has no gap.
            self.away = (field("prev_state") == Some(0)).then_some((now, 0));
            self.lived = self.lived.map(|(first, _)| (first, now));
        }
        if next == self.program {
            self.lived = Some((self.lived.map_or(now, |(first, _)| first), now));
            if let Some((left, recorders)) = self.away.take()
                && now - left > GAP_NS
            {
                self.round.gaps += 1.0;
                self.round.recorders += f64::from(2 * recorders >= now - left);
            }
        }
    }

    /// Adds a stretch of the recorder of this length.
    fn ran(&mut self, time: i64) {
        // Stretches before and after the loop do not count.
        let Some((_, recorders)) = &mut self.away else { return };
        *recorders += time;
        self.round.stretches += f64::from(time > STRETCH_NS);
        self.round.longest_us = self.round.longest_us.max(time as f64 / 1e3);
    }

    fn round(self) -> Result<RoundResult, String> {
        let lived = self.lived.filter(|(first, last)| first < last);
        let (first, last) = lived.ok_or_else(|| format!("thread {} never ran", self.program))?;
        let per_minute = 60e9 / (last - first) as f64;
        let RoundResult { gaps, recorders, stretches, longest_us } = self.round;
        let [gaps, recorders, stretches] = [gaps, recorders, stretches].map(|count| count * per_minute);
        Ok(RoundResult { gaps, recorders, stretches, longest_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_gap_is_the_recorders_if_it_had_half_of_it() {
        let mut account = GapAccount::of(7, HashSet::from([8]));
        let mut prev = 8;
        for (us, state, next) in [
            // Time before the loop runs, and while it sleeps, is no gap.
            (0, 1, 9),
            (100, 1, 7),
            (200, 1, 8),
            (900, 1, 7),
            // The recorder has half of the first gap, in two stretches, and less than half of the second. The loop's
            // third pause is too short for a gap.
            (1000, 0, 8),
            (1300, 1, 9),
            (1400, 1, 8),
            (1600, 1, 9),
            (2000, 0, 7),
            (2500, 0, 8),
            (2700, 0, 9),
            (3050, 0, 7),
            (3100, 0, 8),
            (3140, 0, 7),
            (600_100, 1, 0),
        ] {
            let fields = json!({"prev_tid": prev, "prev_state": state, "next_tid": next});
            account.take(&json!({"time_ns": us * 1000_i64, "fields": fields}));
            prev = next;
        }
        let round = RoundResult { gaps: 200.0, recorders: 100.0, stretches: 300.0, longest_us: 300.0 };
        assert_eq!(account.round().unwrap(), round);
    }

    #[test]
    fn a_loop_that_never_ran_has_no_gaps_to_count() {
        assert!(GapAccount::of(7, HashSet::new()).round().unwrap_err().contains("7"));
    }
}
