//! The condition that chooses a part of a recording.

use crate::failure::Failure;
use crate::recording::Recording;
use sordino_event::Class;
use sordino_event::text::{count, printable};
use sordino_query::SpanCondition;
use sordino_selection::{check_fields, parse_condition};
use sordino_terminal::message;
use std::rc::Rc;

impl Recording {
    /// Parses the condition of `--where`, checks its fields against those of the recording's events called `names` (all
    /// events if that is empty), and limits the recording to the time that the condition allows.
    ///
    /// # Errors
    /// The fault in the text, or a field that no such event has.
    pub fn condition(&mut self, text: &str, names: &[&str]) -> Result<Rc<SpanCondition>, Failure> {
        let expression = parse_condition(text)?;
        let classes = self.classes.iter().map(|(_, class)| class);
        let named: Vec<&Class> =
            classes.filter(|class| names.is_empty() || names.contains(&&*class.name)).collect();
        check_fields("--where", &expression, &named)?;
        self.limit_to(&expression);
        Ok(Rc::new(SpanCondition::new(&expression, &self.classes, self.facts.clone())))
    }
}

/// Prints a message if a condition could not be applied to events, or to functions without a name.
pub fn report_misfits(condition: &SpanCondition) {
    if let Some(note) = condition.note_on_functions() {
        message!("sordino: {}", printable(&note));
    }
    if let Some((misfits, invalid)) = condition.misfits() {
        let (events, invalid) = (count(misfits, "event"), invalid.to_string());
        message!("sordino: --where does not fit {events}, which are left out: {}", printable(&invalid));
    }
}
