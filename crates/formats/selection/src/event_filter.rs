//! The selection of events to list, and its check against a recording.

use crate::SelectionError;
use clap::Args;
use sordino_collect::names::meant;
use sordino_event::functions::function_field;
use sordino_event::text::printable;
use sordino_event::{Class, ClassId, Classes, FieldValues};
use sordino_filter::Invalid;
use sordino_filter::condition::Expression;
use sordino_filter::rule::{Filter, Rule, Rules};
use sordino_query::Facts;
use sordino_terminal::message;
use sordino_timeline::{Item, is_added};

/// The options that select events.
#[derive(Args, Debug, Default)]
pub struct EventOptions {
    /// Select only events that match these rules, separated by commas: names or globs; '!' excludes; 'if' adds a
    /// condition on the fields: 'motor:*, !motor:noise*, sched_switch if next_prio < 0'
    ///
    /// Kernel events have LTTng's names and values: real-time priorities in their fields are below 0. A provider alone,
    /// such as motor, stands for all of its tracepoints.
    #[arg(short, long, value_name = "RULES")]
    event: Vec<String>,
    /// Select only events that meet this condition, such as 'late > 50us && $cpu == 1': on their fields, $cpu, $time
    /// (since the recording began), and their threads' $tid, $comm (name) and $prio (below 100: real-time)
    ///
    /// Further variables: $pid, $procname (the program's name), $name, $provider, $level, $domain (kernel or user),
    /// $host, $fiber, $function, $annotation.NAME, $counter.NAME.
    #[arg(short = 'w', long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Also select the events that the recorder adds: the state dump (the processes, files and devices that existed
    /// when the recording began), and the time that a hypervisor took
    #[arg(long)]
    statedump: bool,
}

/// The selected events, parsed.
#[derive(Debug)]
pub struct EventRules {
    /// The option that has the rules.
    option: &'static str,
    rules: Rules,
    condition: Option<Expression>,
    statedump: bool,
}

/// A filter for the events of a recording, which counts the events that pass.
#[derive(Debug)]
pub struct EventFilter {
    filter: Filter,
    facts: Facts,
    /// The selection, for the message that no event passes it; `None` if there is none.
    limit: Option<&'static str>,
    passed: u64,
    left_out: u64,
    misfits: u64,
    /// The first reason why a condition can't be applied to an event.
    misfit: Option<Invalid>,
}

impl EventOptions {
    /// Parses the options.
    ///
    /// # Errors
    /// The fault in the text, with a picture of its place.
    pub fn rules(&self) -> Result<EventRules, SelectionError> {
        let mut rules = EventRules::parse("--event", &self.event)?;
        rules.condition = self.condition.as_deref().map(parse_condition).transpose()?;
        rules.statedump = self.statedump;
        Ok(rules)
    }
}

/// Parses the condition of `--where`.
///
/// # Errors
/// The fault in the text, with a picture of its place.
pub fn parse_condition(text: &str) -> Result<Expression, SelectionError> {
    Expression::parse(text).map_err(|invalid| bad("--where", text, invalid))
}

fn bad(option: &str, text: &str, invalid: Invalid) -> SelectionError {
    SelectionError(format!("{option} {invalid}\n{}", invalid.picture(text)))
}

impl EventRules {
    /// Parses the rules of an option, without the events that the recorder adds.
    ///
    /// # Errors
    /// The fault in the text, with a picture of its place.
    pub fn parse(option: &'static str, texts: &[String]) -> Result<Self, SelectionError> {
        let mut rules = Rules::default();
        for text in texts {
            rules.0.extend(Rule::list(text).map_err(|invalid| bad(option, text, invalid))?);
        }
        Ok(Self { option, rules, condition: None, statedump: false })
    }

    /// Returns the condition that all listed events meet, if there is one.
    pub fn condition(&self) -> Option<&Expression> {
        self.condition.as_ref()
    }

    /// Returns true if all events are selected, except those that the recorder adds.
    pub fn selects_all(&self) -> bool {
        self.rules.0.is_empty() && self.condition.is_none()
    }

    /// Returns true if the events that the recorder adds are selected.
    pub fn has_statedump(&self) -> bool {
        self.statedump
    }

    /// Returns the filter for a recording with these classes and facts.
    pub fn filter_of(&self, classes: &Classes, facts: Facts) -> EventFilter {
        let filter = self.filter(self.condition.as_ref(), classes);
        let limit = match (self.rules.0.is_empty(), self.condition.is_none()) {
            (true, true) => None,
            (false, true) => Some("none passes --event"),
            (true, false) => Some("none meets --where"),
            (false, false) => Some("none passes --event and meets --where"),
        };
        EventFilter { filter, facts, limit, passed: 0, left_out: 0, misfits: 0, misfit: None }
    }

    fn filter(&self, condition: Option<&Expression>, classes: &Classes) -> Filter {
        Filter::new(&self.rules, condition, classes, |class| self.statedump || !is_added(class))
    }

    /// Checks the names of events and fields.
    ///
    /// # Errors
    /// A rule that matches none of the recording's events, or a field that none of these events has.
    pub fn check(&self, classes: &Classes) -> Result<(), SelectionError> {
        for rule in self.rules.0.iter().filter(|rule| !rule.excludes()) {
            let of_rule: Vec<&Class> =
                classes.iter().map(|(_, class)| class).filter(|class| rule.matches_class(class)).collect();
            if of_rule.is_empty() {
                let names = classes.iter().map(|(_, class)| &*class.name);
                let name = rule.pattern().trim_end_matches(":*");
                return Err(nothing(&format!("{} '{rule}'", self.option), "event of that name", name, names));
            }
            if let Some(condition) = rule.condition() {
                check_fields(&format!("{} '{rule}'", self.option), condition, &of_rule)?;
            }
        }
        let Some(condition) = &self.condition else { return Ok(()) };
        let filter = self.filter(None, classes);
        let chosen: Vec<&Class> =
            classes.iter().filter(|(id, _)| filter.chooses(*id)).map(|(_, class)| class).collect();
        check_fields("--where", condition, &chosen)
    }
}

/// Returns an error unless one of `classes` has all fields of `condition`.
pub fn check_fields(what: &str, condition: &Expression, classes: &[&Class]) -> Result<(), SelectionError> {
    if condition.names_functions() && classes.iter().all(|class| function_field(class).is_none()) {
        let text = format!(
            "{what}: no event is about a function, which $function could name: see docs/functions.md"
        );
        return Err(SelectionError(text));
    }
    if classes.is_empty() || classes.iter().any(|class| condition.lacking_in(class).is_none()) {
        return Ok(());
    }
    let asked = condition.fields();
    let unknown = asked.iter().find(|field| classes.iter().all(|class| class.field(field).is_none()));
    Err(match unknown {
        Some(field) => {
            let known = classes.iter().flat_map(|class| class.fields.iter().map(String::as_str));
            nothing(what, &format!("event with a field '{field}'"), field, known)
        }
        None => {
            let text = format!("{what}: no event has all of the fields {}", asked.join(", "));
            SelectionError(text)
        }
    })
}

fn nothing<'a>(
    what: &str,
    lacking: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> SelectionError {
    let remedy = meant(name, known).map_or(String::new(), |remedy| format!("; {remedy}"));
    SelectionError(format!("{what}: the recording has no {lacking}{remedy}"))
}

impl EventFilter {
    /// Returns true if `item` is selected. Losses always are.
    pub fn passes(&mut self, item: &Item<'_>) -> bool {
        let Item::Event(moment) = item else { return true };
        match self.filter.passes(moment.event, || self.facts.known(moment, moment.tid)) {
            Ok(passes) => {
                self.passed += u64::from(passes);
                self.left_out += u64::from(!passes);
                passes
            }
            Err(invalid) => {
                self.misfits += 1;
                self.misfit.get_or_insert(invalid);
                false
            }
        }
    }

    /// Returns true if events of this class can pass.
    pub fn chooses(&self, class: ClassId) -> bool {
        self.filter.chooses(class)
    }

    /// Returns a function that returns true for events that certainly do not pass, for a selection in which these need
    /// not be counted.
    pub fn rejects(&self) -> Option<impl Fn(ClassId, &dyn FieldValues) -> bool + Send + Sync + use<>> {
        let filter = self.limit.map(|_| self.filter.clone())?;
        Some(move |class, values: &dyn FieldValues| filter.rejects(class, values))
    }

    /// Continues the counts of `before`, which filtered earlier events.
    pub fn continues(&mut self, before: &Self) {
        self.passed += before.passed;
        self.left_out += before.left_out;
        self.misfits += before.misfits;
        if let Some(misfit) = &before.misfit {
            self.misfit = Some(misfit.clone());
        }
    }

    /// Prints a message if a condition could not be applied to events, or if no event was listed.
    pub fn report(&self) {
        if let Some(misfit) = &self.misfit {
            let events = if self.misfits == 1 { "event does" } else { "events do" };
            let misfit = misfit.to_string();
            message!("sordino: {} {events} not fit the condition: {}", self.misfits, printable(&misfit));
        }
        if let Some(note) = self.facts.note_on_functions() {
            message!("sordino: {note}");
        }
        if self.passed == 0 {
            let why = match (self.limit, self.left_out) {
                (Some(limit), _) => limit,
                (None, 0) => "the recording, or the chosen part of it, has none",
                (None, _) => "the recording has only what the recorder adds (--statedump lists it)",
            };
            message!("sordino: no event is listed: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::Domain;

    #[test]
    fn what_the_recorder_adds_is_selected_where_it_is_asked_for() {
        let mut classes = Classes::default();
        let [added, traced] = ["sordino_steal", "sched_switch"]
            .map(|name| classes.add(Class::new(Domain::Kernel, name, ["cpu"])));
        let chosen = |rules: &EventRules| {
            let filter = rules.filter(None, &classes);
            [added, traced].map(|class| filter.chooses(class))
        };
        let mut rules = EventRules::parse("--event", &[]).unwrap();
        assert_eq!(chosen(&rules), [false, true]);
        rules.statedump = true;
        assert_eq!(chosen(&rules), [true, true]);
        let named = EventRules::parse("--event", &["sordino_steal".to_owned()]).unwrap();
        assert_eq!(chosen(&named), [true, false]);
    }

    #[test]
    fn a_condition_on_functions_needs_events_about_functions() {
        let condition = parse_condition("$function == \"solve\" || $tid == 5").unwrap();
        let [timer, entry] = ["timer:start", "sordino_function:entry"]
            .map(|name| Class::new(Domain::User, name, ["function", "call_site"]));
        let refused = check_fields("--where", &condition, &[&timer]).unwrap_err().to_string();
        assert!(refused.starts_with("--where: no event is about a function"), "{refused}");
        assert!(check_fields("--where", &condition, &[&timer, &entry]).is_ok());
    }
}
