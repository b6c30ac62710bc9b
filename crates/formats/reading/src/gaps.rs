//! The times of a host that no recording covers, and the times that two recordings cover.

use sordino_event::{Loss, LossCause, Nanos, Pid, Time};
use sordino_timeline::Host;
use std::collections::BTreeMap;
use std::ops::Range;

/// The time that a trace covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceCoverage {
    /// The index of the recording: its own traces follow each other without gaps.
    pub(crate) recording: usize,
    pub(crate) host: Host,
    /// The process; `None` for the kernel.
    pub(crate) pid: Option<Pid>,
    /// The first and the last time.
    pub(crate) span: (Time, Time),
    /// The indexes of the trace's classes.
    pub(crate) classes: Range<usize>,
}

/// Returns the gaps between the traces of each kernel and each process as losses, and the time after a host's last
/// kernel trace until its end in `ends`, in which the state of the host is unknown.
pub(crate) fn gaps(covered: &[TraceCoverage], ends: &BTreeMap<Host, Time>) -> Vec<(Host, Vec<Loss>)> {
    let mut by_source: BTreeMap<(Host, Option<Pid>), BTreeMap<usize, _>> = BTreeMap::new();
    for TraceCoverage { recording, host, pid, span, .. } in covered {
        let whole = by_source.entry((*host, *pid)).or_default().entry(*recording).or_insert(*span);
        *whole = (whole.0.min(span.0), whole.1.max(span.1));
    }
    let mut of_hosts: BTreeMap<Host, Vec<Loss>> = BTreeMap::new();
    for ((host, pid), of_recordings) in by_source {
        let mut spans: Vec<_> = of_recordings.into_values().collect();
        spans.sort_unstable();
        let end = ends.get(&host).filter(|_| pid.is_none()).map(|end| (*end, *end));
        let mut last = spans.first().map_or(Time::MIN, |(_, to)| *to);
        for (from, to) in spans.into_iter().skip(1).chain(end) {
            if from > last {
                // Behind the last event, which may be a switch: it precedes the gap.
                let (begin, cause, place) = (last + Nanos(1), LossCause::NotRecorded, None);
                let loss = Loss { from: begin, to: from, cpu: None, pid, count: None, cause, place };
                of_hosts.entry(host).or_default().push(loss);
            }
            last = last.max(to);
        }
    }
    of_hosts.values_mut().for_each(|losses| losses.sort_by_key(|loss| loss.from));
    of_hosts.into_iter().collect()
}

/// Returns the pairs of traces of different recordings that have a time of one kernel or one process in common.
pub(crate) fn overlaps(covered: &[TraceCoverage]) -> impl Iterator<Item = (&TraceCoverage, &TraceCoverage)> {
    let is_shared = |one: &TraceCoverage, other: &TraceCoverage| {
        one.recording != other.recording
            && (one.host, one.pid) == (other.host, other.pid)
            && one.span.0 < other.span.1
            && other.span.0 < one.span.1
    };
    let pairs = covered.iter().enumerate();
    pairs.flat_map(move |(index, one)| {
        let others = covered[..index].iter().filter(move |other| is_shared(one, other));
        others.map(move |other| (other, one))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(recording: usize, host: u16, pid: Option<i32>, from: i64, to: i64) -> TraceCoverage {
        TraceCoverage {
            recording,
            host: Host(host),
            pid: pid.map(Pid),
            span: (Time(from), Time(to)),
            classes: 0..0,
        }
    }

    #[test]
    fn the_time_between_recordings_of_one_kernel_or_process_is_a_gap() {
        let traces = [
            covered(0, 0, None, 50, 52),
            covered(0, 0, None, 54, 60),
            covered(1, 0, None, 0, 20),
            covered(2, 0, None, 10, 15),
            covered(0, 0, Some(7), 0, 5),
            covered(0, 0, Some(8), 20, 25),
            covered(1, 0, Some(7), 30, 35),
            covered(3, 1, None, 0, 100),
        ];
        let ends = [(Host(0), Time(90)), (Host(1), Time(100))].into();
        let found = gaps(&traces, &ends);
        let shown: Vec<_> = found
            .iter()
            .flat_map(|(host, losses)| {
                losses.iter().map(|loss| (host.0, loss.pid.map(|pid| pid.0), loss.from.0, loss.to.0))
            })
            .collect();
        assert_eq!(shown, [(0, Some(7), 6, 30), (0, None, 21, 50), (0, None, 61, 90)]);
        assert_eq!(overlaps(&traces).count(), 1, "one lies inside another");
    }
}
