//! The second pass: what took the time in the intervals that the first one found.

use crate::account::Account;
use crate::cause::{Thread, Unrecorded};
use crate::findings::{Explanation, Findings, Missing, SCHEMA_VERSION, Stolen};
use crate::lost::Losses;
use crate::ranking::Ranking;
use crate::syscall::Arch;
use crate::thread::Happening;
use crate::track::Tracker;
use crate::{Interval, Survey};
use sordino_event::{Cpu, Nanos, Tid, Time};
use sordino_timeline::{Item, Kernel, Moment, Recorded, System};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// As many notes of time that the hypervisor took are kept: a day of them, ten a second.
const STOLEN_MAX: usize = 864_000;

/// Which intervals to explain, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// As many of the longest intervals are explained one by one.
    pub longest: usize,
    /// Intervals that are longer are in the ranking, and no others are explained one by one. By default the
    /// ranking has those that took more than twice the median, and the longest are explained however short.
    pub limit: Option<Nanos>,
    /// Where the trace was recorded.
    pub arch: Arch,
}

impl Default for Options {
    fn default() -> Self {
        Self { longest: 10, limit: None, arch: Arch::default() }
    }
}

/// The second pass over the same trace as a [`Finder`](crate::Finder)'s: what took the time.
#[derive(Debug)]
pub struct Explainer {
    survey: Survey,
    limit: Nanos,
    tracker: Tracker,
    /// By the tracker's index.
    stories: Vec<Story>,
    /// Those whose thread has no name yet.
    nameless: Vec<usize>,
    losses: Losses,
    stolen: Vec<Stolen>,
    /// What is not recorded that would tell whether threads had a CPU.
    unrecorded: Option<Unrecorded>,
    disorders: u64,
    missing: Vec<Missing>,
    detailed: Vec<Explanation>,
    ranking: Ranking,
    /// When the last interval ends.
    end: Time,
}

/// The intervals of one thread.
#[derive(Debug)]
struct Story {
    thread: Thread,
    /// Those that have not begun, the earliest first; and whether to explain each on its own.
    ahead: VecDeque<(Interval, bool)>,
    open: Vec<(Account, bool)>,
}

impl Explainer {
    /// Explains intervals of `survey` in a trace that has the events `recorded`.
    pub fn new(survey: Survey, recorded: Recorded, options: Options) -> Self {
        let limit = options.limit.unwrap_or(Nanos(survey.statistics.median.0.saturating_mul(2)));
        let mut by_thread: BTreeMap<Tid, Vec<(Interval, bool)>> = BTreeMap::new();
        for (place, interval) in survey.longest.iter().enumerate() {
            let is_over = interval.length() > limit;
            let on_its_own = place < options.longest && (is_over || options.limit.is_none());
            if is_over || on_its_own {
                by_thread.entry(interval.tid).or_default().push((interval.clone(), on_its_own));
            }
        }
        let tids: Vec<Tid> = by_thread.keys().copied().collect();
        let story = |(tid, mut intervals): (Tid, Vec<_>)| {
            intervals.sort_unstable();
            let thread = Thread { tid, comm: None, priority: None };
            Story { thread, ahead: intervals.into(), open: Vec::new() }
        };
        Self {
            limit,
            tracker: Tracker::new(&tids, recorded, options.arch),
            nameless: (0..by_thread.len()).collect(),
            stories: by_thread.into_iter().map(story).collect(),
            losses: Losses::default(),
            stolen: Vec::new(),
            unrecorded: Unrecorded::of(recorded),
            disorders: 0,
            missing: missing(recorded),
            detailed: Vec::new(),
            ranking: Ranking::default(),
            end: survey.longest.iter().map(|interval| interval.end).max().unwrap_or(Time::MIN),
            survey,
        }
    }

    /// Takes the next item of the trace.
    pub fn take(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(moment) => {
                self.steal(moment);
                self.name(moment);
                self.tracker.take(moment);
                self.tell(Some(moment.system));
            }
            Item::Loss(loss) => {
                let begins = self.stories.iter().filter_map(Story::earliest);
                self.losses.add(loss, || begins.min().unwrap_or(Time::MAX));
                self.tracker.lose(loss);
                self.tell(None);
            }
            Item::Disorder(_) => self.disorders += 1,
        }
    }

    /// What was found.
    pub fn finish(mut self) -> Findings {
        self.tracker.finish(self.end);
        self.tell(None);
        for explained in &mut self.detailed {
            explained.stolen = stolen_about(&explained.interval, &self.stolen);
        }
        self.detailed.sort_by_key(|explained| (Reverse(explained.length), explained.interval.clone()));
        let Survey { rule, statistics, longest, unpaired, broken } = self.survey;
        let all_kept = longest.len() as u64 == statistics.count;
        Findings {
            schema: "sordino-findings",
            version: SCHEMA_VERSION,
            rule: rule.to_string(),
            choice: None,
            statistics,
            limit: self.limit,
            ranked: self.ranking.intervals,
            more: !all_kept && longest.last().is_some_and(|shortest| shortest.length() > self.limit),
            intervals: self.detailed,
            ranking: self.ranking.finish(),
            unpaired,
            broken,
            lost: self.losses.total(),
            disorders: self.disorders,
            missing: self.missing,
        }
    }

    /// Names the thread of an event, if nothing that happened to it has.
    fn name(&mut self, moment: &Moment<'_>) {
        let stories = &mut self.stories;
        self.nameless.retain(|&index| {
            let thread = &mut stories[index].thread;
            if moment.tid == Some(thread.tid) && thread.comm.is_none() {
                *thread = Thread::of(moment.system, thread.tid);
            }
            thread.comm.is_none()
        });
    }

    /// Keeps what the hypervisor took.
    fn steal(&mut self, moment: &Moment<'_>) {
        if let Some(Kernel::Stolen { cpu, time, window }) = moment.kernel
            && self.stolen.len() < STOLEN_MAX
        {
            let to = moment.event.time;
            self.stolen.push(Stolen { cpu: cpu.0, time, from: to - window, to });
        }
    }

    /// Adds what happened to the intervals.
    fn tell(&mut self, system: Option<&System>) {
        for happening in std::mem::take(&mut self.tracker.happenings) {
            let (Happening::Spent { thread, to: at, .. }
            | Happening::Woken { thread, at, .. }
            | Happening::Moved { thread, at, .. }) = happening;
            let story = &mut self.stories[thread];
            story.open_until(at);
            if story.open.is_empty() {
                continue;
            }
            if let Some(system) = system {
                story.thread = Thread::of(system, story.thread.tid);
            }
            let accounts = story.open.iter_mut().map(|(account, _)| account);
            match &happening {
                Happening::Spent { from, to, activity, .. } => {
                    accounts.for_each(|account| account.spent(*from, *to, activity));
                    self.close(thread, *to);
                }
                Happening::Woken { at, wake_up, .. } => {
                    accounts.for_each(|account| account.woken(*at, wake_up));
                }
                Happening::Moved { at, from, to, .. } => {
                    accounts.for_each(|account| account.moved(*at, *from, *to));
                }
            }
        }
    }

    /// Closes the thread's accounts that end by `now`.
    fn close(&mut self, thread: usize, now: Time) {
        let story = &mut self.stories[thread];
        for (account, on_its_own) in story.open.extract_if(.., |(account, _)| account.interval.end <= now) {
            let lost = self.losses.within(&account.interval);
            let explanation =
                account.close(story.thread.clone(), self.survey.statistics.median, self.unrecorded, lost);
            if explanation.length > self.limit {
                self.ranking.add(&explanation);
            }
            if on_its_own {
                self.detailed.push(explanation);
            }
        }
    }
}

impl Story {
    /// Opens an account for each interval that has begun.
    fn open_until(&mut self, now: Time) {
        while let Some((interval, on_its_own)) = self.ahead.pop_front_if(|(ahead, _)| ahead.begin <= now) {
            self.open.push((Account::open(interval), on_its_own));
        }
    }

    /// When the earliest interval begins that is not closed.
    fn earliest(&self) -> Option<Time> {
        let ahead = self.ahead.front().map(|(interval, _)| interval.begin);
        self.open.iter().map(|(account, _)| account.interval.begin).chain(ahead).min()
    }
}

/// What was taken of the interval's CPUs about its time.
fn stolen_about(interval: &Interval, stolen: &[Stolen]) -> Vec<Stolen> {
    let is_its = |stolen: &&Stolen| {
        let on_cpu = [interval.begin_cpu, interval.end_cpu].contains(&Some(Cpu(stolen.cpu)));
        on_cpu && stolen.from < interval.end && interval.begin < stolen.to
    };
    stolen.iter().filter(is_its).copied().collect()
}

fn missing(recorded: Recorded) -> Vec<Missing> {
    let all = [
        (recorded.switches, Missing::Switches),
        (recorded.wakeups, Missing::Wakeups),
        (recorded.irqs, Missing::Irqs),
        (recorded.softirqs, Missing::Softirqs),
        (recorded.vectors, Missing::Vectors),
        (recorded.syscalls, Missing::Syscalls),
        (recorded.faults, Missing::Faults),
        (recorded.nmis, Missing::Nmis),
    ];
    all.into_iter().filter(|(is_recorded, _)| !is_recorded).map(|(_, missing)| missing).collect()
}
