//! A session's slot and rings in a program: made by an attachment, closed and given back by a detachment.

use super::pager::Pager;
use super::plan::{AttachOptions, Placement, RingPlan};
use super::{Conditions, EnableMode, Program, Refusal};
use crate::area::enable::EnableMask;
use crate::area::map::{self, FilePart, Mapping, MemoryPart};
use crate::layout::{
    self, ATTACH_LOCK, Header, INLINE_FILTERS, InlineFilter, PAGE, RingHeader, Slot, TableEntry,
};
use crate::number::{PointId, RingOffset, Seqno, SlotIndex};
use crate::offset::Head;
use crate::read::{Exchange, HandedOut, Reader, Room};
use crate::table::{Entry, Spare};
use crate::write::TimestampClock;
use sordino_percpu::primitive::{Acquire, Relaxed, Release, SeqCst, fence};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time that a collector waits for another one that attaches or detaches.
pub const PATIENCE: Duration = Duration::from_millis(300);

/// The slot and the region that [`Program::try_detach`] ends.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    slot: SlotIndex,
    region: MemoryPart,
}

/// A session's slot in a program, with its rings.
#[derive(Debug)]
pub struct Attached {
    /// The slot's number in the program.
    pub slot: SlotIndex,
    /// The readers of each CPU's ring, and of the shared ring.
    pub readers: Vec<Reader>,
    /// The pagers of the rings, in the same order; none if all sub-buffers have pages.
    pub pagers: Vec<Pager>,
    /// The conditions that decide about hits.
    pub conditions: Conditions,
    /// The memory in which the program has the rings mapped.
    pub region: MemoryPart,
    /// The memory that is to be made present in the program: the parts of the region that have new pages, the area's
    /// header, the slot's inline filters and its ring headers.
    pub present: Vec<MemoryPart>,
    /// The memory that may be made present later: open parts of [prepared](super::Preparation) rings. Before that, a
    /// thread faults once on each page.
    pub hidden: Vec<MemoryPart>,
    /// True if the rings have the memory that was prepared for them.
    pub is_prepared: bool,
}

impl Attached {
    /// The part of it that [`Program::try_detach`] needs.
    pub const fn hold(&self) -> Hold {
        Hold { slot: self.slot, region: self.region }
    }
}

impl Program {
    /// Takes a slot and makes rings. No tracepoint is enabled yet. Waits up to [`PATIENCE`] for others that attach or
    /// detach.
    ///
    /// # Errors
    /// A [`Refusal`] if there is no slot or no room, or the program does not let its threads wait; nothing stays
    /// changed then.
    pub fn attach(&self, options: &AttachOptions<'_>) -> Result<Attached, Refusal> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.try_attach(options) {
                Err(Refusal::Locked) if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
                attached => return attached,
            }
        }
    }

    /// Attaches like [`attach`](Self::attach), without waiting for others: the lock's holder may be the program, and
    /// keep it for ever.
    ///
    /// # Errors
    /// [`Refusal::Locked`] if another process holds the lock now; all errors of [`attach`](Self::attach).
    pub fn try_attach(&self, options: &AttachOptions<'_>) -> Result<Attached, Refusal> {
        if options.block.is_some() && !self.allows_blocking() {
            return Err(Refusal::NoBlocking);
        }
        if !map::try_lock(&self.file, ATTACH_LOCK)? {
            return Err(Refusal::Locked);
        }
        let attached = self.attach_locked(options);
        map::unlock(&self.file, ATTACH_LOCK)?;
        attached
    }

    /// Bytes of memory that a session with this request takes at first.
    pub fn size_of(&self, options: &AttachOptions<'_>) -> u64 {
        let parts = self.plan(options).parts(options);
        parts.iter().map(|part| part.length).sum()
    }

    fn plan(&self, options: &AttachOptions<'_>) -> Placement {
        Placement::of(options, self.capacity, self.registered())
    }

    fn attach_locked(&self, options: &AttachOptions<'_>) -> Result<Attached, Refusal> {
        let is_new = SlotIndex::all().all(|slot| self.slot(slot).collector.load(Relaxed) == 0);
        let slot = self.take_slot()?;
        // From here on the area is not new, whatever fails: another session must not rely on prepared memory.
        self.slot(slot).collector.store(std::process::id(), Relaxed);
        let options = if is_new { options.clone() } else { options.unprepared() };
        let discarded = if options.prepared.is_none() { self.discard_prepared() } else { Ok(()) };
        let made = discarded.map_err(Refusal::from).and_then(|()| self.make_rings(slot, &options));
        if made.is_err() {
            map::unlock(&self.file, slot.index().into())?;
        }
        made
    }

    /// Takes the first free slot. Clears away the rings that killed collectors left in any slot. Slots that never had a
    /// session are skipped: most are such, and looking through all tracepoints for each would cost more than the rest.
    fn take_slot(&self) -> Result<SlotIndex, Refusal> {
        let mut taken = None;
        for slot in SlotIndex::all() {
            let was_used = self.slot(slot).collector.load(Relaxed) != 0;
            if taken.is_some() && !was_used {
                continue;
            }
            if !map::try_lock(&self.file, slot.index().into())? {
                continue;
            }
            if was_used {
                self.close(slot);
            }
            let free = !self.has_writers(slot);
            if free {
                self.reclaim(slot)?;
            }
            if free && taken.is_none() {
                taken = Some(slot);
            } else {
                map::unlock(&self.file, slot.index().into())?;
            }
        }
        taken.ok_or(Refusal::NoSlot)
    }

    /// Gives back the memory of rings that no collector detached. Precedes the choice of a new region, which could be
    /// the same.
    fn reclaim(&self, slot: SlotIndex) -> io::Result<()> {
        let region = &self.slot(slot).region;
        let [offset, length] = region.each_ref().map(|word| word.swap(0, Relaxed));
        let end = offset.saturating_add(length).min(map::size(&self.file)?);
        let is_region = offset >= self.control_size && offset < end;
        if is_region {
            self.change(|| map::punch(&self.file, FilePart { offset, length: end - offset }))
        } else {
            Ok(())
        }
    }

    /// Gives back memory that was prepared for a session: this one, which comes second and gets another place for its
    /// rings, or one that never came.
    fn discard_prepared(&self) -> io::Result<()> {
        let (mut at, size) = (self.control_size, map::size(&self.file)?);
        for Range { start, end } in self.regions(None).into_iter().chain(std::iter::once(size..size)) {
            let gap = at..start.min(size);
            if !gap.is_empty() {
                let gap = FilePart { offset: gap.start, length: gap.end - gap.start };
                self.change(|| map::punch(&self.file, gap))?;
            }
            at = at.max(end);
        }
        Ok(())
    }

    fn make_rings(&self, slot: SlotIndex, options: &AttachOptions<'_>) -> Result<Attached, Refusal> {
        let plan = self.plan(options);
        let (offset, length) = (self.find_room(slot, plan.length)?, plan.length);
        let missing = plan.missing(options);
        let size = map::size(&self.file)?;
        self.change(|| {
            if size < offset + length {
                map::set_size(&self.file, offset + length)?;
            }
            // The content that an earlier session left there is dropped: the new rings are zero.
            if offset < size && options.prepared.is_none() {
                map::punch(&self.file, FilePart { offset, length: length.min(size - offset) })?;
            }
            let filled = missing.iter().try_for_each(|part| map::fill(&self.file, part.in_file(offset)));
            filled.inspect_err(|_| drop(map::punch(&self.file, FilePart { offset, length })))
        })
        .map_err(Refusal::NoMemory)?;
        let region = Arc::new(Mapping::new(self.file.as_fd(), offset, length as usize)?);
        self.announce(slot, options, offset, length, plan.conditions);
        let others = if options.leave_out_others { layout::LEFT_OUT } else { layout::UNKNOWN_CPU };
        (0..self.cpus()).for_each(|index| self.ring(slot, index).cpu.store(others, Relaxed));
        let readers: Vec<Reader> =
            plan.rings.iter().map(|ring| self.make_ring(slot, options, ring, &region, offset)).collect();
        let is_sparse = options.portion().is_some();
        let pagers = readers.iter().filter(|_| is_sparse).map(|reader| Pager::of(reader, offset)).collect();
        let conditions =
            Conditions::new(region, plan.conditions, Arc::clone(&self.control), self.capacity, slot);
        let there = |offset: usize, length: usize| {
            FilePart { offset: offset as u64, length: length as u64 }.mapped_at(self.address)
        };
        let headers = (self.cpus() as usize + 1) * size_of::<RingHeader>();
        let way = [
            there(0, size_of::<Header>()),
            there(conditions.first_inline_filter, INLINE_FILTERS * size_of::<InlineFilter>()),
            there(self.ring(slot, 0).offset, headers),
        ];
        let region = FilePart { offset, length }.mapped_at(self.address);
        let [mapped, hidden] = plan.prepared(options);
        let address = |part: FilePart| part.mapped_at(region.address);
        let present = missing.into_iter().chain(mapped).map(address).chain(way).collect();
        let hidden = hidden.into_iter().map(address).collect();
        let is_prepared = options.prepared.is_some();
        Ok(Attached { slot, readers, pagers, conditions, region, present, hidden, is_prepared })
    }

    /// The lowest offset with `needed` bytes that no session uses and no writer of an earlier one may touch.
    fn find_room(&self, slot: SlotIndex, needed: u64) -> Result<u64, Refusal> {
        let (mut at, mut largest) = (self.control_size, 0);
        let behind = std::iter::once(self.reserve..self.reserve);
        for Range { start, end } in self.regions(Some(slot)).into_iter().chain(behind) {
            let start = start.min(self.reserve);
            if at.saturating_add(needed) <= start {
                return Ok(at);
            }
            largest = largest.max(start.saturating_sub(at));
            at = at.max(end.checked_next_multiple_of(PAGE as u64).unwrap_or(u64::MAX));
        }
        Err(Refusal::NoRoom { needed, left: largest })
    }

    /// The regions of all slots but `except`, as their starts and ends, in order. A slot's region counts whether or not
    /// its collector lives: a collector that was killed a moment ago has neither lock nor writers, and its rings are
    /// still open. `take_slot` clears away those that are really left.
    fn regions(&self, except: Option<SlotIndex>) -> Vec<Range<u64>> {
        let mut used = Vec::new();
        for (index, other) in SlotIndex::all().zip(&self.header().slots) {
            let [offset, length] = other.region.each_ref().map(|word| word.load(Relaxed));
            if Some(index) != except && length != 0 {
                used.push(offset..offset.saturating_add(length));
            }
        }
        used.sort_unstable_by_key(|region| (region.start, region.end));
        used
    }

    fn announce(
        &self,
        slot: SlotIndex,
        options: &AttachOptions<'_>,
        offset: u64,
        length: u64,
        conditions: usize,
    ) {
        let slot = &self.slot(slot);
        slot.collector.store(std::process::id(), Relaxed);
        slot.region[0].store(offset, Relaxed);
        slot.region[1].store(length, Relaxed);
        slot.conditions.store(offset + conditions as u64, Relaxed);
        slot.triggered.store(0, Relaxed);
        slot.trigger_point.store(0, Relaxed);
        let name = options.name.bytes().chain(std::iter::repeat(0));
        slot.name.iter().zip(name).for_each(|(to, byte)| to.store(byte, Relaxed));
    }

    fn make_ring(
        &self,
        slot: SlotIndex,
        options: &AttachOptions<'_>,
        plan: &RingPlan,
        region: &Arc<Mapping>,
        region_offset: u64,
    ) -> Reader {
        let header = self.ring(slot, plan.cpu.map_or(self.cpus(), |cpu| cpu.0));
        let relative = |offset: usize| (region_offset + offset as u64).wrapping_sub(header.offset as u64);
        let geometry = options.geometry;
        let first = options.first_seqno;
        let exchange = plan.table.map(|table| {
            make_table(region, table, geometry.count, first);
            let spare = Spare { number: geometry.count, uses: 0 };
            Exchange { table, spare, held: None, overwritten: 0 }
        });
        header.cpu.store(plan.cpu.map_or(layout::UNKNOWN_CPU, |cpu| cpu.0), Relaxed);
        header.data.store(relative(plan.data), Relaxed);
        header.table.store(plan.table.map_or(0, relative), Relaxed);
        header.commits.store(plan.commits.map_or(0, relative), Relaxed);
        header.bits.store(geometry.bits, Relaxed);
        header.clock.store(options.clock as u32, Relaxed);
        header.overwrite.store(u32::from(geometry.overwrite), Relaxed);
        header.block.store(options.microseconds(), Relaxed);
        header.lost.store(0, Relaxed);
        header.too_large.store(0, Relaxed);
        header.latest.store(0, Relaxed);
        let room = Room::new(header.clone(), geometry.count, first, options.present(plan.cpu));
        let wake =
            header.offset - (std::mem::offset_of!(Header, slots) + slot.index() as usize * size_of::<Slot>());
        header.wake.store(if options.wake { wake as u32 } else { 0 }, Relaxed);
        // Closed once more: a section that was under way when the ring was closed may have stored its head since.
        header.head.store(Head::CLOSED.0, Relaxed);
        // ORDER(control:E) pairs with view:A, and below with write:C, write:F and commit:C: if a load sees the count or
        // the head, then it sees all stores above.
        header.count.store(geometry.count, Release);
        let offset = RingOffset::of_sub_buffer(options.first_seqno.entry(geometry.count), geometry.bits);
        header.head.store(Head::entering(options.first_seqno, offset).0, Release);
        // ORDER(control:F) pairs with write:E and view:F: if a load sees the fast path open, then it sees the head
        // above. The shared ring has no fast path, nor has a ring with another clock than the cycle counter.
        let short = plan.commits.is_none() && options.clock == TimestampClock::Cycles;
        header.other_bits.store(if short { geometry.other_bits() } else { u64::MAX }, Release);
        Reader {
            header,
            data: plan.data,
            commits: plan.commits,
            region: Arc::clone(region),
            geometry,
            room,
            first_seqno: first,
            seqno: first,
            handed_out: HandedOut::default(),
            exchange,
            cpu: plan.cpu,
        }
    }

    /// Ends the session in `slot`: disables its events, closes the rings and gives back their memory. Readers that
    /// still exist see zeros. Waits up to [`PATIENCE`] for others that attach or detach, and goes ahead then.
    ///
    /// # Errors
    /// `TimedOut` if another process kept the lock; the kernel's errors.
    pub fn detach(&self, attached: &Attached) -> io::Result<()> {
        let (end, hold) = (Instant::now() + PATIENCE, attached.hold());
        while !self.try_detach(hold)? {
            if Instant::now() >= end {
                return self.detach_unlocked(hold);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Detaches like [`detach`](Self::detach), without waiting. Returns false, with nothing done, if another process
    /// holds the lock.
    ///
    /// # Errors
    /// The kernel's errors.
    pub fn try_detach(&self, hold: Hold) -> io::Result<bool> {
        if !map::try_lock(&self.file, ATTACH_LOCK)? {
            return Ok(false);
        }
        let result = self.let_go(hold);
        map::unlock(&self.file, ATTACH_LOCK)?;
        result.map(|()| true)
    }

    /// Detaches although another process holds the lock, for longer than [`PATIENCE`].
    ///
    /// # Errors
    /// `TimedOut`, which names the reason; the kernel's errors.
    pub fn detach_unlocked(&self, hold: Hold) -> io::Result<()> {
        self.let_go(hold)?;
        Err(io::Error::new(io::ErrorKind::TimedOut, Refusal::Locked.to_string()))
    }

    fn let_go(&self, hold: Hold) -> io::Result<()> {
        self.close(hold.slot);
        let MemoryPart { address, length } = hold.region;
        let result =
            self.change(|| map::punch(&self.file, FilePart { offset: address - self.address, length }));
        if !self.has_writers(hold.slot) {
            self.slot(hold.slot).region.iter().for_each(|word| word.store(0, Relaxed));
        }
        map::unlock(&self.file, hold.slot.index().into())?;
        result
    }

    /// Disables every event of `slot`, and closes its rings to all writers.
    fn close(&self, slot: SlotIndex) {
        let cpus = self.cpus();
        // Only registered events can be enabled. Reading the other words would make their pages.
        for id in (0..self.registered()).map(|id| PointId(id as u16)) {
            if EnableMask(self.point(id).load(Relaxed)).sessions(cpus).has(slot) {
                self.enable(slot, id, EnableMode::No);
            }
        }
        for index in 0..=cpus {
            let ring = self.ring(slot, index);
            ring.other_bits.store(u64::MAX, Relaxed);
            ring.count.store(0, Relaxed);
            // ORDER(control:G) pairs with write:C: if a writer loads this head, then it sees the fast path closed. A
            // writer that slept since before finds another head than it read, in this session and the next.
            ring.head.store(Head::CLOSED.0, Release);
        }
    }

    /// Returns true if a writer may still touch the region of `slot`, whose rings are closed or in use.
    fn has_writers(&self, slot: SlotIndex) -> bool {
        // ORDER(control:D) pairs with commit:E and commit:F: `close` wrote, this fences and reads: if it misses a
        // writer, then that writer sees the ring closed, or is gone and all that it wrote is seen.
        fence(SeqCst);
        self.ring(slot, self.cpus()).writers.load(Acquire) != 0
    }
}

/// Writes the table of a ring whose first sub-buffer sequence number is `first`, the only one that is claimed yet.
fn make_table(region: &Mapping, table: usize, count: u32, first: Seqno) {
    for seqno in (0..count).map(|step| first.after(step)) {
        let number = seqno.entry(count);
        let before = Entry::of(seqno.before(count), Spare { number, uses: 0 });
        let entry = if seqno == first { before.claimed(seqno) } else { before };
        let word = region.at(table + number as usize * size_of::<TableEntry>()).cast::<TableEntry>();
        // SAFETY: the plan has `count` entries at this offset of the region, which is mapped; all are atomics.
        unsafe { &*word }.store(entry.0, Relaxed);
    }
}
