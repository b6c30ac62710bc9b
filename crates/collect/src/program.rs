//! One traced program: its area, its rings, its trace.

mod trace;

pub(crate) use trace::ProgramTrace;

use crate::clock::TraceClock;
use crate::context::Contexts;
use crate::discover::{Found, identity};
use crate::drain::{Order, Stream, StreamState, Streams};
use crate::options::{Options, Polling, UserEvents};
use crate::output::Output;
use crate::present::Presence;
use crate::{Error, directory::Directory};
use rustix::process::{PidfdFlags, pidfd_open};
use sordino_event::condition::{Condition, Context, Gate};
use sordino_event::{Pid, Schema, catalogue};
use sordino_ring::control::{Attached, Code, Conditions, Program, Refusal, Want, Wanted, When};
use sordino_ring::layout::{Geometry, POINTS, VALUES};
use sordino_ring::read::Reader;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use trace::declare;

/// A program that is recorded.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) trace: ProgramTrace,
    /// Its area's inode number.
    pub(crate) inode: u64,
    /// Readable when the process has ended.
    pub(crate) pidfd: OwnedFd,
    pub(crate) program: Arc<Program>,
    /// What went wrong on the way, for the summary.
    pub(crate) notes: Vec<String>,
    /// The session's hold on it; its readers are the collector's thread's.
    attached: Attached,
    /// Its rings' CPUs, in the order of its streams.
    rings: Vec<Option<u32>>,
    /// The tracepoints that are wanted through a gate.
    gated: Vec<(u16, Want)>,
    /// Bytes of the catalogue that were read.
    read: usize,
    /// Its catalogue made no sense; no more of it is read.
    broken: bool,
    contexts: Contexts,
}

impl Traced {
    /// Takes hold of a program: makes its rings and its trace, enables what is wanted. The streams still have to be
    /// handed to the collector's thread.
    pub(crate) fn attach(
        found: &Found,
        number: usize,
        options: &Options,
        directory: Option<&Directory>,
        clock: &TraceClock,
        user: &UserEvents,
        presence: &mut Presence,
    ) -> Result<(Self, Order), Error> {
        let pid = found.pid;
        let refused = |reason: String| Error::Program { pid, reason };
        let pidfd =
            rustix::process::Pid::from_raw(pid).ok_or_else(|| refused("no such process".to_owned()))?;
        let pidfd = pidfd_open(pidfd, PidfdFlags::empty()).map_err(|error| refused(error.to_string()))?;
        let program = Program::open(&found.file).map_err(|refusal| refused(refusal.to_string()))?;
        let identity = identity(pid);
        if program.own_pid() as i32 != identity.own_pid {
            return Err(refused("its area is another process's".to_owned()));
        }
        let wanted = Wanted {
            name: &options.name,
            geometry: options.geometry,
            clock: clock.ring_clock(),
            cpus: options.cpus.as_slice(),
            leave_out_others: options.cpus_only,
            wake: options.polling == Polling::Wakeup,
            block: options.block,
            first_turn: first_turn(),
        };
        let mut notes = Vec::new();
        let attached = match program.attach(&wanted) {
            // A session takes what there is.
            Err(refusal @ Refusal::NoRoom { .. }) if options.session.is_some() => {
                let smaller = attach_smaller(&program, &wanted);
                smaller.map(|(attached, geometry)| {
                    let (size, count) = (geometry.size() >> 10, geometry.count);
                    let why = explain(&refusal, options, &program);
                    notes
                        .push(format!("each of its rings has {count} sub-buffers of {size} KiB only: {why}"));
                    attached
                })
            }
            attached => attached,
        };
        let mut attached = attached.map_err(|refusal| refused(explain(&refusal, options, &program)))?;
        let [gates, headers] = attached.way;
        notes.extend(presence.make(pid, &[attached.region, gates, headers]));
        let wake_up = wanted.wake.then(|| program.wake_address(attached.slot));
        let trace = ProgramTrace { number, pid, identity, wake_up, schemas: Vec::new(), place: None };
        let readers = std::mem::take(&mut attached.readers);
        let mut traced = Self {
            trace,
            inode: found.inode,
            pidfd,
            program: Arc::new(program),
            notes,
            attached,
            rings: readers.iter().map(Reader::cpu).collect(),
            gated: Vec::new(),
            read: 0,
            broken: false,
            contexts: options.contexts,
        };
        // Before there is metadata: all of it is then written at once.
        let _ = traced.learn();
        if let Some(directory) = directory {
            traced.trace = traced.trace.put_in(directory, clock).inspect_err(|_| traced.detach())?;
        }
        let order = traced.streams(readers, options.session.is_some());
        traced.choose(user);
        Ok((traced, order))
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
    pub(crate) fn refresh(&mut self, user: &UserEvents) -> Result<(), Error> {
        let first = self.trace.schemas.len();
        self.learn()?;
        // Only now: no record of an event that the metadata does not know.
        self.choose_from(first, user);
        self.gated.iter().for_each(|&(id, want)| self.program.renew(self.attached.slot, id, want));
        Ok(())
    }

    /// Looks for tracepoints that are new, and declares them.
    fn learn(&mut self) -> Result<(), Error> {
        let text = if self.broken { Vec::new() } else { self.program.catalogue(self.read) };
        if text.is_empty() {
            return Ok(());
        }
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
        self.read += consumed;
        Ok(())
    }

    /// Enables and disables tracepoints as is wanted now.
    pub(crate) fn choose(&mut self, user: &UserEvents) {
        self.choose_from(0, user);
    }

    /// The same for those from the `first` on.
    fn choose_from(&mut self, first: usize, user: &UserEvents) {
        let context = Context { pid: Pid(self.trace.pid), procname: &self.trace.identity.name };
        let (conditions, counted) = (&mut self.attached.conditions, self.contexts.counters);
        let mut notes = Vec::new();
        self.gated.retain(|(id, _)| usize::from(*id) < first);
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
            self.program.enable(self.attached.slot, id, want);
            if let Want::Through(_) = want {
                self.gated.push((id, want));
            }
        }
        notes.retain(|note| !self.notes.contains(note));
        self.notes.extend(notes);
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

    /// Ends the session's hold on it, when its rings were emptied.
    pub(crate) fn detach(&mut self) {
        if let Err(error) = self.program.detach(&self.attached) {
            self.notes.push(format!("its rings could not be given back: {error}"));
        }
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

/// Takes hold of a program with the largest rings that it has room for, smaller than wanted; and how large they are.
fn attach_smaller(program: &Program, wanted: &Wanted<'_>) -> Result<(Attached, Geometry), Refusal> {
    let mut wanted = wanted.clone();
    loop {
        match (program.attach(&wanted), wanted.geometry.smaller()) {
            (Err(Refusal::NoRoom { .. }), Some(smaller)) => wanted.geometry = smaller,
            (attached, _) => return attached.map(|attached| (attached, wanted.geometry)),
        }
    }
}

/// A different one each time, so that a writer that slept through a detach never finds the head it saw.
fn first_turn() -> u32 {
    let mut random = [0; 4];
    // Without randomness, the clock is different each time too.
    match rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()) {
        Ok(4) => u32::from_ne_bytes(random),
        _ => sordino_clock::cycles() as u32,
    }
}

/// A refusal with what the user can do about it.
fn explain(refusal: &Refusal, options: &Options, program: &Program) -> String {
    match refusal {
        Refusal::NoSlot => {
            let owners = program.owners().unwrap_or_default().into_iter();
            let owners: Vec<_> =
                owners.map(|owner| format!("'{}' (process {})", owner.name, owner.pid)).collect();
            format!("{refusal}: stop one of {}", owners.join(", "))
        }
        Refusal::NoRoom { needed, left } => {
            let rings = options.cpus.as_slice().len() as u64 + 1;
            let each = (left / rings).checked_ilog2().map_or(0, |bits| 1u64 << bits);
            format!(
                "{refusal}: record it with smaller rings (about {} KiB each fit: --subbuf-size, --num-subbuf), or start it \
                 with SORDINO_RESERVE={needed} or by 'sordino record -- COMMAND'",
                each >> 10
            )
        }
        Refusal::NoMemory(_) => format!("{refusal}: use smaller rings (--subbuf-size, --num-subbuf)"),
        _ => refusal.to_string(),
    }
}
