//! Events that a session was to record but has not so far.

use super::state::RecordingSession;
use crate::options::Programs;
use sordino_collect::options::IMPLIED;
use sordino_collect::shortfall::{NoEvents, NoEventsReason, ProcessFound, ProcessState, Shortfall};
use sordino_event::Pid;
use sordino_filter::condition::Context;

impl RecordingSession<'_> {
    /// Checks the tracepoints that a program has declared, from index `first` on.
    pub(super) fn observe(&mut self, index: usize, first: usize) {
        let program = &self.recorded.programs[index];
        let (pid, name, user) = (program.trace.pid, &program.trace.identity.name, program.user());
        let context = Context { pid: Pid(pid), procname: name };
        let declared = program.declared();
        for known in declared.get(first..).unwrap_or_default() {
            self.findings.coverage.observe(user, &known.schema, &context);
        }
        self.findings.had_enabled |=
            program.enabled().any(|schema| !IMPLIED.contains(&schema.full_name().as_str()));
        let coverage = &self.findings.coverage;
        let declared = declared.iter().filter(|known| coverage.is_requested(&known.schema)).count();
        let enabled = program.enabled().filter(|schema| coverage.is_requested(schema)).count();
        self.findings.sightings.recorded(pid, declared, enabled);
    }

    /// Returns the rules that have chosen nothing, and the reason if there is no event of a program.
    pub(super) fn shortfall(&self) -> Shortfall {
        Shortfall {
            rules: self.findings.coverage.problems(),
            tracepoints_cut: self.findings.coverage.is_cut(),
            no_events: self.no_events(),
        }
    }

    /// Returns the reason that there is no event of a program; `None` if there was one, or none was requested. Also
    /// `None` for a session that records the kernel, because events are counted only when a recording is complete.
    fn no_events(&self) -> Option<NoEvents> {
        let has_kernel = self.options.series.is_some() && !self.options.recording.kernel.is_empty();
        if self.findings.has_events || has_kernel || !self.user.includes_any() {
            return None;
        }
        let (processes, more_processes) = self.findings.sightings.processes();
        let is_all = matches!(self.options.programs, Programs::All);
        let reason = match self.recorded.numbered {
            0 if is_all && !self.findings.skipped.is_empty() => NoEventsReason::NotReached,
            0 if is_all => NoEventsReason::NoProgram,
            0 => not_recorded(&processes),
            _ if !self.findings.coverage.has_any() => NoEventsReason::NoTracepoint,
            _ if !self.findings.had_enabled => NoEventsReason::NoRuleMatched,
            _ => NoEventsReason::NotHit,
        };
        let hidden_processes = if is_all { self.arrivals.search.hidden() } else { 0 };
        Some(NoEvents { reason, processes, more_processes, hidden_processes })
    }
}

/// Returns the first reason that none of a command's processes is recorded.
fn not_recorded(processes: &[ProcessFound]) -> NoEventsReason {
    let any = |is: fn(&ProcessState) -> bool| processes.iter().any(|process| is(&process.state));
    if any(|state| matches!(state, ProcessState::NotReached { .. })) {
        return NoEventsReason::NotReached;
    }
    let is_known = any(|state| *state == ProcessState::NotLinked);
    if is_known { NoEventsReason::NotLinked } else { NoEventsReason::NotRegistered }
}
