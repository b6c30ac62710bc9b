//! How a collector takes hold of a program: opens its area, takes a slot, makes rings, switches tracepoints.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `area:A`, the magic number | `control:B` | who sees it sees the header |
//! | `area:B`, the catalogue's length | `control:C` | who sees the length sees the text |
//! | `control:A`, the enable word | `point:A`, the look at it | who sees that a session wants the event sees its rings, and its gate |
//! | `control:D`, looking for writers | `commit:E` and `commit:F` | a writer that is not seen sees the ring closed, or is gone |
//! | `control:E`, an opened ring's count, then its head | `view:A`, `write:C`, `commit:C` | who sees either sees where the ring lies |
//! | `control:F`, its other bits, after the head | `write:E` | who finds the short way open finds this head, or one that the section refuses |
//! | `control:G`, a closed ring's head, after its other bits | `write:C` | who finds it closed finds the short way closed |
//! | `control:H`, a condition's word | `slots:B` | who sees the word sees the code |
//! | `control:J`, the change of an enable word | `pending:E` | who finds it settled by a late hit sees that hits were not counted |
//! | `control:I`, the look at the count of triggers | `slots:A` | who sees the count sees the record that was written before |
//!
//! Collectors of several processes change a tracepoint's word. Each change is a compare-and-swap, which continues the release of
//! those before it: whoever's word a tracepoint sees, it sees the rings of all sessions that the word names.

mod attach;
mod conditions;
mod pager;
mod plan;
mod refusal;
mod sizes;
mod vet;

pub use crate::condition::{Code, When};
pub use crate::want::Want;
pub use attach::{Attached, Hold, PATIENCE};
pub use conditions::{Conditions, NoRoom};
pub use pager::{Pager, Portion, Use};
pub use plan::Wanted;
pub use refusal::Refusal;
pub use vet::FileId;

use crate::layout::{
    Capacity, EnableWord, Header, MAGIC, PAGE, RINGS_OFFSET, RingHeader, SLOTS, Slot, VALUES, VERSION,
};
use crate::map::{self, Mapping};
use crate::pending::Pending;
use crate::read::HeaderRef;
use crate::value::Values;
use crate::want::Wants;
use sizes::Sizes;
use sordino_percpu::primitive::{AcqRel, Acquire, AtomicU32, Relaxed};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Who holds a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The session's name.
    pub name: String,
    /// The collector's pid in its own namespace.
    pub pid: u32,
}

/// Hits that asked a session for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triggers {
    /// How many there were, modulo 2^32, since the session began.
    pub count: u32,
    /// The tracepoint of the newest, or of one about as new.
    pub point: u16,
}

/// A program's area as a collector has it mapped.
#[derive(Debug)]
pub struct Program {
    file: OwnedFd,
    id: FileId,
    /// All of it but the catalogue.
    control: Arc<Mapping>,
    capacity: Capacity,
    control_size: u64,
    catalogue_capacity: u64,
    reserve: u64,
    address: u64,
    is_distrusted: bool,
}

impl Program {
    /// Opens the area in `file`, which may come from anybody and may be open with `O_PATH`. Nothing is opened for writing, or waited
    /// for, before it is known to be a sealed file in memory.
    ///
    /// # Errors
    /// A [`Refusal`] if it is not an area, or makes no sense.
    pub fn open(file: &OwnedFd) -> Result<Self, Refusal> {
        let (file, id) = vet::reopen_vetted(file.as_fd())?;
        let size = map::size(&file)?;
        if size < PAGE as u64 {
            return Err(Refusal::NoArea);
        }
        let first = Mapping::new(file.as_fd(), 0, PAGE)?;
        // SAFETY: a whole page is mapped and cannot shrink; all atomics.
        let header: &Header = unsafe { first.start().cast().as_ref() };
        // ORDER(control:B) pairs with area:A.
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

    /// Has every change of its file's size and memory made by a process of its own: the program may delay it for ever, and keep
    /// whoever waits from being killed.
    pub fn distrust(&mut self) {
        self.is_distrusted = true;
    }

    /// Changes the file's size or memory.
    fn change(&self, change: impl Fn() -> io::Result<()>) -> io::Result<()> {
        if self.is_distrusted { map::apart(Some(&self.file), change) } else { change() }
    }

    /// Gives sub-buffers that are closed and their commit words memory: parts of the file, whose pages are present then where process
    /// `pid`, which is the program, has them mapped, if its pages may be read: else the program faults once on each. What the sub-buffers held is gone; other sub-buffers' words lie on the same pages
    /// and stay. The program may have arranged that this takes for ever.
    ///
    /// # Errors
    /// `ENOSPC` or `ENOMEM` when there is no memory; others if it cannot be asked for now. The sub-buffers have none then.
    fn supply(&self, pid: i32, data: &[(u64, u64)], words: &[(u64, u64)]) -> io::Result<()> {
        let present = |&(offset, length): &(u64, u64)| map::populate(pid, self.address + offset, length);
        #[cfg(loom)]
        overwrite(data);
        let supplied = self.change(|| {
            data.iter().try_for_each(|&(offset, length)| map::fill(&self.file, offset, length))?;
            words.iter().try_for_each(|&(offset, length)| map::allocate(&self.file, offset, length))?;
            // Where that is not permitted, or the program has something else there, it has the memory all the same, and faults once.
            let _ = data.iter().chain(words).try_for_each(|part| present(part).map(drop));
            Ok(())
        });
        supplied.inspect_err(|_| drop(self.punch(data)))
    }

    /// Gives the memory of parts of the file back.
    fn punch(&self, ranges: &[(u64, u64)]) -> io::Result<()> {
        #[cfg(loom)]
        overwrite(ranges);
        self.change(|| ranges.iter().try_for_each(|&(offset, length)| map::punch(&self.file, offset, length)))
    }

    fn header(&self) -> &Header {
        // SAFETY: mapped as long as `control`; all atomics.
        unsafe { self.control.start().cast().as_ref() }
    }

    /// Which file its area is.
    pub const fn id(&self) -> FileId {
        self.id
    }

    /// The program's pid in its own namespace, as it says.
    pub fn own_pid(&self) -> u32 {
        self.header().pid.load(Relaxed)
    }

    /// CPUs that may exist, as the program says.
    pub fn cpus(&self) -> u32 {
        self.capacity.cpus
    }

    /// The numbers of CPUs and tracepoints for which the program's area has room.
    pub const fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Tracepoints that are registered, as the program says.
    pub fn registered(&self) -> u32 {
        self.header().points.load(Relaxed).min(self.capacity.points)
    }

    /// Whether its threads are registered for restartable sequences, as it says.
    pub fn is_restartable(&self) -> bool {
        self.header().restartable.load(Relaxed) != 0
    }

    /// Whether it lets sessions make its threads wait for room, as it says.
    pub fn allows_blocking(&self) -> bool {
        self.header().allows_blocking.load(Relaxed) != 0
    }

    /// Tracepoints of which it says that they could not be registered.
    pub fn refused(&self) -> u32 {
        self.header().refused.load(Relaxed)
    }

    /// How often it says that a thread's value found no room.
    pub fn refused_values(&self) -> u32 {
        self.header().refused_values.load(Relaxed)
    }

    /// Bytes of the catalogue's text now.
    pub fn catalogue_length(&self) -> usize {
        // ORDER(control:C) pairs with area:B.
        self.header().catalogue_length.load(Acquire).min(self.catalogue_capacity) as usize
    }

    /// A copy of the catalogue's text from byte `from` on. More may come at any time.
    pub fn catalogue(&self, from: usize) -> Vec<u8> {
        self.catalogue_part(from, usize::MAX)
    }

    /// The same, of `most` bytes at most. The text is read from the file: through a mapping, a program that promises text and
    /// writes none would get pages that are the reader's.
    pub fn catalogue_part(&self, from: usize, most: usize) -> Vec<u8> {
        let mut text = vec![0; self.catalogue_length().saturating_sub(from).min(most)];
        let start = self.capacity.catalogue_offset() + from;
        let read = map::read_at(&self.file, start as u64, &mut text).unwrap_or(0);
        text.truncate(read);
        text
    }

    /// What its threads say of themselves.
    pub fn values(&self) -> Values<'_> {
        let first = self.control.at(self.capacity.values_offset()).cast();
        // SAFETY: inside the control part, which is mapped as long as `control`; all atomics.
        Values::of(unsafe { std::slice::from_raw_parts(first, VALUES) })
    }

    /// The sessions that record it now.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn owners(&self) -> io::Result<Vec<Owner>> {
        let mut owners = Vec::new();
        for (slot, byte) in self.header().slots.iter().zip(0..) {
            if map::is_locked(&self.file, byte)? {
                owners.push(Owner { name: name_of(slot), pid: slot.collector.load(Relaxed) });
            }
        }
        Ok(owners)
    }

    /// Says how the session in `slot` wants the events of tracepoint `id`. Takes effect with the program's next look at it. Who wants
    /// it [conditionally](Want::If) has [set the condition](Conditions::set) before. Returns the hits that were counted
    /// before the session's answer, as the program says: 0 but for the first answer for a [pending](crate::pending) tracepoint; all ones: at least so
    /// many.
    ///
    /// # Panics
    /// If there is no such tracepoint or slot.
    pub fn enable(&self, slot: usize, id: u16, want: Want) -> u32 {
        assert!(slot < SLOTS && u32::from(id) < self.capacity.points);
        let word = self.point(usize::from(id));
        let mut before = word.load(Relaxed);
        loop {
            let after = Wants(before).with(slot, want, self.cpus()).0;
            // ORDER(control:A) pairs with point:A: who sees that the session wants it sees its rings. Also if another collector has changed
            // the word since, which continues this release.
            // ORDER(control:J) pairs with pending:E: who finds it settled by a late hit sees that hits were not counted.
            match word.compare_exchange(before, after, AcqRel, Relaxed) {
                Ok(_) => {
                    let answered = Wants(before).sessions(self.cpus()).all >> slot & 1 != 0;
                    return if answered { 0 } else { Wants(before).hits() };
                }
                Err(now) => before = now,
            }
        }
    }

    /// Gives the session in `slot` the gate of tracepoint `id` again, if `want` is one and another session that wanted the event, too, has
    /// gone. Otherwise nothing is written, so that a thread that hits the tracepoint keeps the word's cache line.
    ///
    /// # Panics
    /// If there is no such tracepoint or slot.
    pub fn renew(&self, slot: usize, id: u16, want: Want) {
        let now = Wants(self.point(usize::from(id)).load(Relaxed));
        if now.one_if() == Some(slot as u32) {
            self.enable(slot, id, want);
        }
    }

    /// The hits that asked the session in `slot` for a snapshot.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn triggers(&self, slot: usize) -> Triggers {
        let words = &self.header().slots[slot];
        // ORDER(control:I) pairs with slots:A: who sees the count sees the record that was written before.
        let count = words.triggered.load(Acquire);
        Triggers { count, point: words.trigger_point.load(Relaxed) as u16 }
    }

    /// Where the program has the futex of `slot` in its own memory, by which its writers wake the collector.
    ///
    /// # Panics
    /// If `slot` is not below [`SLOTS`].
    pub fn wake_address(&self, slot: usize) -> u64 {
        let word = (&raw const self.header().slots[slot].wake).addr();
        self.address + (word - self.control.start().addr().get()) as u64
    }

    /// The futex that writers count up when they leave a sub-buffer.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn wake_word(&self, slot: usize) -> &AtomicU32 {
        &self.header().slots[slot].wake
    }

    fn ring(&self, slot: usize, index: u32) -> HeaderRef {
        let number = slot * (self.cpus() as usize + 1) + index as usize;
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
        // SAFETY: inside the control part; all atomics.
        unsafe { std::slice::from_raw_parts(first, self.capacity.points as usize) }
    }

    /// # Panics
    /// If there is no such tracepoint.
    fn point(&self, id: usize) -> &EnableWord {
        &self.points()[id]
    }
}

/// Tells the checker loom that the kernel writes to these parts of the file.
#[cfg(loom)]
fn overwrite(ranges: &[(u64, u64)]) {
    ranges
        .iter()
        .for_each(|&(offset, length)| sordino_percpu::model::overwrite(offset as usize, length as usize));
}

fn name_of(slot: &Slot) -> String {
    let bytes: Vec<u8> =
        slot.name.iter().map(|byte| byte.load(Relaxed)).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
