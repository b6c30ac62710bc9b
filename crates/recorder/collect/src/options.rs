//! The options of a recording.

use sordino_event::Schema;
use sordino_filter::condition::{Condition, Context, is_match};
use sordino_filter::rule::{Ranking, Rule, Rules};
use sordino_inspect::context::Contexts;
use sordino_ring::layout::Geometry;
use sordino_sched::CpuList;
use sordino_tracefs::Selection;
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The options of a recording: sources, buffers, and the collector of its records.
#[derive(Clone, Debug)]
pub struct RecordingOptions {
    /// The session's name, which other recorders see.
    pub name: String,
    /// The command line that records so again.
    pub command: Vec<String>,
    /// The kernel's events; if empty, the kernel is not recorded.
    pub kernel: Vec<Selection>,
    /// KiB of kernel buffer per CPU.
    pub kernel_buffer_kib: u64,
    /// The threads to which the kernel's events are restricted, with their children; if empty, all threads.
    pub kernel_threads: Vec<i32>,
    /// The programs' tracepoints: rules and triggers.
    pub user: UserEvents,
    /// The contexts of the programs' threads.
    pub contexts: Contexts,
    /// The size and mode of the programs' rings. If they overwrite, the kernel's buffers do so, too: all keep the
    /// newest records, which are written to disk when the recording ends.
    pub geometry: Geometry,
    /// The polling of rings that do not overwrite.
    pub polling: Polling,
    /// The CPUs that get buffers.
    pub cpus: CpuList,
    /// The CPU to which the collector is bound.
    pub collector_cpu: Option<u32>,
    /// The collector's `SCHED_FIFO` priority.
    pub collector_priority: Option<u8>,
    /// True if a file that fails, for example on a full disk, is retried until it works; otherwise it ends there.
    pub is_persistent: bool,
}

/// The limits for a session's recordings; the newest one is always kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// Maximum number of recordings.
    pub count: Option<usize>,
    /// Maximum size of all recordings, in bytes.
    pub bytes: Option<u64>,
}

/// The times at which the collector checks for full sub-buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// Once in each such interval.
    Timer(Duration),
    /// All the time, without sleeping.
    Busy,
    /// When a writer wakes it, by a system call at each sub-buffer switch.
    Wakeup,
}

impl Polling {
    /// Returns the longest timer, from 200 us to 10 ms, with which no program can lose records: within it, a core that
    /// writes 16 GB/s, several times what one can, does not fill a ring of this size.
    ///
    /// Polling costs CPU time, because each check wakes a thread. For 2 million events a second and the default sizes,
    /// a timer of 200 us took 46 ms of CPU time for a million events, one of 2 ms took 9.
    pub fn safe_timer(geometry: Geometry) -> Self {
        const BYTES_PER_MICROSECOND: u64 = 16_000;
        let ring = geometry.size() as u64 * u64::from(geometry.count);
        Self::Timer(Duration::from_micros((ring / BYTES_PER_MICROSECOND).clamp(200, 10_000)))
    }
}

/// Rules that options imply, which no user gives explicitly.
pub const IMPLIED: [&str; 3] = ["sordino:context", "sordino:counters", "sordino:snapshot"];

/// The rules that enable tracepoints, and those that select hits to request a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserEvents {
    rules: Rules,
    triggers: Rules,
}

/// The rules' choice for one tracepoint.
#[derive(Clone, Debug, PartialEq)]
pub struct EventChoice {
    /// The condition for hits to be recorded.
    pub filter: Condition,
    /// The condition for hits to request a snapshot.
    pub trigger: Condition,
    /// Rules that do not apply to the tracepoint for another reason than a missing field, with the reason.
    pub notes: Vec<String>,
}

impl UserEvents {
    /// Parses the [rules](sordino_filter::rule) that enable tracepoints.
    ///
    /// # Errors
    /// A description of the syntax error, with a picture of its place.
    pub fn new(texts: impl IntoIterator<Item = String>) -> Result<Self, String> {
        Ok(Self { rules: rules(texts)?, triggers: Rules::default() })
    }

    /// Adds rules whose hits request a snapshot; these hits are recorded, too.
    ///
    /// # Errors
    /// A description of the syntax error, with a picture of its place.
    pub fn with_triggers(self, texts: impl IntoIterator<Item = String>) -> Result<Self, String> {
        Ok(Self { triggers: rules(texts)?, ..self })
    }

    /// Returns the ranking of hits that request a snapshot, see [`Rules::ranking`]; `None` without triggers.
    ///
    /// # Errors
    /// A description of the rule that has no such value, with a picture of its place.
    pub fn ranking(&self, by: Option<&str>) -> Result<Option<Ranking>, String> {
        self.triggers.ranking(by).map_err(|unfit| format!("{unfit}\n{}", unfit.picture()))
    }

    /// Returns these rules with more appended.
    pub fn and(&self, text: &str) -> Result<Self, String> {
        let (mut more, new) = (self.clone(), rules([text.to_owned()])?.0);
        // The later one of two equal rules decides.
        more.rules.0.retain(|rule| !new.contains(rule));
        more.rules.0.extend(new);
        Ok(more)
    }

    /// Returns the rules, then those of triggers, each with true if it is a trigger's.
    pub fn rules_and_triggers(&self) -> impl Iterator<Item = (&Rule, bool)> {
        let rules = self.rules.0.iter().map(|rule| (rule, false));
        rules.chain(self.triggers.0.iter().map(|rule| (rule, true)))
    }

    /// Returns true if some tracepoints have a condition.
    pub fn has_conditions(&self) -> bool {
        self.rules_and_triggers().any(|(rule, is_trigger)| is_trigger || rule.is_conditional())
    }

    /// Returns true if any explicit rule includes tracepoints.
    pub fn includes_any(&self) -> bool {
        self.rules_and_triggers()
            .any(|(rule, _)| !rule.excludes() && !IMPLIED.contains(&rule.to_string().as_str()))
    }

    /// Returns the rules as they were given.
    pub fn patterns(&self) -> Vec<String> {
        self.rules.0.iter().map(ToString::to_string).collect()
    }

    /// Returns true if a rule, or a trigger's, includes tracepoints of this provider.
    pub fn may_choose(&self, provider: &str) -> bool {
        let includes = |rule: &Rule| {
            let pattern = rule.pattern().split(':').next().unwrap_or_default();
            !rule.excludes() && is_match(pattern, provider)
        };
        self.rules_and_triggers().any(|(rule, _)| includes(rule))
    }

    /// Returns true if a condition compares the names of functions.
    pub fn names_functions(&self) -> bool {
        self.rules_and_triggers().any(|(rule, _)| rule.names_functions())
    }

    /// Returns the rules with the addresses of the functions that their conditions name, see [`Rules::with_functions`].
    #[must_use]
    pub fn with_functions(&self, mut resolve: impl FnMut(&str) -> Vec<RangeInclusive<u64>>) -> Self {
        let rules = self.rules.with_functions(&mut resolve);
        Self { rules, triggers: self.triggers.with_functions(resolve) }
    }

    /// Returns the choice for a tracepoint. Rules that do not apply to it have no effect.
    pub fn choose(&self, schema: &Schema, context: &Context<'_>) -> EventChoice {
        let mut notes = Vec::new();
        let mut choose = |rules: &Rules| {
            rules.choose(schema, context).unwrap_or_else(|unfit| {
                notes.push(unfit.to_string());
                Condition::Never
            })
        };
        let trigger = choose(&self.triggers);
        let recorded = match self.triggers.0.is_empty() {
            true => Cow::Borrowed(&self.rules),
            false => Cow::Owned(Rules(self.rules.0.iter().chain(&self.triggers.0).cloned().collect())),
        };
        let filter = if recorded.imply(schema) { Condition::Always } else { choose(&recorded) };
        notes.dedup();
        EventChoice { filter, trigger, notes }
    }
}

/// Returns rules that exclude these names and globs.
pub fn excluded(text: &str) -> String {
    let excluded = |name: &str| format!("!{}", name.trim());
    text.split(',').map(excluded).collect::<Vec<_>>().join(",")
}

fn rules(texts: impl IntoIterator<Item = String>) -> Result<Rules, String> {
    let mut rules = Rules::default();
    for text in texts {
        rules
            .0
            .extend(Rule::list(&text).map_err(|invalid| format!("{invalid}\n{}", invalid.picture(&text)))?);
    }
    Ok(rules)
}

/// Returns the geometry of rings with sub-buffers of this size in bytes and of this number, each with its default.
///
/// # Errors
/// The sizes that are possible.
pub fn geometry(size: Option<u64>, count: Option<u64>, overwrite: bool) -> Result<Geometry, String> {
    const SIZE: u64 = 128 << 10;
    const RING: u64 = 32 << 20;
    let (size, count) = (
        size.unwrap_or(if count.is_some() { 1 << 20 } else { SIZE }),
        count.unwrap_or(if size.is_some() { 32 } else { RING / SIZE }),
    );
    let geometry = Geometry::new(size, count);
    let geometry = if overwrite { geometry.map(Geometry::overwriting) } else { geometry };
    geometry.ok_or_else(|| {
        format!(
            "--subbuf-size {size} with --num-subbuf {count}: both must be powers of two, a sub-buffer {} to {} bytes, \
             {} to {} of them, {} MiB together at most",
            Geometry::MIN_SIZE,
            Geometry::MAX_SIZE,
            Geometry::MIN_COUNT,
            Geometry::MAX_COUNT,
            Geometry::MAX_RING >> 20,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::{Field, Level, Pid};

    #[test]
    fn the_default_timer_follows_the_ring() {
        let timer = |size, count| Polling::safe_timer(Geometry::new(size, count).unwrap());
        assert_eq!(timer(1 << 20, 32), Polling::Timer(Duration::from_micros(2097)));
        assert_eq!(timer(16 << 10, 2), Polling::Timer(Duration::from_micros(200)));
        assert_eq!(timer(256 << 20, 8), Polling::Timer(Duration::from_millis(10)));
    }

    fn schema(name: &str, fields: &[&str]) -> Schema {
        let field = |name: &&str| Field { name: (*name).to_owned(), ty: "u32".parse().unwrap() };
        Schema {
            provider: "motor".to_owned(),
            name: name.to_owned(),
            level: Level::Info,
            location: None,
            fields: fields.iter().map(field).collect(),
        }
    }

    fn choice(events: &UserEvents, schema: &Schema) -> EventChoice {
        events.choose(schema, &Context { pid: Pid(1), procname: "motor" })
    }

    #[test]
    fn events_about_fibers_follow_other_events_unless_a_rule_names_them() {
        let switch = Schema { provider: "sordino_fiber".to_owned(), ..schema("switch", &["why"]) };
        let filter = |rules: &str| choice(&UserEvents::new([rules.to_owned()]).unwrap(), &switch).filter;
        for rules in [
            "motor",
            "* if $tid == 7",
            "* if why == 3",
            "motor, !*",
            "sordino_fiber",
            "motor, sordino_fiber:switch",
        ] {
            assert_eq!(filter(rules), Condition::Always, "{rules}");
        }
        for rules in ["sordino:context", "!motor", "motor, !sordino_fiber", "sordino_fiber:new"] {
            assert_eq!(filter(rules), Condition::Never, "{rules}");
        }
        assert!(matches!(filter("motor, sordino_fiber if why == 3"), Condition::Code(_)));
        let triggers = UserEvents::default().with_triggers(["motor:late".to_owned()]).unwrap();
        let EventChoice { filter, trigger, .. } = choice(&triggers, &switch);
        assert_eq!((filter, trigger), (Condition::Always, Condition::Never));
    }

    #[test]
    fn events_are_added_and_taken_away_while_recording() {
        let events = UserEvents::new(["motor".to_owned()]).unwrap();
        let (period, noise) = (schema("period", &[]), schema("noise", &[]));
        assert_eq!(choice(&events, &noise).filter, Condition::Always);
        let fewer = events.and(&excluded("motor:noise*, motor:x")).unwrap();
        assert_eq!(choice(&fewer, &noise).filter, Condition::Never);
        assert_eq!(choice(&fewer, &period).filter, Condition::Always);
        assert_eq!(choice(&fewer.and("motor:noise").unwrap(), &noise).filter, Condition::Always);
        assert_eq!(fewer.patterns(), ["motor", "!motor:noise*", "!motor:x"]);
        assert!(events.and(&excluded("motor:x if y > 3")).is_err());
        let again = fewer.and("motor:x").unwrap().and(&excluded("motor:x")).unwrap();
        assert_eq!(again.patterns(), ["motor", "!motor:noise*", "motor:x", "!motor:x"]);
        assert_eq!(again.and("motor:x").unwrap().and(&excluded("motor:x")).unwrap(), again);
    }

    #[test]
    fn hits_that_request_a_snapshot_are_recorded() {
        let events = UserEvents::new(["other".to_owned()]).unwrap();
        let events = events.with_triggers(["motor:period if late > 5".to_owned()]).unwrap();
        let late = choice(&events, &schema("period", &["late"]));
        assert!(matches!(late.trigger, Condition::Code(_)) && late.filter == late.trigger);
        let without = choice(&events, &schema("period", &[]));
        assert_eq!((without.filter, without.trigger), (Condition::Never, Condition::Never));
    }

    #[test]
    fn what_is_wrong_with_a_rule_is_shown_where_it_is() {
        let error = UserEvents::new(["motor:period if late >".to_owned()]).unwrap_err();
        assert!(error.lines().count() >= 3 && error.lines().last().unwrap().contains('^'), "{error}");
    }
}
