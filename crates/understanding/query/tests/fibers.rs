//! Waits and paths of fibers, compared with a program whose every step is known.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use sordino_query::{Measure, PathOf, Query};
use sordino_timeline::{Consumer, FiberId, Vocabulary};
use std::collections::{BTreeMap, BTreeSet};
use support::{IDLE, Script, ScriptThread};

const PROCESS: i32 = 10;
const THREADS: [ScriptThread; 2] = [ScriptThread(11, "a", 120), ScriptThread(12, "b", 120)];
const FIBERS: usize = 4;
/// The reasons for which a fiber leaves its thread, as events have them.
const ENDED: u64 = 4;
const YIELDED: u64 = 1;
const BLOCKED: u64 = 3;
/// Nanoseconds between two events.
const STEP: i64 = 10;

/// The true state of a fiber.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TrueFiberState {
    Gone,
    Ready { since: i64 },
    On { thread: usize, is_woken: bool },
    Blocked,
}

/// A wait: the fiber, its begin and its end, and the last time before at which it got a thread or was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FiberWait {
    fiber: u64,
    from: i64,
    to: i64,
    shown: i64,
}

/// Code that wakes a fiber: another one, or a thread's own.
#[derive(Clone, Copy, Debug)]
enum WakingCode {
    Fiber(usize),
    Thread(usize),
}

/// A stretch for which a fiber was blocked, in steps, and the code that ended it.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    fiber: usize,
    from: usize,
    to: usize,
    by: WakingCode,
}

/// The total of each link of each fiber's path.
type Links = BTreeMap<(u64, String), i64>;

/// A program that carries out given actions, and records its events unless they are lost.
struct FiberProgram {
    script: Script,
    now: i64,
    fibers: [TrueFiberState; FIBERS],
    shown: [i64; FIBERS],
    waits: Vec<FiberWait>,
    /// The fibers after each step, each with the number of fibers that had its number before and ended.
    past: Vec<[(TrueFiberState, u32); FIBERS]>,
    lives: [u32; FIBERS],
    /// The step at which each fiber's present activity began.
    changed: [usize; FIBERS],
    sleeps: Vec<Sleep>,
    links: Links,
    /// The thread whose records are missing, and the time.
    lost: Option<(usize, i64, i64)>,
}

impl FiberProgram {
    fn new(lost: Option<(usize, i64, i64)>) -> Self {
        let mut script = Script::new();
        for (cpu, thread) in THREADS.into_iter().enumerate() {
            script.at(cpu as i64).cpu(cpu as u32).of(PROCESS).switch(IDLE, 0, thread).fiber_enter(thread);
            // The trace has to declare the class, even if no fiber is made.
            script.fiber_switch(thread, 0, 0, YIELDED);
        }
        if let Some((thread, from, to)) = lost {
            script.at(from).cpu(thread as u32).lose_user(THREADS[thread], to, 1);
        }
        Self {
            script,
            now: 0,
            fibers: [TrueFiberState::Gone; FIBERS],
            shown: [0; FIBERS],
            waits: Vec::new(),
            past: vec![[(TrueFiberState::Gone, 0); FIBERS]],
            lives: [0; FIBERS],
            changed: [0; FIBERS],
            sleeps: Vec::new(),
            links: Links::new(),
            lost,
        }
    }

    /// Returns the link of a fiber's path that a step in the time of `fiber` belongs to.
    fn link(&self, own: usize, fiber: usize, step: usize) -> String {
        let whose = |what: &str| match own == fiber {
            true => what.to_owned(),
            false => format!("fiber {} {what}", fiber + 1),
        };
        let (state, life) = self.past[step][fiber];
        let is_it = |sleep: &&Sleep| sleep.fiber == fiber && (sleep.from..sleep.to).contains(&step);
        match state {
            _ if life != self.lives[fiber] => whose("is not known"),
            TrueFiberState::Gone => whose("is not known"),
            TrueFiberState::Ready { .. } => whose("waits for a thread"),
            TrueFiberState::On { .. } => whose("runs"),
            TrueFiberState::Blocked => match self.sleeps.iter().find(is_it).map(|sleep| sleep.by) {
                Some(WakingCode::Fiber(by)) => self.link(own, by, step),
                Some(WakingCode::Thread(by)) => format!("{}/{} runs", THREADS[by].1, THREADS[by].0),
                None => whose("is blocked"),
            },
        }
    }

    /// Ends the activity of a fiber since its last change.
    fn enter(&mut self, fiber: usize, state: TrueFiberState) {
        let now = self.past.len();
        if self.fibers[fiber] != TrueFiberState::Gone {
            for step in self.changed[fiber]..now {
                *self.links.entry((fiber as u64 + 1, self.link(fiber, fiber, step))).or_default() += STEP;
            }
        }
        self.lives[fiber] += u32::from(state == TrueFiberState::Gone);
        (self.fibers[fiber], self.changed[fiber]) = (state, now);
    }

    fn record(&mut self, thread: usize, write: impl FnOnce(&mut Script, ScriptThread)) {
        let (now, lost) = (self.now, self.lost);
        if !lost.is_some_and(|(other, from, to)| thread == other && (from..to).contains(&now)) {
            self.script.at(now).cpu(thread as u32).of(PROCESS);
            write(&mut self.script, THREADS[thread]);
        }
    }

    fn act(&mut self, action: (u8, u8, u8)) {
        self.now += STEP;
        self.step(action);
        self.past.push([0, 1, 2, 3].map(|fiber| (self.fibers[fiber], self.lives[fiber])));
    }

    fn step(&mut self, (action, thread, fiber): (u8, u8, u8)) {
        let (now, thread, fiber) = (self.now, usize::from(thread) % 2, usize::from(fiber) % FIBERS);
        let number = |fiber: usize| fiber as u64 + 1;
        let is_here =
            |state: &TrueFiberState| matches!(state, TrueFiberState::On { thread: on, .. } if *on == thread);
        let here = self.fibers.iter().position(is_here);
        match (action % 4, self.fibers[fiber]) {
            (0, TrueFiberState::Gone) => {
                self.enter(fiber, TrueFiberState::Ready { since: now });
                self.shown[fiber] = now;
                self.record(thread, |script, by| _ = script.fiber_new(by, number(fiber), ""));
            }
            (1, state) if state != TrueFiberState::Gone && here != Some(fiber) => {
                match state {
                    TrueFiberState::Blocked => {
                        let by = here.map_or(WakingCode::Thread(thread), WakingCode::Fiber);
                        self.sleeps.push(Sleep { fiber, from: self.changed[fiber], to: self.past.len(), by });
                        self.enter(fiber, TrueFiberState::Ready { since: now });
                    }
                    TrueFiberState::On { thread, .. } => {
                        self.fibers[fiber] = TrueFiberState::On { thread, is_woken: true }
                    }
                    TrueFiberState::Ready { .. } | TrueFiberState::Gone => {}
                }
                self.record(thread, |script, by| _ = script.fiber_wake(by, number(fiber), 0));
            }
            (2 | 3, state) => {
                let comes = matches!(state, TrueFiberState::Ready { .. }).then_some(fiber);
                let why = match (action % 16, here) {
                    (2 | 6, _) => YIELDED,
                    (14, Some(_)) => ENDED,
                    _ => BLOCKED,
                };
                self.switch(thread, here, comes, why);
            }
            _ => {}
        }
    }

    fn switch(&mut self, thread: usize, leaves: Option<usize>, comes: Option<usize>, why: u64) {
        let now = self.now;
        if let Some(leaves) = leaves {
            let is_woken = matches!(self.fibers[leaves], TrueFiberState::On { is_woken: true, .. });
            let state = match (why, is_woken) {
                (ENDED, _) => TrueFiberState::Gone,
                (YIELDED, _) | (_, true) => TrueFiberState::Ready { since: now },
                _ => TrueFiberState::Blocked,
            };
            self.enter(leaves, state);
        }
        if let Some(comes) = comes {
            let TrueFiberState::Ready { since } = self.fibers[comes] else { panic!("{comes} is not ready") };
            let wait = FiberWait { fiber: comes as u64 + 1, from: since, to: now, shown: self.shown[comes] };
            self.waits.push(wait);
            self.enter(comes, TrueFiberState::On { thread, is_woken: false });
            self.shown[comes] = now;
        }
        let [from, to] = [leaves, comes].map(|fiber| fiber.map_or(0, |fiber| fiber as u64 + 1));
        self.record(thread, |script, by| _ = script.fiber_switch(by, from, to, why));
    }
}

/// Returns the waits that the measure finds: the fiber, the begin and the end.
fn found(script: &Script) -> BTreeSet<(u64, i64, i64)> {
    let recorded = Vocabulary::new(&script.classes).recorded();
    let query =
        Query::new(&script.classes, recorded, Measure::FiberWaits, &[]).expect("all events are there");
    let mut query = query.surveying();
    script.play(|item| query.take(item));
    let survey = query.finish_with_survey().1.expect("spans are collected");
    let number = |fiber: Option<FiberId>| fiber.map_or(0, |fiber| fiber.number);
    survey.longest.iter().map(|wait| (number(wait.fiber), wait.begin.0, wait.end.0)).collect()
}

/// Returns the totals of the links of the fibers' paths.
fn links(script: &Script) -> Links {
    let recorded = Vocabulary::new(&script.classes).recorded();
    let query = Query::new(&script.classes, recorded, Measure::Path(PathOf::Fibers), &[]);
    let mut query = query.expect("all events are there");
    script.play(|item| query.take(item));
    let rows = query.finish().rows.into_iter().map(|row| {
        let number = row.labels[0].strip_prefix("fiber ").and_then(|number| number.parse().ok());
        ((number.expect("a fiber without a name"), row.labels[1].to_string()), row.summary.total.0)
    });
    rows.collect()
}

fn actions() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    prop::collection::vec(any::<(u8, u8, u8)>(), 1..300)
}

fn spans<'a>(waits: impl Iterator<Item = &'a FiberWait>) -> BTreeSet<(u64, i64, i64)> {
    waits.map(|wait| (wait.fiber, wait.from, wait.to)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn waits_of_fibers_equal_what_the_program_did(actions in actions()) {
        let mut program = FiberProgram::new(None);
        actions.into_iter().for_each(|action| program.act(action));
        prop_assert_eq!(found(&program.script), spans(program.waits.iter()));
    }

    #[test]
    fn waits_of_fibers_that_may_touch_a_loss_are_apart(
        actions in actions(),
        thread in 0..2_usize,
        place in 0.0..1.0_f64,
        length in 1..40_i64,
    ) {
        let from = (actions.len() as f64 * place) as i64 * STEP + STEP / 2;
        let to = from + length * STEP;
        let mut program = FiberProgram::new(Some((thread, from, to)));
        actions.into_iter().for_each(|action| program.act(action));
        let found = found(&program.script);
        // No wait is guessed.
        let whole = spans(program.waits.iter().filter(|wait| wait.to < from || wait.from > to));
        prop_assert!(found.is_subset(&whole), "{:?}", found.difference(&whole));
        // All are found before the loss, and of a fiber that got a thread since.
        let certain = spans(program.waits.iter().filter(|wait| wait.to < from || wait.shown > to));
        prop_assert!(certain.is_subset(&found), "{:?}", certain.difference(&found));
    }
    #[test]
    fn the_links_of_a_fibers_path_are_what_the_fibers_on_it_did(
        actions in prop::collection::vec(any::<(u8, u8, u8)>(), 1..60),
    ) {
        let mut program = FiberProgram::new(None);
        actions.into_iter().for_each(|action| program.act(action));
        prop_assert_eq!(links(&program.script), program.links);
    }

    #[test]
    fn no_link_of_a_fibers_path_has_more_than_its_time_where_records_are_missing(
        actions in prop::collection::vec(any::<(u8, u8, u8)>(), 1..60),
        thread in 0..2_usize,
        place in 0.0..1.0_f64,
        length in 1..40_i64,
    ) {
        let from = (actions.len() as f64 * place) as i64 * STEP + STEP / 2;
        let mut program = FiberProgram::new(Some((thread, from, from + length * STEP)));
        actions.into_iter().for_each(|action| program.act(action));
        for (link, total) in links(&program.script) {
            let is_gap = link.1.ends_with("is blocked") || link.1.ends_with("is not known");
            let known = program.links.get(&link).copied().unwrap_or_default();
            prop_assert!(is_gap || total <= known, "{link:?}: {total}");
        }
    }
}
