//! Attaches to one area: checks its owner, gets a slot, creates the rings.

use super::accounts::is_trusted;
use super::ledger::Claim;
use super::pages::MemoryRegions;
use super::portion::{Beginning, portion};
use crate::catalogue::{CatalogueReader, Learned};
use crate::code::MappedCode;
use rustix::process::{PidfdFlags, pidfd_open};
use sordino_event::Cpu;
use sordino_event::text::count;
use sordino_inspect::discover::{Hidden, Identity, identity};
use sordino_inspect::quota::CpuQuotas;
use sordino_registration::environment::RESERVE;
use sordino_ring::area::control::{AttachOptions, Attached, FileId, Portion, Program, Refusal};
use sordino_ring::layout::Geometry;
use sordino_ring::number::Seqno;
use sordino_ring::write::TimestampClock;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The session's options that apply to every program.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// The session's name, which other recorders see.
    pub name: String,
    /// The size and mode of each ring.
    pub geometry: Geometry,
    /// The clock of the records' timestamps.
    pub clock: TimestampClock,
    /// The CPUs that get rings of their own.
    pub cpus: Vec<Cpu>,
    /// True if hits on other CPUs are not recorded.
    pub leave_out_others: bool,
    /// True if a full sub-buffer wakes the recorder.
    pub wake: bool,
    /// Longest wait of a hit for room, for programs that allow it; `None` if hits never wait.
    pub block: Option<Duration>,
    /// True if rings get pages while they are used.
    pub is_sparse: bool,
    /// True if some tracepoints have conditions.
    pub conditions: bool,
    /// True if rules choose functions, of programs that record any.
    pub functions: bool,
    /// True if conditions name functions.
    pub names_functions: bool,
    /// True if the kernel is recorded.
    pub with_kernel: bool,
    /// True for a session, which uses smaller rings where there is no room for larger ones.
    pub is_session: bool,
    /// True if every program is recorded, except commands of `sordino` itself.
    pub skip_ours: bool,
}

/// The start of the first session's rings in a prepared area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreparedStart {
    /// The rings' first sequence number.
    pub(crate) first_seqno: Seqno,
    /// The sub-buffers that have memory.
    pub(crate) portion: Portion,
}

/// An area to attach to.
#[derive(Debug)]
pub struct Candidate {
    pub(super) pid: i32,
    /// The program's area, which was opened.
    pub program: Program,
    pub(super) claim: Claim,
    /// The start of its rings, if the area was prepared for it.
    pub(super) prepared: Option<PreparedStart>,
}

/// An attached area; no tracepoint is enabled yet.
#[derive(Debug)]
pub struct Taken {
    /// The id of its process.
    pub pid: i32,
    /// The claim of the area, and of memory for its rings.
    pub claim: Claim,
    /// The name and file of the process.
    pub identity: Identity,
    /// The CPU quotas of the program's cgroups, none if the kernel is not recorded.
    pub quotas: CpuQuotas,
    /// The code that it has mapped, if the session may record functions.
    pub code: MappedCode,
    /// Becomes readable when the process has ended.
    pub pidfd: OwnedFd,
    /// The program's area in shared memory.
    pub program: Program,
    /// The session's slot, its rings and their readers.
    pub attached: Attached,
    /// Notes on problems, for the summary.
    pub notes: Vec<String>,
    /// True if the program ran before it was attached to, so earlier hits are not recorded.
    pub ran_before: bool,
    /// The reader of the program's catalogue, and the tracepoints read so far.
    pub reader: CatalogueReader,
    /// The first tracepoints of the catalogue.
    pub learned: Learned,
}

/// The result of attaching to a candidate.
pub(super) enum Attach {
    Taken(Box<Taken>),
    /// Another collector is attaching, or another process holds the lock.
    Locked(Candidate),
    Refused(Candidate, String),
}

impl Wishes {
    /// Returns the number of rings of each program.
    pub(super) fn rings(&self) -> usize {
        self.cpus.len() + 1
    }

    /// Returns the request to a program. Its rings begin with fewer pages the less memory is left, and the more
    /// programs of its user registered within the last second.
    fn request(&self, beginning: &Beginning) -> AttachOptions<'_> {
        let portion = || portion(self.geometry, self.cpus.len(), beginning);
        AttachOptions {
            name: &self.name,
            geometry: self.geometry,
            clock: self.clock,
            cpus: &self.cpus,
            leave_out_others: self.leave_out_others,
            wake: self.wake,
            block: self.block,
            first_seqno: first_seqno(),
            portion: self.is_sparse.then(portion),
            prepared: None,
            conditions: self.conditions,
        }
    }

    /// Returns the options for the rings of an area without a program.
    pub(super) fn prepared_options(&self, start: PreparedStart) -> AttachOptions<'_> {
        let PreparedStart { first_seqno, portion } = start;
        let portion = Some(portion);
        AttachOptions { portion, ..AttachOptions::new(&self.name, self.geometry, &self.cpus, first_seqno) }
    }

    /// Describes a refusal and its remedy.
    fn explain(&self, refusal: &Refusal, program: &Program) -> String {
        match refusal {
            Refusal::NoSlot => {
                let owners = program.owners().unwrap_or_default().into_iter();
                let owners: Vec<_> =
                    owners.map(|owner| format!("'{}' (process {})", owner.name, owner.pid)).collect();
                format!("{refusal}: stop one of {}", owners.join(", "))
            }
            Refusal::NoRoom { needed, left } => {
                let each = (left / self.rings() as u64).checked_ilog2().map_or(0, |bits| 1u64 << bits);
                format!(
                    "{refusal}: record it with smaller rings (about {} KiB each fit: --subbuf-size, --num-subbuf), or start it \
                     with {RESERVE}={needed} or by 'sordino record -- COMMAND'",
                    each >> 10
                )
            }
            Refusal::NoMemory(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                format!(
                    "{refusal}: raise the limit of a file's size (ulimit -f), which is that of rings, too"
                )
            }
            Refusal::NoMemory(_) => format!("{refusal}: use smaller rings (--subbuf-size, --num-subbuf)"),
            _ => refusal.to_string(),
        }
    }
}

impl Candidate {
    /// Returns the identity of the area's file.
    pub const fn id(&self) -> FileId {
        self.claim.id()
    }

    /// Returns the time limit for attaching: 0.3 s for each GiB of memory, and time for a program that holds the lock
    /// of its file's inode.
    pub(super) fn patience(&self, wishes: &Wishes) -> Duration {
        Duration::from_secs(2 + (self.program.size_of(&self.request(wishes)) >> 30))
    }

    fn request<'a>(&self, wishes: &'a Wishes) -> AttachOptions<'a> {
        let request = wishes.request(&Beginning {
            memory: self.claim.memory(),
            arrivals: self.claim.arrivals(),
            is_restartable: self.program.is_restartable(),
            is_prepared: self.prepared.is_some(),
        });
        match self.prepared {
            Some(PreparedStart { first_seqno, portion }) => {
                AttachOptions { first_seqno, portion: Some(portion), prepared: request.portion, ..request }
            }
            None => request,
        }
    }

    /// Attaches without waiting for a lock.
    pub(super) fn attach(self, wishes: &Wishes) -> Attach {
        let Some(pid) = rustix::process::Pid::from_raw(self.pid) else {
            return Attach::Refused(self, "no such process".to_owned());
        };
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(error) => return Attach::Refused(self, Hidden::from(io::Error::from(error)).to_string()),
        };
        let identity = identity(self.pid);
        if self.program.own_pid() as i32 != identity.own_pid {
            return Attach::Refused(self, "its area is another process's".to_owned());
        }
        let mut notes = Vec::new();
        let attached = match self.attach_or_smaller(wishes, &mut notes) {
            Ok(Some(attached)) => attached,
            Ok(None) => return Attach::Locked(self),
            Err(reason) => return Attach::Refused(self, reason),
        };
        let quotas = if wishes.with_kernel { CpuQuotas::of(self.pid) } else { CpuQuotas::default() };
        let Self { pid, program, claim, .. } = self;
        let mut reader = CatalogueReader::default();
        let learned = reader.learn(&program, usize::MAX);
        let code = if wishes.functions {
            MappedCode::of(pid, wishes.names_functions)
        } else {
            MappedCode::default()
        };
        let ran_before = true;
        let taken = Taken {
            pid,
            claim,
            identity,
            quotas,
            code,
            pidfd,
            program,
            attached,
            notes,
            ran_before,
            reader,
            learned,
        };
        Attach::Taken(Box::new(taken))
    }

    /// Attaches with the requested rings, or with the largest that fit if the user's memory limit does not allow them
    /// or, for a session, the program has no room for them. Returns `None` if the lock is held.
    fn attach_or_smaller(
        &self,
        wishes: &Wishes,
        notes: &mut Vec<String>,
    ) -> Result<Option<Attached>, String> {
        let (mut request, mut too_large) = (self.request(wishes), None);
        loop {
            let reason = match self.claim.reserve(self.program.size_of(&request)) {
                Err(reason) => reason,
                Ok(()) => match self.program.try_attach(&request) {
                    Err(Refusal::Locked) => return Ok(None),
                    Err(refusal @ Refusal::NoRoom { .. }) if wishes.is_session => {
                        wishes.explain(&refusal, &self.program)
                    }
                    Err(refusal) => return Err(wishes.explain(&refusal, &self.program)),
                    Ok(attached) => {
                        if request.prepared.is_some() && !attached.is_prepared {
                            // Less than what was granted.
                            let _ = self.claim.reserve(self.program.size_of(&request.unprepared()));
                        }
                        notes.extend(too_large.map(|why: String| smaller(request.geometry, &why)));
                        return Ok(Some(attached));
                    }
                },
            };
            request.geometry = request.geometry.smaller().ok_or_else(|| reason.clone())?;
            request = request.unprepared();
            too_large.get_or_insert(reason);
        }
    }
}

fn smaller(geometry: Geometry, why: &str) -> String {
    let (size, sub_buffers) = (geometry.size() >> 10, geometry.count);
    format!("each of its rings has {} of {size} KiB only: {why}", count(sub_buffers, "sub-buffer"))
}

impl Taken {
    /// Returns the addresses of the pages that the program's threads access.
    pub(super) fn pages(&self) -> MemoryRegions {
        MemoryRegions(self.attached.present.clone())
    }

    /// Detaches on behalf of a session that has ended meanwhile, if the user is trusted. An untrusted user's program
    /// could delay that: its slot is released with its file, and the next session that gets the slot removes the rings.
    pub(super) fn let_go_at_once(&self) {
        if is_trusted(self.claim.user()) {
            self.let_go();
        }
    }

    /// Detaches on behalf of a session that has ended meanwhile.
    pub(super) fn let_go(&self) {
        let hold = self.attached.hold();
        if !matches!(self.program.try_detach(hold), Ok(true)) {
            // The kernel releases the slot when the file is closed.
            let _ = self.program.detach_unlocked(hold);
        }
    }
}

/// Returns a different first sub-buffer sequence number each time, so that a writer that slept through a detach never
/// finds the head that it saw before.
pub(crate) fn first_seqno() -> Seqno {
    let mut random = [0; 4];
    // Without random numbers: the clock also differs each time.
    match rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()) {
        Ok(4) => Seqno(u32::from_ne_bytes(random)),
        _ => Seqno(sordino_clock::cycles() as u32),
    }
}
