//! `sordino explain` names the disturbances of a program that was written from `docs/causes.md` alone, with lengths
//! from the program's own readings of the clock.

use serde_json::Value;
use sordino_tests::{NativeCompiler, Scene};
use std::collections::HashMap;
use std::path::PathBuf;

/// The kinds that are tried without `TRIALS`, which plants this many of each kind.
const FEW: [&str; 4] = ["timer_hog", "pipe", "hogged_chain", "own_signal"];

/// A disturbed round, as the program measured it.
struct MeasuredRound {
    round: i64,
    /// The length in nanoseconds.
    length: i64,
}

/// The compiled program, and where it is recorded.
struct Trials {
    scene: Scene,
    program: PathBuf,
}

impl Trials {
    fn new() -> Option<Self> {
        let scene = Scene::new().as_root()?;
        let others = ["base", "running", "waiting", "sleeping", "storing"];
        let others = others.map(|file| format!("{}/programs/trials/{file}.c", env!("CARGO_MANIFEST_DIR")));
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let program = scene.compile(NativeCompiler::Gcc, "trials/main.c", &others);
        Some(Self { scene, program })
    }

    fn kinds(&self) -> Vec<String> {
        let ended = self.scene.run(std::process::Command::new(&self.program).arg("list"));
        ended.succeeded().lines().map(str::to_owned).collect()
    }

    /// Returns the objections to one recording of a kind on a CPU; `None` where the machine cannot plant it.
    fn wrong(&self, kind: &str, cpu: &str, rounds: &str) -> Option<Vec<String>> {
        // A shell between the recorder and the program: a stop is then the program's alone.
        let script = format!("{} {kind} {cpu} {rounds}; exit $?", self.program.display());
        let recording =
            self.scene.record(&["--kernel", "rt", "--kernel-buffer", "32M"], &["sh", "-c", &script]);
        let output = &recording.ended.output;
        if recording.ended.status == 3 {
            let reason = output.lines().find_map(|line| line.strip_prefix("refused: ")).expect("a reason");
            Scene::not_measured(&format!("{kind} on CPU {cpu}: {reason}"));
            return None;
        }
        assert_eq!(recording.ended.status, 0, "{kind}: {output}{}", recording.ended.errors);
        let expected = output.lines().find_map(|line| line.strip_prefix("expect ")).expect("an expectation");
        let arguments = ["--begin", "trial:begin", "--end", "trial:end", "--top", "100000", "--json"];
        let ended = self.scene.sordino(&[&["explain", recording.name()], &arguments[..]].concat());
        let findings: Value = serde_json::from_str(ended.succeeded()).unwrap();
        let all = findings["intervals"].as_array().unwrap();
        let planted: Vec<MeasuredRound> = output.lines().filter_map(planted).collect();
        if planted.is_empty() {
            return Some(vec![format!("{kind} on CPU {cpu}: nothing was planted: {output}")]);
        }
        let objection = |planted: &MeasuredRound| {
            let its = |interval: &&Value| interval["begin_fields"]["round"] == planted.round;
            let objection = match all.iter().find(its) {
                Some(interval) => format!("{}: {interval}", objection(expected, interval, planted.length)?),
                None => "it is not among the intervals".to_owned(),
            };
            Some(format!("{kind} on CPU {cpu}, round {}: {objection}", planted.round))
        };
        Some(planted.iter().filter_map(objection).collect())
    }
}

/// Returns the disturbed round of a line of output.
fn planted(line: &str) -> Option<MeasuredRound> {
    let numbers = line.strip_prefix("planted ")?.split_whitespace().map(|number| number.parse().ok());
    let numbers: Vec<i64> = numbers.collect::<Option<_>>()?;
    Some(MeasuredRound { round: numbers[0], length: numbers[3] })
}

/// Returns the objection to an interval that a disturbance of `length` ns made longer.
fn objection(expected: &str, interval: &Value, length: i64) -> Option<String> {
    let parts = interval["parts"].as_array().unwrap();
    let part = &parts[interval["main"]["part"].as_u64().unwrap() as usize];
    let expected: HashMap<&str, &str> =
        expected.split_whitespace().map(|word| word.split_once('=').unwrap()).collect();
    let wrong = expected.iter().find(|(name, values)| !has(part, name, values));
    if let Some((name, values)) = wrong {
        return Some(format!("not {name}={values}"));
    }
    // Interruptions have parts of their own, and so have other threads behind which a thread waits or is throttled.
    let kind = |part: &Value| part["cause"]["kind"].as_str().unwrap().to_owned();
    let is_on_top = |other: &&Value| {
        let interrupts = ["irq", "vector", "softirq"];
        let is_interrupt = interrupts.contains(&&*kind(other)) && !interrupts.contains(&&*kind(part));
        let is_same_wait = kind(other) == "waiting" && ["waiting", "throttled"].contains(&&*kind(part));
        *other != part && (is_interrupt || is_same_wait)
    };
    let time = |part: &Value| part["time_ns"].as_i64().unwrap();
    let elsewhere: i64 = parts.iter().filter(is_on_top).map(time).sum();
    let tolerance = (length / 20).max(20_000);
    let bounds = length - elsewhere - tolerance..=length + tolerance;
    let is_near = [time(part), time(part) - part["usual_ns"].as_i64().unwrap()];
    let is_near = expected.contains_key("magnitude") || is_near.iter().any(|time| bounds.contains(time));
    (!is_near).then(|| format!("{} ns for {length}", time(part)))
}

/// Returns true if a part has one of the values, which `|` separates.
fn has(part: &Value, name: &str, values: &str) -> bool {
    let cause = &part["cause"];
    let is_one = |found: &Value| values.split('|').any(|value| found == value);
    match name {
        "by" => values.split('|').any(|name| part.to_string().contains(&format!(r#""comm":"{name}""#))),
        "call" => is_one(&cause["call"]) || is_one(&cause["syscall"]),
        "fault" => cause["in_page_fault"] == true,
        "slack" => cause["in_slack"] == true,
        "magnitude" => true,
        // A third of the sleep, at least: records that are missing end the certainty.
        "throttled" => {
            let time = part["time_ns"].as_i64().unwrap();
            let wakers = part["wakers"].as_array().unwrap().iter();
            let mut links = wakers.flat_map(|woken| woken["chain"].as_array().unwrap());
            links.any(|link| link["throttled_ns"].as_i64().unwrap() > time / 3)
        }
        _ => is_one(&cause[name]),
    }
}

/// Returns the objections to each of at most three attempts, of which the last has none if one has none.
fn attempts(mut attempt: impl FnMut() -> Option<Vec<String>>) -> Vec<Vec<String>> {
    let mut tries: Vec<Vec<String>> = Vec::new();
    while tries.len() < 3 && tries.last().is_none_or(|wrong| !wrong.is_empty()) {
        let Some(wrong) = attempt() else { break };
        tries.push(wrong);
    }
    tries
}

/// With `TRIALS` each kind is planted that often on each of two CPUs; `TRIAL_KINDS` selects kinds.
#[test]
fn disturbances_of_a_program_that_knows_the_document_alone_are_named_first() {
    let Some(trials) = Trials::new() else { return };
    let cpus: Vec<String> =
        sordino_sched::affinity().unwrap().as_slice().iter().map(ToString::to_string).collect();
    if cpus[..] != ["0", "1"] {
        return Scene::not_measured("disturbances from another CPU: the program uses the CPUs 0 and 1");
    }
    let many = std::env::var("TRIALS").ok();
    let only = std::env::var("TRIAL_KINDS").ok();
    let is_chosen = |kind: &String| match (&only, &many) {
        (Some(only), _) => only.split(',').any(|name| name == kind),
        (None, Some(_)) => true,
        (None, None) => FEW.contains(&kind.as_str()),
    };
    let (rounds, mut wrong) = (many.as_deref().unwrap_or("3"), Vec::new());
    for kind in trials.kinds().iter().filter(|kind| is_chosen(kind)) {
        for cpu in &cpus[usize::from(many.is_none())..] {
            // Other programs may be the larger disturbance, and are named then.
            let tries = attempts(|| trials.wrong(kind, cpu, rounds));
            if tries.iter().all(|wrong| !wrong.is_empty()) {
                wrong.extend(tries.into_iter().next().unwrap_or_default());
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
