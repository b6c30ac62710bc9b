//! Ranks snapshots by a value of the events that requested them, so that the worst can be kept.

use crate::options::UserEvents;
use crate::program::ProgramTrace;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use sordino_ctf::read::Trace;
use sordino_event::{Classes, Event, Step, Time, View};
use sordino_filter::condition::{Condition, holds};
use sordino_filter::rule::Ranking;
use std::collections::HashMap;

/// The rank of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// The field whose value ranks.
    pub field: String,
    /// True if the least values are the worst, instead of the greatest.
    pub least: bool,
    /// The worst value among the events that requested this snapshot; `None` if it contains none of them any more.
    pub value: Option<Number>,
}

/// The hits that rank a snapshot.
#[derive(Clone, Debug)]
pub struct Hits {
    /// The value that ranks a hit.
    pub ranking: Ranking,
    /// The rules with the triggers.
    pub user: UserEvents,
    /// Start of the hits that count. Older records belong to the previous snapshot, which was ranked by them.
    pub since: Time,
}

impl Rank {
    /// Returns a number for sorting: the greater, the worse. Unknown values come last.
    pub fn badness(&self) -> f64 {
        let value = self.value.as_ref().and_then(Number::as_f64);
        value.map_or(f64::NEG_INFINITY, |value| if self.least { -value } else { value })
    }

    /// Returns true if it is comparable with others of this ranking.
    pub fn is_by(&self, ranking: &Ranking) -> bool {
        (&self.field, self.least) == (&ranking.field, ranking.least)
    }
}

/// Returns the rank of a snapshot with these traces. An invalid trace has no hits.
pub fn rank(traces: &[ProgramTrace], hits: &Hits) -> Rank {
    let Ranking { field, least } = hits.ranking.clone();
    let mut rank = Rank { field, least, value: None };
    for trace in traces {
        // Hits read before an error count.
        let _ = worst_of(trace, hits, &mut rank);
    }
    rank
}

/// Raises `rank` to that of a program's worst hit. Returns `None` if its trace can't be read to the end.
fn worst_of(trace: &ProgramTrace, hits: &Hits, rank: &mut Rank) -> Option<()> {
    let mut classes = Classes::default();
    let ctf = Trace::open(trace.path()?, &mut classes).ok()?;
    let triggers: HashMap<String, Condition> = trace.triggers(&hits.user).collect();
    let class = |name: &str| classes.iter().find(|(_, class)| class.name == name);
    let requested: Vec<_> = triggers
        .iter()
        .filter_map(|(name, condition)| {
            let (id, class) = class(name)?;
            Some((id, class.field(&rank.field)?, condition))
        })
        .collect();
    let mut event = Event::default();
    for stream in ctf.streams() {
        let mut events = stream.events();
        events.skip_to(hits.since);
        loop {
            match events.next(&mut event).ok()? {
                Step::End => break,
                Step::Loss(_) => continue,
                Step::Event => {}
            }
            let Some((_, field, condition)) = requested.iter().find(|(id, ..)| *id == event.class) else {
                continue;
            };
            let tid = event.tid.map_or(0, |tid| tid.0 as u32);
            let is_hit = match condition {
                Condition::Always => true,
                Condition::Never => false,
                Condition::Code(code) => holds(code, events.payload(), tid),
            };
            if is_hit && event.time >= hits.since {
                let value = event.value(*field).and_then(number);
                let other = Rank { value, ..rank.clone() };
                if other.badness() > rank.badness() {
                    *rank = other;
                }
            }
        }
    }
    Some(())
}

fn number(view: View<'_>) -> Option<Number> {
    match view {
        View::Unsigned(value, _) => Some(value.into()),
        View::Signed(value, _) | View::Label(value, _) => Some(value.into()),
        View::Float(value) => Number::from_f64(value),
        View::Text(_) | View::List(_) | View::Group(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_the_least_bad() {
        let rank = |least, value: Option<f64>| {
            let value = value.and_then(Number::from_f64);
            Rank { field: "late".to_owned(), least, value }.badness()
        };
        assert!(rank(false, Some(3.0)) > rank(false, Some(-4.0)));
        assert!(rank(true, Some(-4.0)) > rank(true, Some(3.0)));
        assert!(
            rank(false, Some(f64::MIN)) > rank(false, None) && rank(true, Some(f64::MAX)) > rank(true, None)
        );
    }
}
