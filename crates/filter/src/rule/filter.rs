//! Rules for decoded events: they choose the events of a recording that are shown.

use super::{Rule, Rules};
use crate::Invalid;
use crate::condition::{ClassCondition, Expression, Known};
use sordino_event::{Class, ClassId, Classes, Event, FieldValues};
use sordino_filter_vm::glob;

/// Rules and a condition, applied to the classes of a recording.
///
/// An event passes if the rules choose it, as [`Rules::choose`] does for tracepoints, and it meets the condition.
/// Without a rule that includes anything, the rules choose all events of the classes that are shown by default.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The picked events of each class, indexed by class.
    picks: Vec<Pick>,
}

/// The events of a class that pass.
#[derive(Clone, Debug)]
enum Pick {
    None,
    All,
    Some(Box<ClassFilter>),
}

/// The events of one class that meet a condition.
#[derive(Clone, Debug)]
struct ClassFilter {
    /// The alternative conditions: an event has to meet one of them, if there are any.
    any: Vec<ClassCondition>,
    /// The condition that every event has to meet in addition.
    condition: Option<ClassCondition>,
    /// True if an event's fields alone decide.
    is_about_fields: bool,
}

impl Filter {
    /// Creates the filter for events of `classes`. `is_default` returns true for classes that are shown if no rule
    /// includes any by name.
    pub fn new(
        rules: &Rules,
        condition: Option<&Expression>,
        classes: &Classes,
        is_default: impl Fn(&Class) -> bool,
    ) -> Self {
        let pick = |class: &Class| match rules.pick(class, &is_default) {
            None => Pick::None,
            Some(any) if any.is_empty() && condition.is_none() => Pick::All,
            // A class that lacks a field of the condition has no event that meets it.
            Some(any) => ClassFilter::new(&any, condition, class)
                .map_or(Pick::None, |filter| Pick::Some(Box::new(filter))),
        };
        Self { picks: classes.iter().map(|(_, class)| pick(class)).collect() }
    }

    /// Returns true if `event` passes. `known` is called only where a condition decides.
    ///
    /// # Errors
    /// The part of a condition that does not fit the event.
    pub fn passes<'a>(&self, event: &Event, known: impl FnOnce() -> Known<'a>) -> Result<bool, Invalid> {
        match self.picks.get(event.class.index()) {
            Some(Pick::All) => Ok(true),
            Some(Pick::Some(part)) => part.has(event, &known()),
            Some(Pick::None) | None => Ok(false),
        }
    }

    /// Returns true if no facts about an event of `class` could make it pass, and its fields fit the conditions.
    pub fn rejects(&self, class: ClassId, values: &dyn FieldValues) -> bool {
        match self.picks.get(class.index()) {
            Some(Pick::All) => false,
            Some(Pick::Some(part)) => part.is_about_fields && part.has(values, &Known::NOTHING) == Ok(false),
            Some(Pick::None) | None => true,
        }
    }

    /// Returns true if events of this class can pass.
    pub fn chooses(&self, class: ClassId) -> bool {
        !matches!(self.picks.get(class.index()), Some(Pick::None) | None)
    }
}

impl ClassFilter {
    fn new(any: &[&Expression], condition: Option<&Expression>, class: &Class) -> Result<Self, Invalid> {
        Ok(Self {
            is_about_fields: any.iter().copied().chain(condition).all(Expression::is_about_fields),
            any: any.iter().map(|expression| expression.for_class(class)).collect::<Result<_, _>>()?,
            condition: condition.map(|condition| condition.for_class(class)).transpose()?,
        })
    }

    fn has(&self, values: &dyn FieldValues, known: &Known<'_>) -> Result<bool, Invalid> {
        let is_met = |condition: &ClassCondition| condition.is_met_by(values, known);
        if let Some(condition) = &self.condition
            && !is_met(condition)?
        {
            return Ok(false);
        }
        // A rule that does not fit the event leaves the decision to the others, whatever their order.
        let mut misfit = None;
        for condition in &self.any {
            match is_met(condition) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(invalid) => misfit = misfit.or(Some(invalid)),
            }
        }
        misfit.map_or(Ok(self.any.is_empty()), Err)
    }
}

impl Rules {
    /// Returns the alternative conditions for events of `class`, of which an event has to meet one; an empty list if
    /// there is no condition, `None` if the rules do not choose the class.
    fn pick(&self, class: &Class, is_default: impl Fn(&Class) -> bool) -> Option<Vec<&Expression>> {
        let matching: Vec<&Rule> = self.0.iter().filter(|rule| rule.matches_class(class)).collect();
        let included = matching.rsplit(|rule| rule.excludes).next().unwrap_or_default();
        if matching.is_empty() && self.0.iter().all(|rule| rule.excludes) && is_default(class) {
            return Some(Vec::new());
        }
        let mut any = Vec::new();
        for rule in included {
            match rule.condition() {
                None => return Some(Vec::new()),
                Some(condition) if condition.lacking_in(class).is_none() => any.push(condition),
                Some(_) => {}
            }
        }
        (!any.is_empty()).then_some(any)
    }
}

impl Rule {
    /// Returns true if the rule applies to events of this class, by their name. A kernel event has no provider: its
    /// bare name is enough.
    pub fn matches_class(&self, class: &Class) -> bool {
        let matches = |name: &str| glob::matches(self.pattern.as_bytes(), name.as_bytes());
        matches(&class.name) || (!class.name.contains(':') && matches(&format!("{}:", class.name)))
    }

    /// Returns the condition on the events that the rule adds, if it has one.
    pub fn condition(&self) -> Option<&Expression> {
        self.condition.as_ref().map(|(_, condition)| condition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::{Cpu, Domain, Nanos, Time, Value};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn classes() -> Classes {
        let mut classes = Classes::default();
        let mut add = |domain, name: &str, fields: &[&str]| {
            classes.add(Class::new(domain, name, fields.iter().copied()));
        };
        add(Domain::User, "motor:period", &["late", "state"]);
        add(Domain::User, "motor:noise", &[]);
        add(Domain::Kernel, "sched_switch", &["late"]);
        add(Domain::Kernel, "dump", &[]);
        classes
    }

    /// Returns the indexes of the classes whose events pass if their first field is 7.
    fn passing(rules: &str, condition: Option<&str>) -> Vec<usize> {
        let rules = Rules(if rules.is_empty() { Vec::new() } else { Rule::list(rules).unwrap() });
        let condition = condition.map(|text| Expression::parse(text).unwrap());
        let classes = classes();
        let filter = Filter::new(&rules, condition.as_ref(), &classes, |class| class.name != "dump");
        let passes = |id: ClassId, class: &Class| {
            let mut event = Event::default();
            event.begin(Time(1), id);
            if !class.fields.is_empty() {
                event.push(Value::unsigned(7));
            }
            let known = Known { cpu: Some(Cpu(1)), comm: Some("motor"), ..Known::default() };
            filter.passes(&event, || known)
        };
        let ids = classes.iter().filter(|(id, class)| passes(*id, class).unwrap());
        ids.map(|(id, _)| id.index()).collect()
    }

    #[test]
    fn rules_choose_events_by_name_and_condition() {
        for (rules, expected) in [
            ("", &[0, 1, 2][..]),
            ("motor", &[0, 1]),
            ("motor:*, !motor:noise", &[0]),
            ("!motor:noise", &[0, 2]),
            ("!motor", &[2]),
            ("sched_switch", &[2]),
            ("sched_*", &[2]),
            ("dump", &[3]),
            ("*", &[0, 1, 2, 3]),
            ("* if late > 6", &[0, 2]),
            ("* if late > 7", &[]),
            ("motor:period if late > 7, sched_switch if late == 7", &[2]),
            ("motor if late > 7, motor", &[0, 1]),
        ] {
            assert_eq!(passing(rules, None), expected, "{rules}");
        }
    }

    #[test]
    fn a_condition_holds_for_all_that_the_rules_choose() {
        for (condition, expected) in [
            ("late == 7", &[0, 2][..]),
            ("$name == \"p*\" && $provider == \"motor\"", &[0]),
            ("$cpu == 1 && $comm == \"mot*\"", &[0, 1, 2]),
            // A kernel event has no provider: neither it nor its opposite holds.
            ("!($provider == \"x\")", &[0, 1]),
            ("$tid > 0 || !($tid > 0)", &[]),
            ("nowhere == 1", &[]),
        ] {
            assert_eq!(passing("", Some(condition)), expected, "{condition}");
        }
        assert_eq!(passing("sched_switch", Some("late == 7")), [2]);
    }

    #[test]
    fn a_condition_uses_facts_about_the_thread_and_the_recording() {
        let texts: BTreeMap<Arc<str>, Arc<str>> =
            [("request", "41"), ("state", "busy")].map(|(name, text)| (name.into(), text.into())).into();
        let counters = [("cycles".into(), 1234)];
        let known = Known {
            priority: Some(9),
            host: Some("robot-1"),
            domain: Some(Domain::Kernel),
            time: Some(Nanos(2_000_000)),
            annotations: Some(&texts),
            counters: &counters,
            ..Known::default()
        };
        let classes = classes();
        let mut event = Event::default();
        event.begin(Time(1), classes.iter().nth(1).unwrap().0);
        let holds = |text: &str| {
            let condition = Expression::parse(text).unwrap();
            let filter = Filter::new(&Rules::default(), Some(&condition), &classes, |_| true);
            filter.passes(&event, || known)
        };
        for text in [
            "$prio < 10 && $prio * 2 == 18",
            "$host == \"robot-*\"",
            "$domain == \"kernel\"",
            "$time == 2ms && $time < 3ms",
            "$annotation.request == 41 && $annotation.request == \"4?\"",
            "$annotation.state == \"busy\" && $annotation.state != \"idle\"",
            "$counter.cycles > 1000",
        ] {
            assert_eq!(holds(text), Ok(true), "{text}");
            assert_eq!(holds(&format!("!({text})")), Ok(false), "{text}");
        }
        // Neither they nor their opposite hold: the thread has no such annotation or counter, or its text is no number.
        for text in ["$annotation.other == 1", "$counter.misses >= 0", "$annotation.state == 5"] {
            assert_eq!((holds(text), holds(&format!("!({text})"))), (Ok(false), Ok(false)), "{text}");
        }
        assert_eq!(holds("$counter.cycles == \"x\"").unwrap_err().at, 0..15);
        assert_eq!(Expression::parse("$annotation > 5").unwrap_err().at, 0..11);
    }

    #[test]
    fn a_rule_that_does_not_fit_an_event_leaves_it_to_the_others() {
        for rules in
            ["motor if late == \"x\", motor if late == 7", "motor if late == 7, motor if late == \"x\""]
        {
            assert_eq!(passing(rules, None), [0], "{rules}");
        }
    }

    #[test]
    fn a_comparison_that_makes_no_sense_is_an_error_with_its_place() {
        let classes = classes();
        let mut event = Event::default();
        event.begin(Time(1), classes.iter().next().unwrap().0);
        event.push(Value::unsigned(7));
        event.push_text(b"running");
        for (text, at) in [("late == \"x\"", 0..4), ("late > 0 && state > 5", 12..17), ("state", 0..5)] {
            let condition = Expression::parse(text).unwrap();
            let filter = Filter::new(&Rules::default(), Some(&condition), &classes, |_| true);
            let invalid = filter.passes(&event, Known::default).unwrap_err();
            assert_eq!(invalid.at, at, "{text}: {invalid}");
        }
    }
}
