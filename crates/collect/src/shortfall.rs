//! What was to be recorded and is not: rules that chose nothing, and why there is no event.

use crate::similar::listed;
use serde::{Deserialize, Serialize};
use sordino_sched::Right;
use std::fmt;

/// What a recording, or a session so far, was to hold and does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shortfall {
    /// Rules that chose nothing, in the order in which they were given: those of the recording, then those of the triggers.
    pub rules: Vec<RuleProblem>,
    /// Whether there were more tracepoints than are remembered: names that could have been meant may be missing.
    pub tracepoints_cut: bool,
    /// The reason for not having any event of a program; `None` if there are some, or none were asked for.
    pub no_events: Option<NoEvents>,
}

/// A rule that chose nothing, or not all that its name says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleProblem {
    /// The rule as it was written.
    pub rule: String,
    /// Whether it is one for snapshots (`--trigger`).
    pub trigger: bool,
    /// The reason.
    #[serde(flatten)]
    pub cause: RuleCause,
}

/// The reason for which a rule chose nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum RuleCause {
    /// No tracepoint has a name that it matches.
    NoTracepoint {
        /// Names that could have been meant, best first.
        similar: Vec<String>,
        /// Tracepoints that were seen: of the same provider, if there are such.
        seen: Vec<String>,
    },
    /// Its condition asks for a field that tracepoints of this name do not have.
    NoField {
        /// The field.
        field: String,
        /// Some of these tracepoints.
        tracepoints: Vec<TracepointFields>,
        /// Fields that could have been meant, best first.
        similar: Vec<String>,
        /// Whether other programs have a tracepoint of the same name with that field.
        elsewhere: bool,
    },
    /// Its condition does not fit the tracepoints for another reason.
    Unfit {
        /// One of them.
        tracepoint: String,
        /// What is wrong.
        problem: String,
    },
    /// It excludes tracepoints that no rule before it includes.
    NothingToExclude {
        /// Some of them.
        tracepoints: Vec<String>,
    },
}

/// A tracepoint as a message names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TracepointFields {
    /// Its full name.
    pub name: String,
    /// The names of its fields, in order.
    pub fields: Vec<String>,
}

/// Why there is no event of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoEvents {
    /// The reason that comes first.
    pub reason: NoEventsReason,
    /// The processes that were to be recorded: the command and those that it started, or what was recorded; the first few.
    pub processes: Vec<ProcessFound>,
    /// Processes that are not listed there.
    pub more_processes: u64,
    /// Where every program was to be recorded: processes that could not be looked into.
    pub hidden_processes: u64,
}

/// The first reason for having no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoEventsReason {
    /// Every program was to be recorded, and there was none that is linked with sordino.
    NoProgram,
    /// The command's processes are not linked with sordino.
    NotLinked,
    /// None of the command's processes lived long enough to be looked into, and none registered.
    NotRegistered,
    /// A process could not be looked into, or could not be recorded.
    NotReached,
    /// Programs were recorded that have no tracepoint of their own.
    NoTracepoint,
    /// Programs were recorded, and no rule chose any of their tracepoints.
    NoRuleMatched,
    /// Tracepoints were enabled, and none was hit.
    NotHit,
}

/// A process that was to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFound {
    /// The process.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// What was found in it.
    #[serde(flatten)]
    pub state: ProcessState,
}

/// What was found in a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ProcessState {
    /// It ended, or the recording did, before that was known; a program that is linked with sordino registers when it starts.
    NotRegistered,
    /// It was looked into, several times: neither it nor what it had loaded is linked with sordino.
    NotLinked,
    /// It could not be looked into, or not be recorded.
    NotReached {
        /// The reason, with what to do about it.
        reason: String,
    },
    /// It was recorded.
    Recorded {
        /// Its own tracepoints, without those of the library.
        tracepoints: usize,
        /// Those of them that were enabled.
        enabled: usize,
    },
}

impl Shortfall {
    /// A line for a person for each thing that is missing. Names in them are the programs' own: they need
    /// [`printable`](sordino_event::text::printable).
    pub fn lines(&self) -> Vec<String> {
        let rules = self.rules.iter().map(ToString::to_string);
        let is_unsure = self.tracepoints_cut && !self.rules.is_empty();
        let cut = is_unsure
            .then(|| "more tracepoints were seen than are remembered: the names are not complete".to_owned());
        let reason = self.no_events.iter().map(ToString::to_string);
        let remedy = self.no_events.iter().filter_map(NoEvents::remedy);
        rules.chain(cut).chain(reason).chain(remedy).collect()
    }
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = &self.rule;
        let nothing = if self.trigger { "asks for no snapshot" } else { "records nothing" };
        match &self.cause {
            RuleCause::NoTracepoint { similar, seen } => {
                write!(f, "no tracepoint matched '{rule}'")?;
                if rule.starts_with('!') {
                    f.write_str(": it excludes nothing")?;
                }
                match (similar.is_empty(), seen.is_empty()) {
                    (false, _) => did_you_mean(f, similar),
                    (true, false) => write!(f, "; there were {}", names(seen)),
                    (true, true) => Ok(()),
                }
            }
            RuleCause::NoField { field, tracepoints, similar, elsewhere } => {
                let described: Vec<String> = tracepoints.iter().map(ToString::to_string).collect();
                let of = names(&described);
                match elsewhere {
                    false => write!(f, "'{rule}' {nothing}: '{field}' is no field of {of}")?,
                    true => {
                        write!(
                            f,
                            "'{rule}' {nothing} of some programs, where '{field}' is no field of {of}"
                        )?;
                    }
                }
                did_you_mean(f, similar)
            }
            RuleCause::Unfit { tracepoint, problem } => {
                write!(f, "'{rule}' {nothing}: it does not fit {tracepoint}: {problem}")
            }
            RuleCause::NothingToExclude { tracepoints } => write!(
                f,
                "'{rule}' excludes nothing: no rule before it includes {}; rules apply in order",
                names(tracepoints)
            ),
        }
    }
}

fn names(names: &[String]) -> String {
    listed(names.iter().map(String::as_str))
}

fn did_you_mean(f: &mut fmt::Formatter<'_>, similar: &[String]) -> fmt::Result {
    if similar.is_empty() { Ok(()) } else { write!(f, "; did you mean {}?", similar.join(" or ")) }
}

/// `motor:period (cycle, torque)`.
impl fmt::Display for TracepointFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = if self.fields.is_empty() { "no fields".to_owned() } else { names(&self.fields) };
        write!(f, "{} ({fields})", self.name)
    }
}

impl fmt::Display for NoEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no events of programs: {}", self.parts().join("; "))
    }
}

impl NoEvents {
    /// What to do about it, if there is a command for that.
    fn remedy(&self) -> Option<String> {
        let remedy = match self.reason {
            NoEventsReason::NotLinked | NoEventsReason::NotRegistered => {
                "link the program with sordino: cc ... $(pkg-config --cflags --libs sordino); or record the kernel: --kernel sched"
            }
            NoEventsReason::NoRuleMatched => "see the tracepoints of programs that run: sordino list",
            _ => return None,
        };
        Some(remedy.to_owned())
    }

    fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if self.reason == NoEventsReason::NoProgram {
            parts.push("no program that is linked with sordino was seen".to_owned());
        }
        let is_recorded = |process: &ProcessFound| matches!(process.state, ProcessState::Recorded { .. });
        // Beside those that were recorded, the shell that started them is not the reason.
        if !self.processes.iter().any(is_recorded) {
            let unlinked = self.in_state(&ProcessState::NotLinked);
            parts
                .extend(unlinked.map(|who| format!("not linked with sordino, nor is what it loaded: {who}")));
            let unknown = self.in_state(&ProcessState::NotRegistered);
            let briefly = "there too briefly to be looked into, and not registered as linked programs are";
            parts.extend(unknown.map(|who| format!("{briefly}: {who}")));
        }
        parts.extend(self.processes.iter().filter_map(|process| self.of_process(process)));
        if parts.is_empty() {
            parts.push("programs were seen that could not be recorded, see the notes".to_owned());
        }
        if self.more_processes > 0 {
            parts.push(format!("further processes that are not listed: {}", self.more_processes));
        }
        if self.hidden_processes > 0 {
            let hidden = self.hidden_processes;
            parts
                .push(format!("processes that may not be looked into: {hidden} ({})", Right::Trace.remedy()));
        }
        parts
    }

    /// The processes in this state, if there are any.
    fn in_state(&self, state: &ProcessState) -> Option<String> {
        let there: Vec<String> = self
            .processes
            .iter()
            .filter(|process| process.state == *state)
            .map(|process| format!("{} (process {})", process.name, process.pid))
            .collect();
        (!there.is_empty()).then(|| names(&there))
    }

    /// What is said of a process alone.
    fn of_process(&self, ProcessFound { pid, name, state }: &ProcessFound) -> Option<String> {
        let said = match state {
            ProcessState::NotLinked | ProcessState::NotRegistered => return None,
            ProcessState::NotReached { reason } => format!("could not be recorded: {reason}"),
            ProcessState::Recorded { .. } if self.reason == NoEventsReason::NoTracepoint => {
                "is linked with sordino and has no tracepoint of its own".to_owned()
            }
            ProcessState::Recorded { enabled: 0, .. } => {
                "is linked with sordino, and no rule chose any of its tracepoints".to_owned()
            }
            ProcessState::Recorded { .. } => {
                "hit none of its enabled tracepoints, or none as the rule's condition asks".to_owned()
            }
        };
        Some(format!("{name} (process {pid}) {said}"))
    }
}
