//! The account of one interval: the sum of the time that each cause took.

mod overhead;

use crate::cause::{Cause, Lock, Thread, Waker};
use crate::cpu::{CpuMessage, Serial};
use crate::entry_cost::{Entered, TypicalCost};
use crate::fibers::before_name;
use crate::files::Awaited;
use crate::findings::{
    Behind, Explanation, Inside, Inversion, Inverted, Link, LossSum, Migration, Part, ReadFile, Sender, Woken,
};
use crate::missing::{Missing, Unrecorded};
use crate::table::Certainty;
use crate::thread::{Activity, SleepEnd};
use crate::thread_history::{self, Did};
use crate::usual::matters;
use sordino_event::{Cpu, Nanos, Tid, Time};
use sordino_intervals::{EventFields, Interval};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of migrations that are listed.
const MIGRATIONS_MAX: usize = 16;

/// The meaning of time in which a thread has the CPU and no event gives a reason.
#[derive(Clone, Debug)]
pub(crate) enum OwnTime {
    /// The thread ran its own code, or something that events of these kinds would show; they are not recorded.
    CodeOr(Arc<[Missing]>),
    /// The thread ran a loop that always does the same and takes this time; any more time is unexplained.
    Constant(Nanos),
    /// The thread may not have had the CPU: these events are not recorded.
    Unrecorded(Unrecorded),
}

/// The causes of one interval's time so far.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) interval: Interval,
    parts: BTreeMap<Cause, Sum>,
    inversions: BTreeMap<(Inverted, Thread), Nanos>,
    /// The threads of lower priority that ran on the thread's CPU in its present sleep, and the thread that ended the
    /// sleep: an inversion counts if both are the same.
    in_sleep: Vec<(Inverted, Thread, Nanos)>,
    woken_by: Option<Tid>,
    migrations: Vec<Migration>,
    migrations_count: u64,
    /// The cause of the time that was added last.
    latest: Option<Cause>,
    /// The number of times that an activity of the thread's own was interrupted, by activity and interrupt.
    interrupted: BTreeMap<(Cause, Cause), u64>,
}

#[derive(Debug, Default)]
struct Sum {
    time: Nanos,
    /// The time that recording took of it.
    overhead: Nanos,
    /// The estimated time of entering and leaving, which is part of `time`.
    entry: Nanos,
    /// The part of `time` that is derived from unrecorded switches.
    inferred: Nanos,
    count: u64,
    longest: Nanos,
    longest_at: Option<Time>,
    /// The occurrence to which time was added last, its begin, and its time.
    last: Option<(Serial, Time, Nanos)>,
    inside: BTreeMap<Arc<str>, Nanos>,
    beside: BTreeMap<Thread, Nanos>,
    senders: BTreeMap<CpuMessage, u64>,
    files: BTreeMap<Awaited, Nanos>,
    wakers: BTreeMap<(Waker, Option<Lock>), Wakes>,
}

/// The maximum number of files that are distinguished for one cause.
const FILES_MAX: usize = 256;

/// The sleeps that a waker ended.
#[derive(Debug, Default)]
struct Wakes {
    count: u64,
    time: Nanos,
    /// The activities that the sleeper waited for, by level and thread.
    chain: BTreeMap<(u32, Thread), Meanwhile>,
}

/// The activities of a thread while another one slept.
#[derive(Debug, Default)]
struct Meanwhile {
    ran: Nanos,
    slept: Nanos,
    throttled: Nanos,
    stopped: Nanos,
    waited: BTreeMap<Option<Thread>, Nanos>,
}

impl Account {
    pub(crate) fn open(interval: Interval) -> Self {
        Self {
            interval,
            parts: BTreeMap::new(),
            inversions: BTreeMap::new(),
            in_sleep: Vec::new(),
            woken_by: None,
            migrations: Vec::new(),
            migrations_count: 0,
            latest: None,
            interrupted: BTreeMap::new(),
        }
    }

    /// Adds the time of the thread's `activity`, as far as it lies within the interval. `overhead` returns the part of
    /// a time that recording took, if that is subtracted.
    pub(crate) fn spent(
        &mut self,
        (from, to): (Time, Time),
        activity: &Activity,
        overhead: impl Fn(Time, Time) -> Nanos,
    ) {
        let Interval { begin, end, .. } = self.interval;
        // An activity without a length, such as a page fault inside a system call, counts unless it lies at the
        // interval's end.
        let is_within = if from == to { begin <= from && from < end } else { begin < to && from < end };
        if !is_within {
            return;
        }
        let (from, time) = (from.max(begin), to.min(end) - from.max(begin));
        let is_new = self.part(&activity.cause).add(from, time, activity);
        if self.interval.overhead > Nanos::ZERO {
            self.part(&activity.cause).overhead += overhead(from, from + time);
        }
        if is_new
            && Entered::of(&activity.cause).is_some()
            && let Some(own) = self.latest.as_ref().filter(|latest| latest.is_its_own())
        {
            *self.interrupted.entry((own.clone(), activity.cause.clone())).or_default() += 1;
        }
        if self.latest.as_ref() != Some(&activity.cause) {
            self.latest = Some(activity.cause.clone());
        }
        if !matches!(activity.cause, Cause::Blocked { .. }) {
            self.end_sleep();
        }
        let Some(by) = &activity.inverted else { return };
        match &activity.cause {
            Cause::Blocked { syscall: Some(call), .. } => {
                self.in_sleep.push((Inverted::InSyscall { call: call.clone() }, by.clone(), time));
            }
            _ => *self.inversions.entry((Inverted::Runnable, by.clone())).or_default() += time,
        }
    }

    fn end_sleep(&mut self) {
        let waker = self.woken_by.take();
        for (how, by, time) in self.in_sleep.drain(..).filter(|(_, by, _)| waker == Some(by.tid)) {
            *self.inversions.entry((how, by)).or_default() += time;
        }
    }

    /// Adds a wake-up of the thread.
    pub(crate) fn woken(&mut self, at: Time, wake_up: &SleepEnd) {
        let Interval { begin, end, .. } = self.interval;
        let (from, to) = (wake_up.since.max(begin), at.min(end));
        if wake_up.since >= end || at <= begin {
            return;
        }
        let SleepEnd { sleeper, waker, chain, .. } = wake_up;
        if let Waker::Thread { thread } = waker {
            self.woken_by = Some(thread.tid);
        }
        let wakes = self.part(&wake_up.cause).wakers.entry((waker.clone(), wake_up.lock)).or_default();
        wakes.count += 1;
        wakes.time += to - from;
        let links = || chain.iter().map(|link| (link, link.span.within(from, to)));
        let links = || links().filter(|(_, time)| *time > Nanos::ZERO);
        for (thread_history::Link { level, thread, span }, time) in links() {
            wakes.chain.entry((*level, thread.clone())).or_default().add(&span.did, time);
        }
        for (thread_history::Link { thread, span, .. }, time) in links() {
            if let Did::Wait(Some(behind)) = &span.did
                && sleeper.outranks(thread)
                && sleeper.outranks(behind)
            {
                let how = Inverted::HeldUp { behind: behind.clone() };
                *self.inversions.entry((how, thread.clone())).or_default() += time;
            }
        }
    }

    /// Adds a migration of the thread to another CPU.
    pub(crate) fn moved(&mut self, at: Time, from: Cpu, to: Cpu) {
        if self.interval.begin <= at && at < self.interval.end {
            self.migrations_count += 1;
            if self.migrations.len() < MIGRATIONS_MAX {
                self.migrations.push(Migration { at, from: from.0, to: to.0 });
            }
        }
    }

    /// Returns the explanation of the interval, given its thread and the meaning of the thread's own time. Usual times
    /// are not known yet.
    ///
    /// `entry` is the cost of interrupts beyond their events, where it was measured.
    pub(crate) fn close(
        mut self,
        thread: Thread,
        own: OwnTime,
        entry: Option<TypicalCost>,
        lost: Vec<LossSum>,
    ) -> Explanation {
        self.end_sleep();
        self.subtract_overhead();
        if matches!(own, OwnTime::CodeOr(_)) {
            entry.into_iter().for_each(|entry| self.charge(entry));
        }
        match own {
            OwnTime::CodeOr(missing) if missing.is_empty() => {}
            OwnTime::CodeOr(missing) => self.rename(&[Cause::Own], Cause::OwnOrUnrecorded { missing }),
            OwnTime::Constant(normal) => self.split_own(normal),
            OwnTime::Unrecorded(events) => {
                self.rename(&[Cause::Own, Cause::Unknown], Cause::Unrecorded { events });
            }
        }
        let mut parts: Vec<Part> = self.parts.into_iter().map(|(cause, sum)| sum.close(cause)).collect();
        parts.retain(|part| part.time > Nanos::ZERO || part.cause.is_page_fault());
        parts.sort_by_key(|part| Reverse(part.time));
        let inversion = |((how, by), time)| Inversion { how, by, time };
        let mut inversions: Vec<_> = self.inversions.into_iter().map(inversion).collect();
        inversions.retain(|inversion| inversion.time > Nanos::ZERO);
        inversions.sort_by_key(|inversion| Reverse(inversion.time));
        Explanation {
            stolen: Vec::new(),
            length: self.interval.length(),
            begin_fields: EventFields::new(),
            end_fields: EventFields::new(),
            interval: self.interval,
            thread,
            fiber: None,
            main: None,
            stages: Vec::new(),
            parts,
            inversions,
            migrations: self.migrations,
            migrations_count: self.migrations_count,
            lost,
        }
    }

    /// Moves the cost of each interrupt from the time of the interrupted activity to that of the interrupt.
    fn charge(&mut self, entry: TypicalCost) {
        let mut most: BTreeMap<Cause, Nanos> = BTreeMap::new();
        for ((own, interrupt), count) in std::mem::take(&mut self.interrupted) {
            let Ok(count) = i64::try_from(count) else { continue };
            let Some(interrupted) = self.parts.get_mut(&own) else { continue };
            let each = entry.of(&interrupt).min(Nanos(interrupted.time.0 / count));
            let all = Nanos(each.0 * count);
            interrupted.time -= all;
            interrupted.longest = interrupted.longest.min(interrupted.time);
            let sum = self.part(&interrupt);
            sum.time += all;
            sum.entry += all;
            let charged = most.entry(interrupt).or_default();
            *charged = each.max(*charged);
        }
        for (interrupt, each) in most {
            let sum = self.part(&interrupt);
            sum.longest = (sum.longest + each).min(sum.time);
        }
    }

    /// Moves the time of the causes `before` to the cause `after`.
    fn rename(&mut self, before: &[Cause], after: Cause) {
        for known in before {
            let Some(before) = self.parts.remove(known) else { continue };
            let sum = self.part(&after);
            sum.time += before.time;
            sum.count += before.count;
            sum.longer(before.longest, before.longest_at);
        }
    }

    /// Moves the time of a constant loop's own code beyond `normal` to [`Cause::Unexplained`].
    fn split_own(&mut self, normal: Nanos) {
        let Some(own) = self.parts.get_mut(&Cause::Own) else { return };
        let rest = own.time - normal;
        if rest > Nanos::ZERO {
            own.time = normal;
            own.longest = own.longest.min(normal);
            let at = own.longest_at;
            let sum = self.part(&Cause::Unexplained);
            sum.time += rest;
            sum.count += 1;
            sum.longer(rest, at);
        }
    }

    fn part(&mut self, cause: &Cause) -> &mut Sum {
        if !self.parts.contains_key(cause) {
            // A fiber may get its name in the middle.
            let until_named = before_name(cause).and_then(|unnamed| self.parts.remove(&unnamed));
            self.parts.insert(cause.clone(), until_named.unwrap_or_default());
        }
        self.parts.get_mut(cause).expect("just inserted")
    }
}

impl Meanwhile {
    fn add(&mut self, did: &Did, time: Nanos) {
        match did {
            Did::Run => self.ran += time,
            Did::Sleep(_) => self.slept += time,
            Did::Throttle => self.throttled += time,
            Did::Stop => self.stopped += time,
            Did::Wait(behind) => *self.waited.entry(behind.clone()).or_default() += time,
            Did::Unknown => {}
        }
    }

    fn close(self, level: u32, thread: Thread) -> Link {
        let mut waited: Vec<_> =
            self.waited.into_iter().map(|(thread, time)| Behind { thread, time }).collect();
        waited.sort_by_key(|behind| Reverse(behind.time));
        let Self { ran, slept, throttled, stopped, .. } = self;
        Link { level, thread, ran, slept, throttled, stopped, waited }
    }
}

impl Wakes {
    fn close(self, by: Waker, lock: Option<Lock>) -> Woken {
        let chain = self.chain.into_iter().map(|((level, thread), did)| did.close(level, thread)).collect();
        Woken { by, lock, count: self.count, time: self.time, chain }
    }
}

impl Sum {
    /// Adds time; returns true if it belongs to a new occurrence.
    fn add(&mut self, at: Time, time: Nanos, activity: &Activity) -> bool {
        let before = self.count;
        let (began, occurrence) = match self.last {
            Some((serial, began, before)) if serial == activity.serial => (began, before + time),
            _ => {
                self.count += 1;
                for message in activity.messages.iter().flat_map(|messages| messages.iter()) {
                    *self.senders.entry(message.clone()).or_default() += 1;
                }
                (at, time)
            }
        };
        self.last = Some((activity.serial, began, occurrence));
        self.longer(occurrence, Some(began));
        self.time += time;
        self.inferred += if activity.is_inferred { time } else { Nanos::ZERO };
        if let Some(function) = &activity.inside {
            *self.inside.entry(function.clone()).or_default() += time;
        }
        if let Some(awaited) = &activity.file
            && (self.files.len() < FILES_MAX || self.files.contains_key(awaited))
        {
            *self.files.entry(awaited.clone()).or_default() += time;
        }
        if let Some(thread) = &activity.beside {
            *self.beside.entry(thread.clone()).or_default() += time;
        }
        self.count > before
    }

    /// Updates the longest occurrence.
    fn longer(&mut self, time: Nanos, at: Option<Time>) {
        if time > self.longest || self.longest_at.is_none() {
            (self.longest, self.longest_at) = (time, at);
        }
    }

    fn close(self, cause: Cause) -> Part {
        let mut inside: Vec<_> =
            self.inside.into_iter().map(|(function, time)| Inside { function, time }).collect();
        inside.sort_by_key(|inside| Reverse(inside.time));
        let mut beside: Vec<_> =
            self.beside.into_iter().map(|(thread, time)| Behind { thread: Some(thread), time }).collect();
        beside.sort_by_key(|beside| Reverse(beside.time));
        let mut senders: Vec<_> =
            self.senders.into_iter().map(|((by, function), count)| Sender { by, function, count }).collect();
        senders.sort_by_key(|sender| Reverse(sender.count));
        let mut files: Vec<_> =
            self.files.into_iter().map(|((file, by), time)| ReadFile { file, by, time }).collect();
        files.sort_by_key(|read| Reverse(read.time));
        let mut wakers: Vec<_> =
            self.wakers.into_iter().map(|((by, lock), wakes)| wakes.close(by, lock)).collect();
        wakers.sort_by_key(|woken| Reverse(woken.time));
        let Self { time, entry, inferred, count, longest, longest_at, .. } = self;
        let at_most = if matters(inferred, time) { Certainty::Inferred } else { Certainty::Known };
        let certainty = cause.entry().certainty.max(at_most);
        Part {
            cause,
            time,
            usual: Nanos::ZERO,
            entry,
            quota: None,
            count,
            longest,
            longest_at: longest_at.unwrap_or(Time::MIN),
            certainty,
            may_be_stolen: false,
            inside,
            beside,
            senders,
            files,
            wakers,
        }
    }
}
