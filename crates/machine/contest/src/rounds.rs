//! The comparison of tracers in rounds, so that a change of the machine meets all of them.

use crate::contender::{Contender, figures};
use crate::plot;
use crate::tracers::{ComparedTracer, LoopStage};
use serde_json::{Value, json};
use sordino_event::text::{count, with_causes};
use sordino_npt::Unit;
use sordino_peers::KernelEvents;
use std::fmt::Write;

/// Version of the JSON's schema.
const SCHEMA: u32 = 1;

/// The rounds to make.
#[derive(Clone, Debug)]
pub struct Rounds<'a> {
    /// The tracers in the order in which each round has them.
    pub tracers: &'a [ComparedTracer],
    /// The number of rounds.
    pub number: u32,
    /// The loop's options for each round.
    pub words: Vec<String>,
}

/// Tracers and their rounds.
pub struct TracerComparison {
    /// The tracers in the order in which they were named.
    contenders: Vec<Contender>,
    /// The round that was interrupted, from 1; `None` if all were made.
    pub interrupted: Option<u32>,
}

/// The text of a comparison, for a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparisonTable {
    /// Titles of the columns, one for each.
    pub head: Vec<String>,
    /// The rows: a title, and a cell for each column.
    pub rows: Vec<(String, Vec<String>)>,
    /// Lines below the table: what was not measured, with the reason.
    pub remarks: String,
}

/// Makes the rounds on a stage. `doing` gets the progress as text; once `is_stopped` returns true, the present round is
/// left out.
pub fn compare(
    stage: &mut LoopStage,
    rounds: &Rounds<'_>,
    mut doing: impl FnMut(String),
    is_stopped: impl Fn() -> bool,
) -> TracerComparison {
    let mut contenders: Vec<Contender> = Vec::new();
    for &tracer in rounds.tracers {
        doing(format!("preparing {tracer}"));
        let missing = stage.prepare(tracer, KernelEvents::Nothing).err();
        contenders.push(Contender { tracer, rounds: Vec::new(), missing });
    }
    for round in 1..=rounds.number {
        for contender in contenders.iter_mut().filter(|contender| contender.missing.is_none()) {
            doing(format!("round {round} of {}: {}", rounds.number, contender.tracer));
            let traced = stage.run(contender.tracer, KernelEvents::Nothing, &rounds.words);
            if is_stopped() {
                break;
            }
            match traced {
                Ok(traced) => contender.rounds.push(traced),
                Err(error) => contender.missing = Some(with_causes(&error)),
            }
        }
        if is_stopped() {
            return TracerComparison { contenders, interrupted: Some(round) };
        }
    }
    TracerComparison { contenders, interrupted: None }
}

impl TracerComparison {
    fn untraced(&self) -> Option<&Contender> {
        self.contenders.iter().find(|contender| contender.tracer == ComparedTracer::Untraced)
    }

    /// Returns true if any round was made.
    pub fn has_any(&self) -> bool {
        !self.measured().is_empty()
    }

    /// Returns the contenders that have rounds.
    fn measured(&self) -> Vec<&Contender> {
        self.contenders.iter().filter(|one| !one.rounds.is_empty()).collect()
    }

    /// Returns a plot of the figures as an SVG element; empty if nothing was measured.
    pub fn svg(&self, about: &str) -> String {
        plot::svg(about, &self.measured())
    }

    /// Returns the comparison as JSON; `about` describes the machine and the rounds.
    pub fn json(&self, about: &str) -> Value {
        let untraced = self.untraced();
        let all: Vec<Value> = self.contenders.iter().map(|contender| contender.json(untraced)).collect();
        json!({ "schema": SCHEMA, "about": about, "contenders": all })
    }

    /// Returns the table: for each figure the median of all rounds, least and greatest, and the ratio to the untraced
    /// loop.
    pub fn table(&self, unit: Unit) -> ComparisonTable {
        let contenders = &self.contenders;
        let base = self.untraced().map(Contender::samples).unwrap_or_default();
        let names = contenders.iter().map(figures).find(|figures| !figures.is_empty()).unwrap_or_default();
        let mut head: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
        head.push("lost".to_owned());
        let (mut rows, mut remarks) = (Vec::new(), String::new());
        for contender in contenders {
            rows.extend(contender.rows(&base, unit));
            if let Some(reason) = &contender.missing {
                let _ = writeln!(remarks, "  {}: not measured here: {reason}", contender.tracer);
            }
            let unconfirmed = contender.unconfirmed();
            if unconfirmed > 0 {
                let rounds = count(unconfirmed, "round");
                let _ =
                    writeln!(remarks, "  {}: in {rounds} the trace does not have all hits", contender.tracer);
            }
        }
        ComparisonTable { head, rows, remarks }
    }
}
