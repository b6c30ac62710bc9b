//! One traced program: its area, its rings, its trace.

mod code;
mod trace;
mod undeclared;

use code::KnownCode;
use sordino_intake::{CatalogueReader, Declared};
use sordino_ring::number::PointId;
pub use trace::ProgramTrace;
use trace::has_functions;
pub(crate) use trace::{METADATA, MOST_METADATA, UNANSWERED};
use undeclared::Undeclared;
pub use undeclared::unanswered_of;

use crate::directory::Directory;
use crate::drain::{Order, RingStream, StreamState, Streams};
use crate::error::Error;
use crate::number::ProgramNumber;
use crate::options::{Polling, RecordingOptions, UserEvents};
use crate::output::Output;
use crate::unanswered::Unanswered;
use sordino_event::text::count;
use sordino_event::{Cpu, Schema};
use sordino_filter::condition::{Condition, InlineComparison};
use sordino_inspect::clock::TraceClock;
use sordino_inspect::context::Contexts;
use sordino_intake::{Claim, MappedCode, Taken, is_trusted};
use sordino_intake::{Detachment, close};
use sordino_intake::{Supplied, Supply};
use sordino_ring::area::control::{Attached, Code, Conditions, EnableMode, FileId, PATIENCE, Program, When};
use sordino_ring::layout::ANNOTATIONS;
use sordino_ring::read;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// A program that is recorded.
#[derive(Debug)]
pub struct Traced {
    /// The program's trace in the present recording.
    pub trace: ProgramTrace,
    /// The claim of its area, exclusive within this recorder.
    claim: Arc<Claim>,
    /// The supply of pages for its rings, unless these have all their pages.
    supplied: Option<Arc<Supplied>>,
    /// Becomes readable when the process has ended.
    pub pidfd: OwnedFd,
    /// The program's area in shared memory.
    pub program: Arc<Program>,
    /// Problems, for the summary.
    pub notes: Vec<String>,
    /// The session's attachment to it, without the readers, which belong to the collector's thread.
    attached: Attached,
    /// The CPUs of its rings, in the order of its streams.
    rings: Vec<Option<Cpu>>,
    choice: TracepointChoice,
    reader: CatalogueReader,
    undeclared: Undeclared,
    contexts: Contexts,
    code: KnownCode,
}

/// The session's choice of a program's tracepoints.
#[derive(Debug, Default)]
struct TracepointChoice {
    /// For each of its tracepoints, true if it is enabled.
    enabled: Vec<bool>,
    /// The index after the last tracepoint that the session has answered for.
    answered: usize,
    /// Tracepoints that are enabled with an inline filter.
    filtered: Vec<(PointId, EnableMode)>,
}

impl Traced {
    /// Starts recording an attached program: creates its trace and enables tracepoints. The caller then passes the
    /// returned order with the streams to the collector's thread. On failure the program is detached from.
    pub fn begin(
        taken: Taken,
        number: ProgramNumber,
        options: &RecordingOptions,
        directory: Option<&Directory>,
        clock: &TraceClock,
        user: &UserEvents,
        supply: &mut Supply,
    ) -> Result<(Self, Order), Error> {
        let taken_up = taken.ran_before.then(clock.now());
        let Taken {
            pid,
            claim,
            identity,
            quotas,
            code,
            pidfd,
            program,
            mut attached,
            mut notes,
            reader,
            mut learned,
            ..
        } = taken;
        let wake_up = (options.polling == Polling::Wakeup).then(|| program.wake_address(attached.slot));
        notes.append(&mut learned.notes);
        let tracepoints = Arc::new(std::mem::take(&mut learned.tracepoints));
        let trace = ProgramTrace {
            number,
            pid,
            identity,
            quotas,
            files: code.files.into(),
            has_functions: has_functions(&tracepoints),
            wake_up,
            taken_up,
            tracepoints,
            lack: None,
            place: None,
        };
        let readers = std::mem::take(&mut attached.readers);
        let mut traced = Self {
            trace,
            claim: Arc::new(claim),
            supplied: None,
            pidfd,
            program: Arc::new(program),
            notes,
            attached,
            rings: readers.iter().map(|reader| reader.cpu()).collect(),
            choice: TracepointChoice::default(),
            reader,
            undeclared: Undeclared::default(),
            contexts: options.contexts,
            code: KnownCode::new(code.functions, code.size),
        };
        if let Some(directory) = directory {
            let placed = traced.trace.put_in_with(directory, clock, &learned.declarations);
            traced.trace = placed.inspect_err(|_| drop(traced.detach()))?;
        }
        traced.supply(supply);
        let order = traced.streams(readers, options.is_persistent);
        traced.choose(user, clock);
        Ok((traced, order))
    }

    /// Returns the identity of its area's file.
    pub fn id(&self) -> FileId {
        self.claim.id()
    }

    /// Returns the user whose budget the program counts against.
    pub fn user(&self) -> u32 {
        self.claim.user()
    }

    /// Adds its rings to the supply of pages.
    fn supply(&mut self, supply: &mut Supply) {
        let pagers = std::mem::take(&mut self.attached.pagers);
        if pagers.is_empty() {
            return;
        }
        let hidden = std::mem::take(&mut self.attached.hidden);
        match supply.add(self.trace.pid, &self.program, &self.claim, pagers, &hidden) {
            Ok(member) => self.supplied = Some(member),
            Err(note) => self.notes.push(note),
        }
    }

    fn streams(&self, readers: Vec<read::Reader>, persistent: bool) -> Order {
        let streams = readers.into_iter().map(|reader| {
            let output = self.trace.output(reader.cpu());
            RingStream::new(reader, output, StreamState::new(persistent))
        });
        let (number, program, slot) = (self.number(), Arc::clone(&self.program), self.attached.slot);
        let triggered = program.triggers(slot).count;
        let waker = self.supplied.as_ref().and_then(|member| member.waker());
        Order::Add(Streams { number, program, slot, streams: streams.collect(), waker, triggered })
    }

    /// Continues in another trace. Returns the previous trace, and the new files in the order of the streams.
    pub fn go_on_in(&mut self, next: ProgramTrace) -> (ProgramTrace, Vec<Output>) {
        let outputs = self.rings.iter().filter_map(|&cpu| next.output(cpu)).collect();
        (std::mem::replace(&mut self.trace, next), outputs)
    }

    /// Declares new tracepoints and enables those that are selected. Restores the inline filter of events for which
    /// this session is the only one left. Of a large catalogue, one piece is read at a time.
    pub fn refresh(&mut self, user: &UserEvents, clock: &TraceClock) -> Result<(), Error> {
        let mut learned = self.reader.learn(&*self.program, 1);
        self.notes.append(&mut learned.notes);
        self.undeclared.add(learned);
        self.declare(user, clock)?;
        self.choice.filtered.iter().for_each(|&(id, mode)| self.program.renew(self.attached.slot, id, mode));
        Ok(())
    }

    /// Returns true if the catalogue has been read to its end.
    pub fn is_read(&self) -> bool {
        self.reader.due(&*self.program) == 0
    }

    /// Returns true if it has declared functions.
    pub fn has_functions(&self) -> bool {
        self.trace.has_functions
    }

    /// Returns true if it has declared functions and has mapped other code since the last time, or its functions are
    /// not known and rules name some: the caller then has to read it. `size` reads the size of a process's code; it is
    /// called once a second.
    pub fn has_other_code(&mut self, names_functions: bool, size: impl FnOnce(i32) -> Option<u64>) -> bool {
        let pid = self.trace.pid;
        self.has_functions() && self.code.is_other(|| size(pid), names_functions)
    }

    /// Adds the code that it has mapped now to its trace, and applies the rules to it.
    ///
    /// # Errors
    /// The trace could not be changed. Without the names of its functions, their addresses are recorded nevertheless.
    pub fn take_code(
        &mut self,
        code: MappedCode,
        user: &UserEvents,
        clock: &TraceClock,
    ) -> Result<(), Error> {
        let added = self.trace.add_mapped(code.files, clock);
        self.code.replace_functions(code.functions);
        if user.names_functions() {
            self.choose(user, clock);
        }
        added
    }

    /// Declares the new tracepoints in the metadata; on failure, the next call tries again.
    fn declare(&mut self, user: &UserEvents, clock: &TraceClock) -> Result<(), Error> {
        let mut declared = self.undeclared.declare(&self.trace, &self.program)?;
        if declared.is_empty() {
            return Ok(());
        }
        let first = self.trace.tracepoints.len();
        Arc::make_mut(&mut self.trace.tracepoints).append(&mut declared);
        // Without the names of its functions, their addresses are recorded nevertheless.
        let added = self.trace.add_files(clock);
        self.notes.extend(added.err().map(|error| error.to_string()));
        // Only now, so that no event is recorded before the metadata declares it.
        self.choose_from(first, user, clock);
        self.undeclared.give_owed_answers(&self.program);
        Ok(())
    }

    /// Adds the hits of tracepoints that the metadata still lacks to the unanswered ones. Precedes detaching.
    pub fn give_up_undeclared(&mut self, user: &UserEvents, clock: &TraceClock) {
        let reported = self.undeclared.give_up(&self.program, &mut self.trace, user, clock);
        self.notes.extend(reported.err().map(|error| error.to_string()));
    }

    /// Stores the session's answer in the area, or owes it until all tracepoints are declared.
    pub fn answer(&mut self) {
        self.undeclared.answer(&self.program);
    }

    /// Enables and disables tracepoints by the present rules.
    pub fn choose(&mut self, user: &UserEvents, clock: &TraceClock) {
        self.choose_from(0, user, clock);
    }

    /// Enables and disables the tracepoints from index `first` on.
    fn choose_from(&mut self, first: usize, user: &UserEvents, clock: &TraceClock) {
        let records_functions = has_functions(self.trace.tracepoints.get(first..).unwrap_or_default());
        let named = self.code.named_in(user, records_functions, &mut self.notes);
        let context = self.trace.context();
        let (conditions, counted) = (&mut self.attached.conditions, self.contexts.counters);
        let (mut notes, mut unanswered) = (Vec::new(), Unanswered::default());
        let new = self.trace.tracepoints.get(first..).unwrap_or_default();
        let user = named.as_ref().unwrap_or(user);
        self.choice.filtered.retain(|(id, _)| new.first().is_none_or(|new| *id < new.id));
        self.choice.enabled.truncate(first);
        for (index, Declared { id, schema }) in (first..).zip(new) {
            let id = *id;
            let choice = user.choose(schema, &context);
            let mode = match (&choice.filter, &choice.trigger) {
                (Condition::Never, Condition::Never) => EnableMode::No,
                (Condition::Always, Condition::Never) if !counted => EnableMode::Always,
                (filter, trigger) => {
                    let code = Code { filter: when(filter), trigger: when(trigger) };
                    match conditions.set(id, &code) {
                        Ok(()) if counted => EnableMode::Counted,
                        Ok(()) => conditionally(conditions, id, &code, schema),
                        // Recording more than requested is better than recording less.
                        Err(no_room) => {
                            notes.push(format!("every {} is recorded: {no_room}", schema.full_name()));
                            // This condition needs no memory.
                            let every =
                                conditions.set(id, &Code { filter: When::Always, trigger: When::Never });
                            if counted && every.is_ok() { EnableMode::Counted } else { EnableMode::Always }
                        }
                    }
                }
            };
            let reported = choice.notes.into_iter().map(|note| format!("{}: {note}", schema.full_name()));
            notes.extend(reported);
            let before = self.program.enable(self.attached.slot, id, mode);
            if index >= self.choice.answered {
                unanswered.add(before, &choice.filter);
            }
            self.choice.enabled.push(mode != EnableMode::No);
            if let EnableMode::Through(_) = mode {
                self.choice.filtered.push((id, mode));
            }
        }
        notes.retain(|note| !self.notes.contains(note));
        self.notes.extend(notes);
        let has_new = self.choice.answered < self.choice.enabled.len();
        self.choice.answered = self.choice.enabled.len();
        if has_new {
            let unanswered = (unanswered, self.choice.enabled.contains(&true));
            let reported = self.undeclared.take_over(&self.program, &mut self.trace, unanswered, clock);
            self.notes.extend(reported.err().map(|error| error.to_string()));
        }
    }

    /// Returns the tracepoints that it has declared so far.
    pub fn declared(&self) -> &[Declared] {
        &self.trace.tracepoints
    }

    /// Returns the declared tracepoints that are enabled.
    pub fn enabled(&self) -> impl Iterator<Item = &Schema> {
        let known = self.trace.tracepoints.iter().zip(&self.choice.enabled);
        known.filter(|(_, enabled)| **enabled).map(|(known, _)| &known.schema)
    }

    /// Returns the program's number in the session.
    pub fn number(&self) -> ProgramNumber {
        self.trace.number
    }

    /// Disables all its tracepoints.
    pub fn disable(&self) {
        for known in self.declared() {
            self.program.enable(self.attached.slot, known.id, EnableMode::No);
        }
    }

    /// Detaches from the program after its rings were emptied, without waiting. Returns the remaining work if the lock
    /// that orders collectors is held. For an untrusted user's program, all work is returned and left to a thread of
    /// that user, because the program may cause delays.
    pub fn detach(&mut self) -> Option<Detachment> {
        let is_tried = is_trusted(self.user());
        let tried = if is_tried {
            close(self.supplied.as_ref(), true);
            self.program.try_detach(self.attached.hold())
        } else {
            Ok(false)
        };
        let left = match tried {
            Ok(true) => None,
            Ok(false) => Some(Detachment {
                name: self.trace.identity.name.clone(),
                program: Arc::clone(&self.program),
                hold: self.attached.hold(),
                supplied: self.supplied.take(),
                claim: Arc::clone(&self.claim),
                until: Instant::now() + PATIENCE,
            }),
            Err(error) => {
                self.notes.push(format!("its rings could not be given back: {error}"));
                None
            }
        };
        self.note_what_was_refused();
        left
    }

    fn note_what_was_refused(&mut self) {
        // With `--context all`, a program without counters is expected.
        let is_chosen = self.contexts.counters && self.contexts != Contexts::ALL;
        if is_chosen && !self.declared().iter().any(|known| known.schema.full_name() == "sordino:counters") {
            let note =
                "none of its threads has opened counters: sordino_counters in C, sordino::counters in Rust";
            self.notes.push(note.to_owned());
        }
        let unnamed = self.reader.note_unnamed(self.program.refused());
        self.notes.extend(unnamed);
        self.notes.extend(self.reader.note_unread(&*self.program));
        match self.program.refused_annotations() {
            0 => {}
            refused => self.notes.push(format!(
                "{} not stored: a program has room for {ANNOTATIONS}",
                count(refused, "annotation")
            )),
        }
    }
}

/// Converts a condition to the form that programs receive.
fn when(condition: &Condition) -> When<&[u8]> {
    match condition {
        Condition::Always => When::Always,
        Condition::Never => When::Never,
        Condition::Code(code) => When::If(code),
    }
}

/// Returns the way to enable a tracepoint whose `code` has been set: with an inline filter, if the code allows one.
fn conditionally(conditions: &mut Conditions, id: PointId, code: &Code<'_>, schema: &Schema) -> EnableMode {
    let filter = match (code.filter, code.trigger) {
        (When::If(code), When::Never) => InlineComparison::of(code, schema),
        _ => None,
    };
    filter
        .map_or(EnableMode::If, |filter| conditions.inline_filter(id, filter.field, filter.low, filter.span))
}
