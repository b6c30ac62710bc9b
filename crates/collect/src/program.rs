//! One traced program: its area, its rings, its trace.

use crate::clock::TraceClock;
use crate::directory::replace;
use crate::discover::{Found, Identity, identity};
use crate::drain::{Order, Stream, StreamState, Streams};
use crate::options::{Options, Polling, UserEvents};
use crate::output::Output;
use crate::{Error, directory::Directory};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sordino_ctf::write::{StreamClass, event_class, preamble, stream_class};
use sordino_ctf::{Environment, Uuid};
use sordino_event::{Schema, catalogue};
use sordino_ring::control::{Attached, Program, Refusal, Want, Wanted};
use sordino_ring::layout::POINTS;
use sordino_ring::map::populate;
use sordino_ring::read::Reader;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A program that is recorded.
#[derive(Debug)]
pub(crate) struct Traced {
    /// Counts the programs of a recording.
    pub(crate) number: usize,
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
    /// Bytes of the catalogue that were read.
    read: usize,
    /// Its catalogue made no sense; no more of it is read.
    broken: bool,
}

/// A program's trace: what is left of the program when it has ended.
#[derive(Debug)]
pub(crate) struct ProgramTrace {
    pub(crate) pid: i32,
    pub(crate) identity: Identity,
    /// The trace's directory.
    pub(crate) path: PathBuf,
    uuid: Uuid,
    schemas: Vec<Schema>,
}

impl Traced {
    /// Takes hold of a program: makes its rings and its trace, enables what is wanted. The streams still have to be
    /// handed to the collector's thread.
    pub(crate) fn attach(
        found: &Found,
        number: usize,
        options: &Options,
        directory: &Directory,
        clock: &TraceClock,
    ) -> Result<(Self, Order), Error> {
        let pid = found.pid;
        let refused = |reason: String| Error::Program { pid, reason };
        let pidfd = Pid::from_raw(pid).ok_or_else(|| refused("no such process".to_owned()))?;
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
            block: None,
            first_turn: first_turn(),
        };
        let mut attached =
            program.attach(&wanted).map_err(|refusal| refused(explain(&refusal, options, &program)))?;
        let mut notes = Vec::new();
        // What the kernel had no memory for a moment ago it may have now.
        let present = match make_present(pid, attached.region) {
            Ok(1..) => make_present(pid, attached.region),
            result => result,
        };
        match present {
            Ok(0) => {}
            // It has become another program, or ended: nobody will write there.
            _ if !is_mapped(pid, attached.region.0) => {}
            Ok(missing) => {
                notes.push(format!("{missing} pages of its rings were not present: it may fault on them"))
            }
            Err(error) => notes
                .push(format!("its rings could not be made present ({error}): it faults on each page once")),
        }
        let path = directory.user().join(format!("{:04}-{}-{pid}", number + 1, file_name(&identity.name)));
        fs::create_dir(&path).map_err(Error::output(&path))?;
        let trace = ProgramTrace { pid, identity, path, uuid: crate::uuid(), schemas: Vec::new() };
        trace.write_metadata(clock)?;
        let readers = std::mem::take(&mut attached.readers);
        let mut traced = Self {
            number,
            trace,
            inode: found.inode,
            pidfd,
            program: Arc::new(program),
            notes,
            attached,
            read: 0,
            broken: false,
        };
        let order = traced.streams(readers);
        traced.refresh(&options.user)?;
        Ok((traced, order))
    }

    fn streams(&self, readers: Vec<Reader>) -> Order {
        let streams = readers.into_iter().map(|reader| {
            let (name, class) = match reader.cpu() {
                Some(cpu) => (format!("cpu{cpu}"), StreamClass::Cpu),
                None => ("shared".to_owned(), StreamClass::Shared),
            };
            let output = Output::new(self.trace.path.join(name), self.trace.uuid, class, reader.cpu());
            Stream { reader, output, state: StreamState::default() }
        });
        let (number, program, slot) = (self.number, Arc::clone(&self.program), self.attached.slot);
        Order::Add(Streams { number, program, slot, streams: streams.collect() })
    }

    /// Looks for tracepoints that are new, declares them, and enables those that are wanted.
    pub(crate) fn refresh(&mut self, user: &UserEvents) -> Result<(), Error> {
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
        for (id, schema) in tracepoints {
            if usize::from(id) != self.trace.schemas.len() || usize::from(id) >= POINTS {
                return self.give_up(&format!("tracepoint {id} is out of turn"));
            }
            match declare(id, &schema) {
                Ok(text) => declarations += &text,
                Err(error) => return self.give_up(&error.to_string()),
            }
            self.trace.schemas.push(schema);
        }
        self.read += consumed;
        let path = self.trace.path.join("metadata");
        let appended = File::options()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(declarations.as_bytes()));
        appended.map_err(Error::output(&path))?;
        // Only now: no record of an event that the metadata does not know.
        let new = (0u16..).zip(&self.trace.schemas).skip(first);
        for (id, _) in new.filter(|(_, schema)| user.wants(schema)) {
            self.program.enable(self.attached.slot, id, Want::Always);
        }
        Ok(())
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
        match self.program.refused() {
            0 => {}
            refused => self.notes.push(format!("{refused} of its tracepoints found no room in its area")),
        }
    }
}

impl ProgramTrace {
    /// Writes the whole metadata: at the start, and at the end, when the clock's rate is known better.
    pub(crate) fn write_metadata(&self, clock: &TraceClock) -> Result<(), Error> {
        let mut environment = Environment::default();
        environment
            .set("domain", "ust")
            .set("tracer_name", "sordino")
            .set("tracer_version", env!("CARGO_PKG_VERSION"))
            .set("hostname", clock.hostname())
            .set("vpid", i64::from(self.pid))
            .set("procname", self.identity.name.as_str())
            .set("executable", self.identity.executable.as_str());
        if self.identity.own_pid != self.pid {
            environment.set("vpid_in_namespace", i64::from(self.identity.own_pid));
        }
        let mut text = preamble(self.uuid, &environment, &clock.ctf())?;
        text += &stream_class(StreamClass::Cpu);
        text += &stream_class(StreamClass::Shared);
        for (id, schema) in (0..).zip(&self.schemas) {
            text += &declare(id, schema)?;
        }
        let path = self.path.join("metadata");
        replace(&path, &text).map_err(Error::output(&path))
    }
}

/// Declares a tracepoint's event for both kinds of ring.
fn declare(id: u16, schema: &Schema) -> Result<String, Error> {
    let name = schema.full_name();
    let mut text = event_class(StreamClass::Cpu, id, &name, schema)?;
    text += &event_class(StreamClass::Shared, id, &name, schema)?;
    Ok(text)
}

/// Makes the pages of a region present in the program. It may have arranged that this takes for ever (userfaultfd, FUSE): then a
/// thread waits there until one of us ends.
fn make_present(pid: i32, (address, length): (u64, u64)) -> io::Result<u64> {
    let (done, is_done) = channel();
    let thread = std::thread::Builder::new().name("sordino-present".to_owned());
    thread.spawn(move || _ = done.send(populate(pid, address, length)))?;
    // 1.4 us for a page are 0.4 s for a GiB.
    let patience = Duration::from_secs(1 + (length >> 30));
    is_done.recv_timeout(patience).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Whether a process has something at this address.
fn is_mapped(pid: i32, address: u64) -> bool {
    let maps = match fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps,
        Err(error) => return error.kind() == io::ErrorKind::PermissionDenied,
    };
    let has = |line: &str| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        let [start, end] = [start, end].map(|bound| u64::from_str_radix(bound, 16).ok());
        Some((start?..end?).contains(&address))
    };
    maps.lines().any(|line| has(line) == Some(true))
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

/// A process's name as a part of a file's name.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.+".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_makes_a_file_name() {
        assert_eq!(file_name("npt"), "npt");
        assert_eq!(file_name("../a b/c"), ".._a_b_c");
        assert_eq!(file_name(""), "unnamed");
    }

    #[test]
    fn what_is_mapped_is_found_until_the_process_ends() {
        let here = std::process::id() as i32;
        let local = 0u8;
        assert!(is_mapped(here, (&raw const local).addr() as u64));
        assert!(!is_mapped(here, 0) && !is_mapped(i32::MAX, 0x1000));
    }
}
