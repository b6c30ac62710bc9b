//! A program's area that nobody uses, with a session of the same process: what a record costs is measured in it.

use super::{AttachOptions, Attached, Program};
use crate::area::slots::Rings;
use crate::area::{Area, AreaRequest};
use crate::layout::Geometry;
use crate::number::{Seqno, Tag};
use crate::write::{Full, ReadClock, TimestampClock, TracedThread, write};
use sordino_event::{Cpu, Ticks};
use sordino_percpu::{NO_CPU, Words, cpu, init, is_ready};
use std::io;
use std::process::id;

/// The size of each of the ring's two sub-buffers, for some two thousand records.
const SUB_BUFFER: u64 = 32 << 10;

/// An area in which this process writes records for nobody. Dropping it frees the memory of its rings; the area itself
/// stays mapped as long as the process lives, as a program's does.
#[derive(Debug)]
pub struct CostTrial {
    program: Program,
    attached: Attached,
    rings: Rings,
    /// The CPU that has a ring.
    own: u32,
}

/// A thread that writes for a trial, and the function that reads its clock. A type for each clock would have the code
/// of the slow path once more.
#[derive(Clone, Copy)]
struct TrialWriter {
    now: fn() -> Ticks,
    rings: Rings,
}

impl CostTrial {
    /// Makes the area, with a ring for the CPU on which this thread runs, which overwrites its oldest records.
    ///
    /// # Errors
    /// The kernel's error: no memory, no descriptor left. `Unsupported` where no thread knows its CPU.
    pub fn new(clock: TimestampClock) -> io::Result<Self> {
        // A process with tracepoints has decided already whether its threads may use restartable sequences.
        if !is_ready() {
            init(false);
        }
        let own = cpu();
        let Some(geometry) = Geometry::new(SUB_BUFFER, 2).filter(|_| own != NO_CPU) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let request = AreaRequest {
            cpus: own + 1,
            points: 1,
            catalogue: 0,
            reserve: 1 << 20,
            pid: id(),
            restartable: true,
            allows_blocking: false,
        };
        let (area, file) = Area::create(&request)?;
        let program = Program::open(&file).map_err(io::Error::other)?;
        let geometry = Geometry { overwrite: true, ..geometry };
        let here = [Cpu(own)];
        let options =
            AttachOptions { clock, ..AttachOptions::new("trial", geometry, &here, Seqno::default()) };
        let attached = program.attach(&options).map_err(io::Error::other)?;
        let rings = area.rings(attached.slot);
        Ok(Self { program, attached, rings, own })
    }

    /// Writes `count` records of two words, as a tracepoint does, each with the time that `now` returns.
    ///
    /// Real-time: as [`crate::write::write`].
    pub fn write(&self, now: fn() -> Ticks, count: u32) {
        let writer = TrialWriter { now, rings: self.rings };
        // If the thread has moved to another CPU, the slow path writes to the shared ring.
        let ring = self.rings.at(self.own);
        for number in 0..count {
            let payload = Words(number.into(), 0);
            // SAFETY: the area is never unmapped, and `attach` has set up the slot's rings; `Words` are no memory.
            unsafe { write(ring, Tag(0), payload, writer) };
        }
    }
}

impl Drop for CostTrial {
    fn drop(&mut self) {
        // A session that could not be detached keeps its rings' memory, and nothing else.
        let _ = self.program.detach(&self.attached);
    }
}

impl ReadClock for TrialWriter {
    #[inline(always)]
    fn cycles(self) -> Ticks {
        (self.now)()
    }

    fn cycles_in_order(self) -> Ticks {
        (self.now)()
    }

    fn monotonic(self) -> Ticks {
        (self.now)()
    }
}

impl TracedThread for TrialWriter {
    fn first_rings(self) -> Option<Rings> {
        Some(self.rings)
    }

    fn remember_cpu(self, _: Rings) {}

    fn wait(self, _: Rings) -> impl FnMut(Full) -> bool {
        |_| false
    }
}
