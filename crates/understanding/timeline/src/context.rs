//! Facts about programs' threads that are recorded beside their events.

use crate::counted::CounterValues;
use crate::kernel::Observed;
use crate::scheduling::Scheduling;
use foldhash::HashMap;
use sordino_event::{Pid, Tid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The facts about a program's thread at one moment: the recorder's last observations, the thread's annotations, and
/// its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadContext {
    /// The thread's name, as the kernel has it.
    pub comm: Option<Arc<str>>,
    /// The thread's id in the recorder's pid namespace, and its process's id in the thread's own.
    pub ids: Option<(Tid, Pid)>,
    /// The thread's scheduling policy and priority.
    pub scheduling: Option<Scheduling>,
    /// The path of the thread's cgroup.
    pub cgroup: Option<Arc<str>>,
    /// The thread's annotations, by name.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// The values of the thread's performance counters at the event, with their names, in the order in which the thread
    /// requested them. Empty if the values cannot be assigned with certainty.
    pub counters: Vec<(Arc<str>, u64)>,
}

/// The contexts of all programs' threads, by the ids in their events.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadContexts(HashMap<(Pid, Tid), ThreadContext>);

impl ThreadContexts {
    pub(crate) fn of(&self, pid: Pid, tid: Tid) -> Option<&ThreadContext> {
        self.0.get(&(pid, tid))
    }

    /// Sets the thread's counters at its event to these values, and drops those of earlier events.
    pub(crate) fn count(&mut self, pid: Pid, tid: Tid, counts: CounterValues) {
        if !counts.is_empty() {
            self.0.entry((pid, tid)).or_default().counters = counts;
        } else if let Some(context) = self.0.get_mut(&(pid, tid)) {
            context.counters.clear();
        }
    }

    pub(crate) fn learn(&mut self, pid: Pid, tid: Tid, seen: Observed<'_>) {
        if let Observed::End = seen {
            self.0.remove(&(pid, tid));
            return;
        }
        let context = self.0.entry((pid, tid)).or_default();
        match seen {
            Observed::Ids { tid, vpid } => context.ids = Some((tid, vpid)),
            Observed::Comm(comm) => context.comm = Some(text(comm)),
            Observed::Scheduling(scheduling) => context.scheduling = Some(scheduling),
            Observed::Cgroup(path) => context.cgroup = Some(text(path)),
            Observed::Annotation { name, text: b"" } => _ = context.annotations.remove(&text(name)),
            Observed::Annotation { name, text: value } => {
                _ = context.annotations.insert(text(name), text(value))
            }
            Observed::End => {}
        }
    }
}

fn text(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_was_seen_holds_until_the_thread_ends() {
        let (pid, tid) = (Pid(1), Tid(2));
        let mut contexts = ThreadContexts::default();
        let value = |text| Observed::Annotation { name: b"request", text };
        for seen in [Observed::Comm(b"a"), value(b"7"), Observed::Comm(b"b"), value(b"8")] {
            contexts.learn(pid, tid, seen);
        }
        let context = contexts.of(pid, tid).unwrap();
        assert_eq!(context.comm.as_deref(), Some("b"));
        assert_eq!(context.annotations, BTreeMap::from([("request".into(), "8".into())]));
        assert_eq!(contexts.of(pid, Tid(3)), None);
        contexts.learn(pid, tid, value(b""));
        assert!(contexts.of(pid, tid).unwrap().annotations.is_empty());
        contexts.learn(pid, tid, Observed::End);
        assert_eq!(contexts.of(pid, tid), None);
    }
}
