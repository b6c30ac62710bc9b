//! The data that a flight recorder keeps in memory beside the rings.

use sordino_collect::drain::ProgramCopy;
use sordino_collect::history::{History, Pages};
use sordino_collect::options::RecordingOptions;
use sordino_collect::program::{ProgramTrace, Traced};
use sordino_event::{Cpu, Ticks};
use sordino_tracefs::PageLayout;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Maximum size of the records of ended programs that are kept in memory for later snapshots, in bytes.
const LEGACY: usize = 64 << 20;

/// Approximate memory for an ended program beside its records, in bytes.
const EACH: usize = 16 << 10;

/// The data that a flight recorder keeps beside the rings and the kernel's buffers.
#[derive(Debug)]
pub(super) struct SnapshotMemory {
    pub(super) kernel: History,
    /// Programs that have ended, oldest first.
    pub(super) ended: VecDeque<ProgramSnapshot>,
    /// The number of ended programs for which there was no more room.
    forgotten: u64,
}

/// A program's newest records, and its trace's description.
#[derive(Clone, Debug)]
pub(super) struct ProgramSnapshot {
    pub(super) trace: ProgramTrace,
    pub(super) copy: Arc<ProgramCopy>,
    pub(super) notes: Vec<String>,
}

impl ProgramSnapshot {
    /// Combines a program's present description with a copy of its records.
    pub(super) fn of(program: &Traced, copy: ProgramCopy) -> Self {
        Self { trace: program.trace.clone(), copy: Arc::new(copy), notes: program.notes.clone() }
    }

    /// Combines the description of a program that has ended with its records.
    pub(super) fn of_ended(program: Traced, copy: ProgramCopy) -> Self {
        Self { trace: program.trace, copy: Arc::new(copy), notes: program.notes }
    }

    pub(super) fn bytes(&self) -> usize {
        let packets = self.copy.streams.iter().flat_map(|stream| &stream.packets);
        EACH + packets.map(|packet| packet.bytes.len()).sum::<usize>()
    }

    /// Returns true if there is any record from this timestamp on.
    pub(super) fn has_any_since(&self, since: Ticks) -> bool {
        let mut packets = self.copy.streams.iter().flat_map(|stream| &stream.packets);
        packets.any(|packet| packet.content.last_timestamp >= since)
    }
}

impl SnapshotMemory {
    pub(super) fn new(options: &RecordingOptions) -> Self {
        let kernel = History::new(options.kernel_buffer_kib << 10);
        Self { kernel, ended: VecDeque::new(), forgotten: 0 }
    }

    /// Adds a CPU, and returns the file for its kernel pages.
    pub(super) fn add_cpu(&mut self, cpu: Cpu) -> io::Result<OwnedFd> {
        self.kernel.add(cpu)
    }

    /// Returns the kernel's pages with events from `since` on.
    pub(super) fn pages(&self, since: Ticks, layout: &PageLayout) -> Vec<Pages> {
        self.kernel.pages(since, layout)
    }

    /// Returns the number of ended programs that are kept, and of those that are not any more.
    pub(super) fn ended(&self) -> (usize, u64) {
        (self.ended.len(), self.forgotten)
    }

    /// Keeps the records of an ended program, and drops the oldest programs that exceed the limit.
    pub(super) fn keep(&mut self, ended: ProgramSnapshot) {
        if !ended.has_any_since(Ticks::default()) {
            return;
        }
        self.ended.push_back(ended);
        let mut bytes: usize = self.ended.iter().map(ProgramSnapshot::bytes).sum();
        while bytes > LEGACY && self.ended.len() > 1 {
            bytes -= self.ended.pop_front().map_or(0, |oldest| oldest.bytes());
            self.forgotten += 1;
        }
    }
}
