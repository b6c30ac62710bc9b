//! Fibers, threads and CPUs compared at every event with a simulated machine whose state is known.
//!
//! `PROPTEST_CASES=10000` runs more schedules than the usual ones.

mod support;

use proptest::prelude::*;
use sordino_event::{Cpu, Pid, Tid};
use sordino_timeline::{FiberId, FiberState, Item, Mounted, ReadySince, System, TaskState, ThreadState};
use std::collections::BTreeMap;
use support::{IDLE, RUNNABLE, SLEEPING, Script, ScriptThread};

/// Threads of two processes, and one that has no fibers.
const THREADS: [(i32, ScriptThread); 6] = [
    (10, ScriptThread(11, "a", 120)),
    (10, ScriptThread(12, "b", 120)),
    (10, ScriptThread(13, "c", 120)),
    (20, ScriptThread(21, "d", 120)),
    (20, ScriptThread(22, "e", 120)),
    (30, ScriptThread(31, "f", 120)),
];
const CPUS: usize = 3;
/// The number of fibers that a process may have at a time.
const FIBERS: u64 = 5;
const NAMES: [&str; 3] = ["x", "y", "z"];

/// The true state of a fiber.
#[derive(Clone, Debug, PartialEq)]
struct FiberTruth {
    name: &'static str,
    state: FiberState,
    woken: Option<Option<u64>>,
    has_ended: bool,
}

/// The true state of the machine just after an event.
#[derive(Clone, Debug, Default)]
struct Truth {
    running: [Option<usize>; CPUS],
    threads: Vec<ThreadState>,
    mounted: Vec<Mounted>,
    fibers: BTreeMap<FiberId, FiberTruth>,
    /// The fiber of the event.
    fiber: Mounted,
}

/// Records that are lost on a CPU, in the stream of a process or of the kernel.
#[derive(Clone, Copy, Debug)]
struct LostRange {
    from: i64,
    to: i64,
    cpu: usize,
    pid: Option<i32>,
}

/// The simulated machine: it acts as requested and records its events and the truth.
struct FiberSimulation {
    script: Script,
    now: i64,
    state: Truth,
    truth: BTreeMap<i64, Truth>,
    lost: Vec<LostRange>,
}

impl FiberSimulation {
    fn new(lost: Vec<LostRange>) -> Self {
        let state = Truth {
            threads: vec![ThreadState::Unknown; THREADS.len()],
            mounted: vec![Mounted::Outside; THREADS.len()],
            ..Truth::default()
        };
        let mut script = Script::new();
        // The trace has to declare the classes, even if no fiber is made.
        script.at(0).cpu(0).of(10).fiber_enter(THREADS[0].1).fiber_leave(THREADS[0].1);
        let mut machine = Self { script, now: 0, state, truth: BTreeMap::new(), lost };
        for cpu in 0..CPUS {
            machine.switch(cpu, Some(cpu), SLEEPING);
            machine.switch(cpu, Some(cpu + CPUS), SLEEPING);
        }
        machine
    }

    /// Writes the losses, each of which comes behind the last record before.
    fn lose(&mut self) {
        for lost in &self.lost {
            self.script.at(lost.from).cpu(lost.cpu as u32);
            match lost.pid {
                Some(pid) => self.script.of(pid).lose_user(IDLE, lost.to, 1),
                None => self.script.lose_kernel(lost.to, 1),
            };
        }
    }

    fn is_lost(&self, cpu: usize, pid: Option<i32>) -> bool {
        let now = self.now;
        self.lost.iter().any(|lost| lost.cpu == cpu && lost.pid == pid && lost.from < now && now < lost.to)
    }

    /// Writes a record, unless it is lost, and notes the truth after it.
    fn write(&mut self, cpu: usize, pid: Option<i32>, write: impl FnOnce(&mut Script) -> &mut Script) {
        if !self.is_lost(cpu, pid) {
            self.script.at(self.now).cpu(cpu as u32);
            if let Some(pid) = pid {
                self.script.of(pid);
            }
            write(&mut self.script);
        }
        self.truth.insert(self.now, self.state.clone());
    }

    fn switch(&mut self, cpu: usize, next: Option<usize>, state: i64) {
        self.now += 1;
        let prev = self.state.running[cpu];
        let task = |thread: Option<usize>| thread.map_or(IDLE, |thread| THREADS[thread].1);
        if let Some(prev) = prev {
            self.state.threads[prev] = match state {
                RUNNABLE => ThreadState::Preempted { by: Tid(task(next).0) },
                _ => ThreadState::Blocked { state: TaskState::Interruptible },
            };
        }
        if let Some(next) = next {
            self.state.threads[next] = ThreadState::Running { cpu: Cpu(cpu as u32) };
        }
        self.state.running[cpu] = next;
        self.state.fiber = prev.map_or(Mounted::Outside, |prev| self.state.mounted[prev]);
        self.write(cpu, None, |script| script.switch(task(prev), state, task(next)));
    }

    /// Lets the kernel act on a CPU: another thread gets it, or a thread is woken.
    fn kernel(&mut self, cpu: usize, action: u8, choice: usize) {
        let thread = choice % THREADS.len();
        match (action, self.state.threads[thread]) {
            (0, ThreadState::Preempted { .. } | ThreadState::Woken { .. }) => {
                let state = if (choice / THREADS.len()).is_multiple_of(2) { RUNNABLE } else { SLEEPING };
                self.switch(cpu, Some(thread), state);
            }
            (1, _) if self.state.running[cpu].is_some() => {
                self.switch(cpu, None, if choice.is_multiple_of(2) { RUNNABLE } else { SLEEPING });
            }
            (2, ThreadState::Blocked { .. }) => {
                self.now += 1;
                let running = self.state.running[cpu];
                let by = Some(Tid(running.map_or(0, |running| THREADS[running].1.0)));
                self.state.threads[thread] = ThreadState::Woken { by };
                self.state.fiber = running.map_or(Mounted::Outside, |running| self.state.mounted[running]);
                self.write(cpu, None, |script| script.waking(THREADS[thread].1, cpu as i64));
            }
            _ => {}
        }
    }

    /// Lets the thread that has a CPU act on fibers of its process.
    fn act(&mut self, cpu: usize, action: u8, choice: u64) {
        let Some(index) = self.state.running[cpu].filter(|index| *index + 1 < THREADS.len()) else { return };
        let (pid, thread) = THREADS[index];
        let fiber = |number| FiberId { pid: Pid(pid), number };
        let mounted = self.state.mounted[index];
        let number = choice % FIBERS + 1;
        let name = NAMES[choice as usize / 7 % NAMES.len()];
        let own = mounted.fiber().map_or(0, |fiber| fiber.number);
        let is_alive = self.state.fibers.contains_key(&fiber(number));
        self.now += 1;
        self.state.fiber = mounted;
        let this = |machine: &mut Self, write: &dyn Fn(&mut Script) -> &mut Script| {
            machine.write(cpu, Some(pid), |script| write(script))
        };
        match action {
            0 if mounted == Mounted::Outside => {
                self.state.mounted[index] = Mounted::Scheduler;
                self.state.fiber = Mounted::Scheduler;
                this(self, &|script| script.fiber_enter(thread));
            }
            1 if mounted == Mounted::Scheduler => {
                self.state.mounted[index] = Mounted::Outside;
                this(self, &|script| script.fiber_leave(thread));
            }
            2 | 3 if !is_alive => {
                let state = FiberState::Ready { since: ReadySince::Made };
                let made = FiberTruth { name, state, woken: None, has_ended: false };
                self.state.fibers.insert(fiber(number), made);
                this(self, &|script| script.fiber_new(thread, number, name));
            }
            4 if is_alive => {
                let ended = &self.state.fibers[&fiber(number)];
                match ended.state {
                    FiberState::Mounted { tid } if tid.0 == thread.0 => {
                        self.state.fibers.get_mut(&fiber(number)).unwrap().has_ended = true;
                    }
                    FiberState::Mounted { .. } => return,
                    _ => drop(self.state.fibers.remove(&fiber(number))),
                }
                this(self, &|script| script.fiber_end(thread, number));
            }
            5 if is_alive => {
                let woken = self.state.fibers.get_mut(&fiber(number)).unwrap();
                let by = (own != 0).then_some(own);
                match woken.state {
                    FiberState::Blocked { .. }
                    | FiberState::Unmounted
                    | FiberState::Ready { since: ReadySince::Woken { .. } } => {
                        woken.state = FiberState::Ready { since: ReadySince::Woken { by } };
                    }
                    FiberState::Mounted { .. } => woken.woken = Some(by),
                    _ => {}
                }
                this(self, &|script| script.fiber_wake(thread, number, own));
            }
            6 if is_alive => {
                self.state.fibers.get_mut(&fiber(number)).unwrap().name = name;
                this(self, &|script| script.fiber_rename(thread, number, name));
            }
            7..=12 if mounted != Mounted::Outside => self.change(cpu, index, choice),
            _ => this(self, &|script| script.user("app:work", thread, &[])),
        }
    }

    /// Lets a thread switch to another fiber, or to its own code.
    fn change(&mut self, cpu: usize, index: usize, choice: u64) {
        let (pid, thread) = THREADS[index];
        let fiber = |number| FiberId { pid: Pid(pid), number };
        let from = self.state.mounted[index].fiber();
        let is_free = |number: &u64| {
            let known = self.state.fibers.get(&fiber(*number));
            known.is_some_and(|known| !matches!(known.state, FiberState::Mounted { .. }))
        };
        let to = Some(choice % (FIBERS + 1)).filter(|number| *number > 0).filter(is_free);
        let ends = from.is_some_and(|from| self.state.fibers[&from].has_ended);
        let why = match choice / 8 % 6 {
            4 | 5 if !ends => 3,
            _ if ends => {
                if choice.is_multiple_of(2) {
                    4
                } else {
                    0
                }
            }
            why => why,
        };
        if let Some(from) = from {
            let leaves = self.state.fibers.get_mut(&from).unwrap();
            let woken = leaves.woken.take().map(|by| FiberState::Ready { since: ReadySince::Woken { by } });
            leaves.state = match why {
                1 => FiberState::Ready { since: ReadySince::Yielded },
                2 => FiberState::Ready { since: ReadySince::SliceOver },
                3 => woken.unwrap_or(FiberState::Blocked { on: Some("a lock".into()) }),
                _ => woken.unwrap_or(FiberState::Unmounted),
            };
            if ends {
                self.state.fibers.remove(&from);
            }
        }
        if let Some(to) = to {
            let comes = self.state.fibers.get_mut(&fiber(to)).unwrap();
            (comes.state, comes.woken) = (FiberState::Mounted { tid: Tid(thread.0) }, None);
        }
        self.state.mounted[index] = to.map_or(Mounted::Scheduler, |to| Mounted::Fiber(fiber(to)));
        self.state.fiber = from.map_or(Mounted::Scheduler, Mounted::Fiber);
        let (from, to) = (from.map_or(0, |from| from.number), to.unwrap_or(0));
        self.write(cpu, Some(pid), |script| script.fiber_switch(thread, from, to, why));
    }
}

/// A record that a library may write at any time, rightly or not. Fibers have their numbers, 0 for none.
#[derive(Clone, Copy, Debug)]
enum AnyRecord {
    Enter,
    Leave,
    New(u64),
    Switch(u64, u64),
    Wake(u64),
    Rename(u64),
}

impl AnyRecord {
    fn write(self, thread: ScriptThread, script: &mut Script) {
        match self {
            Self::Enter => script.fiber_enter(thread),
            Self::Leave => script.fiber_leave(thread),
            Self::New(fiber) => script.fiber_new(thread, fiber, "x"),
            Self::Switch(from, to) => script.fiber_switch(thread, from, to, 1),
            Self::Wake(fiber) => script.fiber_wake(thread, fiber, 0),
            Self::Rename(fiber) => script.fiber_rename(thread, fiber, "x"),
        };
    }

    /// Returns true if the true state of the machine rules the record of a thread out.
    fn contradicts(self, truth: &Truth, index: usize) -> bool {
        let fiber = |number| FiberId { pid: Pid(THREADS[index].0), number };
        let state = |number| truth.fibers.get(&fiber(number)).map(|known| &known.state);
        let mounted = truth.mounted[index].fiber().map_or(0, |fiber| fiber.number);
        match self {
            Self::Enter | Self::Leave => mounted != 0,
            Self::New(made) => state(made).is_some(),
            Self::Switch(from, to) => {
                from != mounted
                    || to != 0 && state(to).is_none_or(|state| matches!(state, FiberState::Mounted { .. }))
            }
            Self::Wake(fiber) | Self::Rename(fiber) => state(fiber).is_none(),
        }
    }
}

/// Runs a machine. An action is a CPU, a kind and a choice.
fn run(actions: &[(usize, u8, u64)], lost: Vec<LostRange>) -> FiberSimulation {
    let mut machine = FiberSimulation::new(lost);
    for &(cpu, action, choice) in actions {
        match action {
            0..=2 => machine.kernel(cpu, action, choice as usize),
            _ => machine.act(cpu, action - 3, choice),
        }
    }
    machine.lose();
    machine
}

/// Compares a state with the truth. Where records are missing, it may be unknown.
struct TruthComparison<'a> {
    system: &'a System,
    truth: &'a Truth,
    losses: bool,
}

impl TruthComparison<'_> {
    fn check(&self) -> Result<(), TestCaseError> {
        for (index, (pid, thread)) in THREADS.iter().enumerate() {
            let mounted = self.system.fibers().mounted(Pid(*pid), Tid(thread.0));
            self.mounted(mounted, self.truth.mounted[index])?;
            self.thread(self.system.thread_state(Tid(thread.0)), self.truth.threads[index])?;
        }
        for cpu in 0..CPUS {
            let running = self.truth.running[cpu].map_or(Tid(0), |thread| Tid(THREADS[thread].1.0));
            match self.system.running(Cpu(cpu as u32)) {
                None => prop_assert!(self.losses || self.truth.running[cpu].is_none()),
                Some(tid) => prop_assert_eq!(tid, running),
            }
        }
        for pid in [10, 20] {
            (1..=FIBERS).try_for_each(|number| self.fiber(FiberId { pid: Pid(pid), number }))?;
        }
        if !self.losses {
            prop_assert_eq!(self.system.fibers().len(), self.truth.fibers.len());
            prop_assert_eq!(self.system.fibers().contradictions().count(), 0);
        }
        Ok(())
    }

    fn mounted(&self, mounted: Mounted, truth: Mounted) -> Result<(), TestCaseError> {
        prop_assert!(mounted == truth || self.losses && mounted == Mounted::Unknown, "{mounted:?} {truth:?}");
        Ok(())
    }

    fn thread(&self, state: ThreadState, truth: ThreadState) -> Result<(), TestCaseError> {
        let is_less = match state {
            ThreadState::Unknown => true,
            ThreadState::Woken { by: None } => matches!(truth, ThreadState::Woken { .. }),
            _ => false,
        };
        prop_assert!(state == truth || self.losses && is_less, "{state:?} {truth:?}");
        Ok(())
    }

    fn fiber(&self, fiber: FiberId) -> Result<(), TestCaseError> {
        let fibers = self.system.fibers();
        let state = fibers.state(fiber);
        let Some(truth) = self.truth.fibers.get(&fiber) else {
            prop_assert_eq!(state, &FiberState::Unknown, "{} is over", fiber);
            return Ok(());
        };
        let is_less = match state {
            FiberState::Unknown => true,
            FiberState::Unmounted => !matches!(truth.state, FiberState::Mounted { .. }),
            _ => false,
        };
        prop_assert!(*state == truth.state || self.losses && is_less, "{fiber}: {state:?} {truth:?}");
        let name = fibers.name(fiber).map(|name| &**name);
        if fibers.is_name_certain(fiber) && name.is_some() {
            prop_assert_eq!(name, Some(truth.name));
        } else {
            prop_assert!(self.losses, "{} has lost its name", fiber);
        }
        Ok(())
    }
}

/// Compares every moment with the truth. Returns the number of fibers that were certain, of all events of a thread that
/// had one.
fn compare(machine: &FiberSimulation) -> Result<(usize, usize), TestCaseError> {
    let (mut result, mut certain, mut all) = (Ok(()), 0, 0);
    machine.script.play(|item| {
        let (Item::Event(moment), Ok(())) = (item, &result) else { return };
        let Some(truth) = machine.truth.get(&moment.event.time.0) else { return };
        let comparison = TruthComparison { system: moment.system, truth, losses: !machine.lost.is_empty() };
        result = comparison.check().and_then(|()| comparison.mounted(moment.fiber, truth.fiber));
        all += usize::from(truth.fiber.fiber().is_some());
        certain += usize::from(moment.fiber_id().is_some());
    });
    result.map(|()| (certain, all))
}

fn actions() -> impl Strategy<Value = Vec<(usize, u8, u64)>> {
    proptest::collection::vec((0..CPUS, 0u8..17, 0u64..1000), 0..250)
}

fn lost() -> impl Strategy<Value = LostRange> {
    let pid = prop_oneof![Just(None), Just(Some(10)), Just(Some(20))];
    (0i64..150, 1i64..40, 0..CPUS, pid).prop_map(|(from, length, cpu, pid)| LostRange {
        from: from + 6,
        to: from + 6 + length,
        cpu,
        pid,
    })
}

fn any_record() -> impl Strategy<Value = AnyRecord> {
    let switch =
        (0..=FIBERS, 0..=FIBERS).prop_filter("a fiber does not follow itself", |(from, to)| from != to);
    prop_oneof![
        Just(AnyRecord::Enter),
        Just(AnyRecord::Leave),
        (1..=FIBERS).prop_map(AnyRecord::New),
        switch.prop_map(|(from, to)| AnyRecord::Switch(from, to)),
        (1..=FIBERS).prop_map(AnyRecord::Wake),
        (1..=FIBERS).prop_map(AnyRecord::Rename),
    ]
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_fiber_thread_and_cpu_is_known_at_every_event(actions in actions()) {
        let machine = run(&actions, Vec::new());
        let (certain, all) = compare(&machine)?;
        prop_assert_eq!(certain, all);
    }

    #[test]
    fn with_losses_a_state_is_true_or_unknown(
        actions in actions(),
        lost in proptest::collection::vec(lost(), 1..4),
    ) {
        compare(&run(&actions, lost))?;
    }

    #[test]
    fn a_record_is_marked_if_it_contradicts_the_schedule(
        actions in actions(),
        index in 0..THREADS.len() - 1,
        record in any_record(),
    ) {
        let mut machine = run(&actions, Vec::new());
        let (pid, thread) = THREADS[index];
        record.write(thread, machine.script.at(machine.now + 1).of(pid));
        let mut marked = 0;
        machine.script.play(|item| {
            if let Item::Event(moment) = item {
                marked = moment.system.fibers().contradictions().map(|(count, _)| count).sum();
            }
        });
        prop_assert_eq!(marked > 0, record.contradicts(&machine.state, index), "{} marked", marked);
    }
}

/// The comparison with losses would also pass if everything were unknown for ever.
#[test]
fn states_are_known_again_after_a_loss() {
    let actions: Vec<_> = (0..4000u64)
        .map(|step| {
            let random = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            (random as usize % CPUS, (random / 3 % 17) as u8, random / 51 % 1000)
        })
        .collect();
    let lost = LostRange { from: 300, to: 310, cpu: 1, pid: Some(10) };
    let (certain, all) = compare(&run(&actions, vec![lost])).unwrap();
    assert!(all > 500 && certain > all * 9 / 10, "{certain} of {all}");
}
