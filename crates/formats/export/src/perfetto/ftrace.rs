//! The kernel's events, in bundles of each CPU.

use super::{packet, timestamp};
use crate::wire::{ProtobufMessage, valid};
use sordino_event::{Classes, Cpu, Event, Tid, View};
use sordino_report::json_value;
use sordino_timeline::kernel::{Interrupt, Syscall};
use sordino_timeline::{Kernel, Moment, System, TaskState};
use std::collections::BTreeMap;

/// Field of a packet.
const FTRACE_EVENTS: u32 = 1;
/// Fields of a bundle.
const CPU: u32 = 1;
const EVENT: u32 = 2;
const LOST_EVENTS: u32 = 3;
/// Size of a bundle's events at which it is written, in bytes.
const BUNDLE: usize = 1 << 15;
/// Maximum number of CPUs with events that are kept at the same time.
const CPUS: usize = 1024;
/// The first kernel release that distinguishes preempted, parked and idle threads from others.
const TELLS_STATES: (u32, u32) = (4, 14);

/// The numbers of events.
mod number {
    pub(super) const SWITCH: u32 = 4;
    pub(super) const WAKEUP: u32 = 17;
    pub(super) const WAKING: u32 = 20;
    pub(super) const SOFTIRQ_ENTRY: u32 = 24;
    pub(super) const SOFTIRQ_EXIT: u32 = 25;
    pub(super) const SOFTIRQ_RAISE: u32 = 26;
    pub(super) const IRQ_ENTRY: u32 = 36;
    pub(super) const IRQ_EXIT: u32 = 37;
    pub(super) const WAKEUP_NEW: u32 = 114;
    pub(super) const NEW_TASK: u32 = 235;
    pub(super) const RENAME: u32 = 236;
    pub(super) const FREE: u32 = 240;
    pub(super) const GENERIC: u32 = 327;
    pub(super) const SYS_ENTER: u32 = 329;
    pub(super) const SYS_EXIT: u32 = 330;
}

/// The kernel's events that no packet has yet.
#[derive(Debug)]
pub(super) struct Ftrace {
    classes: Vec<ClassAttributes>,
    bundles: BTreeMap<Cpu, Bundle>,
    /// True if readers distinguish all states of threads, by the kernel's release.
    tells_states: bool,
    json: Vec<u8>,
}

#[derive(Debug, Default)]
struct Bundle {
    /// The events, encoded as fields of the bundle.
    events: Vec<u8>,
    /// True if records were lost before the first.
    is_behind_loss: bool,
}

/// The attributes of a class that its decoded events do not have. Names are valid texts.
#[derive(Debug)]
struct ClassAttributes {
    name: String,
    fields: Vec<String>,
    /// True for wake-ups of new threads, `sched_wakeup_new`.
    wakes_new: bool,
    clone_flags: Option<usize>,
    id: Option<usize>,
    ret: Option<usize>,
    args: Option<usize>,
}

impl Ftrace {
    pub(super) fn new(classes: &Classes, release: Option<&str>) -> Self {
        let known = classes.iter().map(|(_, class)| ClassAttributes {
            name: valid(class.name.as_bytes()).into_owned(),
            fields: class.fields.iter().map(|name| valid(name.as_bytes()).into_owned()).collect(),
            wakes_new: class.name.ends_with("sched_wakeup_new"),
            clone_flags: class.field("clone_flags"),
            id: class.field("id"),
            ret: class.field("ret"),
            args: class.field("args"),
        });
        let tells_states = release.and_then(version).is_some_and(|version| version >= TELLS_STATES);
        Self { classes: known.collect(), bundles: BTreeMap::new(), tells_states, json: Vec::new() }
    }

    /// Adds an event to the bundle of its CPU, and writes the bundle if it is large.
    pub(super) fn take(&mut self, moment: &Moment<'_>, cpu: Cpu, out: &mut Vec<u8>) {
        if self.bundles.len() >= CPUS && !self.bundles.contains_key(&cpu) {
            self.flush_all(out);
        }
        let bundle = self.bundles.entry(cpu).or_default();
        let Some(class) = self.classes.get(moment.event.class.index()) else { return };
        ProtobufMessage::new(&mut bundle.events).message(EVENT, |event| {
            event.unsigned(1, timestamp(moment.event.time));
            event.signed(2, moment.tid.map_or(0, |tid| tid.0).into());
            let mut body =
                EventWriter { moment, class, tells_states: self.tells_states, json: &mut self.json };
            body.put(event);
        });
        if bundle.events.len() >= BUNDLE {
            bundle.write(cpu, out);
        }
    }

    /// Marks the next bundles of the CPU, or of all, as standing behind a loss.
    pub(super) fn lose(&mut self, cpu: Option<Cpu>, out: &mut Vec<u8>) {
        for (of, bundle) in &mut self.bundles {
            if cpu.is_none_or(|cpu| cpu == *of) {
                bundle.write(*of, out);
                bundle.is_behind_loss = true;
            }
        }
    }

    /// Writes the bundles of all CPUs.
    pub(super) fn flush_all(&mut self, out: &mut Vec<u8>) {
        for (cpu, mut bundle) in std::mem::take(&mut self.bundles) {
            bundle.write(cpu, out);
        }
    }
}

impl Bundle {
    fn write(&mut self, cpu: Cpu, out: &mut Vec<u8>) {
        if self.events.is_empty() {
            return;
        }
        packet(out, |packet| {
            packet.message(FTRACE_EVENTS, |bundle| {
                bundle.unsigned(CPU, cpu.0.into());
                bundle.encoded(&self.events);
                if self.is_behind_loss {
                    bundle.unsigned(LOST_EVENTS, 1);
                }
            });
        });
        self.events.clear();
        self.is_behind_loss = false;
    }
}

/// An event whose fields are to be written.
struct EventWriter<'a> {
    moment: &'a Moment<'a>,
    class: &'a ClassAttributes,
    tells_states: bool,
    json: &'a mut Vec<u8>,
}

impl EventWriter<'_> {
    fn put(&mut self, event: &mut ProtobufMessage<'_>) {
        let (recorded, system) = (self.moment.event, self.moment.system);
        match self.moment.kernel {
            Some(Kernel::Switch { prev, state, next }) => event.message(number::SWITCH, |switch| {
                comm(switch, 1, prev.comm, prev.tid, system);
                switch.signed(2, prev.tid.0.into());
                switch.signed(3, priority(prev.tid, system));
                switch.signed(4, bits(state, self.tells_states));
                comm(switch, 5, next.comm, next.tid, system);
                switch.signed(6, next.tid.0.into());
                switch.signed(7, priority(next.tid, system));
            }),
            Some(Kernel::Waking { tid, cpu, .. }) => wake(event, number::WAKING, tid, cpu, system),
            Some(Kernel::Woken { tid, cpu, .. }) => {
                let number = if self.class.wakes_new { number::WAKEUP_NEW } else { number::WAKEUP };
                wake(event, number, tid, cpu, system);
            }
            Some(Kernel::Enter(Interrupt::Irq(irq, name))) => event.message(number::IRQ_ENTRY, |entry| {
                entry.signed(1, irq);
                entry.text(2, name);
            }),
            Some(Kernel::Exit(Interrupt::Irq(irq, _))) => event.message(number::IRQ_EXIT, |exit| {
                exit.signed(1, irq);
                self.class
                    .ret
                    .and_then(|ret| recorded.integer(ret))
                    .into_iter()
                    .for_each(|ret| exit.signed(2, ret));
            }),
            Some(Kernel::Enter(Interrupt::Softirq(vec))) => softirq(event, number::SOFTIRQ_ENTRY, vec),
            Some(Kernel::Exit(Interrupt::Softirq(vec))) => softirq(event, number::SOFTIRQ_EXIT, vec),
            Some(Kernel::Raise { softirq: vec }) => softirq(event, number::SOFTIRQ_RAISE, vec),
            Some(Kernel::Thread(born)) if let Some(flags) = self.integer(self.class.clone_flags) => {
                event.message(number::NEW_TASK, |task| {
                    task.signed(1, born.tid.0.into());
                    comm(task, 2, born.comm, born.tid, system);
                    task.signed(3, flags);
                });
            }
            Some(Kernel::Rename { tid, comm: name }) => event.message(number::RENAME, |rename| {
                rename.signed(1, tid.0.into());
                rename.text(3, name);
            }),
            Some(Kernel::Gone { tid }) => event.message(number::FREE, |free| free.signed(2, tid.0.into())),
            Some(Kernel::SyscallEntry { call: Syscall::Number(id), .. }) => {
                event.message(number::SYS_ENTER, |enter| {
                    enter.signed(1, id);
                    let args = self.class.args.and_then(|args| recorded.value(args));
                    if let Some(View::List(args)) = args {
                        args.filter_map(number_of).for_each(|arg| enter.unsigned(2, arg));
                    }
                });
            }
            Some(Kernel::SyscallExit) if let Some(id) = self.integer(self.class.id) => {
                event.message(number::SYS_EXIT, |exit| {
                    exit.signed(1, id);
                    self.integer(self.class.ret).into_iter().for_each(|ret| exit.signed(2, ret));
                });
            }
            _ => event.message(number::GENERIC, |generic| self.generic(generic, recorded)),
        }
    }

    /// Appends the event's name and all of its fields; values other than numbers and texts are written as JSON.
    fn generic(&mut self, generic: &mut ProtobufMessage<'_>, recorded: &Event) {
        const TEXT: u32 = 3;
        const SIGNED: u32 = 4;
        const UNSIGNED: u32 = 5;
        generic.bytes(1, self.class.name.as_bytes());
        for (index, name) in self.class.fields.iter().enumerate() {
            let Some(value) = recorded.value(index) else { break };
            generic.message(2, |field| {
                field.bytes(1, name.as_bytes());
                match value {
                    View::Text(text) => field.text(TEXT, text),
                    View::Signed(value, _) | View::Label(value, None) => field.signed(SIGNED, value),
                    View::Unsigned(value, _) => field.unsigned(UNSIGNED, value),
                    other => {
                        self.json.clear();
                        json_value(other, self.json);
                        field.text(TEXT, self.json);
                    }
                }
            });
        }
    }

    fn integer(&self, field: Option<usize>) -> Option<i64> {
        self.moment.event.integer(field?)
    }
}

fn wake(event: &mut ProtobufMessage<'_>, number: u32, tid: Tid, cpu: Option<Cpu>, system: &System) {
    event.message(number, |wake| {
        comm(wake, 1, None, tid, system);
        wake.signed(2, tid.0.into());
        wake.signed(3, priority(tid, system));
        wake.signed(4, 1);
        cpu.into_iter().for_each(|cpu| wake.signed(5, cpu.0.into()));
    });
}

fn softirq(event: &mut ProtobufMessage<'_>, number: u32, vec: i64) {
    event.message(number, |softirq| softirq.signed(1, vec));
}

/// Appends the thread's name: the event's, or else the one that is known.
fn comm(message: &mut ProtobufMessage<'_>, field: u32, comm: Option<&[u8]>, tid: Tid, system: &System) {
    let known = || system.comm(tid).map(|comm| comm.as_bytes());
    comm.or_else(known).into_iter().for_each(|comm| message.text(field, comm));
}

fn priority(tid: Tid, system: &System) -> i64 {
    system.priority(tid).map_or(0, |priority| priority.0.into())
}

fn number_of(value: View<'_>) -> Option<u64> {
    match value {
        View::Unsigned(value, _) => Some(value),
        View::Signed(value, _) => Some(value.cast_unsigned()),
        _ => None,
    }
}

/// Returns the kernel's bits for a state. Some have other meanings before [`TELLS_STATES`].
fn bits(state: TaskState, tells_states: bool) -> i64 {
    match state {
        TaskState::Runnable if tells_states => 0x100,
        TaskState::Runnable => 0,
        TaskState::Interruptible => 1,
        TaskState::Uninterruptible => 2,
        TaskState::Stopped => 4,
        TaskState::Traced => 8,
        TaskState::Dead => 0x10,
        TaskState::Parked if tells_states => 0x40,
        TaskState::Idle if tells_states => 0x80,
        TaskState::Parked | TaskState::Idle => 1,
    }
}

/// Returns the first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
