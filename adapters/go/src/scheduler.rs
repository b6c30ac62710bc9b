//! The goroutines and threads by the events so far, and the events about fibers that follow from each.

use crate::batch::MAX_THREAD;
use crate::error::TraceFault;
use crate::format::{MAX_ARGUMENTS, event};
use crate::generation::GoTables;
use crate::record::{FiberRecord, TimedRecord};
use foldhash::HashMap;
use sordino_timeline::{FiberSwitchReason, PresentState};
use std::sync::Arc;

/// The maximum number of goroutines that are followed at once, some 50 bytes each.
pub(crate) const MAX_GOROUTINES: usize = 1 << 24;

/// A timed event: its time, in units of 64 ns, and its arguments behind the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimedEvent {
    pub(crate) kind: u8,
    pub(crate) time: u64,
    pub(crate) arguments: [u64; MAX_ARGUMENTS - 1],
}

/// The numbers that `GoStatus` has for states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GoStatus {
    Runnable,
    Running,
    Syscall,
    Waiting,
}

impl GoStatus {
    fn of(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::Runnable,
            2 => Self::Running,
            3 => Self::Syscall,
            4 => Self::Waiting,
            _ => return None,
        })
    }

    fn is_mounted(self) -> bool {
        matches!(self, Self::Running | Self::Syscall)
    }
}

#[derive(Clone, Copy, Debug)]
struct Goroutine {
    status: GoStatus,
    /// The generation and the sequence number of the last event that has one.
    sequence: (u64, u64),
    is_named: bool,
}

/// The goroutines and threads at one moment of a trace.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    goroutines: HashMap<u64, Goroutine>,
    /// The goroutine of each thread that has written an event, if it has one.
    threads: HashMap<i32, Option<u64>>,
    generation: u64,
    last_thread: Option<i32>,
    /// The number of goroutines that the trace makes.
    pub(crate) made: u64,
    /// The number of goroutines that are older than the trace.
    pub(crate) older: u64,
    /// The number of events that do not follow from those before them.
    pub(crate) contradictions: u64,
    /// The number of records that lie more than a second before an earlier one of their order.
    pub(crate) moved: u64,
}

/// The output of one event.
struct EventRecords<'a> {
    time: u64,
    thread: i32,
    tables: &'a GoTables,
    records: &'a mut Vec<TimedRecord>,
}

impl EventRecords<'_> {
    fn put(&mut self, what: FiberRecord) {
        self.records.push(TimedRecord { time: self.time, thread: self.thread, what });
    }

    fn text(&self, number: u64) -> Option<Arc<str>> {
        self.tables.string(number).cloned()
    }
}

impl Scheduler {
    /// Begins a generation, whose sequence numbers begin again.
    pub(crate) fn begin(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// Returns the threads that have written an event.
    pub(crate) fn threads(&self) -> impl Iterator<Item = i32> {
        self.threads.keys().copied()
    }

    /// Returns records by which nothing is known any more about the goroutines, which live on behind the trace's end.
    pub(crate) fn finish(&self) -> impl Iterator<Item = TimedRecord> {
        let of_thread = |(thread, number): (&i32, &Option<u64>)| Some(((*number)?, *thread));
        let mounted: HashMap<u64, i32> = self.threads.iter().filter_map(of_thread).collect();
        let mut numbers: Vec<u64> = self.goroutines.keys().copied().collect();
        numbers.sort_unstable();
        let last = self.last_thread;
        numbers.into_iter().filter_map(move |fiber| {
            let thread = mounted.get(&fiber).copied().or(last)?;
            let what = FiberRecord::Present { fiber, name: None, state: PresentState::Unknown };
            // The writer puts it behind all others.
            Some(TimedRecord { time: 0, thread, what })
        })
    }

    /// Returns the place in the sequence of a goroutine that an event has if earlier events of that goroutine are
    /// missing.
    pub(crate) fn waits_for(&self, timed: &TimedEvent) -> Option<(u64, u64)> {
        let status = match timed.kind {
            event::GO_START => GoStatus::Runnable,
            event::GO_UNBLOCK | event::GO_SWITCH | event::GO_SWITCH_DESTROY => GoStatus::Waiting,
            _ => return None,
        };
        let [number, sequence, ..] = timed.arguments;
        let is_next = self.next_of(number) == Some((number, sequence))
            && self.goroutines.get(&number).is_some_and(|goroutine| goroutine.status == status);
        (!is_next).then_some((number, sequence))
    }

    /// Returns the next place in the sequence of a goroutine, if this generation has shown it.
    pub(crate) fn next_of(&self, number: u64) -> Option<(u64, u64)> {
        let (generation, last) = self.goroutines.get(&number)?.sequence;
        (generation == self.generation).then_some((number, last.wrapping_add(1)))
    }

    /// Applies an event of a thread, or of none, and appends the events about fibers that follow from it. Returns the
    /// goroutines that it changes.
    pub(crate) fn apply(
        &mut self,
        thread: Option<i32>,
        timed: &TimedEvent,
        tables: &GoTables,
        records: &mut Vec<TimedRecord>,
    ) -> Result<[Option<u64>; 2], TraceFault> {
        // A state that no thread has written is put on the last one that wrote anything.
        let Some(thread) = thread.or(self.last_thread) else {
            self.contradictions += 1;
            return Ok([None; 2]);
        };
        let mut outlet = EventRecords { time: timed.time, thread, tables, records };
        let current = self.enter(thread, &mut outlet);
        self.last_thread = Some(thread);
        let [first, second, third, fourth] = timed.arguments;
        match timed.kind {
            event::GO_CREATE | event::GO_CREATE_BLOCKED => {
                let is_blocked = timed.kind == event::GO_CREATE_BLOCKED;
                let name = tables.root(second).cloned();
                let status = if is_blocked { GoStatus::Waiting } else { GoStatus::Runnable };
                self.make(first, status, name, &mut outlet)?;
                if is_blocked {
                    let state = PresentState::Blocked;
                    outlet.put(FiberRecord::Present { fiber: first, name: None, state });
                }
                self.name(current, third, &mut outlet);
                return Ok([Some(first), None]);
            }
            event::GO_CREATE_SYSCALL => {
                self.make(first, GoStatus::Syscall, None, &mut outlet)?;
                self.mount(first, &mut outlet);
                return Ok([Some(first), None]);
            }
            event::GO_START => {
                self.advance(first, GoStatus::Running, second)?;
                self.mount(first, &mut outlet);
                return Ok([Some(first), None]);
            }
            event::GO_UNBLOCK => {
                self.advance(first, GoStatus::Runnable, second)?;
                outlet.put(FiberRecord::Wake { fiber: first, by: current.unwrap_or_default() });
                return Ok([Some(first), None]);
            }
            event::GO_STATUS | event::GO_STATUS_STACK => {
                let stack = if timed.kind == event::GO_STATUS_STACK { fourth } else { 0 };
                let Some(status) = GoStatus::of(third) else {
                    self.contradictions += 1;
                    return Ok([None; 2]);
                };
                self.state(first, second, (status, stack), &mut outlet)?;
                return Ok([Some(first), None]);
            }
            event::GO_DESTROY | event::GO_DESTROY_SYSCALL => return Ok(self.end(current, 0, &mut outlet)),
            event::GO_STOP | event::GO_BLOCK => {
                self.name(current, second, &mut outlet);
                let on = outlet.text(first);
                let is_blocked = timed.kind == event::GO_BLOCK;
                let why = match on.as_deref() {
                    _ if is_blocked => FiberSwitchReason::Blocked,
                    Some("preempted") => FiberSwitchReason::SliceOver,
                    _ => FiberSwitchReason::Yielded,
                };
                let status = if is_blocked { GoStatus::Waiting } else { GoStatus::Runnable };
                return Ok([self.leave(status, (why, on.filter(|_| is_blocked)), &mut outlet), None]);
            }
            event::GO_SYSCALL_BEGIN => {
                self.name(current, second, &mut outlet);
                self.set(current, GoStatus::Syscall);
            }
            event::GO_SYSCALL_END => self.set(current, GoStatus::Running),
            event::GO_SYSCALL_END_BLOCKED => {
                return Ok([
                    self.leave(GoStatus::Runnable, (FiberSwitchReason::SliceOver, None), &mut outlet),
                    None,
                ]);
            }
            event::GO_SWITCH => {
                self.advance(first, GoStatus::Running, second)?;
                let Some(from) = current else {
                    self.contradictions += 1;
                    self.mount(first, &mut outlet);
                    return Ok([Some(first), None]);
                };
                self.set(current, GoStatus::Waiting);
                self.threads.insert(thread, Some(first));
                let on = Some("coroutine".into());
                outlet.put(FiberRecord::Switch { from, to: first, why: FiberSwitchReason::Blocked, on });
                return Ok([Some(first), current]);
            }
            event::GO_SWITCH_DESTROY => {
                self.advance(first, GoStatus::Running, second)?;
                let changed = self.end(current, first, &mut outlet);
                self.threads.insert(thread, Some(first));
                return Ok([Some(first), changed[0]]);
            }
            _ => {}
        }
        Ok([None; 2])
    }

    /// Returns the goroutine of a thread, whose first event shows it in Go's scheduler.
    fn enter(&mut self, thread: i32, outlet: &mut EventRecords<'_>) -> Option<u64> {
        *self.threads.entry(thread).or_insert_with(|| {
            outlet.records.push(TimedRecord { time: outlet.time, thread, what: FiberRecord::Enter });
            None
        })
    }

    fn make(
        &mut self,
        number: u64,
        status: GoStatus,
        name: Option<Arc<str>>,
        outlet: &mut EventRecords<'_>,
    ) -> Result<(), TraceFault> {
        self.made += 1;
        // In the recording, 0 stands for no goroutine.
        self.contradictions += u64::from(number == 0 || self.goroutines.contains_key(&number));
        self.insert(number, status, name.is_some())?;
        outlet.put(FiberRecord::New { fiber: number, name });
        Ok(())
    }

    fn insert(&mut self, number: u64, status: GoStatus, is_named: bool) -> Result<(), TraceFault> {
        if self.goroutines.len() >= MAX_GOROUTINES {
            return Err(TraceFault::Goroutines);
        }
        let goroutine = Goroutine { status, sequence: (self.generation, 0), is_named };
        self.goroutines.insert(number, goroutine);
        Ok(())
    }

    /// Applies an event with a sequence number to its goroutine.
    fn advance(&mut self, number: u64, status: GoStatus, sequence: u64) -> Result<(), TraceFault> {
        if !self.goroutines.contains_key(&number) {
            self.insert(number, status, false)?;
        }
        if let Some(goroutine) = self.goroutines.get_mut(&number) {
            (goroutine.status, goroutine.sequence) = (status, (self.generation, sequence));
        }
        Ok(())
    }

    /// Applies the state of a goroutine in this generation.
    fn state(
        &mut self,
        number: u64,
        on_thread: u64,
        (status, stack): (GoStatus, u64),
        outlet: &mut EventRecords<'_>,
    ) -> Result<(), TraceFault> {
        let known = self.goroutines.get(&number).copied();
        if let Some(known) = known {
            self.advance(number, status, 0)?;
            if known.status.is_mounted() == status.is_mounted()
                && (status.is_mounted() || known.status == status)
            {
                return Ok(());
            }
            self.contradictions += 1;
        } else {
            self.older += 1;
            self.insert(number, status, false)?;
        }
        let name = outlet.tables.root(stack).cloned();
        if name.is_some()
            && let Some(goroutine) = self.goroutines.get_mut(&number)
        {
            goroutine.is_named = true;
        }
        let state = match status {
            GoStatus::Running | GoStatus::Syscall => PresentState::Mounted,
            GoStatus::Runnable => PresentState::Ready,
            GoStatus::Waiting => PresentState::Blocked,
        };
        if status == GoStatus::Syscall
            && (1..=MAX_THREAD).contains(&on_thread)
            && let Ok(thread) = i32::try_from(on_thread)
        {
            outlet.thread = thread;
            self.enter(thread, outlet);
        }
        if status.is_mounted() {
            let before = self.threads.insert(outlet.thread, Some(number)).flatten();
            self.contradictions += u64::from(before.is_some_and(|before| before != number));
        }
        outlet.put(FiberRecord::Present { fiber: number, name, state });
        Ok(())
    }

    /// Puts a goroutine on the thread.
    fn mount(&mut self, number: u64, outlet: &mut EventRecords<'_>) {
        let from = self.threads.insert(outlet.thread, Some(number)).flatten().unwrap_or_default();
        let why = if from == 0 { FiberSwitchReason::Resumed } else { FiberSwitchReason::Unknown };
        self.contradictions += u64::from(from != 0);
        outlet.put(FiberRecord::Switch { from, to: number, why, on: None });
    }

    /// Takes the goroutine from the thread, and returns it.
    fn leave(
        &mut self,
        status: GoStatus,
        (why, on): (FiberSwitchReason, Option<Arc<str>>),
        outlet: &mut EventRecords<'_>,
    ) -> Option<u64> {
        let Some(from) = self.threads.insert(outlet.thread, None).flatten() else {
            self.contradictions += 1;
            return None;
        };
        self.set(Some(from), status);
        outlet.put(FiberRecord::Switch { from, to: 0, why, on });
        Some(from)
    }

    /// Ends the goroutine of the thread, which goes on with another one, or 0.
    fn end(&mut self, current: Option<u64>, to: u64, outlet: &mut EventRecords<'_>) -> [Option<u64>; 2] {
        let Some(from) = current else {
            self.contradictions += 1;
            if to != 0 {
                self.mount(to, outlet);
            }
            return [None; 2];
        };
        self.goroutines.remove(&from);
        self.threads.insert(outlet.thread, None);
        outlet.put(FiberRecord::Switch { from, to, why: FiberSwitchReason::Ended, on: None });
        outlet.put(FiberRecord::End { fiber: from });
        [current, None]
    }

    fn set(&mut self, number: Option<u64>, status: GoStatus) {
        match number.and_then(|number| self.goroutines.get_mut(&number)) {
            Some(goroutine) => goroutine.status = status,
            None => self.contradictions += 1,
        }
    }

    /// Names a goroutine after the outermost function of its stack, unless it has a name.
    fn name(&mut self, number: Option<u64>, stack: u64, outlet: &mut EventRecords<'_>) {
        let Some(fiber) = number else { return };
        let Some(goroutine) = self.goroutines.get_mut(&fiber).filter(|goroutine| !goroutine.is_named) else {
            return;
        };
        if let Some(name) = outlet.tables.root(stack) {
            goroutine.is_named = true;
            outlet.put(FiberRecord::Rename { fiber, name: Arc::clone(name) });
        }
    }
}
