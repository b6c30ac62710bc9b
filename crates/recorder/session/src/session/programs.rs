//! The session's programs while they are recorded, from attachment to detachment.

use super::recordings::RecordSink;
use super::state::RecordingSession;
use super::summarise::{is_worth_a_line, summarise};
use sordino_clock::Sample;
use sordino_collect::Error;
use sordino_collect::drain::ProgramCopy;
use sordino_collect::number::ProgramNumber;
use sordino_collect::program::Traced;
use sordino_event::functions;
use sordino_intake::{JobSource, MappedCode, Taken};
use sordino_proc::status::code_size;
use sordino_ring::area::control::FileId;

impl RecordingSession<'_> {
    /// Records a program that was attached to.
    pub(super) fn begin_program(&mut self, taken: Taken) -> Result<(), Error> {
        let directory = match &self.recordings.sink {
            RecordSink::Chunk(chunk) => Some(&chunk.directory),
            RecordSink::Memory(_) => None,
        };
        let before = Sample::take();
        let (program, streams) = Traced::begin(
            taken,
            ProgramNumber(self.recorded.numbered),
            &self.options.recording,
            directory,
            &self.clock,
            &self.user,
            &mut self.recorded.supply,
        )?;
        self.recorded.numbered += 1;
        self.arrivals.account_for((program.trace.pid, program.id().inode));
        self.collector.order(streams);
        self.machine.watcher.look_at(&program, &self.clock, &before);
        self.findings.skipped.forget(program.trace.pid, program.id());
        self.findings.sightings.take_up(program.trace.pid, &program.trace.identity.name);
        self.recorded.programs.push(program);
        self.observe(self.recorded.programs.len() - 1, 0);
        Ok(())
    }

    /// Reads new tracepoints of all programs.
    pub(super) fn refresh(&mut self) {
        (0..self.recorded.programs.len()).for_each(|index| self.refresh_one(index));
    }

    /// Reads new tracepoints of programs that have registered again.
    pub(super) fn refresh_known(&mut self, known: &[FileId]) {
        for index in 0..self.recorded.programs.len() {
            if known.contains(&self.recorded.programs[index].id()) {
                self.refresh_one(index);
            }
        }
    }

    /// Reads new tracepoints of a program.
    fn refresh_one(&mut self, index: usize) {
        let first = self.recorded.programs[index].declared().len();
        let refreshed = self.recorded.programs[index].refresh(&self.user, &self.clock);
        if self.recorded.programs[index].declared().len() > first {
            self.observe(index, first);
        }
        self.note(refreshed);
    }

    /// Notes a failure in writing metadata, which the next refresh repeats. It ends a recording, but not a session.
    fn note(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.progress.failed |= self.recordings.outlet.is_none() && !error.is_passing();
            self.recordings.add_note(error.to_string());
        }
    }

    /// Has the code of programs read again that have mapped some since, and record functions: names in rules may stand
    /// for functions in it.
    pub(super) fn look_at_code(&mut self) {
        if !self.user.may_choose(functions::PROVIDER) {
            return;
        }
        let names_functions = self.user.names_functions();
        for program in &mut self.recorded.programs {
            if program.has_other_code(names_functions, code_size) {
                let (pid, user) = (program.trace.pid, program.user());
                self.arrivals.intake.submit(pid, user, JobSource::Code(names_functions));
            }
        }
    }

    /// Applies the rules to the code that a program has mapped now.
    pub(super) fn take_up_code(&mut self, pid: i32, code: MappedCode) {
        let mut programs = self.recorded.programs.iter_mut();
        let Some(program) = programs.find(|program| program.trace.pid == pid && program.has_functions())
        else {
            return;
        };
        let taken = program.take_code(code, &self.user, &self.clock);
        self.note(taken);
    }

    /// Reads the rest of a program's rings, and detaches from it.
    pub(super) fn let_go(&mut self, number: ProgramNumber) {
        let Some(index) = self.recorded.programs.iter().position(|program| program.number() == number) else {
            return;
        };
        self.refresh_one(index);
        let mut program = self.recorded.programs.remove(index);
        program.give_up_undeclared(&self.user, &self.clock);
        program.disable();
        if let Some(live) = &mut self.recordings.live {
            live.keep_ended(&program, &self.collector);
        }
        if let RecordSink::Memory(_) = self.recordings.sink {
            let copy = self.collector.take(number, self.since(None));
            self.findings.has_events |= copy.as_ref().is_some_and(ProgramCopy::has_any);
            self.detach(&mut program);
            return self.recordings.keep_ended(program, copy);
        }
        let streams = self.collector.finish(number);
        self.findings.has_events |= streams.iter().any(is_worth_a_line);
        self.detach(&mut program);
        let RecordSink::Chunk(chunk) = &mut self.recordings.sink else { return };
        let summary = summarise(&program.trace, program.notes, streams);
        chunk.add(summary, program.trace.without_tracepoints());
    }

    /// Detaches from the programs whose areas a process has replaced by others.
    pub(super) fn let_go_replaced(&mut self, replaced: &[FileId]) {
        let replaced = self.recorded.programs.iter().filter(|program| replaced.contains(&program.id()));
        let replaced: Vec<ProgramNumber> = replaced.map(|program| program.number()).collect();
        replaced.into_iter().for_each(|number| self.let_go(number));
    }
}
