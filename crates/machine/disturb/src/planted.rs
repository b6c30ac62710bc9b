//! Disturbances that were planted, and the check that they are found as causes of their gaps.

use sordino_analyze::{Cause, Explanation, Findings, Main};
use sordino_event::{ClassId, Classes, Event, Nanos, Time, View};
use sordino_proc::SystemFiles;
use sordino_proc::machine::PreemptionModel;
use sordino_report::headline;

/// The kind of a planted disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlantedKind {
    Hog,
    Timers,
    Faults,
}

/// A planted disturbance, and its times.
#[derive(Debug)]
pub struct Planted {
    kind: PlantedKind,
    /// The begins and ends of the disturbance, from its own tracepoints; empty without them. If a hypervisor takes the
    /// CPU meanwhile, that may hide the disturbance.
    windows: Vec<(Time, Time)>,
}

/// The tracepoints at the begin and the end of each kind.
const MARKS: [(PlantedKind, &str, &str); 3] = [
    (PlantedKind::Hog, "disturb:begin", "disturb:end"),
    (PlantedKind::Timers, "disturb:begin", "disturb:end"),
    (PlantedKind::Faults, "npt:faults_begin", "npt:faults_end"),
];

impl Planted {
    fn name(&self) -> &'static str {
        match self.kind {
            PlantedKind::Hog => "a thread of priority 95, 3 ms, 3 times",
            PlantedKind::Timers => "400 timers within 400 us, 3 times",
            PlantedKind::Faults => "256 page faults in npt, 3 times",
        }
    }

    /// Returns the reason why its gap can't be explained on this machine, if there is one.
    fn unmeasured(&self) -> Option<&'static str> {
        match self.kind {
            PlantedKind::Timers if PreemptionModel::read(&SystemFiles::new("/")).is_real_time() => {
                Some("with PREEMPT_RT, timers expire in a thread of lower priority than npt's")
            }
            _ => None,
        }
    }

    /// Returns the longest gap in its times of which it is the main cause.
    fn found_in<'a>(&self, gaps: &'a [Explanation]) -> Option<&'a Explanation> {
        let is_its = |gap: &&Explanation| {
            let main = gap.main.as_ref().and_then(|main| gap.parts.get(main.part));
            main.is_some_and(|part| self.kind.is(&part.cause))
        };
        self.gaps(gaps).filter(is_its).max_by_key(|gap| gap.length)
    }

    /// Returns the longest gap in its times of which it is a part as long as itself, while a hypervisor took the rest:
    /// the kernel counted stolen time. Its part is the main one in what is returned.
    fn beside_a_hypervisor(&self, gaps: &[Explanation]) -> Option<Explanation> {
        let its_part = |gap: &Explanation| {
            let main = gap.main.as_ref().and_then(|main| gap.parts.get(main.part))?;
            let is_stolen = matches!(main.cause, Cause::Unexplained) && !gap.stolen.is_empty();
            let part = gap.parts.iter().position(|part| self.kind.is(&part.cause)).filter(|_| is_stolen)?;
            let window = self.windows.iter().find(|window| overlaps(gap, window))?;
            let is_whole = gap.parts[part].time.0 >= (window.1 - window.0).0 / 10 * 9;
            let main = Main { part, excess: None, others: 0, others_time: Nanos::ZERO };
            is_whole.then(|| Explanation { main: Some(main), ..gap.clone() })
        };
        self.gaps(gaps).filter_map(its_part).max_by_key(|gap| gap.length)
    }

    /// Returns the longest gap in its times, of any cause.
    fn longest_in<'a>(&self, gaps: &'a [Explanation]) -> Option<&'a Explanation> {
        self.gaps(gaps).max_by_key(|gap| gap.length)
    }

    fn gaps<'a>(&self, gaps: &'a [Explanation]) -> impl Iterator<Item = &'a Explanation> {
        gaps.iter().filter(|gap| self.windows.iter().any(|window| overlaps(gap, window)))
    }
}

fn overlaps(gap: &Explanation, (begin, end): &(Time, Time)) -> bool {
    gap.interval.begin <= *end && *begin <= gap.interval.end
}

impl PlantedKind {
    fn is(self, cause: &Cause) -> bool {
        match (self, cause) {
            (Self::Hog, Cause::Waiting { behind: Some(thread), .. }) => thread.comm.as_deref() == Some("hog"),
            (Self::Timers, Cause::Vector { name }) => name.contains("timer"),
            (Self::Faults, Cause::PageFault { .. }) => true,
            _ => false,
        }
    }

    /// Returns the value of the field `kind` in its tracepoints, if they have that field.
    fn word(self) -> Option<&'static [u8]> {
        match self {
            Self::Hog => Some(b"hog"),
            Self::Timers => Some(b"timers"),
            Self::Faults => None,
        }
    }
}

/// The search for planted disturbances among the events of a recording.
#[derive(Debug)]
pub struct PlantedFinder {
    /// The classes of the events at the begin and at the end of each kind.
    marks: [(PlantedKind, Vec<ClassId>, Vec<ClassId>); 3],
    windows: [Vec<(Time, Time)>; 3],
}

impl PlantedFinder {
    /// Searches among events of these classes.
    pub fn new(classes: &Classes) -> Self {
        let ids = |name: &str| -> Vec<ClassId> {
            classes.iter().filter(|(_, class)| class.name == name).map(|(id, _)| id).collect()
        };
        let marks = MARKS.map(|(kind, begin, end)| (kind, ids(begin), ids(end)));
        Self { marks, windows: [const { Vec::new() }; MARKS.len()] }
    }

    /// Takes the next event of the recording.
    pub fn take(&mut self, event: &Event) {
        for ((kind, begins, ends), windows) in self.marks.iter().zip(&mut self.windows) {
            if begins.contains(&event.class) && has_word(event, kind.word()) {
                windows.push((event.time, event.time));
            } else if ends.contains(&event.class) && has_word(event, kind.word()) {
                windows.last_mut().into_iter().for_each(|(_, end)| *end = event.time);
            }
        }
    }

    /// Returns the disturbances that were found.
    pub fn finish(self) -> Vec<Planted> {
        let planted = |((kind, ..), windows): ((PlantedKind, _, _), _)| Planted { kind, windows };
        MARKS.into_iter().zip(self.windows).map(planted).collect()
    }
}

fn has_word(event: &Event, word: Option<&[u8]>) -> bool {
    word.is_none_or(|word| matches!(event.value(0), Some(View::Text(text)) if text == word))
}

/// The contents of a planted disturbance's time when records of it may be among the lost ones.
const LOST: &str =
    "no gap, as far as records are there; some are lost: run it again while nothing else uses the disk";

/// Returns a line for each planted disturbance, and whether all were found.
pub fn judge(planted: &[Planted], findings: &Findings) -> (String, bool) {
    let mut text = String::from("\nPlanted disturbances:\n");
    let mut all_found = true;
    let gaps = &findings.intervals[..];
    for planted in planted {
        let verdict = match (planted.unmeasured(), planted.found_in(gaps)) {
            (Some(reason), _) => format!("not measured here: {reason}"),
            (None, Some(gap)) => format!("found: {}", headline(gap)),
            (None, None) if let Some(gap) = planted.beside_a_hypervisor(gaps) => {
                format!("found: {}; a hypervisor took more of its gap", headline(&gap))
            }
            (None, None) => {
                all_found = false;
                // An interval with lost records in it is none of the gaps.
                let nothing = if findings.lost.is_empty() { "nothing" } else { LOST };
                let instead = planted.longest_in(gaps).map_or(nothing.to_owned(), headline);
                format!("NOT FOUND as the cause of its gap; in its time: {instead}")
            }
        };
        text += &format!("  {:<38} {verdict}\n", planted.name());
    }
    (text, all_found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_analyze::{After, Certainty, Part, Stolen, Thread};
    use sordino_event::Tid;
    use sordino_intervals::{EventFields, Interval};

    /// The hog's time, from its own tracepoints.
    const WINDOW: (Time, Time) = (Time(1000), Time(4000));

    fn thread(name: &str) -> Thread {
        Thread { tid: Tid(7), comm: Some(name.into()), priority: None, is_recorder: false }
    }

    fn part(cause: Cause, time: i64) -> Part {
        Part {
            cause,
            time: Nanos(time),
            usual: Nanos::ZERO,
            entry: Nanos::ZERO,
            count: 1,
            longest: Nanos(time),
            longest_at: WINDOW.0,
            certainty: Certainty::Known,
            may_be_stolen: false,
            inside: Vec::new(),
            quota: None,
            beside: Vec::new(),
            senders: Vec::new(),
            files: Vec::new(),
            wakers: Vec::new(),
        }
    }

    /// A gap of the loop that a thread called `name` took for so long, and that is unexplained for longer.
    fn gap(name: &str, time: i64, is_stolen: bool) -> Explanation {
        let (begin, end) = (Time(900), Time(9000));
        let behind = Some(thread(name));
        let waiting = Cause::Waiting { after: After::Preemption, behind, syscall: None };
        let stolen = Stolen { cpu: 1, time: Nanos(10_000), from: begin, to: end };
        Explanation {
            interval: Interval {
                begin,
                end,
                tid: Tid(6),
                pid: None,
                begin_cpu: None,
                end_cpu: None,
                fiber: None,
                overhead: Nanos::ZERO,
            },
            thread: thread("npt"),
            fiber: None,
            length: end - begin,
            begin_fields: EventFields::new(),
            end_fields: EventFields::new(),
            stages: Vec::new(),
            parts: vec![part(Cause::Unexplained, 5000), part(waiting, time)],
            main: Some(Main { part: 0, excess: None, others: 0, others_time: Nanos::ZERO }),
            inversions: Vec::new(),
            migrations: Vec::new(),
            migrations_count: 0,
            lost: Vec::new(),
            stolen: is_stolen.then_some(stolen).into_iter().collect(),
        }
    }

    #[test]
    fn what_a_hypervisor_took_more_of_is_found_if_all_of_it_is_there_and_time_was_stolen() {
        let hog = Planted { kind: PlantedKind::Hog, windows: vec![WINDOW] };
        let found = |gap: Explanation| hog.beside_a_hypervisor(&[gap]).map(|gap| headline(&gap));
        assert!(found(gap("hog", 3000, true)).is_some_and(|text| text.contains("hog/7")));
        assert_eq!(found(gap("hog", 2000, true)), None, "a third of it is missing");
        assert_eq!(found(gap("hog", 3000, false)), None, "nothing shows a hypervisor");
        assert_eq!(found(gap("other", 3000, true)), None);
        let elsewhere = Planted { kind: PlantedKind::Hog, windows: vec![(Time(10_000), Time(13_000))] };
        assert!(elsewhere.beside_a_hypervisor(&[gap("hog", 3000, true)]).is_none());
    }
}
