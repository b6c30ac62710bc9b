//! Critical paths: what threads did and waited for, through the threads that woke them.
//!
//! A thread's sleep is the time of the thread that ended it: while that one ran or waited for a CPU, it was that; while
//! it slept, it was the time of its own waker; and so on. A sleep that an interrupt ended is that interrupt's.

use crate::contexts::Contexts;
use crate::followed::Follows;
use crate::gap::Gap;
use crate::names::Names;
use crate::span::{Found, Span};
use sordino_event::{Loss, Tid, Time};
use sordino_timeline::{Kernel, Moment, System, TaskState, ThreadState};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The number of stretches that are remembered of each thread.
const KEPT: usize = 256;
/// The maximum number of threads on a path, and of its links.
const DEPTH_MAX: usize = 32;
const LINKS_MAX: usize = 1024;

/// The use of a thread's time.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Does {
    Runs,
    Waits,
    Sleeps(Ended),
}

/// The end of a sleep.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    ByThread(Tid),
    ByInterrupt(Arc<str>),
    Unknown,
}

/// A stretch of a thread's time.
#[derive(Clone, Debug)]
struct Stretch {
    from: Time,
    to: Time,
    does: Does,
}

/// The present and the past of a thread.
#[derive(Debug, Default)]
struct History {
    now: Option<(Does, Time)>,
    past: VecDeque<Stretch>,
}

/// The threads' pasts so far.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    contexts: Contexts,
    threads: HashMap<Tid, History>,
    names: Names,
    gap: Gap,
}

/// A link of a path: a stretch, and the thread that it is the time of.
type Link = (Time, Time, Tid, Option<Does>);

impl Paths {
    /// Ends the present stretch of a thread at this time, and begins another.
    fn turn(&mut self, tid: Tid, does: Option<Does>, now: Time, moment: &Moment<'_>, found: &mut Vec<Found>) {
        if tid == Tid(0) {
            return;
        }
        let thread = self.threads.entry(tid).or_default();
        let before = std::mem::replace(&mut thread.now, does.map(|does| (does, now)));
        let Some((does, from)) = before else { return };
        if self.gap.touches(from) {
            found.push(Found::Broken);
            return;
        }
        if thread.past.len() == KEPT {
            thread.past.pop_front();
        }
        thread.past.push_back(Stretch { from, to: now, does: does.clone() });
        let mut links = Vec::new();
        self.links(tid, &does, (from, now), 0, &mut links);
        for (from, to, of, does) in links {
            let name = self.name(tid, of, does.as_ref(), moment.system);
            let (tid, cpu, name) = (Some(tid), moment.cpu, Some(name));
            found.push(Found::Whole(Span { tid, cpu, name, ..Span::between(from, to) }));
        }
    }

    /// Adds the links that a stretch of a thread's time consists of.
    fn links(&self, tid: Tid, does: &Does, (from, to): (Time, Time), depth: usize, links: &mut Vec<Link>) {
        let by = match does {
            Does::Sleeps(Ended::ByThread(by)) if depth < DEPTH_MAX && links.len() < LINKS_MAX => *by,
            _ => return links.push((from, to, tid, Some(does.clone()))),
        };
        let mut at = from;
        let past = self.threads.get(&by);
        let present = past.and_then(|past| past.now.clone()).filter(|(_, since)| !self.gap.touches(*since));
        let present = present.map(|(does, since)| Stretch { from: since, to, does });
        let past = past.into_iter().flat_map(|past| &past.past);
        for stretch in past.chain(&present) {
            let (begin, end) = (stretch.from.max(at), stretch.to.min(to));
            if begin >= end {
                continue;
            }
            if at < begin {
                links.push((at, begin, by, None));
            }
            self.links(by, &stretch.does, (begin, end), depth + 1, links);
            at = end;
        }
        if at < to {
            links.push((at, to, by, None));
        }
    }

    /// Returns the name of a link on the path of a thread: `runs`, `db/17 runs`, `interrupt 36 eth0`.
    fn name(&mut self, own: Tid, of: Tid, does: Option<&Does>, system: &System) -> Arc<str> {
        let what = match does {
            Some(Does::Runs) => "runs",
            Some(Does::Waits) => "waits for a CPU",
            Some(Does::Sleeps(Ended::ByInterrupt(name))) => {
                let text = format!("interrupt {name}");
                return self.names.text(&text);
            }
            Some(Does::Sleeps(_)) => "sleeps",
            None => "is not known",
        };
        if own == of {
            return self.names.text(what);
        }
        let comm = system.comm(of).map_or("?", |comm| comm);
        let text = format!("{comm}/{} {what}", of.0);
        self.names.text(&text)
    }
}

impl Follows for Paths {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let now = moment.event.time;
        match moment.kernel {
            Some(Kernel::Switch { prev, state, next }) => {
                let does = match state {
                    TaskState::Dead => None,
                    TaskState::Runnable => Some(Does::Waits),
                    _ => Some(Does::Sleeps(Ended::Unknown)),
                };
                self.turn(prev.tid, does, now, moment, found);
                self.turn(next.tid, Some(Does::Runs), now, moment, found);
            }
            Some(Kernel::Waking { tid, .. } | Kernel::Woken { tid, .. }) => {
                let is_woken = matches!(moment.system.thread_state(tid), ThreadState::Woken { .. });
                let context = moment.cpu.and_then(|cpu| self.contexts.on(cpu));
                let by = match (context, moment.tid) {
                    (Some(context), _) => Ended::ByInterrupt(Arc::clone(&context.origin.name)),
                    (None, Some(by)) if by != Tid(0) => Ended::ByThread(by),
                    _ => Ended::Unknown,
                };
                let asleep = self.threads.get_mut(&tid).and_then(|thread| thread.now.as_mut());
                if let Some((does @ Does::Sleeps(_), _)) = asleep.filter(|_| is_woken) {
                    *does = Does::Sleeps(by);
                    self.turn(tid, Some(Does::Waits), now, moment, found);
                }
            }
            Some(Kernel::Gone { tid }) => _ = self.threads.remove(&tid),
            _ => {}
        }
        self.contexts.take(moment);
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<Found>) {
        self.contexts.lose(loss);
        if loss.pid.is_none() {
            self.gap.add(loss);
            found.extend(self.threads.drain().filter_map(|(_, past)| past.now.map(|_| Found::Broken)));
        }
    }

    fn starts(&mut self, tid: Tid, since: Time, moment: &Moment<'_>, found: &mut Vec<Found>) {
        match self.threads.get(&tid).and_then(|thread| thread.now.as_ref()) {
            // It was woken after the last record of its CPU.
            Some((Does::Waits, from)) => {
                let since = since.max(*from);
                self.turn(tid, Some(Does::Runs), since, moment, found);
            }
            Some(_) => self.doubts(tid, found),
            None => self.turn(tid, Some(Does::Runs), since, moment, found),
        }
    }

    fn doubts(&mut self, tid: Tid, found: &mut Vec<Found>) {
        let known = self.threads.get_mut(&tid).and_then(|thread| thread.now.take());
        found.extend(known.map(|_| Found::Broken));
    }

    fn cut(&self) -> u64 {
        self.threads.values().filter(|past| past.now.is_some()).count() as u64
    }
}
