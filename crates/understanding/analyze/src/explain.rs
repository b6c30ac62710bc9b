//! The second pass: it explains the intervals that the first one found.

mod story;

use crate::Quotas;
use crate::account::OwnTime;
use crate::cause::{Cause, Thread};
use crate::cause_ranking::CauseRanking;
use crate::entry_cost::EntryCosts;
use crate::fibers::Followed;
use crate::findings::Stage;
use crate::findings::{Contradicted, Explanation, Findings, Main, SCHEMA_VERSION, Stolen};
use crate::lost::Losses;
use crate::missing::{Missing, Unrecorded, missing};
use crate::thread::Happening;
use crate::track::Tracker;
use crate::usual::UsualSample;
use foldhash::HashMap;
use sordino_event::{ClassId, Cpu, Loss, Nanos, Tid, Time};
use sordino_intervals::{EndFields, Interval, IntervalRule, Survey};
use sordino_timeline::{
    Arch, Consumer, Contradiction, Item, Kernel, Moment, Payer, Recorded, System, ThreadOrFiber,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use story::{Role, Story, by_owner, default_limit};

/// The maximum number of records about time that the hypervisor took: those of a day, at ten a second.
const STOLEN_MAX: usize = 864_000;

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

/// The second pass over the trace that a [`Finder`](sordino_intervals::Finder) has read: it finds the causes.
#[derive(Debug)]
pub struct Explainer {
    survey: Survey,
    limit: Nanos,
    tracker: Tracker,
    fibers: Followed,
    /// The stories of the threads, by the tracker's index, then those of the fibers.
    stories: Vec<Story>,
    /// The number of stories of threads.
    threads: usize,
    /// The stories whose thread has no name yet.
    nameless: HashMap<Tid, usize>,
    losses: Losses,
    stolen: Vec<Stolen>,
    /// The meaning of time in which a thread has the CPU and no event gives a reason.
    own: OwnTime,
    entry_costs: EntryCosts<Role>,
    sample: UsualSample,
    ends: EndFields,
    quotas: Quotas,
    disorders: u64,
    /// The contradictions in the records about fibers, by kind.
    contradictions: BTreeMap<&'static str, Contradicted>,
    missing: Vec<Missing>,
    detailed: Vec<Explanation>,
    /// The explanations of the stages of the intervals in `detailed`.
    stages: HashMap<Interval, Explanation>,
    ranking: CauseRanking,
    /// The end of the last interval.
    end: Time,
}

/// The event of a loop that always does the same: that of npt.
const CONSTANT: &str = "npt:loop";

impl Explainer {
    /// Creates the second pass for the intervals of `survey` in a trace that has the events `recorded`.
    pub fn new(survey: Survey, recorded: Recorded, options: ExplainOptions) -> Self {
        let limit = options.limit.unwrap_or_else(|| default_limit(&survey));
        let by_owner = by_owner(&survey, limit, options);
        let mut ends = survey.end_fields();
        for looked in by_owner.values() {
            let on_their_own = looked.iter().filter(|(_, role)| role.on_its_own);
            on_their_own.for_each(|((interval, _), _)| ends.keep(interval));
        }
        let (mut tids, mut fibers) = (Vec::new(), Vec::new());
        // In their order, threads come before fibers.
        for (index, owner) in by_owner.keys().enumerate() {
            match owner {
                ThreadOrFiber::Thread(tid) => tids.push(*tid),
                ThreadOrFiber::Fiber(fiber) => fibers.push((*fiber, index)),
            }
        }
        let own = match Unrecorded::of(recorded) {
            Some(events) => OwnTime::Unrecorded(events),
            None if survey.rule == Some(IntervalRule::between(CONSTANT)) => {
                OwnTime::Constant(survey.statistics.median)
            }
            None => OwnTime::CodeOr(missing(recorded).into_iter().filter(Missing::shows_running).collect()),
        };
        Self {
            limit,
            tracker: Tracker::new(&tids, recorded, options.arch),
            nameless: tids.iter().copied().zip(0..).collect(),
            threads: tids.len(),
            fibers: Followed::new(fibers),
            stories: by_owner.into_iter().map(Story::new).collect(),
            losses: Losses::default(),
            stolen: Vec::new(),
            entry_costs: EntryCosts::new(matches!(own, OwnTime::Constant(_))),
            own,
            sample: UsualSample::default(),
            ends,
            quotas: Quotas::default(),
            disorders: 0,
            contradictions: BTreeMap::new(),
            missing: missing(recorded),
            detailed: Vec::new(),
            stages: HashMap::default(),
            ranking: CauseRanking::default(),
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

    /// Returns the findings after the last item.
    pub fn finish(mut self) -> Findings {
        self.tracker.finish(self.end);
        self.tell(None);
        for (story, happening) in self.fibers.finish(self.tracker.now()) {
            self.add(story, &happening, None);
        }
        let held = self.entry_costs.settle();
        held.into_iter().for_each(|(explanation, role)| self.count(explanation, role));
        let (usual, is_constant) = (self.sample.finish(), matches!(self.own, OwnTime::Constant(_)));
        for explained in &mut self.detailed {
            explained.stolen = stolen_about(&explained.interval, &self.stolen);
            usual.judge(explained, is_constant);
            for part in &mut explained.parts {
                let varies = match part.cause {
                    Cause::Unexplained => true,
                    ref cause => !is_constant && cause.is_own_code(),
                };
                part.may_be_stolen = varies && !explained.stolen.is_empty();
                part.quota = self.quotas.of(&part.cause, explained.interval.pid, &explained.thread);
            }
            (explained.begin_fields, explained.end_fields) = self.ends.of(&explained.interval);
            explained.stages = stages_of(&self.survey, &explained.interval, &self.stages);
        }
        self.detailed.sort_by_key(|explained| (Reverse(explained.length), explained.interval.clone()));
        let Survey { title, statistics, longest, unpaired, broken, .. } = self.survey;
        let all_kept = longest.len() as u64 == statistics.count;
        Findings {
            schema: "sordino-findings",
            version: SCHEMA_VERSION,
            rule: title,
            choice: None,
            statistics,
            limit: self.limit,
            ranked: self.ranking.intervals(),
            more: !all_kept && longest.last().is_some_and(|shortest| shortest.length() > self.limit),
            intervals: self.detailed,
            ranking: self.ranking.finish(&usual),
            unpaired,
            broken,
            lost: self.losses.total(),
            disorders: self.disorders,
            contradictions: self.contradictions.into_values().collect(),
            missing_switches: self.tracker.missing_switches(),
            missing: self.missing,
        }
    }

    /// Sets the name of an event's thread, if no other event about the thread has.
    fn name(&mut self, moment: &Moment<'_>) {
        let Some(tid) = moment.tid else { return };
        let Some(&index) = self.nameless.get(&tid) else { return };
        let thread = &mut self.stories[index].thread;
        if thread.comm.is_none() {
            *thread = Thread::of(moment.system, tid);
        }
        if thread.comm.is_some() {
            self.nameless.remove(&tid);
        }
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
        if self.tracker.happenings.is_empty() {
            return;
        }
        for happening in std::mem::take(&mut self.tracker.happenings) {
            for (story, happening) in self.fibers.derived(&happening) {
                self.add(story, &happening, system);
            }
            let (Happening::Spent { thread, .. }
            | Happening::Woken { thread, .. }
            | Happening::Moved { thread, .. }) = happening;
            // Other threads are followed only as they carry fibers.
            if thread < self.threads {
                self.add(thread, &happening, system);
            }
        }
    }

    /// Adds a happening to the accounts of a thread or fiber.
    fn add(&mut self, index: usize, happening: &Happening, system: Option<&System>) {
        let (Happening::Spent { to: at, .. } | Happening::Woken { at, .. } | Happening::Moved { at, .. }) =
            *happening;
        let story = &mut self.stories[index];
        story.open_until(at);
        if story.open.is_empty() {
            return;
        }
        if let Some(system) = system {
            story.name(system);
        }
        let accounts = story.open.iter_mut().map(|(account, _)| account);
        match happening {
            Happening::Spent { from, to, activity, .. } => {
                let payer = Payer::Owner(story.owner);
                let overhead =
                    |from, to| system.map_or(Nanos::ZERO, |system| system.overhead(payer, from, to));
                accounts.for_each(|account| account.spent((*from, *to), activity, overhead));
                self.close(index, *to);
            }
            Happening::Woken { at, wake_up, .. } => {
                accounts.for_each(|account| account.woken(*at, wake_up));
            }
            Happening::Moved { at, from, to, .. } => {
                accounts.for_each(|account| account.moved(*at, *from, *to));
            }
        }
    }

    /// Gives the fibers their positions after an event.
    fn follow(&mut self, moment: &Moment<'_>) {
        let changes = self.fibers.changes(moment, &mut self.tracker);
        // Until now, they had their positions before.
        self.tell(Some(moment.system));
        for change in changes {
            let story = change.0;
            for happening in self.fibers.change(change, moment, self.tracker.now()) {
                self.add(story, &happening, Some(moment.system));
            }
        }
    }

    fn lose_fibers(&mut self, loss: &Loss) {
        let Some(pid) = loss.pid.filter(|_| !self.fibers.is_empty()) else { return };
        self.tracker.step(loss.from);
        self.fibers.carriers(pid).into_iter().for_each(|thread| self.tracker.account(thread));
        self.tell(None);
        for (story, happening) in self.fibers.lose(pid, self.tracker.now()) {
            self.add(story, &happening, None);
        }
    }

    fn contradict(&mut self, moment: &Moment<'_>) {
        let Some(Contradiction { time, pid, what, .. }) = moment.contradiction() else { return };
        let kind = what.kind();
        let first = || Contradicted { kind, count: 0, at: time, pid, text: what.to_string() };
        self.contradictions.entry(kind).or_insert_with(first).count += 1;
    }

    /// Closes the thread's accounts that end by `now`.
    fn close(&mut self, thread: usize, now: Time) {
        let story = &mut self.stories[thread];
        let ended = story.open.extract_if(.., |(account, _)| account.interval.end <= now);
        let mut ready = Vec::new();
        for (account, role) in ended {
            let lost = self.losses.within(&account.interval);
            let entry = self.tracker.entry_cost.typical();
            let explanation = account.close(story.thread.clone(), self.own.clone(), entry, lost);
            let explanation = Explanation { fiber: story.fiber.clone(), ..explanation };
            ready.append(&mut self.entry_costs.take(explanation, role));
        }
        if matches!(story.owner, ThreadOrFiber::Fiber(_)) && story.open.is_empty() && story.ahead.is_empty() {
            self.fibers.forget(thread);
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

impl Consumer for Explainer {
    fn take(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(moment) => {
                self.steal(moment);
                self.ends.take(moment.event, moment.cpu);
                self.name(moment);
                self.contradict(moment);
                self.tracker.take(moment);
                self.tell(Some(moment.system));
                self.follow(moment);
            }
            Item::Loss(loss, _) => {
                let begins = self.stories.iter().filter_map(Story::earliest);
                self.losses.add(loss, || begins.min().unwrap_or(Time::MAX));
                self.tracker.lose(loss);
                self.tell(None);
                self.lose_fibers(loss);
            }
            Item::Disorder(_) => self.disorders += 1,
        }
    }

    fn reads_fields(&self, class: ClassId) -> bool {
        self.ends.reads(class)
    }

    fn needs_lead(&self) -> bool {
        true
    }
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
