//! Reads the current attributes of a program's threads from `/proc`, and adds those of the program's table of
//! annotations.

use super::{Attribute, Contexts, ThreadIds};
use rustix::param::clock_ticks_per_second;
use sordino_clock::Sample;
use sordino_proc::cgroup::memberships;
use sordino_proc::file::of_thread;
use sordino_proc::list::tids;
use sordino_proc::stat::{START, Stat};
use sordino_proc::status::innermost;
use sordino_ring::area::annotations::CopiedAnnotation;

/// A thread and its observed attributes, each with its age in nanoseconds.
#[derive(Debug)]
pub struct ThreadAttributes {
    /// The thread, by its ids.
    pub thread: ThreadIds,
    /// The attributes, each with its age in nanoseconds.
    pub attributes: Vec<(Attribute, u64)>,
}

/// A visit of a program's threads in progress: the threads left, and a copy of their annotations.
#[derive(Debug)]
pub struct Visit {
    pid: i32,
    own_pid: i32,
    tids: Vec<i32>,
    annotations: Vec<CopiedAnnotation>,
    contexts: Contexts,
}

impl Visit {
    /// Starts a visit of all threads of process `pid`, which is `own_pid` in its own pid namespace and has these
    /// annotations.
    pub fn begin(pid: i32, own_pid: i32, annotations: Vec<CopiedAnnotation>, contexts: Contexts) -> Self {
        Self { pid, own_pid, tids: tids(pid).collect(), annotations, contexts }
    }

    /// Returns the attributes of the next thread, with `now` as the time; `None` after the last one. A thread that has
    /// ended meanwhile gives `Some(None)`.
    pub fn next(&mut self, now: &Sample) -> Option<Option<ThreadAttributes>> {
        let tid = self.tids.pop()?;
        let mut observed: Vec<_> = thread(self.pid, self.own_pid, tid, self.contexts).into_iter().collect();
        add_annotations(&self.annotations, now.boottime, &mut observed);
        Some(observed.pop().map(|(observed, _)| observed))
    }
}

/// Reads a thread's attributes, and its start time in nanoseconds since boot.
fn thread(pid: i32, own_pid: i32, tid: i32, contexts: Contexts) -> Option<(ThreadAttributes, u64)> {
    let read = |file: &str| of_thread(pid, tid, file).ok();
    let stat = read("stat")?;
    let stat = Stat::parse(&stat)?;
    let vtid = if own_pid == pid { tid } else { innermost(&read("status")?, "NSpid:", tid) };
    let mut attributes = Vec::new();
    if contexts.ids {
        attributes.push(Attribute::Ids { vpid: own_pid });
    }
    if contexts.comm {
        attributes.push(Attribute::Comm(stat.comm.to_owned()));
    }
    if contexts.priority {
        let [priority, policy] = [40, 41].map(|field| stat.number(field).unwrap_or(0));
        attributes.push(Attribute::Priority { policy, priority, nice: stat.number(19).unwrap_or(0) });
    }
    if contexts.cgroup {
        attributes.push(Attribute::Cgroup(cgroup(&read("cgroup")?)));
    }
    let began: u64 = stat.number(START).unwrap_or(0);
    let began = began.saturating_mul(1_000_000_000 / clock_ticks_per_second());
    let attributes = attributes.into_iter().map(|attribute| (attribute, 0)).collect();
    Some((ThreadAttributes { thread: ThreadIds { pid, tid, vtid }, attributes }, began))
}

/// Adds the threads' annotations; `now` is in nanoseconds since boot. Annotations of an earlier thread with the same id
/// are skipped.
fn add_annotations(copies: &[CopiedAnnotation], now: u64, observed: &mut [(ThreadAttributes, u64)]) {
    let mut annotations: Vec<_> = copies.iter().filter_map(CopiedAnnotation::annotation).collect();
    annotations.sort_by_key(|value| value.since);
    for value in annotations {
        let is_its = |(observed, began): &&mut (ThreadAttributes, u64)| {
            observed.thread.vtid == value.tid as i32 && *began <= value.since
        };
        let Some((observed, _)) = observed.iter_mut().find(is_its) else { continue };
        let [name, text] = [value.name, value.text].map(without_zeros);
        // A signal handler may have added a second annotation of this name.
        observed.attributes.retain(
            |(attribute, _)| !matches!(attribute, Attribute::Annotation { name: other, .. } if *other == name),
        );
        observed.attributes.push((Attribute::Annotation { name, text }, now.saturating_sub(value.since)));
    }
}

/// Replaces zero bytes, which would end the string in the trace, as the event `sordino:context` does.
fn without_zeros(text: &str) -> String {
    text.replace('\0', "?")
}

/// Returns a thread's cgroup from the text of its `cgroup` file: the path of version 2, and those of version 1 that are
/// not the root, with their controllers.
fn cgroup(text: &str) -> String {
    let places = memberships(text).filter(|group| group.path != "/").map(|group| match group.controllers {
        "" => group.path.to_owned(),
        controllers => format!("{controllers}:{}", group.path),
    });
    let places: Vec<_> = places.collect();
    if places.is_empty() { "/".to_owned() } else { places.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_ring::area::annotations::Annotation;

    #[test]
    fn a_cgroup_is_where_the_thread_is_in_either_version() {
        assert_eq!(cgroup("0::/user.slice/motor.service\n"), "/user.slice/motor.service");
        assert_eq!(cgroup("4:cpuset:/sordino\n2:cpu,cpuacct:/\n0::/\n"), "cpuset:/sordino");
        assert_eq!(cgroup("1:name=systemd:/a:b\n0::/c\n"), "name=systemd:/a:b,/c");
        assert_eq!(cgroup("0::/\n"), "/");
        assert_eq!(cgroup("nonsense"), "/");
    }

    #[test]
    fn a_thread_has_its_own_newest_annotations() {
        let copied = |tid, since, name, text| CopiedAnnotation::of(&Annotation { tid, since, name, text });
        // A thread that began at 50 has the id of an earlier one.
        let copies = [
            copied(7, 40, "request", "of the earlier one"),
            copied(7, 70, "mode", "newer"),
            copied(7, 60, "mode", "older"),
            copied(7, 80, "odd", "a\0b"),
            copied(8, 90, "mode", "another's"),
        ];
        let thread = ThreadIds { pid: 1, tid: 107, vtid: 7 };
        let mut observed = [(ThreadAttributes { thread, attributes: Vec::new() }, 50)];
        add_annotations(&copies, 100, &mut observed);
        let value = |name: &str, text: &str, age| {
            (Attribute::Annotation { name: name.to_owned(), text: text.to_owned() }, age)
        };
        assert_eq!(observed[0].0.attributes, [value("mode", "newer", 30), value("odd", "a?b", 20)]);
    }

    #[test]
    fn this_thread_is_seen_as_it_is() {
        let here = std::process::id() as i32;
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let all = Contexts { annotations: false, ..Contexts::ALL };
        let (observed, began) = thread(here, here, tid, all).unwrap();
        assert_eq!(observed.thread, ThreadIds { pid: here, tid, vtid: tid });
        assert!(observed.attributes.contains(&(Attribute::Ids { vpid: here }, 0)));
        let comm = of_thread(here, tid, "comm").unwrap();
        assert!(observed.attributes.contains(&(Attribute::Comm(comm.trim_end().to_owned()), 0)));
        let nice = rustix::process::getpriority_process(None).unwrap();
        assert!(observed.attributes.contains(&(Attribute::Priority { policy: 0, priority: 0, nice }, 0)));
        let age = Sample::take().boottime - began;
        assert!(began > 0 && age < 3_600_000_000_000, "{began}");
    }
}
