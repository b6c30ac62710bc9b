//! A session's request to a program, and the layout of its rings and conditions.

use super::pager::{Portion, data_parts, word_parts};
use crate::area::map::FilePart;
use crate::layout::{Capacity, Geometry, PAGE, conditions_size};
use crate::number::Seqno;
use crate::write::TimestampClock;
use sordino_event::Cpu;
use std::ops::Range;
use std::time::Duration;

/// A session's request to a program.
#[derive(Clone, Debug)]
pub struct AttachOptions<'a> {
    /// The session's name; a long one is cut.
    pub name: &'a str,
    /// The size and the number of each ring's sub-buffers.
    pub geometry: Geometry,
    /// The clock of the records' timestamps.
    pub clock: TimestampClock,
    /// The CPUs that get a ring.
    pub cpus: &'a [Cpu],
    /// True if records on all other CPUs are left out; else they go to the shared ring.
    pub leave_out_others: bool,
    /// True if writers wake the collector at a sub-buffer switch.
    pub wake: bool,
    /// The longest time that writers wait for room in a full ring, in steps of a microsecond; from 71 minutes on,
    /// without a limit. No effect in rings that overwrite, which always have room.
    pub block: Option<Duration>,
    /// The sub-buffer sequence number at which every ring starts. Should differ from one session to the next.
    pub first_seqno: Seqno,
    /// The sub-buffers that have pages at first, in rings that do not overwrite; `None`: all. [Pagers](super::Pager)
    /// give pages to the others.
    pub portion: Option<Portion>,
    /// Says, unless another session used the area before, that the portion has its memory already: the area was
    /// [prepared](super::Preparation) with this geometry, these CPUs and this first sequence number. These sub-buffers
    /// of it are made present in the program before the session begins, the others later.
    pub prepared: Option<Portion>,
    /// True if the table of conditions has pages from the start; otherwise it gets them when it is used.
    pub conditions: bool,
}

impl<'a> AttachOptions<'a> {
    /// Returns the usual request: timestamps are the cycle counter's, records of other CPUs go to the shared ring.
    /// Writers neither wake the collector nor wait for it.
    pub const fn new(name: &'a str, geometry: Geometry, cpus: &'a [Cpu], first_seqno: Seqno) -> Self {
        let clock = TimestampClock::Cycles;
        Self {
            name,
            geometry,
            clock,
            cpus,
            leave_out_others: false,
            wake: false,
            block: None,
            first_seqno,
            portion: None,
            prepared: None,
            conditions: true,
        }
    }

    /// The portion that has pages at first, if that is not all.
    pub(super) fn portion(&self) -> Option<Portion> {
        self.portion.filter(|_| !self.geometry.overwrite)
    }

    /// The sub-buffers of a ring that have pages at first.
    pub(super) fn present(&self, cpu: Option<Cpu>) -> u32 {
        // At least one: the head is in the first sub-buffer.
        self.portion().map_or(self.geometry.count, |portion| portion.of(cpu).clamp(1, self.geometry.count))
    }

    /// Returns the request to an area that was not prepared: its rings begin with what would be present at first.
    #[must_use]
    pub fn unprepared(&self) -> Self {
        Self { portion: self.prepared.or(self.portion), prepared: None, ..self.clone() }
    }

    /// The sub-buffers of a prepared ring that the program has mapped before the session begins.
    fn mapped(&self, cpu: Option<Cpu>) -> u32 {
        self.prepared.map_or(0, |prepared| prepared.of(cpu).clamp(1, self.present(cpu)))
    }

    /// Returns the longest time for which writers wait, as the ring's header encodes it.
    pub(super) fn microseconds(&self) -> u32 {
        let block = self.block.filter(|_| !self.geometry.overwrite);
        block.map_or(0, |time| time.as_micros().clamp(1, u32::MAX.into()) as u32)
    }
}

/// The layout of a session's rings and conditions in its region.
pub(super) struct Placement {
    pub(super) length: u64,
    pub(super) conditions: usize,
    /// Bytes of the conditions of registered tracepoints. The table goes on without memory for tracepoints that
    /// register later.
    registered: usize,
    pub(super) rings: Vec<RingPlan>,
}

pub(super) struct RingPlan {
    pub(super) cpu: Option<Cpu>,
    pub(super) table: Option<usize>,
    pub(super) commits: Option<usize>,
    pub(super) data: usize,
}

impl Placement {
    pub(super) fn of(
        options: &AttachOptions<'_>,
        Capacity { cpus, points }: Capacity,
        registered: u32,
    ) -> Self {
        let geometry = options.geometry;
        let mut length = 0;
        let mut take = |size: usize| {
            let at = length;
            length += size;
            at
        };
        let of_cpus = options.cpus.iter().filter(|cpu| cpu.0 < cpus).map(|&cpu| Some(cpu));
        let rings = of_cpus
            .chain([None])
            .map(|cpu| RingPlan {
                cpu,
                table: geometry.overwrite.then(|| take(geometry.table_size())),
                commits: cpu.is_none().then(|| take(geometry.commits_size())),
                data: take(geometry.data_size()),
            })
            .collect();
        let conditions = take(conditions_size(points as usize));
        let registered = conditions_size(registered as usize);
        // One page follows: a read in steps, or by a word that was overwritten, never reaches the end of the file.
        let length = (length + PAGE) as u64;
        Self { length, conditions, registered, rings }
    }

    /// The parts of the region that have pages at first.
    pub(super) fn parts(&self, options: &AttachOptions<'_>) -> Vec<FilePart> {
        if options.portion().is_none() {
            return vec![FilePart { offset: 0, length: (self.conditions + self.registered) as u64 }];
        }
        self.ring_parts(options).chain(self.condition_part(options)).collect()
    }

    /// The parts among [`parts`](Self::parts) that get their memory when a session attaches.
    pub(super) fn missing(&self, options: &AttachOptions<'_>) -> Vec<FilePart> {
        match options.prepared {
            Some(_) => self.condition_part(options).into_iter().collect(),
            None => self.parts(options),
        }
    }

    /// The parts of prepared rings that are made present at once, and those for later.
    pub(super) fn prepared(&self, options: &AttachOptions<'_>) -> [Vec<FilePart>; 2] {
        if options.prepared.is_none() {
            return [Vec::new(), Vec::new()];
        }
        let parts = |range: &dyn Fn(Option<Cpu>) -> Range<u32>| {
            self.rings.iter().flat_map(|ring| ring.parts(options, range(ring.cpu))).collect()
        };
        [parts(&|cpu| 0..options.mapped(cpu)), parts(&|cpu| options.mapped(cpu)..options.present(cpu))]
    }

    /// The parts of the rings with the sub-buffers that have pages at first.
    pub(super) fn ring_parts(&self, options: &AttachOptions<'_>) -> impl Iterator<Item = FilePart> {
        self.rings.iter().flat_map(|ring| ring.parts(options, 0..options.present(ring.cpu)))
    }

    fn condition_part(&self, options: &AttachOptions<'_>) -> Option<FilePart> {
        let part = FilePart { offset: self.conditions as u64, length: self.registered as u64 };
        options.conditions.then_some(part)
    }
}

impl RingPlan {
    /// The parts of the region with these sub-buffers, counted from the first sequence number.
    fn parts(
        &self,
        options: &AttachOptions<'_>,
        seqnos: Range<u32>,
    ) -> impl Iterator<Item = FilePart> + use<> {
        let commits = self.commits.map(|commits| commits as u64);
        let (first, count) = (options.first_seqno.after(seqnos.start), seqnos.end - seqnos.start);
        let data = data_parts(options.geometry, self.data as u64, first, count);
        data.into_iter().chain(word_parts(options.geometry, commits, first, count))
    }
}
