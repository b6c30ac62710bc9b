//! Names of the kernel's events, and selections of them.

use crate::settings::digit;
use crate::{Error, Instance, Tracefs};
use sordino_filter_vm::glob;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Name of a kernel event, printed as `system:name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventName {
    /// Group to which the event belongs.
    pub system: String,
    /// Name of the event within its group.
    pub name: String,
}

impl EventName {
    /// Path of one of the event's files, relative to an instance.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("events/{}/{}/{name}", self.system, self.name)
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.system, self.name)
    }
}

/// The set `rt`: events that explain the time of a real-time thread. Every kernel has most of them; the events of the
/// CPU's own interrupts depend on the architecture.
const RT: [&str; 20] = [
    "sched:sched_switch",
    "sched:sched_wak*",
    "sched:sched_migrate_task",
    "sched:sched_process_*",
    "sched:sched_pi_setprio",
    "irq:irq_handler_*",
    "irq:softirq_*",
    "irq_vectors:*",
    "timer:timer_expire_*",
    "timer:hrtimer_expire_*",
    "timer:hrtimer_start",
    "workqueue:workqueue_execute_*",
    "exceptions:page_fault_*",
    "nmi:*",
    "raw_syscalls:*",
    "signal:*",
    "ipi:*",
    "csd:csd_queue_cpu",
    "filemap:mm_filemap_fault",
    "filemap:mm_filemap_add_to_page_cache",
];
/// Group of the set `rt` that grants leave out, because its events contain page frame numbers.
const RT_DETAIL: &str = "filemap";
/// Name of the set [`RT`].
const RT_NAME: &str = "rt";

/// A user's selection of events.
///
/// The pattern is `sched:sched_switch`, `sched_switch`, a group such as `sched`, or the set `rt` (the events that
/// explain the time of a real-time thread), with `*` and `?` anywhere (`sched:*wak*`, `*timer*`). ` if ` may follow,
/// with a filter in the kernel's syntax: `sched_switch if prev_prio < 100`.
///
/// ```
/// use sordino_tracefs::Selection;
/// let selection: Selection = "sched_switch if prev_prio < 100".parse()?;
/// assert_eq!(selection.filter.as_deref(), Some("prev_prio < 100"));
/// # Ok::<(), sordino_tracefs::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Pattern for the names of events and groups.
    pub pattern: String,
    /// Filter in the kernel's syntax: records for which it is false are left out.
    pub filter: Option<String>,
}

impl FromStr for Selection {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let (pattern, filter) = match text.split_once(" if ") {
            Some((pattern, filter)) => (pattern.trim(), Some(filter.trim().to_owned())),
            None => (text.trim(), None),
        };
        let selection = Self { pattern: pattern.to_owned(), filter };
        if selection.filter.as_ref().is_some_and(String::is_empty) {
            return Err(selection.malformed("there is no filter after 'if'"));
        }
        selection.matcher()?;
        Ok(selection)
    }
}

impl Selection {
    /// Parses selections separated by commas. A comma inside quotes, braces or parentheses belongs to a filter.
    ///
    /// # Errors
    /// Returns the first selection that is malformed.
    ///
    /// ```
    /// use sordino_tracefs::Selection;
    /// let list = Selection::list("irq,sched_switch if prev_comm ~ \"a,b*\" && CPUS{0,1} & 1,timer")?;
    /// assert_eq!(list.len(), 3);
    /// # Ok::<(), sordino_tracefs::Error>(())
    /// ```
    pub fn list(text: &str) -> Result<Vec<Self>, Error> {
        let (mut depth, mut quoted) = (0_u32, false);
        let separates = |letter: char| {
            match letter {
                '"' => quoted = !quoted,
                '(' | '{' if !quoted => depth += 1,
                ')' | '}' if !quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0 && !quoted
        };
        text.split(separates).map(str::parse).collect()
    }

    fn malformed(&self, reason: impl fmt::Display) -> Error {
        Error::Pattern { pattern: self.pattern.clone(), reason: reason.to_string() }
    }

    fn matcher(&self) -> Result<Matcher, Error> {
        let glob = |text: &str| match text.find(['[', ']', '{', '}', '\\']) {
            _ if text.is_empty() => Err(self.malformed("a name is empty")),
            Some(_) => Err(self.malformed(format!("{}; write one for each name", glob::DIALECT))),
            None => Ok(Pattern(text.to_owned())),
        };
        let both = |text: &str| -> Result<_, Error> {
            text.split_once(':').map(|(system, name)| Ok((glob(system)?, glob(name)?))).transpose()
        };
        Ok(match both(&self.pattern)? {
            Some((system, name)) => Matcher::Both(system, name),
            None if self.pattern == RT_NAME => {
                let all = RT.iter().filter_map(|event| both(event).transpose());
                Matcher::Set(all.collect::<Result<_, _>>()?)
            }
            None => Matcher::Either(glob(&self.pattern)?),
        })
    }
}

/// A pattern for a name, in the one dialect of patterns ([`glob`]).
struct Pattern(String);

impl Pattern {
    fn is_match(&self, name: &str) -> bool {
        glob::matches(self.0.as_bytes(), name.as_bytes())
    }
}

enum Matcher {
    /// The group matches the first pattern and the name the second.
    Both(Pattern, Pattern),
    /// The group or the name matches the pattern.
    Either(Pattern),
    /// The group and the name match one of these pairs.
    Set(Vec<(Pattern, Pattern)>),
}

impl Matcher {
    fn matches(&self, event: &EventName) -> bool {
        match self {
            Self::Both(system, name) => system.is_match(&event.system) && name.is_match(&event.name),
            Self::Either(either) => either.is_match(&event.system) || either.is_match(&event.name),
            Self::Set(set) => {
                set.iter().any(|(system, name)| system.is_match(&event.system) && name.is_match(&event.name))
            }
        }
    }
}

/// Returns the `available` events that the selections match, each with its filter. For an event with several filters, a
/// record has to pass any of them.
///
/// # Errors
/// [`Error::UnknownEvent`] if a selection matches no event.
pub fn choose(
    selections: &[Selection],
    available: &[EventName],
) -> Result<BTreeMap<EventName, Option<String>>, Error> {
    let mut chosen: BTreeMap<EventName, Option<String>> = BTreeMap::new();
    for selection in selections {
        let matcher = selection.matcher()?;
        let mut found = false;
        for event in available.iter().filter(|event| matcher.matches(event)) {
            found = true;
            let filter = match (chosen.get(event), &selection.filter) {
                (None, filter) => filter.clone(),
                (Some(Some(before)), Some(filter)) if before == filter => Some(filter.clone()),
                (Some(Some(before)), Some(filter)) => Some(format!("({before}) || ({filter})")),
                (Some(_), _) => None,
            };
            chosen.insert(event.clone(), filter);
        }
        if !found {
            let pattern = selection.pattern.clone();
            let nearest = nearest(&pattern, available);
            return Err(Error::UnknownEvent { pattern, nearest });
        }
    }
    Ok(chosen)
}

/// Returns up to three names of groups or events that are similar to `pattern`, the nearest first.
fn nearest(pattern: &str, available: &[EventName]) -> Vec<String> {
    let names = available.iter().flat_map(|event| {
        let full = pattern.contains(':').then(|| event.to_string());
        let parts = (!pattern.contains(':')).then(|| [event.name.clone(), event.system.clone()]);
        full.into_iter().chain(parts.into_iter().flatten())
    });
    let distance = |name: String| (strsim::osa_distance(pattern, &name), name);
    let mut near: Vec<_> = names.map(distance).filter(|(far, _)| *far <= pattern.len() / 3 + 1).collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

impl Tracefs {
    /// Returns the events that this kernel can trace, sorted.
    ///
    /// # Errors
    /// Returns an error if the kernel's list cannot be read.
    pub fn events(&self) -> Result<Vec<EventName>, Error> {
        let text = self.root.read("available_events")?;
        let mut events = Vec::new();
        for line in text.lines() {
            let Some((system, name)) = line.split_once(':') else {
                return Err(Error::Unexpected {
                    path: self.root.path("available_events"),
                    expected: "system:name",
                    found: line.to_owned(),
                });
            };
            events.push(EventName { system: system.to_owned(), name: name.to_owned() });
        }
        events.sort_unstable();
        Ok(events)
    }
}

impl Instance {
    /// Traces exactly these events from now on, and returns them.
    ///
    /// # Errors
    /// Returns an error if a selection matches nothing or the kernel rejects a filter: then nothing is traced. Returns
    /// an error if the kernel fails to enable an event.
    pub fn select(&mut self, selections: &[Selection]) -> Result<Vec<EventName>, Error> {
        let available = self.tracefs.events()?;
        let mut chosen = choose(selections, &available)?;
        if self.stays {
            self.leave_out_ungranted(selections, &mut chosen)?;
        }
        self.disable_all()?;
        for event in std::mem::take(&mut self.filtered) {
            self.dir.write(&event.file("filter"), "0")?;
        }
        self.expect_granted(chosen.keys())?;
        for (event, filter) in &chosen {
            if let Some(filter) = filter {
                self.filtered.push(event.clone());
                self.filter(event, filter)?;
            }
        }
        for (system, events) in by_system(chosen.keys()) {
            // Enabling a whole group is many times faster than enabling each of its events.
            if events.len() == available.iter().filter(|event| event.system == system).count() {
                self.dir.set(&format!("events/{system}/enable"), "1")?;
                continue;
            }
            for event in events {
                self.dir.set(&event.file("enable"), "1")?;
            }
        }
        Ok(chosen.into_keys().collect())
    }

    /// Traces one more event, or no longer traces it.
    ///
    /// # Errors
    /// Returns an error if there is no such event, or the instance may not record it.
    pub fn set_event(&self, event: &EventName, on: bool) -> Result<(), Error> {
        self.dir.set(&event.file("enable"), digit(on))
    }

    /// Checks that the group of a prepared instance may record the chosen events.
    fn expect_granted<'a>(&self, chosen: impl Iterator<Item = &'a EventName>) -> Result<(), Error> {
        if !self.stays {
            return Ok(());
        }
        let closed = chosen.filter(|event| self.is_closed(event));
        let closed: Vec<String> = closed.map(EventName::to_string).collect();
        let Some(first) = closed.first() else { return Ok(()) };
        Err(Error::NotGranted { event: first.clone(), more: closed.len() - 1 })
    }

    fn is_closed(&self, event: &EventName) -> bool {
        matches!(self.dir.source(&event.file("format")), Err(Error::NotPermitted { .. }))
    }

    /// Removes events of the set `rt` that the group may not record and that no other selection names: explanations
    /// lack only a detail without them.
    fn leave_out_ungranted(
        &self,
        selections: &[Selection],
        chosen: &mut BTreeMap<EventName, Option<String>>,
    ) -> Result<(), Error> {
        let named = selections.iter().filter(|selection| selection.pattern != RT_NAME);
        let named: Vec<Matcher> = named.map(Selection::matcher).collect::<Result<_, _>>()?;
        let is_named = |event: &EventName| named.iter().any(|matcher| matcher.matches(event));
        chosen.retain(|event, _| event.system != RT_DETAIL || is_named(event) || !self.is_closed(event));
        Ok(())
    }

    fn filter(&self, event: &EventName, filter: &str) -> Result<(), Error> {
        let path = event.file("filter");
        let Err(error) = self.dir.write(&path, filter) else { return Ok(()) };
        // After the rejection of a filter, its file contains the filter, a caret below it and the reason; the error
        // number is arbitrary.
        let content = self.dir.read(&path)?;
        let Some((context, reason)) = content.trim_end().rsplit_once("\nparse_error: ") else {
            return Err(error);
        };
        self.dir.write(&path, "0")?;
        Err(Error::Filter {
            event: event.to_string(),
            reason: reason.to_owned(),
            context: context.to_owned(),
        })
    }
}

fn by_system<'a>(events: impl Iterator<Item = &'a EventName>) -> BTreeMap<&'a str, Vec<&'a EventName>> {
    let mut systems: BTreeMap<&str, Vec<&EventName>> = BTreeMap::new();
    for event in events {
        systems.entry(&event.system).or_default().push(event);
    }
    systems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(names: &[&str]) -> Vec<EventName> {
        let event = |name: &&str| {
            let (system, name) = name.split_once(':').unwrap();
            EventName { system: system.to_owned(), name: name.to_owned() }
        };
        names.iter().map(event).collect()
    }

    fn available() -> Vec<EventName> {
        let timers = ["timer:hrtimer_cancel", "timer:hrtimer_start"];
        events(&[&["irq:softirq_entry", "sched:sched_switch", "sched:sched_waking"], &timers[..]].concat())
    }

    fn chosen(texts: &[&str]) -> Vec<String> {
        let selections: Vec<Selection> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let show = |(event, filter): (EventName, Option<String>)| match filter {
            Some(filter) => format!("{event} if {filter}"),
            None => event.to_string(),
        };
        choose(&selections, &available()).unwrap().into_iter().map(show).collect()
    }

    #[test]
    fn groups_names_and_patterns_choose_events() {
        assert_eq!(chosen(&["sched"]), ["sched:sched_switch", "sched:sched_waking"]);
        assert_eq!(chosen(&["sched_switch"]), ["sched:sched_switch"]);
        assert_eq!(chosen(&["sched:*wak*"]), ["sched:sched_waking"]);
        assert_eq!(chosen(&["irq", "hrtimer_s*"]), ["irq:softirq_entry", "timer:hrtimer_start"]);
        assert_eq!(chosen(&["*"]).len(), 5);
        let rt = ["irq:softirq_entry", "sched:sched_switch", "sched:sched_waking", "timer:hrtimer_start"];
        assert_eq!(chosen(&["rt"]), rt);
        assert_eq!(chosen(&["rt if common_pid > 0"])[1], "sched:sched_switch if common_pid > 0");
    }

    #[test]
    fn a_star_stands_for_any_characters_and_a_question_mark_for_one() {
        assert_eq!(chosen(&["s?hed"]), ["sched:sched_switch", "sched:sched_waking"]);
        assert_eq!(chosen(&["*:*_s????"]), ["timer:hrtimer_start"]);
        let error = "sched:{sched_switch,sched_waking}".parse::<Selection>().unwrap_err();
        assert!(error.to_string().contains("only * and ? stand for other characters"), "{error}");
    }

    #[test]
    fn filters_of_one_event_are_joined() {
        assert_eq!(
            chosen(&["sched_switch if a < 1", "sched_switch if b == 2"]),
            ["sched:sched_switch if (a < 1) || (b == 2)"]
        );
        assert_eq!(chosen(&["sched_switch if a", "sched:sched_switch if a"]), ["sched:sched_switch if a"]);
        // A selection without a filter wins: every record is traced.
        for order in [["sched_switch if a < 1", "sched_switch"], ["sched_switch", "sched_switch if a < 1"]] {
            assert_eq!(chosen(&order), ["sched:sched_switch"]);
        }
    }

    #[test]
    fn unknown_names_come_with_the_nearest_ones() {
        let nearest = |text: &str| -> Vec<String> {
            let selections = [text.parse().unwrap()];
            let Err(Error::UnknownEvent { nearest, .. }) = choose(&selections, &available()) else {
                panic!("{text} is known")
            };
            nearest
        };
        assert_eq!(nearest("sched_swtich")[0], "sched_switch");
        assert_eq!(nearest("sched:sched_wakeing")[0], "sched:sched_waking");
        assert_eq!(nearest("schde"), ["sched"]);
        assert!(nearest("completely_different").is_empty());
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for text in ["", ":", "sched:", ":x", "[", "sched:{a,b}", "a[12]", r"\*", "sched if ", "a if  "] {
            assert!(matches!(text.parse::<Selection>(), Err(Error::Pattern { .. })), "{text}");
        }
    }
}
