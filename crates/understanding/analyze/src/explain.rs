//! The second pass: it explains the intervals that the first one found.

use crate::account::{Account, OwnTime};
use crate::cause::{Thread, Unrecorded};
use crate::ends::EndFields;
use crate::entry_cost::EntryCosts;
use crate::findings::{Explanation, Findings, Main, Missing, SCHEMA_VERSION, Stolen};
use crate::lost::Losses;
use crate::ranking::Ranking;
use crate::route::Stage;
use crate::syscall::Arch;
use crate::thread::Happening;
use crate::track::Tracker;
use crate::usual::{UsualSample, outside};
use crate::{Interval, IntervalRule, Quotas, Survey};
use sordino_event::{Cpu, Nanos, Tid, Time};
use sordino_timeline::{Item, Kernel, Moment, Recorded, System};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// The maximum number of records about time that the hypervisor took: those of a day, at ten a second.
const STOLEN_MAX: usize = 864_000;

/// The maximum number of intervals in the ranking that are not longer than twice the median.
const RANKED_FROM: usize = 1000;

/// The selection of intervals to explain, and the machine of the trace.
#[derive(Clone, Copy, Debug)]
pub struct ExplainOptions {
    /// The number of the longest intervals that are explained one by one.
    pub longest: usize,
    /// The length above which intervals are in the ranking; no shorter ones are explained one by one. By default the
    /// ranking has the unusual intervals and those that took more than twice the median, and the longest are explained
    /// however short.
    pub limit: Option<Nanos>,
    /// The architecture on which the trace was recorded.
    pub arch: Arch,
}

impl Default for ExplainOptions {
    fn default() -> Self {
        Self { longest: 10, limit: None, arch: Arch::default() }
    }
}

/// The second pass over the trace that a [`Finder`](crate::Finder) has read: it finds the causes.
#[derive(Debug)]
pub struct Explainer {
    survey: Survey,
    limit: Nanos,
    tracker: Tracker,
    /// The stories of the threads, by the tracker's index.
    stories: Vec<Story>,
    /// The indexes of stories whose thread has no name yet.
    nameless: Vec<usize>,
    losses: Losses,
    stolen: Vec<Stolen>,
    /// The meaning of time in which a thread has the CPU and no event gives a reason.
    own: OwnTime,
    entry_costs: EntryCosts<Role>,
    sample: UsualSample,
    ends: EndFields,
    quotas: Quotas,
    disorders: u64,
    missing: Vec<Missing>,
    detailed: Vec<Explanation>,
    /// The explanations of the stages of the intervals in `detailed`.
    stages: HashMap<Interval, Explanation>,
    ranking: Ranking,
    /// The end of the last interval.
    end: Time,
}

/// The intervals of one thread.
#[derive(Debug)]
struct Story {
    thread: Thread,
    /// The intervals that have not begun, the earliest first.
    ahead: VecDeque<(Interval, Role)>,
    open: Vec<(Account, Role)>,
}

/// The purposes for which an interval is explained.
#[derive(Clone, Copy, Debug, Default)]
struct Role {
    /// The interval is listed with its explanation.
    on_its_own: bool,
    /// The interval counts in the ranking.
    is_ranked: bool,
    /// The interval belongs to the sample that defines usual times.
    is_sample: bool,
    /// The interval is a stage of one that is listed.
    is_stage: bool,
}

/// The event of a loop that always does the same: that of npt.
const CONSTANT: &str = "npt:loop";

impl Explainer {
    /// Creates the second pass for the intervals of `survey` in a trace that has the events `recorded`.
    pub fn new(survey: Survey, recorded: Recorded, options: ExplainOptions) -> Self {
        let limit = options.limit.unwrap_or_else(|| default_limit(&survey));
        let by_thread = by_thread(&survey, limit, options);
        let mut ends = EndFields::new(survey.names.0.clone(), survey.names.1.clone());
        for looked in by_thread.values() {
            let on_their_own = looked.iter().filter(|(_, role)| role.on_its_own);
            on_their_own.for_each(|((interval, _), _)| ends.keep(interval));
        }
        let tids: Vec<Tid> = by_thread.keys().copied().collect();
        let story = |(tid, intervals): (Tid, Looked)| {
            let thread = Thread { tid, comm: None, priority: None, is_recorder: false };
            Story {
                thread,
                ahead: intervals.into_iter().map(|((interval, _), role)| (interval, role)).collect(),
                open: Vec::new(),
            }
        };
        let own = match Unrecorded::of(recorded) {
            Some(events) => OwnTime::Unrecorded(events),
            None if survey.rule == IntervalRule::between(CONSTANT) => {
                OwnTime::Constant(survey.statistics.median)
            }
            None if recorded.syscalls => OwnTime::Code,
            None => OwnTime::OrSyscall,
        };
        Self {
            limit,
            tracker: Tracker::new(&tids, recorded, options.arch),
            nameless: (0..by_thread.len()).collect(),
            stories: by_thread.into_iter().map(story).collect(),
            losses: Losses::default(),
            stolen: Vec::new(),
            entry_costs: EntryCosts::new(matches!(own, OwnTime::Constant(_))),
            own,
            sample: UsualSample::default(),
            ends,
            quotas: Quotas::default(),
            disorders: 0,
            missing: missing(recorded),
            detailed: Vec::new(),
            stages: HashMap::new(),
            ranking: Ranking::default(),
            end: survey
                .longest
                .iter()
                .chain(&survey.sample)
                .map(|interval| interval.end)
                .max()
                .unwrap_or(Time::MIN),
            survey,
        }
    }

    /// Sets the quotas of the programs' control groups.
    #[must_use]
    pub fn with_quotas(self, quotas: Quotas) -> Self {
        Self { quotas, ..self }
    }

    /// Processes the next item of the trace.
    pub fn take(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(moment) => {
                self.steal(moment);
                self.ends.take(moment.event, moment.cpu);
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

    /// Returns the findings after the last item.
    pub fn finish(mut self) -> Findings {
        self.tracker.finish(self.end);
        self.tell(None);
        let held = self.entry_costs.settle();
        held.into_iter().for_each(|(explanation, role)| self.count(explanation, role));
        let (usual, is_constant) = (self.sample.finish(), matches!(self.own, OwnTime::Constant(_)));
        for explained in &mut self.detailed {
            explained.stolen = stolen_about(&explained.interval, &self.stolen);
            usual.judge(explained, is_constant);
            for part in &mut explained.parts {
                part.quota = self.quotas.of(&part.cause, explained.interval.pid);
            }
            (explained.begin_fields, explained.end_fields) = self.ends.of(&explained.interval);
            explained.stages = stages_of(&self.survey, &explained.interval, &self.stages);
        }
        self.detailed.sort_by_key(|explained| (Reverse(explained.length), explained.interval.clone()));
        let Survey { rule, statistics, longest, unpaired, broken, .. } = self.survey;
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
            ranking: self.ranking.finish(&usual),
            unpaired,
            broken,
            lost: self.losses.total(),
            disorders: self.disorders,
            missing_switches: self.tracker.missing_switches(),
            missing: self.missing,
        }
    }

    /// Sets the name of an event's thread, if no other event about the thread has.
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

    /// Keeps a record of the time that the hypervisor took.
    fn steal(&mut self, moment: &Moment<'_>) {
        if let Some(Kernel::Stolen { cpu, time, window }) = moment.kernel
            && self.stolen.len() < STOLEN_MAX
        {
            let to = moment.event.time;
            self.stolen.push(Stolen { cpu: cpu.0, time, from: to - window, to });
        }
    }

    /// Adds the tracker's happenings to the accounts of the intervals.
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
        let ended = story.open.extract_if(.., |(account, _)| account.interval.end <= now);
        let mut ready = Vec::new();
        for (account, role) in ended {
            let lost = self.losses.within(&account.interval);
            let entry = self.tracker.entry_cost.typical();
            let explanation = account.close(story.thread.clone(), self.own, entry, lost);
            ready.append(&mut self.entry_costs.take(explanation, role));
        }
        ready.into_iter().for_each(|(explanation, role)| self.count(explanation, role));
    }

    fn count(&mut self, explanation: Explanation, role: Role) {
        if role.is_ranked {
            self.ranking.add(&explanation, matches!(self.own, OwnTime::Constant(_)));
        }
        if role.is_sample {
            self.sample.add(&explanation);
        }
        if role.is_stage {
            self.stages.insert(explanation.interval.clone(), explanation.clone());
        }
        if role.on_its_own {
            self.detailed.push(explanation);
        }
    }
}

impl Story {
    /// Opens an account for each interval that has begun.
    fn open_until(&mut self, now: Time) {
        while let Some((interval, role)) = self.ahead.pop_front_if(|(ahead, _)| ahead.begin <= now) {
            self.open.push((Account::open(interval), role));
        }
    }

    /// Returns the begin of the earliest interval that is not closed.
    fn earliest(&self) -> Option<Time> {
        let ahead = self.ahead.front().map(|(interval, _)| interval.begin);
        self.open.iter().map(|(account, _)| account.interval.begin).chain(ahead).min()
    }
}

/// Returns the limit above which intervals are ranked: twice the median, or less where no more than [`RANKED_FROM`]
/// intervals are far outside of the usual lengths.
fn default_limit(survey: &Survey) -> Nanos {
    let twice = Nanos(survey.statistics.median.0.saturating_mul(2));
    let many = survey.longest.get(RANKED_FROM).map_or(Nanos::ZERO, Interval::length);
    outside(&survey.sample).map_or(twice, |outside| twice.min(outside.max(many)))
}

/// The intervals of a thread that are explained, with their purposes. Equal intervals are numbered.
type Looked = BTreeMap<(Interval, u32), Role>;

/// The maximum number of threads in the sample besides those of the explained intervals: each is followed through the
/// trace.
const OTHERS_SAMPLED: usize = 32;

fn by_thread(survey: &Survey, limit: Nanos, options: ExplainOptions) -> BTreeMap<Tid, Looked> {
    let mut all: BTreeMap<Tid, Looked> = BTreeMap::new();
    let mut look = |interval: &Interval, alike: &mut HashMap<Interval, u32>, role: Role| {
        let number = alike.entry(interval.clone()).and_modify(|number| *number += 1).or_default();
        let known = all.entry(interval.tid).or_default().entry((interval.clone(), *number)).or_default();
        known.on_its_own |= role.on_its_own;
        known.is_ranked |= role.is_ranked;
        known.is_sample |= role.is_sample;
        known.is_stage |= role.is_stage;
    };
    let mut alike = HashMap::new();
    let mut sampled: BTreeSet<Tid> = BTreeSet::new();
    for (place, interval) in survey.longest.iter().enumerate() {
        let is_over = interval.length() > limit;
        let on_its_own = place < options.longest && (is_over || options.limit.is_none());
        let is_ranked = is_over || on_its_own && survey.statistics.max <= limit;
        if is_ranked || on_its_own {
            look(interval, &mut alike, Role { on_its_own, is_ranked, ..Role::default() });
        }
        if on_its_own {
            sampled.insert(interval.tid);
            for (_, stage) in survey.stages(interval) {
                look(&stage, &mut HashMap::new(), Role { is_stage: true, ..Role::default() });
            }
        }
    }
    let most = sampled.len() + OTHERS_SAMPLED;
    let mut alike = HashMap::new();
    for interval in &survey.sample {
        if sampled.len() < most {
            sampled.insert(interval.tid);
        }
        if sampled.contains(&interval.tid) {
            look(interval, &mut alike, Role { is_sample: true, ..Role::default() });
        }
    }
    all
}

/// Returns the stages of a request with their explanations; none if one of them has none.
fn stages_of(survey: &Survey, interval: &Interval, explained: &HashMap<Interval, Explanation>) -> Vec<Stage> {
    let stage = |([from, to], stage): ([Arc<str>; 2], Interval)| {
        let mut explanation = explained.get(&stage)?.clone();
        // Usual times of a stage are not known.
        explanation.main = (!explanation.parts.is_empty()).then_some(Main {
            part: 0,
            excess: None,
            others: 0,
            others_time: Nanos::ZERO,
        });
        Some(Stage { from, to, explanation })
    };
    survey.stages(interval).into_iter().map(stage).collect::<Option<_>>().unwrap_or_default()
}

/// Returns the records of time that the hypervisor took from the interval's CPUs around its time.
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
        (recorded.migrations, Missing::Migrations),
        (recorded.irqs, Missing::Irqs),
        (recorded.softirqs, Missing::Softirqs),
        (recorded.vectors, Missing::Vectors),
        (recorded.syscalls, Missing::Syscalls),
        (recorded.faults, Missing::Faults),
        (recorded.nmis, Missing::Nmis),
        (recorded.signals, Missing::Signals),
    ];
    all.into_iter().filter(|(is_recorded, _)| !is_recorded).map(|(_, missing)| missing).collect()
}
