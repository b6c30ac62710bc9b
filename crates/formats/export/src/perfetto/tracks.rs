//! Processes, threads and their tracks, described when they are first needed.

use super::packet;
use crate::wire::ProtobufMessage;
use sordino_event::{Cpu, Pid, Tid};
use sordino_timeline::{FiberId, System, ThreadMap};
use std::collections::HashMap;
use std::sync::Arc;

/// Fields of a packet.
const PROCESS_TREE: u32 = 2;
const TRACK: u32 = 60;
/// Fields of a track's description.
const UUID: u32 = 1;
const NAME: u32 = 2;
const PROCESS: u32 = 3;
const THREAD: u32 = 4;
const PARENT: u32 = 5;

/// The track of losses and disorder.
pub(super) const LOSSES: u64 = 1;
/// The track of events without a thread, and of kernel events without a CPU.
pub(super) const PLACELESS: u64 = 2;

/// The described processes, threads and tracks.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    /// The number of tracks besides those that have a number of their own.
    count: u64,
    threads: ThreadMap<ThreadTracks>,
    processes: HashMap<Pid, ProcessTrack>,
    /// The tracks of living fibers.
    fibers: HashMap<FiberId, FiberTracks>,
    /// The tracks of wake-ups by interrupts of an idle CPU.
    cpus: HashMap<Option<Cpu>, u64>,
    /// The tracks of raised softirqs.
    softirqs: HashMap<Cpu, u64>,
    /// The thread of the last event, its name and track: the next one is usually of the same thread.
    last: Option<(Tid, Option<Arc<str>>, u64)>,
}

/// The tracks of a fiber.
#[derive(Debug)]
struct FiberTracks {
    /// That of its calls.
    calls: u64,
    /// That of the threads that execute it.
    threads: Option<u64>,
}

#[derive(Debug, Default)]
struct ThreadTracks {
    /// True if the thread's process is described.
    has_process: bool,
    /// The name in the description of the track.
    name: Option<Arc<str>>,
    /// The track of the thread's events.
    events: Option<u64>,
    /// True if that track is described as one of the thread's process.
    is_placed: bool,
    /// The track of the thread's wake-ups: those that it causes, and those that wake it.
    wakeups: Option<u64>,
}

#[derive(Debug)]
struct ProcessTrack {
    track: u64,
    name: Option<Arc<str>>,
}

impl Tracks {
    /// Describes the tracks that have a number of their own.
    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        for (track, name) in [(LOSSES, &b"lost records"[..]), (PLACELESS, b"events without thread and CPU")] {
            describe(track, out, |description| description.text(NAME, name));
        }
    }

    /// Describes the thread's process to readers of the kernel's events, once it is known.
    pub(super) fn declare(&mut self, tid: Tid, system: &System, out: &mut Vec<u8>) {
        let thread = self.threads.entry(tid).or_default();
        if thread.has_process {
            return;
        }
        let Some(pid) = system.pid(tid) else { return };
        thread.has_process = true;
        packet(out, |packet| {
            packet.message(PROCESS_TREE, |tree| {
                tree.message(1, |process| {
                    process.signed(1, pid.0.into());
                    system.program(pid).into_iter().for_each(|name| process.text(3, name.as_bytes()));
                });
                tree.message(2, |thread| {
                    thread.signed(1, tid.0.into());
                    system.comm(tid).into_iter().for_each(|name| thread.text(2, name.as_bytes()));
                    thread.signed(3, pid.0.into());
                });
            });
        });
    }

    /// Returns the track of a thread's events. Describes it if it is new, if the thread has another name now, or if its
    /// process was not known before.
    pub(super) fn thread(&mut self, tid: Tid, pid: Option<Pid>, system: &System, out: &mut Vec<u8>) -> u64 {
        let name = system.comm(tid);
        if let Some((last, known, track)) = &self.last
            && *last == tid
            && is_same(known.as_ref(), name)
        {
            return *track;
        }
        let pid = pid.or_else(|| system.pid(tid));
        let track = match self.threads.get(&tid) {
            Some(ThreadTracks { name: known, events: Some(track), is_placed, .. })
                if *is_placed == pid.is_some() && is_same(known.as_ref(), name) =>
            {
                *track
            }
            _ => self.describe_thread(tid, pid, system, out),
        };
        self.last = pid.map(|_| (tid, name.cloned(), track));
        track
    }

    fn describe_thread(&mut self, tid: Tid, pid: Option<Pid>, system: &System, out: &mut Vec<u8>) -> u64 {
        pid.into_iter().for_each(|pid| _ = self.process(pid, system, out));
        let thread = self.threads.entry(tid).or_default();
        if !thread.is_placed && pid.is_some() {
            (thread.events, thread.wakeups) = (None, None);
        }
        let track = *thread.events.get_or_insert_with(|| next(&mut self.count));
        let name = system.comm(tid);
        (thread.name, thread.is_placed) = (name.cloned(), pid.is_some());
        describe(track, out, |description| match pid {
            Some(pid) => description.message(THREAD, |thread| {
                thread.signed(1, pid.0.into());
                thread.signed(2, tid.0.into());
                name.into_iter().for_each(|name| thread.text(5, name.as_bytes()));
            }),
            None => {
                let name = name.map_or("thread", |name| name);
                description.text(NAME, format!("{name} {}", tid.0).as_bytes());
            }
        });
        track
    }

    /// Returns the track of the calls in a fiber, below its process.
    pub(super) fn fiber(&mut self, fiber: FiberId, system: &System, out: &mut Vec<u8>) -> u64 {
        if let Some(FiberTracks { calls, .. }) = self.fibers.get(&fiber) {
            return *calls;
        }
        let (parent, track) = (self.process(fiber.pid, system, out), next(&mut self.count));
        self.fibers.insert(fiber, FiberTracks { calls: track, threads: None });
        let name = system.fibers().name(fiber).map_or("", |name| name);
        describe(track, out, |description| {
            description.unsigned(PARENT, parent);
            description.text(NAME, format!("fiber {} {name}", fiber.number).trim_end().as_bytes());
        });
        track
    }

    /// Returns the track of the threads that execute a fiber, below that of its calls.
    pub(super) fn threads_of(&mut self, fiber: FiberId, system: &System, out: &mut Vec<u8>) -> u64 {
        let parent = self.fiber(fiber, system, out);
        let count = &mut self.count;
        let Some(tracks) = self.fibers.get_mut(&fiber) else { return parent };
        *tracks.threads.get_or_insert_with(|| {
            let track = next(count);
            describe(track, out, |description| {
                description.unsigned(PARENT, parent);
                description.text(NAME, b"threads");
            });
            track
        })
    }

    /// Forgets a fiber that has ended: another may get its number.
    pub(super) fn forget_fiber(&mut self, fiber: FiberId) {
        self.fibers.remove(&fiber);
    }

    /// Returns the track of a process. Describes it if it is new or has another name now.
    fn process(&mut self, pid: Pid, system: &System, out: &mut Vec<u8>) -> u64 {
        let name = system.program(pid);
        let known = self.processes.get(&pid);
        if let Some(known) = known.filter(|known| is_same(known.name.as_ref(), name)) {
            return known.track;
        }
        let track = known.map_or_else(|| next(&mut self.count), |known| known.track);
        self.processes.insert(pid, ProcessTrack { track, name: name.cloned() });
        describe(track, out, |description| {
            description.message(PROCESS, |process| {
                process.signed(1, pid.0.into());
                name.into_iter().for_each(|name| process.text(6, name.as_bytes()));
            });
        });
        track
    }

    /// Returns the track of a thread's wake-ups: below the thread's own track, or that of `cpu` for the idle thread.
    pub(super) fn wakeups(&mut self, tid: Tid, cpu: Option<Cpu>, system: &System, out: &mut Vec<u8>) -> u64 {
        if tid == Tid(0) {
            return *self.cpus.entry(cpu).or_insert_with(|| {
                let track = next(&mut self.count);
                let name = cpu.map_or("wake-ups".to_owned(), |cpu| format!("wake-ups by idle cpu{}", cpu.0));
                describe(track, out, |description| description.text(NAME, name.as_bytes()));
                track
            });
        }
        // A thread whose process becomes known has other tracks from then on.
        let parent = self.thread(tid, None, system, out);
        if let Some(ThreadTracks { wakeups: Some(track), .. }) = self.threads.get(&tid) {
            return *track;
        }
        let track = next(&mut self.count);
        self.threads.entry(tid).or_default().wakeups = Some(track);
        describe(track, out, |description| {
            description.unsigned(PARENT, parent);
            description.text(NAME, b"wake-ups");
        });
        track
    }

    /// Returns the track of the softirqs that are raised on a CPU.
    pub(super) fn softirqs(&mut self, cpu: Cpu, out: &mut Vec<u8>) -> u64 {
        let count = &mut self.count;
        *self.softirqs.entry(cpu).or_insert_with(|| {
            let track = next(count);
            let name = format!("softirqs of cpu{}", cpu.0);
            describe(track, out, |description| description.text(NAME, name.as_bytes()));
            track
        })
    }

    /// Forgets a thread that has ended: another may get its id.
    pub(super) fn forget(&mut self, tid: Tid) {
        self.last = None;
        self.threads.swap_remove(&tid);
        self.processes.remove(&Pid(tid.0));
    }
}

fn next(count: &mut u64) -> u64 {
    *count += 1;
    PLACELESS + *count
}

fn is_same(known: Option<&Arc<str>>, name: Option<&Arc<str>>) -> bool {
    match (known, name) {
        (Some(known), Some(name)) => Arc::ptr_eq(known, name) || known == name,
        (known, name) => known.is_none() && name.is_none(),
    }
}

/// Appends the description of a track, which `fill` completes.
fn describe(track: u64, out: &mut Vec<u8>, fill: impl FnOnce(&mut ProtobufMessage<'_>)) {
    packet(out, |packet| {
        packet.message(TRACK, |description| {
            description.unsigned(UUID, track);
            fill(description);
        });
    });
}
