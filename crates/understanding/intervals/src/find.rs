//! The first pass: it finds the intervals.

use crate::ends::FieldNames;
use crate::interval::Interval;
use crate::route::{RouteStep, Routes, Underway};
use crate::survey::{IntervalStatistics, KEEP};
use crate::{Broken, Error, IntervalRule, Key, Point, Survey, Unpaired};
use foldhash::HashMap;
use sordino_event::{Class, ClassId, Classes, Cpu, Domain, Event, Loss, Nanos, Pid, Tid, Time, View};
use sordino_timeline::{Consumer, FiberId, Item, Kernel, Moment, Mounted, Payer, ThreadOrFiber};
use std::fmt;
use std::sync::Arc;

/// The maximum number of begins that wait for their ends; at the limit, the older half is dropped.
const OPEN_MAX: usize = 1 << 20;

/// Function that returns true if an interval is selected, given the event that ends it, and its thread.
pub type IntervalSelector = Box<dyn Fn(&Moment<'_>, Tid) -> bool>;

/// An interval that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundInterval {
    /// Both ends of the interval are known, and no record is missing within it.
    Whole(Interval),
    /// Records are missing within the interval.
    Broken,
}

/// The first pass over a trace: it pairs begins with ends, in bounded memory.
///
/// A begin replaces an open one of the same key: of a recursion, the innermost intervals are found.
pub struct Finder {
    rule: IntervalRule,
    /// The predicate for the intervals that are found; all if there is none.
    only: Option<IntervalSelector>,
    /// The accesses to the keys of events that end an interval, and of events that begin one; indexed by class.
    roles: Vec<(Option<Access>, Option<Access>)>,
    /// The names of events that are steps of an interval, and the access to their keys; indexed by class.
    steps: Vec<Option<(Arc<str>, Access)>>,
    open: HashMap<PairingKey, OpenInterval>,
    underway: Underway<PairingKey>,
    routes: Routes,
    losses: ProgramLosses,
    tally: IntervalStatistics,
    names: (FieldNames, FieldNames),
    unpaired: Unpaired,
    broken: Broken,
}

/// The place of the key that pairs a begin with its end.
#[derive(Clone, Copy, Debug)]
enum Access {
    /// The fiber of the event, or the thread where it has none.
    Fiber,
    Thread,
    Cpu,
    Field(usize),
}

/// The key that pairs a begin with its end. Threads and CPUs are integers, so that a field can refer to them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PairingKey {
    Integer(i128),
    Fiber(FiberId),
    Text(Box<[u8]>),
}

#[derive(Clone, Copy, Debug)]
struct OpenInterval {
    time: Time,
    tid: Option<Tid>,
    pid: Option<Pid>,
    cpu: Option<Cpu>,
    fiber: Option<FiberId>,
}

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finder").field("rule", &self.rule).finish_non_exhaustive()
    }
}

impl Finder {
    /// Creates the first pass for the intervals of `rule`.
    ///
    /// # Errors
    /// When `classes` have no such event or field.
    pub fn new(classes: &Classes, rule: IntervalRule) -> Result<Self, Error> {
        // A field's value may be the id of the other end's thread, but not of its fiber.
        let thread = match (&rule.begin.key, &rule.end.key) {
            (Key::Thread, Key::Thread) => Access::Fiber,
            _ => Access::Thread,
        };
        let begins = accesses(classes, &rule.begin, thread)?;
        let ends = accesses(classes, &rule.end, thread)?;
        let names =
            [&rule.begin, &rule.end].map(|point| FieldNames::of(classes, |class| class.name == point.event));
        let names = names.into();
        let steps = classes.iter().map(|(_, class)| step_of(class, &rule)).collect();
        Ok(Self {
            rule,
            steps,
            underway: Underway::default(),
            routes: Routes::default(),
            only: None,
            roles: ends.into_iter().zip(begins).collect(),
            open: HashMap::default(),
            losses: ProgramLosses { by_stream: HashMap::default(), latest: Time::MIN },
            tally: IntervalStatistics::new(KEEP),
            names,
            unpaired: Unpaired::default(),
            broken: Broken::default(),
        })
    }

    /// Limits the intervals to those that `selector` accepts at the end of each.
    #[must_use]
    pub fn only(self, selector: IntervalSelector) -> Self {
        Self { only: Some(selector), ..self }
    }

    /// Processes the next item of the trace. Returns the interval that ends there, if one does.
    pub fn find(&mut self, item: &Item<'_>) -> Option<FoundInterval> {
        match item {
            Item::Event(moment) => {
                let &(end, begin) = self.roles.get(moment.event.class.index())?;
                let found = match (end, begin) {
                    (Some(access), Some(_)) if self.rule.is_chain() => self.link(moment, access),
                    _ => {
                        let found = end.and_then(|access| self.end(moment, access));
                        begin.into_iter().for_each(|access| self.begin(moment, access));
                        found
                    }
                };
                self.step(moment);
                found
            }
            Item::Loss(loss, _) => {
                self.losses.add(loss);
                None
            }
            Item::Disorder(_) => None,
        }
    }

    /// Returns the intervals after the last item.
    pub fn finish(mut self) -> Survey {
        if !self.rule.is_chain() {
            self.unpaired.begins += self.open.len() as u64;
        }
        let (statistics, distribution) = (self.tally.statistics(), self.tally.distribution());
        let (longest, sample) = self.tally.finish();
        let Self { rule, names, unpaired, broken, routes, .. } = self;
        let (title, rule) = (rule.to_string(), Some(rule));
        Survey { title, routes, rule, statistics, distribution, longest, sample, names, unpaired, broken }
    }

    fn end(&mut self, moment: &Moment<'_>, access: Access) -> Option<FoundInterval> {
        let Some(key) = access.value(moment) else {
            self.unpaired.without_key += 1;
            return None;
        };
        let steps = self.underway.end(&key);
        let Some(begin) = self.open.remove(&key) else {
            self.unpaired.ends += u64::from(!self.rule.is_chain());
            return None;
        };
        self.close(moment, begin, steps)
    }

    /// Processes an event that ends an interval and begins the next one.
    fn link(&mut self, moment: &Moment<'_>, access: Access) -> Option<FoundInterval> {
        let Some(key) = access.value(moment) else {
            self.unpaired.without_key += 1;
            return None;
        };
        let steps = self.underway.end(&key);
        if let Some(open) = self.open.get_mut(&key) {
            let begin = std::mem::replace(open, OpenInterval::at(moment));
            return self.close(moment, begin, steps);
        }
        if self.open.len() == OPEN_MAX {
            self.give_up_older_half();
        }
        self.open.insert(key, OpenInterval::at(moment));
        None
    }

    /// Returns the interval from `begin` to this event.
    fn close(
        &mut self,
        moment: &Moment<'_>,
        begin: OpenInterval,
        steps: Vec<RouteStep>,
    ) -> Option<FoundInterval> {
        let end = OpenInterval::ending(moment, &self.rule.end.key);
        let (of, other) = if end.tid.is_some() { (end, begin) } else { (begin, end) };
        let Some(tid) = of.tid else {
            self.unpaired.without_thread += 1;
            return None;
        };
        if self.only.as_ref().is_some_and(|selector| !selector(moment, tid)) {
            return None;
        }
        let pid = of.pid.or(other.pid.filter(|_| of.tid == other.tid));
        let (begin_cpu, end_cpu, fiber) = (begin.cpu, end.cpu, of.fiber);
        let owner = fiber.map_or(ThreadOrFiber::Thread(tid), ThreadOrFiber::Fiber);
        // The thread of a begin may be one of another host.
        let paid = end.tid.map(|_| moment.system.overhead(Payer::Owner(owner), begin.time, end.time));
        let overhead = paid.unwrap_or(Nanos::ZERO);
        let interval =
            Interval { begin: begin.time, end: end.time, tid, pid, begin_cpu, end_cpu, fiber, overhead };
        if self.losses.between(&begin, &end) {
            self.broken.count += 1;
            self.broken.longest = self.broken.longest.max(interval.length());
            Some(FoundInterval::Broken)
        } else {
            self.routes.add(&interval, begin.owner(), steps);
            self.tally.add(interval.clone());
            Some(FoundInterval::Whole(interval))
        }
    }

    /// Processes an event with the key of an open interval.
    fn step(&mut self, moment: &Moment<'_>) {
        let Some(Some((event, access))) = self.steps.get(moment.event.class.index()) else { return };
        let Some(tid) = moment.tid.filter(|tid| *tid != Tid(0)) else { return };
        let Some(key) = access.value(moment).filter(|key| self.open.contains_key(key)) else { return };
        let (time, pid, cpu) = (moment.event.time, moment.pid(), moment.cpu);
        let fiber = moment.fiber_id();
        self.underway.step(key, RouteStep { event: Arc::clone(event), time, tid, pid, cpu, fiber });
    }

    fn begin(&mut self, moment: &Moment<'_>, access: Access) {
        let Some(key) = access.value(moment) else {
            self.unpaired.without_key += u64::from(!self.rule.is_chain());
            return;
        };
        if self.open.len() == OPEN_MAX {
            self.give_up_older_half();
        }
        self.underway.end(&key);
        let superseded = self.open.insert(key, OpenInterval::at(moment)).is_some();
        self.unpaired.begins += u64::from(superseded);
    }

    fn give_up_older_half(&mut self) {
        let mut times: Vec<Time> = self.open.values().map(|open| open.time).collect();
        let (_, &mut middle, _) = times.select_nth_unstable(OPEN_MAX / 2);
        self.open.retain(|_, open| open.time > middle);
        self.underway.retain(|key| self.open.contains_key(key));
        self.unpaired.begins += (OPEN_MAX - self.open.len()) as u64;
    }
}

impl Consumer for Finder {
    fn take(&mut self, item: &Item<'_>) {
        self.find(item);
    }

    fn reads_fields(&self, class: ClassId) -> bool {
        let (end, begin) = self.roles.get(class.index()).copied().unwrap_or_default();
        let step = self.steps.get(class.index()).and_then(|step| step.as_ref().map(|(_, access)| *access));
        let is_field = |access: &Access| matches!(access, Access::Field(_));
        self.only.is_some() || [end, begin, step].iter().flatten().any(is_field)
    }
}

impl OpenInterval {
    fn at(moment: &Moment<'_>) -> Self {
        // The idle thread is a different one on each CPU, and its time needs no explanation.
        let tid = moment.tid.filter(|tid| *tid != Tid(0));
        let (pid, cpu, fiber) = (moment.pid(), moment.cpu, moment.fiber_id());
        Self { time: moment.event.time, tid, pid, cpu, fiber }
    }

    fn owner(&self) -> Option<ThreadOrFiber> {
        self.fiber.map(ThreadOrFiber::Fiber).or(self.tid.map(ThreadOrFiber::Thread))
    }

    /// Returns the end of an interval. A switch belongs to the thread that leaves, except where the key is the thread
    /// that comes.
    fn ending(moment: &Moment<'_>, key: &Key) -> Self {
        match (moment.kernel, key) {
            (Some(Kernel::Switch { next, .. }), Key::Field(name))
                if next.tid != Tid(0) && ["next_tid", "next_pid"].contains(&name.as_str()) =>
            {
                let pid = moment.system.pid(next.tid);
                let fiber = pid.and_then(|pid| moment.system.fibers().mounted(pid, next.tid).fiber());
                Self { tid: Some(next.tid), pid, fiber, ..Self::at(moment) }
            }
            _ => Self::at(moment),
        }
    }
}

impl PairingKey {
    pub(crate) fn of_thread(tid: Tid) -> Self {
        Self::Integer(tid.0.into())
    }

    /// Returns the event's fiber, or its thread where it has none; `None` if the fiber is not known.
    pub(crate) fn of_fiber(moment: &Moment<'_>) -> Option<Self> {
        match moment.fiber {
            Mounted::Fiber(fiber) => Some(Self::Fiber(fiber)),
            Mounted::Unknown => None,
            Mounted::Outside | Mounted::Scheduler => moment.tid.map(Self::of_thread),
        }
    }
}

impl Access {
    fn value(self, moment: &Moment<'_>) -> Option<PairingKey> {
        match self {
            Self::Fiber => PairingKey::of_fiber(moment),
            Self::Thread => moment.tid.map(PairingKey::of_thread),
            Self::Cpu => moment.cpu.map(|cpu| PairingKey::Integer(cpu.0.into())),
            Self::Field(field) => value(moment.event, field),
        }
    }
}

/// Returns a field's value, if events can be paired by it.
pub(crate) fn value(event: &Event, field: usize) -> Option<PairingKey> {
    Some(match event.value(field)? {
        View::Unsigned(value, _) => PairingKey::Integer(value.into()),
        View::Signed(value, _) | View::Label(value, _) => PairingKey::Integer(value.into()),
        View::Text(text) => PairingKey::Text(text.into()),
        View::Float(_) | View::List(_) | View::Group(_) => return None,
    })
}

/// Returns the access to the key of `point` in each class that is the point's event; indexed by class.
fn accesses(classes: &Classes, point: &Point, thread: Access) -> Result<Vec<Option<Access>>, Error> {
    let event = || point.event.clone();
    let is_it = |class: &Class| class.name == point.event;
    if !classes.iter().any(|(_, class)| is_it(class)) {
        return Err(Error::Event { event: event() });
    }
    let access = |class: &Class| match &point.key {
        Key::Thread => Some(thread),
        Key::Cpu => Some(Access::Cpu),
        Key::Field(name) => class.field(name).map(Access::Field),
    };
    let accesses: Vec<_> =
        classes.iter().map(|(_, class)| is_it(class).then(|| access(class)).flatten()).collect();
    match &point.key {
        Key::Field(field) if accesses.iter().all(Option::is_none) => {
            Err(Error::Field { event: event(), field: field.clone() })
        }
        _ => Ok(accesses),
    }
}

/// Returns the name of a program's event that is a step of an interval, and the access to its key. Such an event has a
/// field with the name by which the ends are paired.
fn step_of(class: &Class, rule: &IntervalRule) -> Option<(Arc<str>, Access)> {
    let (Key::Field(begin), Key::Field(end)) = (&rule.begin.key, &rule.end.key) else { return None };
    let is_end = [&rule.begin.event, &rule.end.event].contains(&&class.name);
    let is_step = class.domain == Domain::User && begin == end && !is_end;
    Some((class.name.as_str().into(), Access::Field(class.field(begin).filter(|_| is_step)?)))
}

/// The times until which records of programs are missing.
#[derive(Debug)]
struct ProgramLosses {
    by_stream: HashMap<(Pid, Option<Cpu>), Time>,
    latest: Time,
}

impl ProgramLosses {
    fn add(&mut self, loss: &Loss) {
        if let Some(pid) = loss.pid {
            let to = self.by_stream.entry((pid, loss.cpu)).or_insert(loss.to);
            *to = loss.to.max(*to);
            self.latest = self.latest.max(loss.to);
        }
    }

    /// Returns true if records of the two ends' programs are missing in between on these CPUs.
    fn between(&self, begin: &OpenInterval, end: &OpenInterval) -> bool {
        self.latest > begin.time
            && self.by_stream.iter().any(|((pid, cpu), to)| {
                let of_program = [begin.pid, end.pid].contains(&Some(*pid));
                // A stream without a CPU, or an event without one, may belong to any CPU.
                let on_cpu = cpu.is_none() || [begin.cpu, end.cpu].iter().any(|at| at.is_none() || at == cpu);
                *to > begin.time && of_program && on_cpu
            })
    }
}
