//! A collector's access to a program: it opens the area, takes a slot, makes rings, and enables tracepoints.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `area:A`, the magic number | `control:B` | if the load sees it, it sees the header |
//! | `area:B`, the catalogue's length | `control:C` | if the load sees the length, it sees the text |
//! | `control:A`, the enable word | `point:A` and `pending:B`, the loads of it | if the load sees that the session enabled the event, it sees its rings, and its inline filter |
//! | `control:D`, the check for writers of a closed ring | `commit:E` and `commit:F` | if a writer is not seen, it sees the ring closed, or is gone |
//! | `control:K`, the check for them behind a revocation | `commit:E` and `commit:F` | if a writer is not seen, it sees the revocation, or is gone |
//! | `control:E`, an opened ring's count, then its head | `view:A`, `write:C`, `write:F`, `commit:C` | if the load sees either, it sees where the ring lies |
//! | `control:F`, its other bits, after the head | `write:E`, `view:F` | if the load sees the fast path open, its thread sees this head, or one that the section refuses |
//! | `control:G`, a closed ring's head, after its other bits | `write:C` | if the load sees it closed, it sees the fast path closed |
//! | `control:H`, a condition's word | `slots:B` | if the load sees the word, it sees the code |
//! | `control:J`, the change of an enable word | `pending:E` | if the change finds it settled by a late hit, it sees that hits were not counted |
//! | `control:I`, loading the count of triggers | `slots:A` | if the load sees the count, it sees the record that was written before |
//!
//! Collectors of several processes change a tracepoint's word. Each change is a compare-and-swap, which continues the
//! release of those before it: a tracepoint that sees any of these words sees the rings of all sessions that the word
//! names.

mod attach;
mod conditions;
mod cost_trial;
mod pager;
mod plan;
mod prepare;
mod refusal;
mod sizes;
mod vet;

pub use crate::area::condition::{Code, When};
pub use crate::area::enable::EnableMode;
pub use attach::{Attached, Hold, PATIENCE};
pub use conditions::{Conditions, NoRoom};
pub use cost_trial::CostTrial;
pub use pager::{Pager, Portion, Use};
pub use plan::AttachOptions;
pub use prepare::Preparation;
pub use refusal::Refusal;
pub use vet::FileId;

use crate::area::annotations::Annotations;
use crate::area::enable::EnableMask;
use crate::area::map::{self, FilePart, Mapping};
use crate::area::pending::Pending;
use crate::layout::{
    ANNOTATIONS, Capacity, EnableWord, Header, MAGIC, PAGE, RINGS_OFFSET, RingHeader, Slot, VERSION,
};
use crate::number::{PointId, SlotIndex};
use crate::read::HeaderRef;
use sizes::Sizes;
use sordino_percpu::primitive::{AcqRel, Acquire, AtomicU32, Relaxed};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// The holder of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The recording session's name.
    pub name: String,
    /// The collector's pid in its own namespace.
    pub pid: u32,
}

/// Hits that requested a snapshot from a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triggers {
    /// Their number, modulo 2^32, since the session began.
    pub count: u32,
    /// The tracepoint of the newest, or of one about as new.
    pub point: PointId,
}

/// A program's area as a collector has it mapped.
#[derive(Debug)]
pub struct Program {
    file: OwnedFd,
    id: FileId,
    /// The whole area but the catalogue.
    control: Arc<Mapping>,
    capacity: Capacity,
    control_size: u64,
    catalogue_capacity: u64,
    reserve: u64,
    address: u64,
    is_distrusted: bool,
}

impl Program {
    /// Opens the area in `file`, which is untrusted, and may be open with `O_PATH`. Nothing is opened for writing, and
    /// nothing is waited for, before it is known to be a sealed file in memory.
    ///
    /// # Errors
    /// A [`Refusal`] if it is not an area, or its header is inconsistent.
    pub fn open(file: &OwnedFd) -> Result<Self, Refusal> {
        let (file, id) = vet::reopen_vetted(file.as_fd())?;
        let size = map::size(&file)?;
        if size < PAGE as u64 {
            return Err(Refusal::NoArea);
        }
        let first = Mapping::new(file.as_fd(), 0, PAGE)?;
        // SAFETY: a whole page is mapped and the file cannot shrink (sealed); all fields are atomics.
        let header: &Header = unsafe { first.start().cast().as_ref() };
        // ORDER(control:B) pairs with area:A: if the load sees the magic number, then it sees the header.
        if header.magic.load(Acquire) != MAGIC {
            return Err(Refusal::NoArea);
        }
        let version = header.version.load(Relaxed);
        if version != VERSION {
            return Err(Refusal::Version(version));
        }
        let sizes = Sizes::check(header, size).ok_or(Refusal::Nonsense)?;
        let mapped = sizes.capacity.catalogue_offset();
        let control = Arc::new(Mapping::new(file.as_fd(), 0, mapped)?);
        Ok(Self {
            file,
            id,
            control,
            capacity: sizes.capacity,
            control_size: sizes.control,
            catalogue_capacity: sizes.catalogue,
            reserve: sizes.reserve,
            address: sizes.address,
            is_distrusted: false,
        })
    }

    /// Makes every later change of its file's size and memory in a process of its own: the program may delay a change
    /// for ever, and a thread that waits for it cannot be killed.
    pub fn distrust(&mut self) {
        self.is_distrusted = true;
    }

    /// Changes the file's size or memory.
    fn change(&self, change: impl Fn() -> io::Result<()>) -> io::Result<()> {
        if self.is_distrusted { map::apart(Some(&self.file), change) } else { change() }
    }

    /// Allocates memory for closed sub-buffers and their commit words, which are parts of the file. Then makes the
    /// pages present where process `pid`, which is the program, has them mapped, if its pages may be read; otherwise
    /// the program faults once on each. The sub-buffers' content is lost; words of other sub-buffers lie on the same
    /// pages and stay. The program may have arranged that this takes for ever.
    ///
    /// # Errors
    /// `ENOSPC` or `ENOMEM` when there is no memory; others if it cannot be requested now. The sub-buffers have no
    /// memory then.
    fn supply(&self, pid: i32, data: &[FilePart], words: &[FilePart]) -> io::Result<()> {
        let mapped = data.iter().chain(words).map(|part| part.mapped_at(self.address));
        #[cfg(loom)]
        overwrite(data);
        let supplied = self.change(|| {
            data.iter().try_for_each(|&part| map::fill(&self.file, part))?;
            words.iter().try_for_each(|&part| map::allocate(&self.file, part))?;
            // If making them present is not permitted, or the program has something else there, it has the memory all
            // the same, and faults once.
            let _ = map::populate(pid, mapped.clone());
            Ok(())
        });
        supplied.inspect_err(|_| drop(self.punch(data)))
    }

    /// Gives back the memory of parts of the file.
    fn punch(&self, parts: &[FilePart]) -> io::Result<()> {
        #[cfg(loom)]
        overwrite(parts);
        self.change(|| parts.iter().try_for_each(|&part| map::punch(&self.file, part)))
    }

    fn header(&self) -> &Header {
        // SAFETY: the area starts with its header, mapped as long as `control`; all fields are atomics.
        unsafe { self.control.start().cast().as_ref() }
    }

    /// The identity of the area's file.
    pub const fn id(&self) -> FileId {
        self.id
    }

    /// The program's pid in its own namespace, as the program reports it.
    pub fn own_pid(&self) -> u32 {
        self.header().pid.load(Relaxed)
    }

    /// Number of CPUs that may exist, as the program reports it.
    pub fn cpus(&self) -> u32 {
        self.capacity.cpus
    }

    /// The numbers of CPUs and tracepoints for which the program's area has room.
    pub const fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Number of registered tracepoints, as the program reports it.
    pub fn registered(&self) -> u32 {
        self.header().points.load(Relaxed).min(self.capacity.points)
    }

    /// Returns true if the program reports that its threads are registered for restartable sequences.
    pub fn is_restartable(&self) -> bool {
        self.header().restartable.load(Relaxed) != 0
    }

    /// Returns true if the program reports that sessions may make its threads wait for room.
    pub fn allows_blocking(&self) -> bool {
        self.header().allows_blocking.load(Relaxed) != 0
    }

    /// Number of tracepoints that could not be registered, as the program reports it.
    pub fn refused(&self) -> u32 {
        self.header().refused.load(Relaxed)
    }

    /// Number of annotations that found no room, as the program reports it.
    pub fn refused_annotations(&self) -> u32 {
        self.header().refused_annotations.load(Relaxed)
    }

    /// Bytes of the catalogue's text now.
    pub fn catalogue_length(&self) -> usize {
        // ORDER(control:C) pairs with area:B: if the load sees the length, then it sees the text.
        self.header().catalogue_length.load(Acquire).min(self.catalogue_capacity) as usize
    }

    /// A copy of the catalogue's text from byte `from` on. More may come at any time.
    pub fn catalogue(&self, from: usize) -> Vec<u8> {
        self.catalogue_part(from, usize::MAX)
    }

    /// A copy of at most `most` bytes of the catalogue's text from byte `from` on. The text is read from the file:
    /// through a mapping, a program that promises text and writes none would get pages that are the reader's.
    pub fn catalogue_part(&self, from: usize, most: usize) -> Vec<u8> {
        let mut text = vec![0; self.catalogue_length().saturating_sub(from).min(most)];
        let start = self.capacity.catalogue_offset() + from;
        let read = map::read_at(&self.file, start as u64, &mut text).unwrap_or(0);
        text.truncate(read);
        text
    }

    /// The annotations of the program's threads.
    pub fn annotations(&self) -> Annotations<'_> {
        let first = self.control.at(self.capacity.annotations_offset()).cast();
        // SAFETY: the table has `ANNOTATIONS` cells inside the control part, which is mapped as long as `control`; all
        // are atomics.
        Annotations::of(unsafe { std::slice::from_raw_parts(first, ANNOTATIONS) })
    }

    /// The owners of sessions that record the program now.
    ///
    /// # Errors
    /// The kernel's error of a query for a lock.
    pub fn owners(&self) -> io::Result<Vec<Owner>> {
        let mut owners = Vec::new();
        for (slot, byte) in self.header().slots.iter().zip(0..) {
            if map::is_locked(&self.file, byte)? {
                owners.push(Owner { name: name_of(slot), pid: slot.collector.load(Relaxed) });
            }
        }
        Ok(owners)
    }

    /// Sets how the session in `slot` enables tracepoint `id`. Takes effect with the program's next load of the enable
    /// word. A session that enables it [conditionally](EnableMode::If) has [set the condition](Conditions::set) before.
    /// Returns the hits that were counted before the session's answer, as the program reports them: 0 but for the first
    /// answer for a [pending](crate::area::pending) tracepoint; all ones stand for that many or more.
    ///
    /// # Panics
    /// If there is no such tracepoint.
    pub fn enable(&self, slot: SlotIndex, id: PointId, mode: EnableMode) -> u32 {
        assert!(u32::from(id.0) < self.capacity.points);
        let word = self.point(id);
        let mut before = word.load(Relaxed);
        loop {
            let after = EnableMask(before).with(slot, mode, self.cpus()).0;
            // ORDER(control:A) pairs with point:A and pending:B: if a load sees that the session enabled the event, it
            // sees its rings; also if another collector has changed the word since, which continues this release.
            // ORDER(control:J) pairs with pending:E: if the change finds the word settled by a late hit, then this
            // thread sees that hits were not counted.
            match word.compare_exchange(before, after, AcqRel, Relaxed) {
                Ok(_) => {
                    let answered = EnableMask(before).sessions(self.cpus()).has(slot);
                    return if answered { 0 } else { EnableMask(before).hits() };
                }
                Err(now) => before = now,
            }
        }
    }

    /// Restores the inline filter of tracepoint `id` for the session in `slot`, if `mode` is one and another session
    /// that had enabled the event, too, has gone. Otherwise nothing is written, so that a thread that hits the
    /// tracepoint keeps the word's cache line.
    ///
    /// # Panics
    /// If there is no such tracepoint.
    pub fn renew(&self, slot: SlotIndex, id: PointId, mode: EnableMode) {
        let now = EnableMask(self.point(id).load(Relaxed));
        if now.one_if() == Some(slot) {
            self.enable(slot, id, mode);
        }
    }

    /// The hits that requested a snapshot from the session in `slot`.
    pub fn triggers(&self, slot: SlotIndex) -> Triggers {
        let words = self.slot(slot);
        // ORDER(control:I) pairs with slots:A: if the load sees the count, then it sees the record that was written
        // before.
        let count = words.triggered.load(Acquire);
        Triggers { count, point: PointId(words.trigger_point.load(Relaxed) as u16) }
    }

    /// The address in the program's own memory of the futex of `slot`, by which its writers wake the collector.
    pub fn wake_address(&self, slot: SlotIndex) -> u64 {
        let word = (&raw const self.slot(slot).wake).addr();
        self.address + (word - self.control.start().addr().get()) as u64
    }

    /// The futex that writers count up at a sub-buffer switch.
    pub fn wake_word(&self, slot: SlotIndex) -> &AtomicU32 {
        &self.slot(slot).wake
    }

    fn slot(&self, slot: SlotIndex) -> &Slot {
        &self.header().slots[slot.index() as usize]
    }

    fn ring(&self, slot: SlotIndex, index: u32) -> HeaderRef {
        let number = slot.index() as usize * (self.cpus() as usize + 1) + index as usize;
        HeaderRef {
            control: Arc::clone(&self.control),
            offset: RINGS_OFFSET + number * size_of::<RingHeader>(),
        }
    }

    /// The program's tracepoints that wait for the answers of recorders.
    pub fn pending(&self) -> Pending<'_> {
        Pending::of(self.header(), self.points(), self.cpus())
    }

    fn points(&self) -> &[EnableWord] {
        let first = self.control.at(self.capacity.points_offset()).cast();
        // SAFETY: the control part has an enable word for each tracepoint of the capacity; it is mapped; all are
        // atomics.
        unsafe { std::slice::from_raw_parts(first, self.capacity.points as usize) }
    }

    /// # Panics
    /// If there is no such tracepoint.
    fn point(&self, id: PointId) -> &EnableWord {
        &self.points()[id.index()]
    }
}

/// Reports to the checker loom that the kernel writes to these parts of the file.
#[cfg(loom)]
fn overwrite(parts: &[FilePart]) {
    parts
        .iter()
        .for_each(|part| sordino_percpu::model::overwrite(part.offset as usize, part.length as usize));
}

fn name_of(slot: &Slot) -> String {
    let bytes: Vec<u8> =
        slot.name.iter().map(|byte| byte.load(Relaxed)).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
