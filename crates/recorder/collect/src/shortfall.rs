//! Missing events and the reasons: rules that chose nothing, and recordings without any event.

use crate::similar::listed;
use serde::{Deserialize, Serialize};
use sordino_sched::Right;
use std::fmt;

/// The events that a recording, or a session so far, lacks, with the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shortfall {
    /// Rules that chose nothing, in the order given: those of the recording, then those of the triggers.
    pub rules: Vec<RuleProblem>,
    /// True if there were more tracepoints than are kept, so the suggested names may be incomplete.
    pub tracepoints_cut: bool,
    /// The reason that there is no event of a program; `None` if there are some, or none were requested.
    pub no_events: Option<NoEvents>,
}

/// A rule that chose nothing, or not every tracepoint of its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleProblem {
    /// The rule as it was written.
    pub rule: String,
    /// True if the rule is a trigger for snapshots (`--trigger`).
    pub trigger: bool,
    /// The reason that it chose nothing.
    #[serde(flatten)]
    pub cause: RuleCause,
}

/// The reason that a rule chose nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum RuleCause {
    /// No tracepoint's name matches.
    NoTracepoint {
        /// Similar names, best first.
        similar: Vec<String>,
        /// Known tracepoints, of the same provider if there are any.
        seen: Vec<String>,
    },
    /// The condition uses a field that tracepoints of this name do not have.
    NoField {
        /// The name of the field.
        field: String,
        /// Some of these tracepoints.
        tracepoints: Vec<TracepointFields>,
        /// Similar names of fields, best first.
        similar: Vec<String>,
        /// True if other programs have a tracepoint of the same name with that field.
        elsewhere: bool,
    },
    /// The condition does not apply to the tracepoints for another reason.
    Unfit {
        /// One of these tracepoints.
        tracepoint: String,
        /// A description of the reason.
        problem: String,
    },
    /// The rule excludes tracepoints that no rule before it includes.
    NothingToExclude {
        /// Some of these tracepoints.
        tracepoints: Vec<String>,
    },
}

/// A tracepoint as it is shown in a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TracepointFields {
    /// The tracepoint's full name.
    pub name: String,
    /// The names of its fields, in order.
    pub fields: Vec<String>,
}

/// The explanation for a recording without any event of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoEvents {
    /// The first reason that applies.
    pub reason: NoEventsReason,
    /// The first few processes that were to be recorded: the command and its descendants, or the recorded programs.
    pub processes: Vec<ProcessFound>,
    /// The number of processes that are not listed.
    pub more_processes: u64,
    /// The number of processes that could not be inspected, if all programs were to be recorded.
    pub hidden_processes: u64,
}

/// The first reason for having no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoEventsReason {
    /// All programs were to be recorded, and none is linked with sordino.
    NoProgram,
    /// The command's processes are not linked with sordino.
    NotLinked,
    /// None of the command's processes lived long enough to be inspected, and none registered.
    NotRegistered,
    /// A process could not be inspected, or could not be recorded.
    NotReached,
    /// The recorded programs have no tracepoint of their own.
    NoTracepoint,
    /// Programs were recorded, and no rule chose any of their tracepoints.
    NoRuleMatched,
    /// Tracepoints were enabled, and none was hit.
    NotHit,
}

/// A process that was to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFound {
    /// The id of the process.
    pub pid: i32,
    /// The name of the process.
    pub name: String,
    /// The result for the process.
    #[serde(flatten)]
    pub state: ProcessState,
}

/// The result for a process that was to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ProcessState {
    /// The process or the recording ended too early to know; a program that is linked with sordino registers when it
    /// starts.
    NotRegistered,
    /// The process was inspected several times: neither its program nor a loaded library is linked with sordino.
    NotLinked,
    /// The process could not be inspected, or not be recorded.
    NotReached {
        /// The reason, with the remedy.
        reason: String,
    },
    /// The process was recorded.
    Recorded {
        /// The number of its own tracepoints, without built-in ones.
        tracepoints: usize,
        /// The number of these that were enabled.
        enabled: usize,
    },
}

impl Shortfall {
    /// Returns a line of text for each finding. Names in them come from the programs and need
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

/// Formats a tracepoint as `motor:period (cycle, torque)`.
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
    /// Returns the remedy, if there is a command for it.
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
        // If any process was recorded, the shell that started it is not the reason.
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

    /// Lists the processes in this state, if there are any.
    fn in_state(&self, state: &ProcessState) -> Option<String> {
        let there: Vec<String> = self
            .processes
            .iter()
            .filter(|process| process.state == *state)
            .map(|process| format!("{} (process {})", process.name, process.pid))
            .collect();
        (!there.is_empty()).then(|| names(&there))
    }

    /// Describes one process, unless those in its state are listed together.
    fn of_process(&self, ProcessFound { pid, name, state }: &ProcessFound) -> Option<String> {
        let reported = match state {
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
        Some(format!("{name} (process {pid}) {reported}"))
    }
}
