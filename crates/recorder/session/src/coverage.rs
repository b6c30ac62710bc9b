//! Checks which rules have matched, among all tracepoints that a session has seen, including those of programs that
//! have ended.
//!
//! Programs may be hostile: names are kept up to a limit, and up to a lower one for untrusted users. A rule's matches
//! are complete nevertheless, because each tracepoint is checked when its program declares it.

use sordino_collect::options::{IMPLIED, UserEvents};
use sordino_collect::shortfall::{RuleCause, RuleProblem, TracepointFields};
use sordino_collect::similar::similar;
use sordino_event::Schema;
use sordino_filter::rule::{Rule, Rules};
use sordino_filter::{Invalid, condition::Context};
use sordino_intake::is_trusted;
use std::collections::BTreeSet;

/// Maximum size of the names kept, in bytes: of trusted users, and of all others together.
const MOST_BYTES: [usize; 2] = [1 << 20, 256 << 10];
/// Approximate memory for a name beside its characters, in bytes.
const EACH: usize = 64;
/// Maximum number of tracepoints that a problem names.
const MOST_NAMED: usize = 8;
/// Provider of the tracepoints that the library declares in each program.
const BUILT_IN: &str = "sordino";

/// A session's rules, and the tracepoints that each has matched.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    rules: Vec<Watched>,
    seen: BTreeSet<TracepointFields>,
    /// Size of the names kept, in bytes: of trusted users, and of others.
    bytes: [usize; 2],
    is_cut: bool,
}

/// A rule and its matches so far.
#[derive(Clone, Debug)]
struct Watched {
    rule: Rule,
    trigger: bool,
    /// True if the rule has chosen a tracepoint, or excluded one that was chosen.
    is_used: bool,
    /// A field of the condition, and matching tracepoints that lack it.
    missing: Option<(String, BTreeSet<TracepointFields>)>,
    /// A matching tracepoint to which the condition does not apply for another reason, and that reason.
    unfit: Option<(String, Invalid)>,
    /// Tracepoints that match an exclusion but that no rule before it includes.
    not_included: BTreeSet<String>,
}

impl Watched {
    fn new(rule: &Rule, trigger: bool) -> Self {
        let (rule, not_included) = (rule.clone(), BTreeSet::new());
        Self { rule, trigger, is_used: false, missing: None, unfit: None, not_included }
    }

    /// Checks a tracepoint whose name matches; `whole` is its schema and context where they are known.
    fn look_at(
        &mut self,
        tracepoint: &TracepointFields,
        is_included: bool,
        whole: Option<(&Schema, &Context<'_>)>,
    ) {
        if self.rule.excludes() {
            self.is_used |= is_included;
            add(&mut self.not_included, &tracepoint.name, !is_included);
            return;
        }
        let fields: Vec<&str> = tracepoint.fields.iter().map(String::as_str).collect();
        if let Some(field) = self.rule.missing_field(&fields) {
            let (first, tracepoints) =
                self.missing.get_or_insert_with(|| (field.to_owned(), BTreeSet::new()));
            // A tracepoint that lacks another field may have this one.
            add(tracepoints, tracepoint, first == field);
            return;
        }
        let alone = || Rules(vec![self.rule.clone()]);
        match whole
            .filter(|_| self.rule.is_conditional())
            .map(|(schema, context)| alone().choose(schema, context))
        {
            Some(Err(unfit)) => {
                self.unfit.get_or_insert_with(|| (tracepoint.name.clone(), unfit.invalid));
            }
            Some(Ok(_)) | None => self.is_used = true,
        }
    }

    /// Returns the reason that an unused rule chose nothing, or that a rule with a single name did not choose every
    /// tracepoint of that name.
    fn cause(&self, coverage: &Coverage) -> Option<RuleCause> {
        let is_one = !self.rule.pattern().contains(['*', '?']);
        match (&self.missing, &self.unfit) {
            // A pattern with a condition chooses only tracepoints that have the field.
            (Some((field, tracepoints)), _) if !self.is_used || is_one => {
                let fields = tracepoints.iter().flat_map(|tracepoint| &tracepoint.fields);
                Some(RuleCause::NoField {
                    field: field.clone(),
                    similar: owned(similar(field, fields.map(String::as_str))),
                    tracepoints: tracepoints.iter().cloned().collect(),
                    elsewhere: self.is_used,
                })
            }
            _ if self.is_used => None,
            (_, Some((tracepoint, invalid))) => {
                Some(RuleCause::Unfit { tracepoint: tracepoint.clone(), problem: invalid.to_string() })
            }
            _ if !self.not_included.is_empty() => {
                Some(RuleCause::NothingToExclude { tracepoints: self.not_included.iter().cloned().collect() })
            }
            // Without any tracepoint, that is the reason, not the rule.
            _ if coverage.seen.is_empty() => None,
            _ => Some(RuleCause::NoTracepoint {
                similar: coverage.nearest(self.rule.pattern()),
                seen: coverage.others(self.rule.pattern()),
            }),
        }
    }
}

impl Coverage {
    /// Replaces the rules. New rules are checked against the names kept.
    pub(crate) fn set_rules(&mut self, user: &UserEvents) {
        let before = std::mem::take(&mut self.rules);
        let known = |rule: &Rule, trigger| {
            before.iter().find(|known| known.rule == *rule && known.trigger == trigger).cloned()
        };
        for (rule, trigger) in user.rules_and_triggers() {
            let known = known(rule, trigger);
            let is_used = known.as_ref().is_some_and(|known| known.is_used);
            // An exclusion depends on the rules before it, which may have changed.
            if let Some(known) = known.filter(|known| !known.rule.excludes()) {
                self.rules.push(known);
                continue;
            }
            self.rules.push(Watched { is_used, ..Watched::new(rule, trigger) });
            let seen = std::mem::take(&mut self.seen);
            seen.iter().for_each(|tracepoint| self.look_at(self.rules.len() - 1, tracepoint, None));
            self.seen = seen;
        }
    }

    /// Checks a tracepoint declared by a program of `user`.
    pub(crate) fn observe(&mut self, user: u32, schema: &Schema, context: &Context<'_>) {
        let fields = schema.fields.iter().map(|field| field.name.clone()).collect();
        let tracepoint = TracepointFields { name: schema.full_name(), fields };
        for index in 0..self.rules.len() {
            self.look_at(index, &tracepoint, Some((schema, context)));
        }
        self.remember(user, tracepoint);
    }

    fn look_at(
        &mut self,
        index: usize,
        tracepoint: &TracepointFields,
        whole: Option<(&Schema, &Context<'_>)>,
    ) {
        let (before, rest) = self.rules.split_at_mut(index);
        let Some(watched) = rest.first_mut().filter(|watched| watched.rule.matches(&tracepoint.name)) else {
            return;
        };
        let includes = |other: &&Watched| other.trigger == watched.trigger && !other.rule.excludes();
        let is_included = before.iter().filter(includes).any(|other| other.rule.brings(&tracepoint.name));
        watched.look_at(tracepoint, is_included, whole);
    }

    fn remember(&mut self, user: u32, tracepoint: TracepointFields) {
        if self.seen.contains(&tracepoint) {
            return;
        }
        let names = tracepoint.fields.iter().chain([&tracepoint.name]);
        let bytes: usize = names.map(|name| name.len() + EACH).sum();
        let whose = usize::from(!is_trusted(user));
        if self.bytes[whose] + bytes > MOST_BYTES[whose] {
            self.is_cut = true;
            return;
        }
        self.bytes[whose] += bytes;
        self.seen.insert(tracepoint);
    }

    /// Returns the rules that have chosen nothing so far, with the reasons.
    pub(crate) fn problems(&self) -> Vec<RuleProblem> {
        let problem = |watched: &Watched| {
            let cause = watched.cause(self)?;
            Some(RuleProblem { rule: watched.rule.to_string(), trigger: watched.trigger, cause })
        };
        self.typed().filter_map(problem).collect()
    }

    /// Returns true if the limit for names was reached, so some tracepoints are not kept.
    pub(crate) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the rules that were given explicitly, not implied by an option.
    fn typed(&self) -> impl Iterator<Item = &Watched> {
        self.rules.iter().filter(|watched| !IMPLIED.contains(&watched.rule.to_string().as_str()))
    }

    /// Returns true if any program has declared a tracepoint that the rules could refer to.
    pub(crate) fn has_any(&self) -> bool {
        self.is_cut || self.names().any(|name| is_own(name) || self.is_named(name))
    }

    /// Returns true if a tracepoint is a program's own, or a built-in one that an explicit rule names.
    pub(crate) fn is_requested(&self, schema: &Schema) -> bool {
        schema.provider != BUILT_IN || self.is_named(&schema.full_name())
    }

    /// Returns true if an explicit rule names the library's provider, and the tracepoint matches it.
    fn is_named(&self, name: &str) -> bool {
        self.typed().any(|Watched { rule, .. }| {
            !rule.excludes() && rule.pattern().split(':').next() == Some(BUILT_IN) && rule.matches(name)
        })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.seen.iter().map(|tracepoint| tracepoint.name.as_str())
    }

    /// Returns names similar to a pattern that matches no tracepoint.
    fn nearest(&self, pattern: &str) -> Vec<String> {
        let (provider, name) = pattern.split_once(':').unwrap_or((pattern, "*"));
        let plain = |text: &str| text.replace(['*', '?'], "");
        let split = || self.names().filter_map(|name| name.split_once(':'));
        if name != "*" {
            let of_provider = split().filter(|(known, _)| *known == provider).map(|(_, name)| name);
            let of_provider: Vec<&str> = of_provider.collect();
            if of_provider.is_empty() {
                return owned(similar(&plain(pattern), self.names()));
            }
            let near = similar(&plain(name), of_provider);
            return near.into_iter().map(|name| format!("{provider}:{name}")).collect();
        }
        // A rule without a colon may name a tracepoint instead of a provider.
        let named = split().filter(|(_, name)| *name == provider).take(MOST_NAMED);
        let mut named: Vec<String> = named.map(|(provider, name)| format!("{provider}:{name}")).collect();
        named.dedup();
        if !named.is_empty() {
            return named;
        }
        let near = similar(&plain(provider), split().map(|(provider, _)| provider));
        near.into_iter().map(|provider| format!("{provider}:*")).collect()
    }

    /// Returns tracepoints to suggest for a pattern that matches none: those of its provider, otherwise the programs'
    /// own.
    fn others(&self, pattern: &str) -> Vec<String> {
        let provider = pattern.split(':').next().unwrap_or_default();
        let of_provider = |name: &&str| name.split(':').next() == Some(provider);
        let same: Vec<&str> = self.names().filter(of_provider).collect();
        let own = self.names().filter(|name| is_own(name));
        let mut others = if same.is_empty() { own.collect() } else { same };
        others.dedup();
        owned(others.into_iter().take(MOST_NAMED))
    }
}

/// Returns true if a tracepoint is the program's own, not a built-in one of the library.
fn is_own(name: &str) -> bool {
    name.split(':').next() != Some(BUILT_IN)
}

fn add<T: Clone + Ord>(few: &mut BTreeSet<T>, item: &T, is_selected: bool) {
    if is_selected && few.len() < MOST_NAMED {
        few.insert(item.clone());
    }
}

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_collect::options::excluded;
    use sordino_event::{Field, Level, Pid};

    const CONTEXT: Context<'static> = Context { pid: Pid(1), procname: "motor" };

    fn schema(full_name: &str, fields: &[&str]) -> Schema {
        let (provider, name) = full_name.split_once(':').unwrap();
        let field = |name: &&str| Field { name: (*name).to_owned(), ty: "u32".parse().unwrap() };
        let fields = fields.iter().map(field).collect();
        let (provider, name) = (provider.to_owned(), name.to_owned());
        Schema { provider, name, level: Level::Info, location: None, fields }
    }

    fn events(rules: &str) -> UserEvents {
        UserEvents::new([rules.to_owned()]).unwrap()
    }

    fn watching(events: &UserEvents) -> Coverage {
        let mut coverage = Coverage::default();
        coverage.set_rules(events);
        coverage
    }

    fn see(coverage: &mut Coverage, schemas: &[Schema]) {
        schemas.iter().for_each(|schema| coverage.observe(0, schema, &CONTEXT));
    }

    /// Returns the problems of rules, given a program with three tracepoints.
    fn problems_of(rules: &str) -> Vec<String> {
        let mut coverage = watching(&events(rules));
        let point = |name, fields: &[&str]| schema(name, fields);
        see(
            &mut coverage,
            &[
                point("motor:period", &["cycle", "torque", "state"]),
                point("motor:noise", &[]),
                point("net:tx", &["len"]),
            ],
        );
        coverage.problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules_that_choose_something_are_fine() {
        for rules in
            ["*", "motor", "motor:period if cycle > 3", "* if len > 3", "motor:*, !motor:noise", "*:tx, *:p*"]
        {
            assert_eq!(problems_of(rules), [""; 0], "{rules}");
        }
    }

    #[test]
    fn a_name_that_matches_nothing_comes_with_its_neighbours() {
        for (rules, expected) in [
            ("motor:perod", "no tracepoint matched 'motor:perod'; did you mean motor:period?"),
            ("moter:*", "no tracepoint matched 'moter:*'; did you mean motor:*?"),
            ("moter", "no tracepoint matched 'moter'; did you mean motor:*?"),
            ("motor:perod*", "no tracepoint matched 'motor:perod*'; did you mean motor:period?"),
            ("period", "no tracepoint matched 'period'; did you mean motor:period?"),
            ("motor:xyz", "no tracepoint matched 'motor:xyz'; there were motor:noise, motor:period"),
            ("disk:*", "no tracepoint matched 'disk:*'; there were motor:noise, motor:period, net:tx"),
            (
                "*, !motor:noize",
                "no tracepoint matched '!motor:noize': it excludes nothing; did you mean motor:noise?",
            ),
            (
                "motor:perod if x > 1",
                "no tracepoint matched 'motor:perod if x > 1'; did you mean motor:period?",
            ),
        ] {
            assert_eq!(problems_of(rules), [expected], "{rules}");
        }
    }

    #[test]
    fn a_field_that_is_missing_comes_with_those_that_are_there() {
        assert_eq!(
            problems_of("motor:period if torqe > 5"),
            [
                "'motor:period if torqe > 5' records nothing: 'torqe' is no field of motor:period (cycle, torque, state); \
              did you mean torque?"
            ]
        );
        let both = problems_of("motor:* if late > 5");
        assert!(
            both[0].contains("'late' is no field of motor:noise (no fields), motor:period (cycle"),
            "{both:?}"
        );
        let text = problems_of("motor:period if cycle == \"x\"");
        assert!(text[0].contains("it does not fit motor:period: 'cycle' (u32) is not compared"), "{text:?}");
    }

    #[test]
    fn a_tracepoint_that_has_the_field_is_not_reported_to_lack_it() {
        let mut coverage = watching(&events("motor:* if late > 5 && torque > 3"));
        see(&mut coverage, &[schema("motor:a", &["torque"]), schema("motor:b", &["late"])]);
        let problem = coverage.problems()[0].to_string();
        assert!(problem.ends_with("'late' is no field of motor:a (torque)"), "{problem}");
    }

    #[test]
    fn tracepoints_of_the_library_count_where_a_rule_names_them() {
        for (rules, expected) in [("*", false), ("motor", false), ("sordino:mark", true), ("sordino", true)] {
            let mut coverage = watching(&events(rules));
            see(&mut coverage, &[schema("sordino:mark", &["value"]), schema("sordino:context", &[])]);
            assert_eq!(coverage.has_any(), expected, "{rules}");
        }
    }

    #[test]
    fn a_program_with_another_tracepoint_of_the_same_name_is_reported() {
        let mut coverage = watching(&events("motor:period if late > 5"));
        see(&mut coverage, &[schema("motor:period", &["late"]), schema("motor:period", &["cycle"])]);
        let problem = coverage.problems()[0].to_string();
        assert!(
            problem.contains("of some programs, where 'late' is no field of motor:period (cycle)"),
            "{problem}"
        );
    }

    #[test]
    fn an_exclusion_that_comes_first_excludes_nothing() {
        let problems_of = problems_of("!motor:noise, motor:*");
        assert_eq!(
            problems_of,
            ["'!motor:noise' excludes nothing: no rule before it includes motor:noise; rules apply in order"]
        );
    }

    #[test]
    fn rules_that_come_later_are_compared_with_what_was_seen() {
        let first = events("motor:*");
        let mut coverage = watching(&first);
        assert_eq!(coverage.problems(), []);
        see(&mut coverage, &[schema("motor:period", &["cycle"])]);
        let more = first.and("motor:period if cycle > 3, motor:perod").unwrap();
        coverage.set_rules(&more);
        let problems = coverage.problems();
        assert_eq!((problems.len(), problems[0].rule.as_str()), (1, "motor:perod"));
        coverage.set_rules(&more.and(&excluded("motor:noize")).unwrap());
        assert_eq!(coverage.problems()[1].rule, "!motor:noize");
        // A later program has this tracepoint.
        see(&mut coverage, &[schema("motor:perod", &[]), schema("motor:noize", &[])]);
        assert_eq!(coverage.problems(), []);
    }

    #[test]
    fn an_exclusion_that_is_moved_behind_a_rule_excludes() {
        let first = events("!motor:noise, motor:*");
        let mut coverage = watching(&first);
        see(&mut coverage, &[schema("motor:noise", &[])]);
        assert_eq!(coverage.problems().len(), 1);
        coverage.set_rules(&first.and(&excluded("motor:noise")).unwrap());
        assert_eq!(coverage.problems(), []);
    }

    #[test]
    fn implied_rules_and_triggers_are_distinguished() {
        let all =
            events("motor:*").with_triggers(["motor:x if late > 5, sordino:snapshot".to_owned()]).unwrap();
        let mut coverage = watching(&all);
        see(&mut coverage, &[schema("motor:x", &["cycle"])]);
        let problems = coverage.problems();
        assert!(problems.len() == 1 && problems[0].trigger, "{problems:?}");
        assert!(problems[0].to_string().contains("asks for no snapshot"), "{}", problems[0]);
    }

    #[test]
    fn names_without_end_are_not_remembered_and_matched_all_the_same() {
        let mut coverage = watching(&events("evil:last, motor:perod"));
        let stranger = rustix::process::geteuid().as_raw() + 1;
        for number in 0..20_000 {
            coverage.observe(stranger, &schema(&format!("evil:{number}"), &["field"]), &CONTEXT);
        }
        coverage.observe(stranger, &schema("evil:last", &[]), &CONTEXT);
        let bytes: usize = coverage.names().map(str::len).sum();
        assert!(coverage.is_cut() && bytes < MOST_BYTES[1], "{bytes}");
        // Trusted users have a limit of their own.
        see(&mut coverage, &[schema("motor:period", &[])]);
        let problems = coverage.problems();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().ends_with("did you mean motor:period?"), "{}", problems[0]);
    }
}
