//! Words for the waker that ended a sleep, and for the activities of the threads of its chain meanwhile.

use super::words::{DETAILS_MAX, thread, waker};
use crate::span::span;
use sordino_analyze::{Link, Lock, Part, Waker, Woken};
use sordino_event::Nanos;

/// Returns lines about a waker: the way in which it ended the sleep, and the activities of its chain meanwhile.
pub(super) fn woken(woken: &Woken) -> Vec<String> {
    let times = if woken.count == 1 { String::new() } else { format!(" {} times", woken.count) };
    let by = waker(&woken.by);
    let how = match woken.lock {
        None => String::new(),
        Some(Lock::Held) => ", which held the lock".into(),
        Some(Lock::Inferred) => {
            " by the same futex: if that is a lock, this thread held it (inferred)".into()
        }
    };
    let of_waker = |link: &&Link| matches!(&woken.by, Waker::Thread { thread } if *thread == link.thread && link.level == 1);
    let meanwhile = woken.chain.iter().find(of_waker);
    let meanwhile = meanwhile.map_or(String::new(), |link| format!("; meanwhile it {}", did(link)));
    let before = woken.chain.iter().filter(|link| !of_waker(link));
    let before =
        before.take(DETAILS_MAX).map(|link| format!("before that, {} {}", thread(&link.thread), did(link)));
    std::iter::once(format!("woken{times} by {by}{how}{meanwhile}")).chain(before).collect()
}

/// Returns the times of the activities of a thread of a chain, with the first three threads that it waited behind.
fn did(link: &Link) -> String {
    const NAMED: usize = 3;
    let waited = link.waited.iter().take(NAMED).map(|wait| {
        let behind = wait.thread.as_ref().filter(|by| !by.is_idle());
        let behind = behind.map_or(String::new(), |by| format!(" behind {}", thread(by)));
        format!("waited {} for a CPU{behind}", span(wait.time))
    });
    let times = [
        (link.ran, "ran"),
        (link.slept, "slept"),
        (link.throttled, "was throttled"),
        (link.stopped, "was stopped"),
    ];
    let all: Vec<String> = times
        .into_iter()
        .filter(|(time, _)| *time > Nanos::ZERO)
        .map(|(time, did)| format!("{did} {}", span(time)))
        .chain(waited)
        .collect();
    all.join(", ")
}

/// Returns, after a comma, the work that most of a sleep waited for; nothing unless a thread ended the sleep, and one
/// thread of the chain had one activity for half of that time or more.
pub(super) fn awaited(part: &Part) -> String {
    let Some(woken) = part.wakers.first() else { return String::new() };
    let each = |link: &Link| {
        let (time, did, had) = most(link);
        let text = match link.level {
            1 => format!(", which {did}"),
            _ => format!(", after {} {had}", thread(&link.thread)),
        };
        (time, text)
    };
    let longest = woken.chain.iter().map(each).max_by_key(|(time, _)| *time);
    longest.filter(|(time, _)| time.0 >= part.time.0 / 2).map_or(String::new(), |(_, text)| text)
}

/// Returns the main activity of a thread of a chain: its time, and its words in the past tense and in the past perfect.
fn most(link: &Link) -> (Nanos, String, String) {
    let both =
        |time, did: &str, had: &str| (time, format!("{did} {}", span(time)), format!("{had} {}", span(time)));
    let waited = link.waited.first().map(|wait| {
        let behind = wait.thread.as_ref().filter(|by| !by.is_idle());
        let behind = behind.map_or(" for a CPU".into(), |by| format!(" behind {}", thread(by)));
        let waited = format!("waited {}{behind}", span(wait.time));
        (wait.time, waited.clone(), format!("had {waited}"))
    });
    // Of equal times, the last.
    let all = [
        Some(both(link.ran, "ran", "had run")),
        Some(both(link.slept, "slept", "had slept")),
        waited,
        Some(both(link.throttled, "was throttled for", "had been throttled for")),
        Some(both(link.stopped, "was stopped for", "had been stopped for")),
    ];
    let by_time = |(time, ..): &(Nanos, String, String)| *time;
    all.into_iter().flatten().filter(|(time, ..)| *time > Nanos::ZERO).max_by_key(by_time).unwrap_or_default()
}
