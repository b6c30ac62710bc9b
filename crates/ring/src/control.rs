//! How a collector takes hold of a program: opens its area, takes a slot, makes rings, switches tracepoints.

use crate::layout::{
    self, ATTACH_LOCK, Geometry, Header, MAGIC, PAGE, POINTS, RingHeader, SLOTS, Slot, TableEntry, VERSION,
};
use crate::map::{self, Mapping};
use crate::position::Head;
use crate::read::{HeaderRef, Reader};
use crate::write::Clock;
use sordino_percpu::primitive::{Acquire, AtomicU8, AtomicU32, Relaxed, Release, SeqCst, fence};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::{fmt, io};

/// Why a program cannot be recorded.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// A system call failed.
    Io(io::Error),
    /// The file could shrink under us: not one that sordino made.
    Unsealed,
    /// The program has not finished starting, or the file is no area.
    NoArea,
    /// It was built with a sordino of another layout.
    Version(u32),
    /// Its sizes and offsets contradict each other.
    Nonsense,
    /// All slots are taken.
    NoSlot,
    /// The rings need so many bytes, and the program has so many left.
    NoRoom {
        /// Bytes that the rings need.
        needed: u64,
        /// Bytes of address space that the program reserved and no session uses.
        left: u64,
    },
    /// No memory for the rings.
    NoMemory(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Unsealed => f.write_str("its file is not sealed: not made by sordino"),
            Self::NoArea => f.write_str("it has no complete area: still starting, or not made by sordino"),
            Self::Version(version) => {
                write!(
                    f,
                    "it was built with layout {version} of sordino, this one knows {VERSION}: rebuild it"
                )
            }
            Self::Nonsense => f.write_str("the header of its area makes no sense"),
            Self::NoSlot => write!(f, "{SLOTS} sessions record it already"),
            Self::NoRoom { needed, left } => {
                write!(f, "its rings need {needed} bytes and it has reserved {left}")
            }
            Self::NoMemory(error) => write!(f, "no memory for its rings: {error}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Who holds a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The session's name.
    pub name: String,
    /// The collector's pid in its own namespace.
    pub pid: u32,
}

/// A program's area as a collector has it mapped.
#[derive(Debug)]
pub struct Program {
    file: OwnedFd,
    control: Arc<Mapping>,
    cpus: u32,
    control_size: u64,
    catalogue_capacity: u64,
    reserve: u64,
    address: u64,
}

/// What a session wants of a program.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The session's name; cut if it is long.
    pub name: &'a str,
    /// Every ring's sizes.
    pub geometry: Geometry,
    /// The clock that stamps its records.
    pub clock: Clock,
    /// The CPUs that get a ring; threads on others use the shared one.
    pub cpus: &'a [u32],
    /// Whether writers wake the collector when they leave a sub-buffer.
    pub wake: bool,
    /// The turn at which every ring starts. Should differ from one session to the next.
    pub first_turn: u32,
}

/// A session's hold on a program.
#[derive(Debug)]
pub struct Attached {
    /// The slot it has.
    pub slot: usize,
    /// One for each CPU that has a ring, and the shared ring's.
    pub readers: Vec<Reader>,
    /// Where the program has the rings mapped, and how many bytes: to be made present there.
    pub region: (u64, u64),
}

impl Program {
    /// Opens the area in `file`, which may come from anybody.
    ///
    /// # Errors
    /// A [`Refusal`] if it is not an area, or makes no sense.
    pub fn open(file: &OwnedFd) -> Result<Self, Refusal> {
        // Its own open file description: locks must end with this collector, not with the program.
        let file = reopen(file)?;
        if !map::is_sealed(&file).unwrap_or(false) {
            return Err(Refusal::Unsealed);
        }
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
        let control = Arc::new(Mapping::new(file.as_fd(), 0, sizes.control as usize)?);
        Ok(Self {
            file,
            control,
            cpus: sizes.cpus,
            control_size: sizes.control,
            catalogue_capacity: sizes.catalogue,
            reserve: sizes.reserve,
            address: sizes.address,
        })
    }

    fn header(&self) -> &Header {
        // SAFETY: mapped as long as `control`; all atomics.
        unsafe { self.control.start().cast().as_ref() }
    }

    /// The program's pid in its own namespace, as it says.
    pub fn own_pid(&self) -> u32 {
        self.header().pid.load(Relaxed)
    }

    /// CPUs that may exist, as the program says.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Whether its threads are registered for restartable sequences, as it says.
    pub fn is_restartable(&self) -> bool {
        self.header().restartable.load(Relaxed) != 0
    }

    /// Tracepoints of which it says that they found no room.
    pub fn refused(&self) -> u32 {
        self.header().refused.load(Relaxed)
    }

    /// A copy of the catalogue's text from byte `from` on. More may come at any time.
    pub fn catalogue(&self, from: usize) -> Vec<u8> {
        // ORDER(control:C) pairs with area:B.
        let length = self.header().catalogue_length.load(Acquire).min(self.catalogue_capacity) as usize;
        let mut text = vec![0; length.saturating_sub(from)];
        let (_, _, catalogue) = layout::offsets(self.cpus);
        // SAFETY: `check` saw that the catalogue is mapped; what a hostile program writes meanwhile is some text or other.
        unsafe { text.as_mut_ptr().copy_from_nonoverlapping(self.control.at(catalogue + from), text.len()) };
        text
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

    /// Takes a slot and makes rings. No tracepoint is enabled yet.
    ///
    /// # Errors
    /// A [`Refusal`] if there is no slot or no room; nothing stays changed then.
    pub fn attach(&self, wanted: &Wanted<'_>) -> Result<Attached, Refusal> {
        map::lock(&self.file, ATTACH_LOCK)?;
        let attached = self.attach_locked(wanted);
        map::unlock(&self.file, ATTACH_LOCK)?;
        attached
    }

    fn attach_locked(&self, wanted: &Wanted<'_>) -> Result<Attached, Refusal> {
        let slot = self.take_slot()?;
        let made = self.make_rings(slot, wanted);
        if made.is_err() {
            map::unlock(&self.file, slot as u64)?;
        }
        made
    }

    fn take_slot(&self) -> Result<usize, Refusal> {
        for slot in 0..SLOTS {
            if !map::try_lock(&self.file, slot as u64)? {
                continue;
            }
            // A collector that was killed may have left events enabled and rings standing.
            self.close(slot);
            if !self.has_writers(slot) {
                return Ok(slot);
            }
            map::unlock(&self.file, slot as u64)?;
        }
        Err(Refusal::NoSlot)
    }

    fn make_rings(&self, slot: usize, wanted: &Wanted<'_>) -> Result<Attached, Refusal> {
        let plan = Plan::of(wanted, self.cpus);
        let (offset, length) = (self.find_room(slot, plan.length)?, plan.length);
        if map::size(&self.file)? < offset + length {
            map::set_size(&self.file, offset + length)?;
        }
        // What an earlier session left there is gone, and what we get is zero.
        map::punch(&self.file, offset, length)?;
        map::allocate(&self.file, offset, length).map_err(Refusal::NoMemory)?;
        let region = Arc::new(Mapping::new(self.file.as_fd(), offset, length as usize)?);
        self.announce(slot, wanted, offset, length);
        let readers =
            plan.rings.iter().map(|ring| self.make_ring(slot, wanted, ring, &region, offset)).collect();
        Ok(Attached { slot, readers, region: (self.address + offset, length) })
    }

    /// The lowest place for `needed` bytes that no session uses and no writer of an earlier one may touch.
    fn find_room(&self, slot: usize, needed: u64) -> Result<u64, Refusal> {
        let mut used = Vec::new();
        for (index, other) in self.header().slots.iter().enumerate() {
            if index != slot && (self.has_writers(index) || map::is_locked(&self.file, index as u64)?) {
                let [offset, length] = other.region.each_ref().map(|word| word.load(Relaxed));
                used.push((offset, offset.saturating_add(length)));
            }
        }
        used.sort_unstable();
        let (mut at, mut largest) = (self.control_size, 0);
        for (start, end) in used.into_iter().chain([(self.reserve, self.reserve)]) {
            if at.saturating_add(needed) <= start {
                return Ok(at);
            }
            largest = largest.max(start.saturating_sub(at));
            at = at.max(end.next_multiple_of(PAGE as u64));
        }
        Err(Refusal::NoRoom { needed, left: largest })
    }

    fn announce(&self, slot: usize, wanted: &Wanted<'_>, offset: u64, length: u64) {
        let slot = &self.header().slots[slot];
        slot.collector.store(std::process::id(), Relaxed);
        slot.region[0].store(offset, Relaxed);
        slot.region[1].store(length, Relaxed);
        let name = wanted.name.bytes().chain(std::iter::repeat(0));
        slot.name.iter().zip(name).for_each(|(to, byte)| to.store(byte, Relaxed));
    }

    fn make_ring(
        &self,
        slot: usize,
        wanted: &Wanted<'_>,
        plan: &RingPlan,
        region: &Arc<Mapping>,
        region_offset: u64,
    ) -> Reader {
        let header = self.ring(slot, plan.cpu.unwrap_or(self.cpus));
        let relative = |offset: usize| (region_offset + offset as u64).wrapping_sub(header.offset as u64);
        let geometry = wanted.geometry;
        for number in 0..geometry.count as usize {
            let entry = region.at(plan.table + number * size_of::<TableEntry>()).cast::<TableEntry>();
            // SAFETY: the plan leaves room for the table at this place of the region; atomics.
            unsafe { &*entry }.store(number as u64, Relaxed);
        }
        header.cpu.store(plan.cpu.unwrap_or(layout::UNKNOWN_CPU), Relaxed);
        header.data.store(relative(plan.data), Relaxed);
        header.table.store(relative(plan.table), Relaxed);
        header.commits.store(plan.commits.map_or(0, relative), Relaxed);
        header.bits.store(geometry.bits, Relaxed);
        header.clock.store(wanted.clock as u32, Relaxed);
        header.lost.store(0, Relaxed);
        header.too_large.store(0, Relaxed);
        header.consumed.store(wanted.first_turn, Relaxed);
        let wake = header.offset - (std::mem::offset_of!(Header, slots) + slot * size_of::<Slot>());
        header.wake.store(if wanted.wake { wake as u32 } else { 0 }, Relaxed);
        header.count.store(geometry.count, Relaxed);
        let place = (wanted.first_turn & (geometry.count - 1)) << geometry.bits;
        header.head.store(Head::entering(wanted.first_turn, place).0, Release);
        // The shared ring has no short way, and neither has another clock.
        let short = plan.commits.is_none() && wanted.clock == Clock::Cycles;
        header.other_bits.store(if short { !(geometry.size() as u64 - 1) } else { u64::MAX }, Release);
        Reader {
            header,
            data: plan.data,
            commits: plan.commits,
            region: Arc::clone(region),
            geometry,
            turn: wanted.first_turn,
            cpu: plan.cpu,
        }
    }

    /// Switches tracepoint `id` for the session in `slot`. Takes effect with the program's next look at it.
    ///
    /// # Panics
    /// If there is no such tracepoint or slot.
    pub fn enable(&self, slot: usize, id: u16, on: bool) {
        assert!(slot < SLOTS && usize::from(id) < POINTS);
        let bit = 1 << slot;
        // ORDER(control:A): who sees the bit sees the rings.
        if on {
            self.point(usize::from(id)).fetch_or(bit, Release);
        } else {
            self.point(usize::from(id)).fetch_and(!bit, Release);
        }
    }

    /// The futex that writers count up when they leave a sub-buffer.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn wake_word(&self, slot: usize) -> &AtomicU32 {
        &self.header().slots[slot].wake
    }

    /// Ends the session in `slot`: no event is enabled any more, the rings are closed, their memory is given back.
    /// Readers that still exist see zeros.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn detach(&self, attached: &Attached) -> io::Result<()> {
        map::lock(&self.file, ATTACH_LOCK)?;
        self.close(attached.slot);
        let result = map::punch(&self.file, attached.region.0 - self.address, attached.region.1);
        map::unlock(&self.file, attached.slot as u64)?;
        map::unlock(&self.file, ATTACH_LOCK)?;
        result
    }

    /// Disables every event of `slot` and makes its rings ones that nobody can write to.
    fn close(&self, slot: usize) {
        for id in 0..POINTS {
            let point = self.point(id);
            if point.load(Relaxed) & 1 << slot != 0 {
                point.fetch_and(!(1 << slot), Release);
            }
        }
        for index in 0..=self.cpus {
            let ring = self.ring(slot, index);
            ring.other_bits.store(u64::MAX, Relaxed);
            ring.count.store(0, Relaxed);
            // A writer that slept since before finds another head than it saw, in this session and the next.
            ring.head.store(Head::CLOSED.0, Release);
        }
    }

    /// Whether a writer may still touch the region of `slot`, whose rings are closed or in use.
    fn has_writers(&self, slot: usize) -> bool {
        // ORDER(control:D) pairs with commit:E and commit:F: `close` wrote, this fences and reads.
        fence(SeqCst);
        self.ring(slot, self.cpus).writers.load(Acquire) != 0
    }

    fn ring(&self, slot: usize, index: u32) -> HeaderRef {
        let (_, rings, _) = layout::offsets(self.cpus);
        let number = slot * (self.cpus as usize + 1) + index as usize;
        HeaderRef { control: Arc::clone(&self.control), offset: rings + number * size_of::<RingHeader>() }
    }

    fn point(&self, id: usize) -> &AtomicU8 {
        let (points, _, _) = layout::offsets(self.cpus);
        // SAFETY: inside the control part; an atomic.
        unsafe { &*self.control.at(points + id).cast::<AtomicU8>() }
    }
}

/// A file of our own for what `file` is open on.
fn reopen(file: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just returned it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn name_of(slot: &Slot) -> String {
    let bytes: Vec<u8> =
        slot.name.iter().map(|byte| byte.load(Relaxed)).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A header's sizes, which agree with each other and with the file.
struct Sizes {
    cpus: u32,
    control: u64,
    catalogue: u64,
    reserve: u64,
    address: u64,
}

impl Sizes {
    fn check(header: &Header, file_size: u64) -> Option<Self> {
        let sizes = Self {
            cpus: header.cpus.load(Relaxed),
            control: header.control_size.load(Relaxed),
            catalogue: header.catalogue_capacity.load(Relaxed),
            reserve: header.reserve.load(Relaxed),
            address: header.address.load(Relaxed),
        };
        // 4096 possible CPUs are half of what Linux can be built for (NR_CPUS 8192); 2^46 bytes are more than there are.
        let plausible =
            (1..=4096).contains(&sizes.cpus) && sizes.catalogue <= 1 << 30 && sizes.reserve <= 1 << 46;
        if !plausible {
            return None;
        }
        let (points, rings, catalogue) = layout::offsets(sizes.cpus);
        let control = (catalogue as u64 + sizes.catalogue).next_multiple_of(PAGE as u64);
        let consistent = header.points_offset.load(Relaxed) == points as u64
            && header.rings_offset.load(Relaxed) == rings as u64
            && header.catalogue_offset.load(Relaxed) == catalogue as u64
            && sizes.control == control
            && control <= file_size
            && control <= sizes.reserve
            && sizes.address.is_multiple_of(PAGE as u64)
            && sizes.address.checked_add(sizes.reserve).is_some();
        consistent.then_some(sizes)
    }
}

/// Where a session's rings go in its region.
struct Plan {
    length: u64,
    rings: Vec<RingPlan>,
}

struct RingPlan {
    cpu: Option<u32>,
    table: usize,
    commits: Option<usize>,
    data: usize,
}

impl Plan {
    fn of(wanted: &Wanted<'_>, cpus: u32) -> Self {
        let geometry = wanted.geometry;
        let mut length = 0;
        let mut take = |size: usize| {
            let at = length;
            length += size;
            at
        };
        let of_cpus = wanted.cpus.iter().filter(|&&cpu| cpu < cpus).map(|&cpu| Some(cpu));
        let rings = of_cpus
            .chain([None])
            .map(|cpu| RingPlan {
                cpu,
                table: take(geometry.table_size()),
                commits: cpu.is_none().then(|| take(geometry.commits_size())),
                data: take(geometry.data_size()),
            })
            .collect();
        // A page behind the last ring: copies in steps of 16 bytes never reach the end of the file.
        let length = (length + PAGE) as u64;
        Self { length, rings }
    }
}
