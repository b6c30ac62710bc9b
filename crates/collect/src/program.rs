//! One traced program: its area, its rings, its trace.

mod trace;

pub(crate) use trace::{METADATA, MOST_METADATA, ProgramTrace, UNANSWERED};

use crate::clock::TraceClock;
use crate::context::Contexts;
use crate::discover::Identity;
use crate::drain::{Order, Stream, StreamState, Streams};
use crate::intake::{Claim, Taken, is_trusted};
use crate::options::{Options, Polling, UserEvents};
use crate::output::Output;
use crate::unanswered::{Lack, Unanswered};
use crate::{Error, directory::Directory};
use sordino_clock::Sample;
use sordino_event::condition::{Condition, Context, Gate};
use sordino_event::{Pid, Schema, catalogue};
use sordino_ring::control::{Attached, Code, Conditions, FileId, Hold, PATIENCE, Program, Want, When};
use sordino_ring::layout::{POINTS, VALUES};
use sordino_ring::read::Reader;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace::declare;

/// How often the end of a catalogue may be incomplete: it is read again each time, and the library publishes whole tracepoints.
const MOST_INCOMPLETE: u32 = 10;

/// A program that is recorded.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) trace: ProgramTrace,
    /// Its area, which nobody else records here.
    claim: Arc<Claim>,
    /// Readable when the process has ended.
    pub(crate) pidfd: OwnedFd,
    pub(crate) program: Arc<Program>,
    /// What went wrong on the way, for the summary.
    pub(crate) notes: Vec<String>,
    /// The session's hold on it; its readers are the collector's thread's.
    attached: Attached,
    /// Its rings' CPUs, in the order of its streams.
    rings: Vec<Option<u32>>,
    /// Whether each of its tracepoints is enabled.
    enabled: Vec<bool>,
    /// The tracepoints below this number were answered for.
    answered: usize,
    /// The tracepoints that are wanted through a gate.
    gated: Vec<(u16, Want)>,
    /// Bytes of the catalogue that were read.
    read: usize,
    /// Bytes of the catalogue that were there when it was read last.
    seen: usize,
    /// How often the last tracepoint in it was incomplete.
    incomplete: u32,
    /// Its catalogue made no sense; no more of it is read.
    broken: bool,
    contexts: Contexts,
}

/// A program that was not let go yet: somebody keeps its area locked, or could delay it.
#[derive(Clone, Debug)]
pub(crate) struct Detachment {
    name: String,
    program: Arc<Program>,
    hold: Hold,
    /// Until then its rings take memory.
    _claim: Arc<Claim>,
    until: Instant,
}

impl Traced {
    /// Records a program that was attached to: makes its trace, enables what is wanted. The streams still have to be handed to the
    /// collector's thread. If that fails, the program is let go.
    pub(crate) fn begin(
        taken: Taken,
        number: usize,
        options: &Options,
        directory: Option<&Directory>,
        clock: &TraceClock,
        user: &UserEvents,
    ) -> Result<(Self, Order), Error> {
        let Taken { pid, claim, identity, pidfd, program, mut attached, notes } = taken;
        let wake_up = (options.polling == Polling::Wakeup).then(|| program.wake_address(attached.slot));
        let trace =
            ProgramTrace { number, pid, identity, wake_up, schemas: Vec::new(), lack: None, place: None };
        let readers = std::mem::take(&mut attached.readers);
        let mut traced = Self {
            trace,
            claim: Arc::new(claim),
            pidfd,
            program: Arc::new(program),
            notes,
            attached,
            rings: readers.iter().map(Reader::cpu).collect(),
            enabled: Vec::new(),
            answered: 0,
            gated: Vec::new(),
            read: 0,
            seen: 0,
            incomplete: 0,
            broken: false,
            contexts: options.contexts,
        };
        // Before there is metadata: all of it is then written at once.
        let _ = traced.learn();
        if let Some(directory) = directory {
            traced.trace = traced.trace.put_in(directory, clock).inspect_err(|_| drop(traced.detach()))?;
        }
        let order = traced.streams(readers, options.session.is_some());
        traced.choose(user, clock);
        Ok((traced, order))
    }

    /// Which file its area is.
    pub(crate) fn id(&self) -> FileId {
        self.claim.id()
    }

    /// The user whose budget the program counts against.
    pub(crate) fn user(&self) -> u32 {
        self.claim.user()
    }

    fn streams(&self, readers: Vec<Reader>, persistent: bool) -> Order {
        let streams = readers.into_iter().map(|reader| {
            let output = self.trace.output(reader.cpu());
            Stream::new(reader, output, StreamState::new(persistent))
        });
        let (number, program, slot) = (self.number(), Arc::clone(&self.program), self.attached.slot);
        let triggered = program.triggers(slot).count;
        Order::Add(Streams { number, program, slot, streams: streams.collect(), triggered })
    }

    /// Goes on in another place; the trace that ends, and the new one's files, in the order of the streams.
    pub(crate) fn go_on_in(&mut self, next: ProgramTrace) -> (ProgramTrace, Vec<Output>) {
        let outputs = self.rings.iter().filter_map(|&cpu| next.output(cpu)).collect();
        (std::mem::replace(&mut self.trace, next), outputs)
    }

    /// Looks for tracepoints that are new, declares them, and enables those that are wanted. Where this session is the only one
    /// that is left to want an event, its gate turns hits away again.
    pub(crate) fn refresh(&mut self, user: &UserEvents, clock: &TraceClock) -> Result<(), Error> {
        let first = self.trace.schemas.len();
        self.learn()?;
        // Only now: no record of an event that the metadata does not know.
        self.choose_from(first, user, clock);
        self.gated.iter().for_each(|&(id, want)| self.program.renew(self.attached.slot, id, want));
        Ok(())
    }

    /// Looks for tracepoints that are new, and declares them.
    fn learn(&mut self) -> Result<(), Error> {
        if self.broken || self.program.catalogue_length() == self.seen {
            return Ok(());
        }
        let text = self.program.catalogue(self.read);
        let (tracepoints, consumed) = match catalogue::parse(&text) {
            Ok(parsed) => parsed,
            Err(error) => return self.give_up(&error.to_string()),
        };
        let mut declarations = String::new();
        let first = self.trace.schemas.len();
        let mut schemas = Vec::new();
        for (id, schema) in tracepoints {
            if usize::from(id) != first + schemas.len() || usize::from(id) >= POINTS {
                return self.give_up(&format!("tracepoint {id} is out of turn"));
            }
            match declare(id, &schema) {
                Ok(text) => declarations += &text,
                Err(error) => return self.give_up(&error.to_string()),
            }
            schemas.push(schema);
        }
        // Until this succeeds, all of them are new again with the next look.
        self.trace.append(&declarations)?;
        self.trace.schemas.append(&mut schemas);
        self.seen = self.read + text.len();
        self.read += consumed;
        self.incomplete += u32::from(consumed < text.len());
        if self.incomplete > MOST_INCOMPLETE {
            return self.give_up("the last one is never complete");
        }
        Ok(())
    }

    /// Enables and disables tracepoints as is wanted now.
    pub(crate) fn choose(&mut self, user: &UserEvents, clock: &TraceClock) {
        self.choose_from(0, user, clock);
    }

    /// The same for those from the `first` on.
    fn choose_from(&mut self, first: usize, user: &UserEvents, clock: &TraceClock) {
        let context = Context { pid: Pid(self.trace.pid), procname: &self.trace.identity.name };
        let (conditions, counted) = (&mut self.attached.conditions, self.contexts.counters);
        let (mut notes, mut unanswered) = (Vec::new(), Unanswered::default());
        self.gated.retain(|(id, _)| usize::from(*id) < first);
        self.enabled.truncate(first);
        for (id, schema) in (0u16..).zip(&self.trace.schemas).skip(first) {
            let choice = user.choose(schema, &context);
            let want = match (&choice.filter, &choice.trigger) {
                (Condition::Never, Condition::Never) => Want::No,
                (Condition::Always, Condition::Never) if !counted => Want::Always,
                (filter, trigger) => {
                    let code = Code { filter: when(filter), trigger: when(trigger) };
                    match conditions.set(id, &code) {
                        Ok(()) if counted => Want::Counted,
                        Ok(()) => conditionally(conditions, id, &code, schema),
                        // More than was asked for is better than less.
                        Err(no_room) => {
                            notes.push(format!("every {} is recorded: {no_room}", schema.full_name()));
                            // This takes no room.
                            let every =
                                conditions.set(id, &Code { filter: When::Always, trigger: When::Never });
                            if counted && every.is_ok() { Want::Counted } else { Want::Always }
                        }
                    }
                }
            };
            let told = choice.notes.into_iter().map(|note| format!("{}: {note}", schema.full_name()));
            notes.extend(told);
            let before = self.program.enable(self.attached.slot, id, want);
            if usize::from(id) >= self.answered {
                unanswered.add(before, &choice.filter);
            }
            self.enabled.push(want != Want::No);
            if let Want::Through(_) = want {
                self.gated.push((id, want));
            }
        }
        notes.retain(|note| !self.notes.contains(note));
        self.notes.extend(notes);
        let has_new = self.answered < self.enabled.len();
        self.answered = self.enabled.len();
        if has_new {
            self.take_over(unanswered, clock);
        }
    }

    /// Takes over what the area counted before this answer, if the program told of its tracepoints while the session recorded.
    fn take_over(&mut self, mut unanswered: Unanswered, clock: &TraceClock) {
        let (pending, to) = (self.program.pending(), Sample::take());
        let since = pending.since();
        unanswered.uncounted |= pending.has_uncounted() && self.enabled.contains(&true);
        if !unanswered.is_any() || since < clock.begin.monotonic {
            return;
        }
        // The program says it, whatever it is.
        let after = clock.ticks_in(Duration::from_nanos(since - clock.begin.monotonic));
        let from = clock.ticks(&clock.begin).saturating_add(after);
        let to = clock.ticks(&to);
        let told = self.trace.add_lack(Lack { unanswered, from: from.min(to), to });
        self.notes.extend(told.err().map(|error| error.to_string()));
    }

    /// Says in the area that this session has answered.
    pub(crate) fn answer(&self) {
        self.program.pending().answer();
    }

    /// The tracepoints that it has declared so far.
    pub(crate) fn declared(&self) -> &[Schema] {
        &self.trace.schemas
    }

    /// Those of them that are enabled.
    pub(crate) fn enabled(&self) -> impl Iterator<Item = &Schema> {
        self.trace
            .schemas
            .iter()
            .zip(&self.enabled)
            .filter(|(_, enabled)| **enabled)
            .map(|(schema, _)| schema)
    }

    /// Counts the programs of a session.
    pub(crate) fn number(&self) -> usize {
        self.trace.number
    }

    fn give_up(&mut self, reason: &str) -> Result<(), Error> {
        self.broken = true;
        self.notes.push(format!("its further tracepoints are not recorded: {reason}"));
        Ok(())
    }

    /// Switches all its tracepoints off.
    pub(crate) fn disable(&self) {
        for (id, _) in (0u16..).zip(&self.trace.schemas) {
            self.program.enable(self.attached.slot, id, Want::No);
        }
    }

    /// Ends the session's hold on it, when its rings were emptied. Does not wait: what is left to do if somebody keeps the lock that
    /// orders collectors.
    /// Nothing is done yet of a program whose user is not trusted: who may be waited for is left to a thread of the user's.
    pub(crate) fn detach(&mut self) -> Option<Detachment> {
        let is_tried = is_trusted(self.user());
        let tried = if is_tried { self.program.try_detach(self.attached.hold()) } else { Ok(false) };
        let left = match tried {
            Ok(true) => None,
            Ok(false) => Some(Detachment {
                name: self.trace.identity.name.clone(),
                program: Arc::clone(&self.program),
                hold: self.attached.hold(),
                _claim: Arc::clone(&self.claim),
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
        // Who asks for all contexts knows that a program need not have each.
        let asked = self.contexts.counters && self.contexts != Contexts::ALL;
        if asked && !self.trace.schemas.iter().any(|schema| schema.full_name() == "sordino:counters") {
            let note =
                "none of its threads has opened counters: sordino_counters in C, sordino::counters in Rust";
            self.notes.push(note.to_owned());
        }
        match self.program.refused() {
            0 => {}
            refused => self.notes.push(format!("{refused} of its tracepoints found no room in its area")),
        }
        match self.program.refused_values() {
            0 => {}
            refused => self.notes.push(format!(
                "{refused} times a thread said something of itself and found no room: more than {VALUES} values at once"
            )),
        }
    }
}

/// The hits that the area of a program which can't be recorded counted, as far as these rules want them.
pub(crate) fn unanswered_of(
    program: &Program,
    identity: &Identity,
    pid: i32,
    user: &UserEvents,
) -> Unanswered {
    let context = Context { pid: Pid(pid), procname: &identity.name };
    let mut unanswered = Unanswered::default();
    let (tracepoints, _) = match catalogue::parse(&program.catalogue(0)) {
        Ok(parsed) => parsed,
        Err(_) => return Unanswered { hits: 0, uncounted: true },
    };
    for (id, schema) in tracepoints {
        unanswered.add(program.pending().hits(id), &user.choose(&schema, &context).filter);
    }
    unanswered.uncounted |= program.pending().has_uncounted();
    unanswered
}

/// A condition as a program takes it.
fn when(condition: &Condition) -> When<&[u8]> {
    match condition {
        Condition::Always => When::Always,
        Condition::Never => When::Never,
        Condition::Code(code) => When::If(code),
    }
}

/// How the hits of a tracepoint are wanted that this code, which was set for it, decides about.
fn conditionally(conditions: &mut Conditions, id: u16, code: &Code<'_>, schema: &Schema) -> Want {
    let gate = match (code.filter, code.trigger) {
        (When::If(filter), When::Never) => Gate::of(filter, schema),
        _ => None,
    };
    gate.map_or(Want::If, |gate| conditions.gate(id, gate.field, gate.low, gate.span))
}

impl Detachment {
    /// The program's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Tries again; once the lock was kept for too long, without it. A note if there is one, and `None` if it is to be tried again.
    pub(crate) fn retry(&self, must_end: bool) -> Option<Option<String>> {
        let result = match self.program.try_detach(self.hold) {
            Ok(true) => Ok(()),
            Ok(false) if !must_end && Instant::now() < self.until => return None,
            Ok(false) => self.program.detach_unlocked(self.hold),
            Err(error) => Err(error),
        };
        let Self { name, .. } = self;
        Some(result.err().map(|error| format!("the rings of {name} could not be given back: {error}")))
    }
}
