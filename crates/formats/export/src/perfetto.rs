//! Perfetto's trace format: a sequence of protobuf packets, as Perfetto's `trace_processor` imports them.
//!
//! The kernel's events become bundles of ftrace events, from which `trace_processor` makes scheduling, states of
//! threads and interrupts. Events of programs are instants on the track of their thread, calls of functions slices
//! there or on the track of their fiber. A wake-up is a pair of instants, at the thread that wakes and at the thread
//! that runs, joined by a flow. Losses are instants on a track of their own.
//!
//! Times are nanoseconds since the epoch. Perfetto's own clock, which counts from boot, is set equal to it.
//!
//! | module | content |
//! |---|---|
//! | `annotations` | fields of events, and the interned names |
//! | `ftrace` | the kernel's events |
//! | `tracks` | processes, threads and their tracks |

mod annotations;
mod ftrace;
mod tracks;

use crate::calls::{Call, CallTracker};
use crate::wakeups::OpenWakeUps;
use crate::wire::ProtobufMessage;
use crate::{Exporter, Origin};
use annotations::{InternedNames, Name, annotate};
use ftrace::Ftrace;
use sordino_event::{Base, Classes, Cpu, Domain, Loss, Tid, Time, View};
use sordino_query::NameAddress;
use sordino_timeline::kernel::{Interrupt, softirq_name};
use sordino_timeline::{
    Disorder, FiberEvent, FiberId, Item, Kernel, Moment, MountedStretch, MountedStretches, System,
};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use tracks::{LOSSES, PLACELESS, Tracks};

/// Field of a trace.
const PACKET: u32 = 1;
/// Fields of a packet.
const CLOCK_SNAPSHOT: u32 = 6;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED: u32 = 12;
const SEQUENCE_FLAGS: u32 = 13;
const SYSTEM_INFO: u32 = 45;
/// The number of the only sequence of packets.
const ONLY: u64 = 1;
/// Flags of a sequence: it begins here, and a packet refers to names of earlier ones.
const BEGINS: u64 = 1;
const REFERS: u64 = 2;
/// Types of a track's event.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;

/// A writer of Perfetto's format.
#[derive(Debug)]
pub struct Perfetto {
    origin: Origin,
    classes: Classes,
    names: InternedNames,
    tracks: Tracks,
    ftrace: Ftrace,
    functions: CallTracker,
    fibers: MountedStretches,
    /// The flow from the wake-up of each thread that has not run since.
    wakeups: OpenWakeUps<u64>,
    /// The flow from the first raise of each softirq on a CPU that has not handled it since.
    raised: HashMap<(Cpu, i64), u64>,
    flows: u64,
    /// The track event that is being written.
    event: Vec<u8>,
}

/// The end of a flow that an instant marks.
#[derive(Clone, Copy, Debug)]
enum Flow {
    Begin(u64),
    End(u64),
}

impl Perfetto {
    /// Creates a writer of events of `classes`.
    pub fn new(classes: &Classes, origin: Origin) -> Self {
        Self {
            names: InternedNames::new(classes),
            ftrace: Ftrace::new(classes, origin.kernel_release.as_deref()),
            functions: CallTracker::new(classes),
            classes: classes.clone(),
            origin,
            tracks: Tracks::default(),
            fibers: MountedStretches::default(),
            wakeups: OpenWakeUps::default(),
            raised: HashMap::new(),
            flows: 0,
            event: Vec::new(),
        }
    }

    fn moment(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>) {
        if let Some(kernel) = &moment.kernel {
            self.before(kernel, moment, out);
        }
        match (moment.domain, moment.cpu) {
            (Domain::Kernel, Some(cpu)) => self.ftrace.take(moment, cpu, out),
            (Domain::Kernel, None) => self.event_on(PLACELESS, moment, out),
            (Domain::User, _) => {
                let track = match moment.tid {
                    Some(tid) => self.tracks.thread(tid, moment.pid(), moment.system, out),
                    None => PLACELESS,
                };
                self.event_on(track, moment, out);
            }
        }
        if let Some(FiberEvent::End { fiber } | FiberEvent::New { fiber, .. }) = moment.about_fibers()
            && let Some(fiber) = moment.pid().map(|pid| FiberId { pid, number: fiber })
            // One that ends is on its thread until the next switch.
            && !moment.tid.is_some_and(|tid| self.fibers.has(fiber, tid))
        {
            self.tracks.forget_fiber(fiber);
        }
        if let Some(Kernel::Gone { tid }) = moment.kernel {
            self.tracks.forget(tid);
            self.wakeups.forget(tid);
        }
    }

    /// Describes the threads of a kernel's event, and joins a wake-up to the run that it caused.
    fn before(&mut self, kernel: &Kernel<'_>, moment: &Moment<'_>, out: &mut Vec<u8>) {
        let system = moment.system;
        if let Some(tid) = self.wakeups.woken(kernel, system) {
            self.wake(tid, moment, out);
        }
        match *kernel {
            Kernel::Switch { prev, next, .. } => {
                let flow = self.wakeups.switch(prev.tid, next.tid);
                if next.tid == Tid(0) {
                    return;
                }
                self.tracks.declare(next.tid, system, out);
                if let Some(flow) = flow {
                    let track = self.tracks.wakeups(next.tid, moment.cpu, system, out);
                    self.wakeup(track, Name::Runs, next.tid, moment, Flow::End(flow), out);
                }
            }
            Kernel::Raise { softirq } => self.raise(softirq, moment, out),
            Kernel::Enter(Interrupt::Softirq(softirq)) => {
                if let Some(flow) = moment.cpu.and_then(|cpu| self.raised.remove(&(cpu, softirq))) {
                    self.softirq(softirq, Name::Handles, Flow::End(flow), moment, out);
                }
            }
            _ => {}
        }
    }

    /// Begins a flow to the handler of a softirq, unless it is raised already.
    fn raise(&mut self, softirq: i64, moment: &Moment<'_>, out: &mut Vec<u8>) {
        let Some(key) = moment.cpu.zip(softirq_name(softirq).map(|_| softirq)) else { return };
        if let Entry::Vacant(entry) = self.raised.entry(key) {
            self.flows += 1;
            entry.insert(self.flows);
            self.softirq(softirq, Name::Raises, Flow::Begin(self.flows), moment, out);
        }
    }

    fn softirq(&mut self, softirq: i64, what: Name, flow: Flow, moment: &Moment<'_>, out: &mut Vec<u8>) {
        let (Some(cpu), Some(name)) = (moment.cpu, softirq_name(softirq)) else { return };
        let track = self.tracks.softirqs(cpu, out);
        let fields = [("vec", View::Signed(softirq, Base::Decimal)), ("name", View::Text(name.as_bytes()))];
        self.instant(track, Name::OfSoftirqs, what, moment.event.time, &fields, Some(flow), out);
    }

    fn wake(&mut self, woken: Tid, moment: &Moment<'_>, out: &mut Vec<u8>) {
        self.flows += 1;
        self.wakeups.begin(woken, self.flows);
        self.tracks.declare(woken, moment.system, out);
        let waker = moment.tid.unwrap_or(Tid(0));
        let track = self.tracks.wakeups(waker, moment.cpu, moment.system, out);
        self.wakeup(track, Name::Wakes, woken, moment, Flow::Begin(self.flows), out);
    }

    fn wakeup(
        &mut self,
        track: u64,
        name: Name,
        tid: Tid,
        moment: &Moment<'_>,
        flow: Flow,
        out: &mut Vec<u8>,
    ) {
        let comm = moment.system.comm(tid).map_or(&b"?"[..], |comm| comm.as_bytes());
        let fields = [("tid", View::Signed(tid.0.into(), Base::Decimal)), ("comm", View::Text(comm))];
        self.instant(track, Name::OfWakeups, name, moment.event.time, &fields, Some(flow), out);
    }

    /// Writes an event with all of its fields.
    fn event_on(&mut self, track: u64, moment: &Moment<'_>, out: &mut Vec<u8>) {
        let (event, category) = match moment.domain {
            Domain::User => (moment.event, Name::OfPrograms),
            Domain::Kernel => (moment.event, Name::OfKernel),
        };
        self.event.clear();
        let mut message = ProtobufMessage::new(&mut self.event);
        let name = self.names.class(event.class, &self.classes);
        head(&mut message, INSTANT, track, self.names.own(category));
        message.unsigned(NAME, name);
        if let Some(cpu) = moment.cpu {
            let name = self.names.own(Name::Cpu);
            annotate(&mut message, name, View::Unsigned(cpu.0.into(), Base::Decimal), &mut self.names);
        }
        for index in 0..event.len() {
            let (Some(name), Some(value)) = (self.names.field(event.class, index), event.value(index)) else {
                break;
            };
            annotate(&mut message, name, value, &mut self.names);
        }
        if let Some(function) = self.functions.name(moment, &self.classes) {
            let name = self.names.text(b"function_name");
            annotate(&mut message, name, View::Text(function.as_bytes()), &mut self.names);
        }
        let context = moment.context();
        for (name, text) in context.into_iter().flat_map(|context| &context.annotations) {
            let name = self.names.text(format!("$value.{name}").as_bytes());
            annotate(&mut message, name, View::Text(text.as_bytes()), &mut self.names);
        }
        for (name, count) in context.into_iter().flat_map(|context| &context.counters) {
            let name = self.names.text(format!("$counter.{name}").as_bytes());
            annotate(&mut message, name, View::Unsigned(*count, Base::Decimal), &mut self.names);
        }
        self.write(event.time, out);
    }

    /// Writes the call of a function as a slice of its thread or its fiber.
    fn call(&mut self, call: &Call, system: &System, out: &mut Vec<u8>) {
        const NAME: u32 = 23;
        let track = match call.fiber {
            Some(fiber) => self.tracks.fiber(fiber, system, out),
            None => self.tracks.thread(call.tid, Some(call.pid), system, out),
        };
        for (kind, time) in [(BEGIN, call.begin), (END, call.end)] {
            self.event.clear();
            let mut message = ProtobufMessage::new(&mut self.event);
            head(&mut message, kind, track, self.names.own(Name::OfFunctions));
            message.text(NAME, call.name.as_bytes());
            self.write(time, out);
        }
    }

    /// Writes a stretch of a fiber on a thread as a slice.
    fn stretch(&mut self, stretch: &MountedStretch, system: &System, out: &mut Vec<u8>) {
        let MountedStretch { fiber, tid, from, to } = *stretch;
        let track = self.tracks.threads_of(fiber, system, out);
        self.event.clear();
        let mut message = ProtobufMessage::new(&mut self.event);
        head(&mut message, BEGIN, track, self.names.own(Name::OfFibers));
        message.unsigned(NAME, self.names.own(Name::Mounted));
        let comm = system.comm(tid).map_or(&b"?"[..], |comm| comm.as_bytes());
        for (name, value) in [("tid", View::Signed(tid.0.into(), Base::Decimal)), ("comm", View::Text(comm))]
        {
            let name = self.names.text(name.as_bytes());
            annotate(&mut message, name, value, &mut self.names);
        }
        self.write(from, out);
        self.event.clear();
        head(&mut ProtobufMessage::new(&mut self.event), END, track, self.names.own(Name::OfFibers));
        self.write(to, out);
        if system.fibers().last_thread(fiber).is_none() {
            self.tracks.forget_fiber(fiber);
        }
    }

    fn loss(&mut self, loss: &Loss, out: &mut Vec<u8>) {
        if loss.pid.is_none() {
            self.wakeups.clear();
            self.raised.clear();
            self.ftrace.lose(loss.cpu, out);
        }
        let cause = loss.cause.to_string();
        let number = |number: i64| View::Signed(number, Base::Decimal);
        let fields = [
            ("cause", Some(View::Text(cause.as_bytes()))),
            ("count", loss.count.map(|count| View::Unsigned(count, Base::Decimal))),
            ("pid", loss.pid.map(|pid| number(pid.0.into()))),
            ("cpu", loss.cpu.map(|cpu| number(cpu.0.into()))),
            ("from_ns", Some(number(loss.from.0))),
            ("to_ns", Some(number(loss.to.0))),
            ("place", loss.place.as_deref().map(|place| View::Text(place.as_bytes()))),
        ];
        let fields: Vec<_> = fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        self.instant(LOSSES, Name::OfLosses, Name::Lost, loss.from, &fields, None, out);
    }

    fn disorder(&mut self, disorder: Disorder, out: &mut Vec<u8>) {
        let fields = [
            ("source", View::Unsigned(disorder.source as u64, Base::Decimal)),
            ("back_ns", View::Signed(disorder.back.0, Base::Decimal)),
        ];
        self.instant(LOSSES, Name::OfLosses, Name::Disorder, disorder.at, &fields, None, out);
    }

    #[expect(clippy::too_many_arguments, reason = "each is one field of the event")]
    fn instant(
        &mut self,
        track: u64,
        category: Name,
        name: Name,
        time: Time,
        fields: &[(&str, View<'_>)],
        flow: Option<Flow>,
        out: &mut Vec<u8>,
    ) {
        const FLOWS: u32 = 47;
        const ENDING_FLOWS: u32 = 48;
        self.event.clear();
        let mut message = ProtobufMessage::new(&mut self.event);
        head(&mut message, INSTANT, track, self.names.own(category));
        message.unsigned(NAME, self.names.own(name));
        for (name, value) in fields {
            let name = self.names.text(name.as_bytes());
            annotate(&mut message, name, *value, &mut self.names);
        }
        match flow {
            Some(Flow::Begin(flow)) => message.fixed(FLOWS, flow),
            Some(Flow::End(flow)) => message.fixed(ENDING_FLOWS, flow),
            None => {}
        }
        self.write(time, out);
    }

    /// Writes the packet of the track event, with the names that are new in it.
    fn write(&mut self, time: Time, out: &mut Vec<u8>) {
        packet(out, |packet| {
            packet.unsigned(TIMESTAMP, timestamp(time));
            packet.unsigned(SEQUENCE_FLAGS, REFERS);
            if let Some(fresh) = self.names.fresh() {
                packet.bytes(INTERNED, fresh);
            }
            packet.bytes(TRACK_EVENT, &self.event);
        });
        self.names.written();
    }
}

impl Exporter for Perfetto {
    fn begin(&mut self, out: &mut Vec<u8>) {
        const CLOCKS: u32 = 1;
        const UTSNAME: u32 = 1;
        const CLOCK_REALTIME: u64 = 1;
        const CLOCK_BOOTTIME: u64 = 6;
        let begin = timestamp(self.origin.begin);
        packet(out, |packet| {
            packet.unsigned(SEQUENCE_FLAGS, BEGINS);
            packet.unsigned(TIMESTAMP, begin);
            packet.message(CLOCK_SNAPSHOT, |snapshot| {
                for clock in [CLOCK_BOOTTIME, CLOCK_REALTIME] {
                    snapshot.message(CLOCKS, |reading| {
                        reading.unsigned(1, clock);
                        reading.unsigned(2, begin);
                    });
                }
            });
        });
        if let Some(release) = &self.origin.kernel_release {
            packet(out, |packet| {
                packet.message(SYSTEM_INFO, |info| {
                    info.message(UTSNAME, |name| {
                        name.text(1, b"Linux");
                        name.text(3, release.as_bytes());
                        self.origin.machine.iter().for_each(|machine| name.text(4, machine.as_bytes()));
                    });
                });
            });
        }
        self.tracks.begin(out);
    }

    fn take(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        if let (Some(call), Item::Event(moment)) = (self.functions.take(item), item) {
            self.call(&call, moment.system, out);
        }
        if let (Some(stretch), Item::Event(moment)) = (self.fibers.take(item), item) {
            self.stretch(&stretch, moment.system, out);
        }
        match item {
            Item::Event(moment) => self.moment(moment, out),
            Item::Loss(loss, _) => self.loss(loss, out),
            Item::Disorder(disorder) => self.disorder(*disorder, out),
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.ftrace.flush_all(out);
    }

    fn name_functions(&mut self, names: NameAddress) {
        self.functions.set_names(names);
    }
}

/// Field of a track event with the number of its name.
const NAME: u32 = 10;

/// Appends the fields that every track event has.
fn head(event: &mut ProtobufMessage<'_>, kind: u64, track: u64, category: u64) {
    const CATEGORY: u32 = 3;
    const TYPE: u32 = 9;
    const TRACK: u32 = 11;
    event.unsigned(TYPE, kind);
    event.unsigned(TRACK, track);
    event.unsigned(CATEGORY, category);
}

/// Appends a packet of the only sequence.
fn packet(out: &mut Vec<u8>, fill: impl FnOnce(&mut ProtobufMessage<'_>)) {
    ProtobufMessage::new(out).message(PACKET, |packet| {
        packet.unsigned(SEQUENCE, ONLY);
        fill(packet);
    });
}

/// Returns the format's timestamp, which cannot lie before the epoch.
fn timestamp(time: Time) -> u64 {
    time.0.max(0).cast_unsigned()
}
