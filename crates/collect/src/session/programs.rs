//! The session's programs: found, taken hold of, let go.

use super::{Session, Sink};
use crate::Error;
use crate::discover::{Found, Hidden, areas, identity, incarnation, is_command_of_ours, parent, processes};
use crate::drain::StreamEnd;
use crate::exit::exit_of;
use crate::listen::Announced;
use crate::options::Programs;
use crate::proc;
use crate::program::{ProgramTrace, Traced};
use crate::summary::{ProgramSummary, StreamSummary};
use sordino_clock::Sample;
use sordino_ring::control::{Program, Refusal};
use std::io::ErrorKind;
use std::time::Instant;

/// How often a process is looked at until it is known to have no area of its own: once each tick. One that was forked or executed
/// a moment ago has not made it yet.
const LOOKS: u8 = 10;
/// At how many of them an area may be incomplete: its program may have been interrupted while it made it.
const LOOKS_UNTIL_MADE: u8 = 3;

impl Session<'_> {
    /// A process that the user named has to be recorded, or nothing is.
    pub(super) fn attach_named(&mut self, pid: i32) -> Result<(), Error> {
        let refused = |reason: String| Error::Program { pid, reason };
        let found = areas(pid).map_err(|hidden| match hidden {
            Hidden::Io(error) if error.kind() == ErrorKind::NotFound => {
                refused("there is no such process".to_owned())
            }
            hidden => refused(hidden.to_string()),
        })?;
        if found.is_empty() {
            return Err(refused("it is not linked with sordino, or ended".to_owned()));
        }
        self.seen.insert(incarnation(pid), LOOKS);
        found.iter().try_for_each(|found| self.attach(found))
    }

    fn attach(&mut self, found: &Found) -> Result<(), Error> {
        if self.programs.iter().any(|program| program.inode == found.inode) {
            return Ok(());
        }
        let directory = match &self.sink {
            Sink::Chunk(chunk) => Some(&chunk.directory),
            Sink::Memory(_) => None,
        };
        let before = Sample::take();
        let (number, options, presence) = (self.numbered, self.options, &mut self.presence);
        let attached = Traced::attach(found, number, options, directory, &self.clock, &self.user, presence);
        let (program, streams) = attached?;
        self.numbered += 1;
        self.collector.order(streams);
        self.watcher.look_at(&program, &self.clock, &before);
        self.programs.push(program);
        // It may have been looked at before it was complete.
        self.skipped.retain(|(inode, _)| *inode != found.inode);
        Ok(())
    }

    fn attach_or_note(&mut self, found: &Found) -> Result<(), Error> {
        self.attach(found).inspect_err(|error| self.skip(found.pid, found.inode, error))
    }

    fn skip(&mut self, pid: i32, inode: u64, error: &Error) {
        let name = identity(pid).name;
        let name = if name.is_empty() { "a program that has ended" } else { &name };
        let note = format!("skipped {name}: {error}");
        // It is looked at several times: the last reason stands. Who makes up areas is noted once.
        self.skipped.retain(|(other, text)| *other != inode && *text != note);
        self.skipped.push((inode, note));
        // Over days there may be any number of them.
        self.skipped.drain(..self.skipped.len().saturating_sub(MOST_NOTES));
    }

    /// Takes up the programs that say that they are there, or that they have new tracepoints.
    pub(super) fn take_announced(&mut self) {
        for announced in self.listener.accept() {
            self.announced(&announced);
        }
    }

    fn announced(&mut self, announced: &Announced) {
        let known = self.programs.iter().position(|program| program.inode == announced.inode);
        if let Some(known) = known {
            let refreshed = self.programs[known].refresh(&self.user);
            self.note(refreshed);
            return;
        }
        // A private socket is known only to those that are wanted.
        if !self.listener.is_private() && !self.wants(announced.pid) {
            return;
        }
        if announced.pid <= 0 {
            self.tell("skipped a program in a pid namespace that is not visible here".to_owned());
            return;
        }
        match announced.area() {
            Ok(found) => {
                self.let_go_replaced(found.pid);
                // It stands in the notes why it is not recorded.
                let _ = self.attach_or_note(&found);
            }
            Err(hidden) => {
                let (pid, reason) = (announced.pid, hidden.to_string());
                self.skip(pid, announced.inode, &Error::Program { pid, reason });
            }
        }
    }

    /// Whether a process is one of those that the user asked for.
    fn wants(&self, pid: i32) -> bool {
        match &self.options.programs {
            Programs::All => !is_command_of_ours(pid),
            Programs::Pids(_) => descends(pid, &self.pids),
            Programs::Command(_) => self.child.iter().any(|child| descends(pid, &[child.id() as i32])),
        }
    }

    /// A process that has a new area may have got it by exec: the old one is then no longer mapped.
    fn let_go_replaced(&mut self, pid: i32) {
        if self.programs.iter().all(|program| program.trace.pid != pid) {
            return;
        }
        let maps = proc::read(&format!("/proc/{pid}/maps")).unwrap_or_default();
        // Its first thread has ended: that says nothing of the others.
        if maps.is_empty() {
            return;
        }
        let is_mapped = |inode: u64| {
            let inode = inode.to_string();
            maps.lines().any(|line| line.split_whitespace().nth(4) == Some(&inode))
        };
        let replaced =
            self.programs.iter().filter(|program| program.trace.pid == pid && !is_mapped(program.inode));
        let replaced: Vec<usize> = replaced.map(|program| program.number()).collect();
        replaced.into_iter().for_each(|number| self.let_go(number));
    }

    /// Looks for programs that nobody announced: started before us, or with their environment taken away.
    pub(super) fn scan(&mut self) {
        self.scanned = Instant::now();
        let seen = std::mem::take(&mut self.seen);
        for pid in processes() {
            let incarnation = incarnation(pid);
            // One without a stack is about to end, is the kernel's, or may not be looked into.
            if pid == std::process::id() as i32 || incarnation.2 == 0 {
                continue;
            }
            let looks = (1 + seen.get(&incarnation).copied().unwrap_or(0)).min(LOOKS + 1);
            self.seen.insert(incarnation, looks);
            if looks > LOOKS || !self.wants(pid) {
                continue;
            }
            // Other users' programs are theirs.
            let mut areas = areas(pid).unwrap_or_default();
            areas.retain(|found| self.programs.iter().all(|program| program.inode != found.inode));
            if looks < LOOKS_UNTIL_MADE {
                areas.retain(is_made);
            }
            if !areas.is_empty() {
                self.seen.insert(incarnation, LOOKS);
                self.let_go_replaced(pid);
            }
            for found in areas {
                // Where there is no room on the disk, there may be some with the next look.
                if matches!(self.attach_or_note(&found), Err(Error::Output { .. })) {
                    self.seen.remove(&incarnation);
                }
            }
        }
    }

    /// Looks for tracepoints that are new in all programs.
    pub(super) fn refresh(&mut self) {
        for index in 0..self.programs.len() {
            let refreshed = self.programs[index].refresh(&self.user);
            self.note(refreshed);
        }
    }

    fn note(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.failed |= self.outlet.is_none();
            self.tell(error.to_string());
        }
    }

    /// Something that whoever reads the recording should know.
    pub(super) fn tell(&mut self, note: String) {
        let notes = match (&mut self.sink, &mut self.outlet) {
            (Sink::Chunk(chunk), _) => &mut chunk.summary.notes,
            (Sink::Memory(_), Some(outlet)) => &mut outlet.notes,
            (Sink::Memory(_), None) => return,
        };
        note_once(notes, note);
    }

    /// A process has ended: that may be a reason for a snapshot.
    pub(super) fn has_gone(&mut self, number: usize) {
        if let Sink::Memory(_) = self.sink {
            // It may have asked for one just before.
            self.collector.look();
            self.hear_reports();
        }
        let Some(program) = self.programs.iter().find(|program| program.number() == number) else { return };
        let ends = self.options.session.as_ref().map_or(&[][..], |session| &session.snapshots.ends);
        let exit = (!ends.is_empty()).then(|| exit_of(program));
        if let Some(exit) = exit.filter(|exit| ends.iter().any(|&end| exit.is(end))) {
            let why = format!("{} {exit}", program.trace.identity.name);
            self.ended_badly(&why);
        }
        self.let_go(number);
    }

    /// Takes what a program's rings hold, and lets go of it.
    pub(super) fn let_go(&mut self, number: usize) {
        let Some(index) = self.programs.iter().position(|program| program.number() == number) else { return };
        let mut program = self.programs.remove(index);
        let refreshed = program.refresh(&self.user);
        self.note(refreshed);
        program.disable();
        self.leave_program(&program);
        if let Sink::Memory(_) = self.sink {
            let copy = self.collector.take(number, self.since(None));
            program.detach();
            return self.keep(program, copy);
        }
        let streams = self.collector.finish(number);
        program.detach();
        let Sink::Chunk(chunk) = &mut self.sink else { return };
        let summary = summarise(&program.trace, program.notes, streams);
        chunk.add(summary, program.trace);
    }
}

/// As many notes are kept of what may happen again and again.
const MOST_NOTES: usize = 200;

/// Adds a note, but not each time it happens again; the oldest make room for new ones.
pub(super) fn note_once(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
        notes.drain(..notes.len().saturating_sub(MOST_NOTES));
    }
}

/// Whether an area is complete, as far as that can be seen.
fn is_made(found: &Found) -> bool {
    !matches!(Program::open(&found.file), Err(Refusal::Unsealed | Refusal::NoArea))
}

/// Whether `pid` is one of `ancestors`, or was started by one, however indirectly.
fn descends(mut pid: i32, ancestors: &[i32]) -> bool {
    // As deep as any tree of processes; parents that change meanwhile could make a circle.
    for _ in 0..1000 {
        if ancestors.contains(&pid) {
            return true;
        }
        match parent(pid) {
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    false
}

/// What a summary says of a program.
pub(super) fn summarise(trace: &ProgramTrace, notes: Vec<String>, streams: Vec<StreamEnd>) -> ProgramSummary {
    ProgramSummary {
        pid: trace.pid,
        name: trace.identity.name.clone(),
        executable: trace.identity.executable.clone(),
        trace: trace.name().to_owned(),
        streams: streams.into_iter().filter(is_worth_a_line).map(stream).collect(),
        notes,
    }
}

/// Whether anything happened in a stream.
fn is_worth_a_line(stream: &StreamEnd) -> bool {
    stream.bytes > 0 || stream.lost.total > 0 || stream.corrupt.is_some() || stream.failure.is_some()
}

fn stream(end: StreamEnd) -> StreamSummary {
    let corrupt = end.corrupt.map(|corrupt| format!("the program spoilt its ring: {corrupt}"));
    let failure = end.failure.map(|error| format!("{} could not be written: {error}", end.path.display()));
    StreamSummary {
        cpu: end.cpu,
        bytes: end.bytes,
        events: None,
        ring_full: end.lost.total - end.lost.too_large,
        too_large: end.lost.too_large,
        unfinished: end.unfinished,
        overwritten: end.overwritten,
        unwritten: end.unwritten,
        problem: corrupt.or(failure),
    }
}
