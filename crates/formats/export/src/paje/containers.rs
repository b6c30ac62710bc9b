//! Containers: the machine, its CPUs and processes, their threads and fibers.
//!
//! A container has a number of its own, since the ids of threads are used again.

use super::line::PajeLine;
use sordino_event::{Cpu, Nanos, Pid, Tid};
use sordino_timeline::{FiberId, System, ThreadMap};
use std::collections::{BTreeMap, HashMap};

/// The container of all others: the machine.
pub(super) const MACHINE: u64 = 1;
/// The process of threads whose process is not known.
const NO_PROCESS: u64 = 2;

/// A type of containers that have a state.
pub(super) struct ContainerType {
    /// The type of the containers.
    container: &'static str,
    /// The type of their states.
    pub(super) state: &'static str,
}

pub(super) const THREAD: ContainerType = ContainerType { container: "CT", state: "ST" };
pub(super) const FIBER: ContainerType = ContainerType { container: "CF", state: "SF" };

/// A container of a thread or a fiber.
#[derive(Debug)]
struct Stateful {
    number: u64,
    pid: Option<Pid>,
    state: &'static str,
    /// True for a fiber that has ended and not left its thread yet.
    has_ended: bool,
}

/// The containers that exist.
#[derive(Debug, Default)]
pub(super) struct Containers {
    /// The current time since the recording began.
    now: Nanos,
    last: u64,
    cpus: BTreeMap<Cpu, u64>,
    processes: HashMap<Pid, u64>,
    threads: ThreadMap<Stateful>,
    fibers: HashMap<FiberId, Stateful>,
}

impl Containers {
    /// Creates the containers that always exist.
    pub(super) fn begin(&mut self, out: &mut Vec<u8>) {
        self.last = NO_PROCESS;
        self.create(MACHINE, "CM", 0, "machine", out);
        self.create(NO_PROCESS, "CP", MACHINE, "process unknown", out);
    }

    /// Sets the time at which containers are created and end.
    pub(super) fn set_time(&mut self, now: Nanos) {
        self.now = now;
    }

    fn create(&self, number: u64, kind: &str, parent: u64, name: &str, out: &mut Vec<u8>) {
        let mut line = PajeLine::at(4, self.now, out);
        line.number(number).word(kind).number(parent).text(name.as_bytes());
        line.end();
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns the container of a CPU.
    pub(super) fn cpu(&mut self, cpu: Cpu, out: &mut Vec<u8>) -> u64 {
        if let Some(number) = self.cpus.get(&cpu) {
            return *number;
        }
        let number = self.next();
        self.cpus.insert(cpu, number);
        self.create(number, "CC", MACHINE, &format!("cpu{}", cpu.0), out);
        number
    }

    /// Iterates over the CPUs that have a container.
    pub(super) fn cpus(&self) -> impl Iterator<Item = Cpu> {
        self.cpus.keys().copied()
    }

    fn process(&mut self, pid: Option<Pid>, system: &System, out: &mut Vec<u8>) -> u64 {
        let Some(pid) = pid else { return NO_PROCESS };
        if let Some(number) = self.processes.get(&pid) {
            return *number;
        }
        let number = self.next();
        self.processes.insert(pid, number);
        let name = system.program(pid).map_or("?", |name| name);
        self.create(number, "CP", MACHINE, &format!("{name} [{}]", pid.0), out);
        number
    }

    /// Returns the container of a thread. It gets another one when its process becomes known.
    pub(super) fn thread(&mut self, tid: Tid, pid: Option<Pid>, system: &System, out: &mut Vec<u8>) -> u64 {
        let pid = pid.or_else(|| system.pid(tid));
        let mut state = "";
        if let Some(thread) = self.threads.get(&tid) {
            if thread.pid.is_some() || pid.is_none() {
                return thread.number;
            }
            state = thread.state;
            destroy(THREAD.container, thread.number, self.now, out);
        }
        let parent = self.process(pid, system, out);
        let number = self.next();
        self.threads.insert(tid, Stateful { number, pid, state, has_ended: false });
        let name = system.comm(tid).map_or("?", |name| name);
        self.create(number, THREAD.container, parent, &format!("{name}/{}", tid.0), out);
        if !state.is_empty() {
            let mut line = PajeLine::at(6, self.now, out);
            line.word(THREAD.state).number(number).text(state.as_bytes());
            line.end();
        }
        number
    }

    /// Returns true if the thread still has this container.
    pub(super) fn is_thread(&self, tid: Tid, container: u64) -> bool {
        self.threads.get(&tid).is_some_and(|thread| thread.number == container)
    }

    /// Returns the container of a fiber.
    pub(super) fn fiber(&mut self, id: FiberId, system: &System, out: &mut Vec<u8>) -> u64 {
        if let Some(fiber) = self.fibers.get(&id) {
            return fiber.number;
        }
        let parent = self.process(Some(id.pid), system, out);
        let number = self.next();
        self.fibers.insert(id, Stateful { number, pid: Some(id.pid), state: "", has_ended: false });
        let name = system.fibers().name(id).map_or("fiber", |name| name);
        self.create(number, FIBER.container, parent, &format!("{name} #{} [{}]", id.number, id.pid.0), out);
        number
    }

    /// Sets a thread's state. Returns true if it was another one.
    pub(super) fn change_thread(&mut self, tid: Tid, state: &'static str) -> bool {
        self.threads.get_mut(&tid).is_some_and(|thread| std::mem::replace(&mut thread.state, state) != state)
    }

    /// Sets a fiber's state, and marks it as ended if `has_ended`. Returns true if it had another state.
    pub(super) fn change_fiber(&mut self, id: FiberId, state: &'static str, has_ended: bool) -> bool {
        let Some(fiber) = self.fibers.get_mut(&id) else { return false };
        fiber.has_ended |= has_ended;
        std::mem::replace(&mut fiber.state, state) != state
    }

    /// Ends the container of a fiber if the fiber has ended. Returns true if so.
    pub(super) fn end_fiber(&mut self, id: FiberId, out: &mut Vec<u8>) -> bool {
        let Some(fiber) = self.fibers.get(&id).filter(|fiber| fiber.has_ended) else { return false };
        destroy(FIBER.container, fiber.number, self.now, out);
        self.fibers.remove(&id);
        true
    }

    /// Ends the container of a thread, and with the first thread of a process those of the process.
    pub(super) fn end_thread(&mut self, tid: Tid, out: &mut Vec<u8>) {
        let Self { threads, fibers, processes, now, .. } = self;
        if let Some(thread) = threads.swap_remove(&tid) {
            destroy(THREAD.container, thread.number, *now, out);
        }
        let pid = Some(Pid(tid.0));
        let Some(process) = processes.remove(&Pid(tid.0)) else { return };
        threads.retain(|_, thread| {
            let stays = thread.pid != pid;
            if !stays {
                destroy(THREAD.container, thread.number, *now, out);
            }
            stays
        });
        fibers.retain(|id, fiber| {
            let stays = Some(id.pid) != pid;
            if !stays {
                destroy(FIBER.container, fiber.number, *now, out);
            }
            stays
        });
        destroy("CP", process, *now, out);
    }

    /// Makes the states of all threads unknown. Returns the containers of those whose state was known.
    pub(super) fn forget_threads(&mut self) -> Vec<u64> {
        forget(self.threads.values_mut())
    }

    /// Makes the states of a process's fibers unknown. Returns the containers of those whose state was known.
    pub(super) fn forget_fibers(&mut self, pid: Pid) -> Vec<u64> {
        forget(self.fibers.values_mut().filter(|fiber| fiber.pid == Some(pid)))
    }
}

fn forget<'a>(containers: impl Iterator<Item = &'a mut Stateful>) -> Vec<u64> {
    let known = containers.filter(|container| !["", super::UNKNOWN].contains(&container.state));
    let mut numbers: Vec<u64> = known
        .map(|container| {
            container.state = super::UNKNOWN;
            container.number
        })
        .collect();
    numbers.sort_unstable();
    numbers
}

fn destroy(kind: &str, number: u64, now: Nanos, out: &mut Vec<u8>) {
    let mut line = PajeLine::at(5, now, out);
    line.word(kind).number(number);
    line.end();
}
