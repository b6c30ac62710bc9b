//! The CPUs of the recorder's threads: other ones than the programs', where possible.
//!
//! The rings show on which CPUs programs run: a CPU whose ring has advanced counts as theirs for a while. The recorder
//! uses the remaining CPUs of those with which it was started, or all of those if none remains.

use serde::{Deserialize, Serialize};
use sordino_event::Cpu;
use sordino_inspect::threads;
use sordino_sched::{CpuList, affinity};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Time for which a CPU counts as the programs' after an event there.
const USED: Duration = Duration::from_secs(10);

/// The CPUs of the recorder's threads, and those that they avoid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderCpus {
    /// The recorder's CPUs, as a list such as `0,2-3`.
    pub cpus: String,
    /// The CPUs on which programs recorded events, in the same form; empty without events.
    pub programs: String,
    /// True if the recorder's CPUs and the programs' do not overlap.
    pub apart: bool,
    /// The CPU of the threads that empty buffers, if the user chose one.
    pub collector: Option<u32>,
}

impl RecorderCpus {
    /// Returns a description, if the recorder avoids some CPUs.
    pub fn line(&self) -> Option<String> {
        let Self { cpus, programs, apart, collector } = self;
        let collector = collector.map_or(String::new(), |cpu| format!("; its collector on CPU {cpu}"));
        apart.then(|| {
            format!("recorder on CPU {cpus}, kept off CPU {programs}, where programs run{collector}")
        })
    }
}

/// The CPUs that the recorder may use, and those that it uses.
#[derive(Debug)]
pub struct CpuPlacement {
    /// The CPUs with which the recorder started, or which somebody else has set since.
    allowed: CpuList,
    given: CpuList,
    /// The programs' CPUs, each with the time of its last event.
    used: BTreeMap<u32, Instant>,
    /// The programs' CPUs at the last decision.
    programs: CpuList,
    collector: Option<u32>,
    shielded: fn() -> CpuList,
    _entry: threads::OwnThreadGuard,
}

impl CpuPlacement {
    /// Starts the placement of the calling thread and of those that it starts later. None is moved to a CPU that
    /// `shielded` returns at that time.
    pub fn here(collector: Option<u32>, shielded: fn() -> CpuList) -> Self {
        // If the affinity is unknown, threads stay where they are; an empty set is never applied.
        let allowed = affinity().unwrap_or_default();
        let _entry = threads::enter("sordino".to_owned());
        let (used, programs) = (BTreeMap::new(), CpuList::default());
        Self { given: allowed.clone(), allowed, used, programs, collector, shielded, _entry }
    }

    /// Notes that programs have recorded events on these CPUs.
    pub fn note(&mut self, cpus: impl IntoIterator<Item = Cpu>, now: Instant) {
        self.used.extend(cpus.into_iter().map(|cpu| (cpu.0, now)));
    }

    /// Moves the recorder's threads if other CPUs are better than their present ones.
    pub fn update(&mut self, now: Instant) {
        if let Ok(present) = affinity()
            && present != self.given
            && !is_for_lack_of_cpus(&self.given, &present, CpuList::online)
        {
            // Somebody else has set the recorder's CPUs: a shield, an administrator.
            (self.allowed, self.given) = (present.clone(), present);
        }
        self.used.retain(|_, last| now.duration_since(*last) < USED);
        self.programs = CpuList::new(self.used.keys().copied());
        let mut requested = beside(&self.allowed, &self.programs);
        if requested != self.given {
            // A shield raised since then moved the threads that it found, but does not restrict later requests.
            requested = requested.without(&(self.shielded)());
        }
        if !requested.is_empty() && requested != self.given && threads::move_to(&requested).is_ok() {
            self.given = requested;
        }
    }

    /// Returns the CPUs on which the recorder may look at the machine: all that it was given, except those that are
    /// shielded now.
    pub fn unshielded(&self) -> CpuList {
        self.allowed.without(&(self.shielded)())
    }

    /// Returns the CPUs of the recorder's threads, for the summary.
    pub fn cpus(&self) -> RecorderCpus {
        RecorderCpus {
            cpus: self.given.to_string(),
            programs: self.programs.to_string(),
            apart: !self.programs.is_empty() && !self.given.overlaps(&self.programs),
            collector: self.collector,
        }
    }
}

impl Drop for CpuPlacement {
    /// Restores the calling thread's CPUs, because it continues with other work.
    fn drop(&mut self) {
        if self.given != self.allowed {
            // These CPUs were permitted before.
            let _ = sordino_sched::set_affinity(&self.allowed);
        }
    }
}

/// Returns true if a thread that was `given` some CPUs is limited to `present` only because the others are offline.
fn is_for_lack_of_cpus(
    given: &CpuList,
    present: &CpuList,
    online: impl FnOnce() -> io::Result<CpuList>,
) -> bool {
    online().is_ok_and(|online| given.intersection(&online) == *present)
}

/// Returns the recorder's CPUs: the allowed ones that programs do not use, or all allowed ones.
fn beside(allowed: &CpuList, programs: &CpuList) -> CpuList {
    let left = allowed.without(programs);
    if left.is_empty() { allowed.clone() } else { left }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::Mutex;

    fn list(text: &str) -> CpuList {
        text.parse().unwrap_or_default()
    }

    #[test]
    fn the_recorder_keeps_off_the_programs_cpus_where_one_is_left() {
        for (allowed, programs, expected) in [
            ("0-1", "1", "0"),
            ("0-1", "", "0-1"),
            ("0-1", "0-1", "0-1"),
            ("0-3", "1-2", "0,3"),
            // Programs on CPUs that are not allowed do not matter.
            ("0", "1-3", "0"),
            ("2", "2", "2"),
            ("", "1", ""),
        ] {
            assert_eq!(beside(&list(allowed), &list(programs)), list(expected), "{allowed} {programs}");
        }
    }

    #[test]
    fn a_cpu_that_goes_offline_is_nobodys_decision() {
        let is_missing = |online: &str, present: &str| {
            is_for_lack_of_cpus(&list("0-2"), &list(present), || Ok(list(online)))
        };
        assert!(is_missing("0-1,3", "0-1"));
        assert!(!is_missing("0-3", "0-1") && !is_missing("0-1,3", "0") && !is_missing("0-1,3", "3"));
        let unknown = || Err(io::ErrorKind::NotFound.into());
        assert!(!is_for_lack_of_cpus(&list("0-2"), &list("0-1"), unknown));
    }

    /// Returns the last CPU of this machine.
    fn last() -> CpuList {
        CpuList::new(CpuList::online().unwrap_or_default().as_slice().last().copied())
    }

    /// Held by tests that move threads, because all threads of the process are moved.
    static MOVING: Mutex<()> = Mutex::new(());

    #[test]
    fn nobody_moves_to_a_cpu_that_was_shielded_meanwhile() {
        let _moving = MOVING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let all = affinity().unwrap();
        let others = all.without(&last());
        if others.is_empty() || others == all {
            let _ = writeln!(io::stderr(), "not measured here: placement beside a shield, with one CPU");
            return;
        }
        std::thread::spawn(move || {
            let begin = Instant::now();
            let mut placement = CpuPlacement::here(None, last);
            placement.note(last().as_slice().iter().copied().map(Cpu), begin);
            placement.update(begin);
            assert_eq!(affinity().unwrap(), others);
            // Without the shield, all CPUs would be used.
            placement.note(all.as_slice().iter().copied().map(Cpu), begin);
            placement.update(begin);
            assert_eq!((affinity().unwrap(), placement.cpus().apart), (others, false));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn threads_go_where_programs_are_not_and_come_back() {
        let _moving = MOVING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let all = affinity().unwrap();
        let Some(&last) = all.as_slice().last().filter(|_| all.as_slice().len() > 1) else {
            let _ = writeln!(io::stderr(), "not measured here: placement, with one CPU");
            return;
        };
        std::thread::spawn(move || {
            let others = all.without(&CpuList::new([last]));
            let begin = Instant::now();
            let mut placement = CpuPlacement::here(None, CpuList::default);
            placement.update(begin);
            assert_eq!((affinity().unwrap(), placement.cpus().line()), (all.clone(), None));
            placement.note([Cpu(last)], begin);
            placement.update(begin);
            assert_eq!(affinity().unwrap(), others);
            let line = format!("recorder on CPU {others}, kept off CPU {last}, where programs run");
            assert_eq!(placement.cpus().line(), Some(line));
            // Programs run on all CPUs.
            placement.note(all.as_slice().iter().copied().map(Cpu), begin + USED / 2);
            placement.update(begin + USED / 2);
            assert_eq!((affinity().unwrap(), placement.cpus().apart), (all.clone(), false));
            // Programs have left all CPUs but one.
            placement.note([Cpu(last)], begin + USED);
            placement.update(begin + 3 * USED / 2);
            assert_eq!(affinity().unwrap(), others);
            // Somebody else sets the affinity.
            sordino_sched::set_affinity(&CpuList::new([last])).unwrap();
            placement.update(begin + 3 * USED / 2);
            assert_eq!(affinity().unwrap(), CpuList::new([last]));
            sordino_sched::set_affinity(&all).unwrap();
            placement.update(begin + 3 * USED / 2);
            assert_eq!(affinity().unwrap(), others);
            drop(placement);
            assert_eq!(affinity().unwrap(), all);
        })
        .join()
        .unwrap();
    }
}
