//! Compares names and types with those in LTTng's traces of several kernels, LTTng 2.1 to 2.10. Differences between
//! these versions are listed here.

use super::*;
use sordino_event::{Scalar, Type};
use sordino_tracefs::lttng;
use std::collections::BTreeMap;

/// Prefixes of events that had another name in LTTng 2.1.
const OLD_NAMES: [&str; 4] = ["softirq_", "hrtimer_", "itimer_", "lttng_"];

/// Fields that LTTng had or has and the kernel's own tracer does not.
const LTTNG_ONLY: [(&str, &str); 21] = [
    ("sched_process_fork", "parent_ns_inum"),
    ("sched_process_fork", "child_ns_inum"),
    ("sched_process_fork", "parent_pid"),
    ("sched_process_fork", "child_pid"),
    ("sched_process_fork", "_vtids_length"),
    ("sched_process_fork", "vtids"),
    // The kernel has removed this field.
    ("sched_stat_runtime", "vruntime"),
    // LTTng 2.1 named these as the kernel does.
    ("sched_process_exec", "pid"),
    ("sched_process_exec", "old_pid"),
    // The value is always 1, and LTTng has dropped the field as well.
    ("sched_wakeup", "success"),
    ("sched_wakeup_new", "success"),
    ("block_rq_complete", "errors"),
    ("block_rq_requeue", "errors"),
    // Bytes of a SCSI command, which the kernel writes as text.
    ("block_rq_complete", "_cmd_length"),
    ("block_rq_insert", "_cmd_length"),
    ("block_rq_issue", "_cmd_length"),
    ("block_rq_requeue", "_cmd_length"),
    ("block_rq_complete", "cmd"),
    ("block_rq_insert", "cmd"),
    ("block_rq_issue", "cmd"),
    ("block_rq_requeue", "cmd"),
];

/// Type of a field, as far as it is compared.
#[derive(Debug, PartialEq)]
enum ComparedType {
    Integer { bits: u32, signed: bool },
    Text,
    Other,
}

/// Declarations in LTTng's traces: version, event, field and type.
fn declared() -> impl Iterator<Item = (&'static str, &'static str, &'static str, ComparedType)> {
    let lines = include_str!("../../../../../testdata/tracefs/lttng-fields.txt").lines();
    lines.filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap();
        let (version, event, field, ty) = (word(), word(), word(), word());
        let bits = || ty[1..].parse().unwrap();
        let kind = match ty {
            "text" => ComparedType::Text,
            "other" => ComparedType::Other,
            _ => ComparedType::Integer { bits: bits(), signed: ty.starts_with('i') },
        };
        (version, event, field, kind)
    })
}

fn compared_type(ty: &Type) -> ComparedType {
    match ty {
        Type::Scalar(Scalar::Integer(integer)) => {
            ComparedType::Integer { bits: integer.width.bits(), signed: integer.signed }
        }
        Type::String | Type::Text(_) => ComparedType::Text,
        _ => ComparedType::Other,
    }
}

#[test]
fn names_and_types_are_those_of_lttngs_traces() {
    let Some(tracefs) = tracefs() else { return };
    let mut ours = BTreeMap::new();
    for event in tracefs.events().unwrap() {
        let schema = lttng(&tracefs.format(&event).unwrap().schema()).schema;
        ours.insert(schema.name.clone(), schema);
    }
    let mut compared = 0;
    for (version, event, name, expected) in declared() {
        let old = OLD_NAMES.iter().any(|prefix| event.starts_with(prefix));
        let Some(schema) = ours.get(event).filter(|_| !old) else { continue };
        let is_ours = ["sched", "irq", "timer", "signal", "block"].contains(&schema.provider.as_str());
        if !is_ours || LTTNG_ONLY.contains(&(event, name)) {
            continue;
        }
        let field = schema.fields.iter().find(|field| field.name == name);
        let field = field.unwrap_or_else(|| panic!("LTTng {version}: {event} has {name}: {schema:?}"));
        assert_eq!(compared_type(&field.ty), expected, "LTTng {version}: {name} of {event}");
        compared += 1;
    }
    assert!(compared > 150, "{compared} fields");
}
