//! Reports on a shield as JSON, each with the version of its schema.

use crate::advice::Advice;
use crate::boot::Parameter;
use crate::{Lowered, Machine, Planned, Raised, ShieldRequest, ShieldStatus};
use serde_json::{Value, json};

/// Returns the changes that raising a shield would make.
pub fn plan(
    machine: &Machine,
    request: &ShieldRequest,
    planned: &[Planned],
    parameters: &[Parameter],
    advice: &Advice,
) -> Value {
    json!({
        "schema": 1,
        "request": request,
        "rest": request.rest(machine).to_string(),
        "knobs": planned,
        "boot": parameters,
        "notes": advice.notes,
        "rcu_threads": advice.rcu_threads,
    })
}

/// Returns the changes that were made, with the measurements before and after, if there are any.
pub fn raised(raised: &Raised, stays: &[String], advice: &Advice, before: Value, after: Value) -> Value {
    json!({
        "schema": 1,
        "shield": raised.shield,
        "changes": raised.done,
        "stays": stays,
        "notes": advice.notes,
        "rcu_threads": advice.rcu_threads,
        "before": before,
        "after": after,
    })
}

/// Returns the state of the shield. `rivals` are services that may have changed it.
pub fn status(status: &ShieldStatus, rivals: &[String]) -> Value {
    json!({
        "schema": 1,
        "shield": status.shield,
        "drift": status.drift,
        "rivals": rivals,
        "stays": status.stays,
        "threads": status.members,
        "unfinished": status.unfinished,
    })
}

/// Returns the result of lowering a shield.
pub fn lowered(lowered: &Lowered) -> Value {
    json!({
        "schema": 1,
        "steps": lowered.steps,
        "failures": lowered.failures.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "remaining": lowered.remaining,
        "landed": lowered.landed,
        "threads": lowered.members,
    })
}
