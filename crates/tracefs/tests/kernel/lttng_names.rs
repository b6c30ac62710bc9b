//! Names and types compared with those in traces that LTTng has written.
//!
//! The traces are of several kernels and LTTng versions, 2.1 to 2.10; what changed between them is listed here.

use super::*;
use sordino_event::{Scalar, Type};
use sordino_tracefs::lttng;
use std::collections::BTreeMap;

const TRACES: [&str; 3] = ["lttng/scp_dest", "lttng/many-threads", "valid/lttng-tracefile-rotation/kernel"];

/// Events that had another name in LTTng 2.1, without their group's.
const OLD_NAMES: [&str; 4] = ["softirq_", "hrtimer_", "itimer_", "lttng_"];

/// Fields that LTTng had or has and the kernel's own tracer does not.
const LTTNG_ONLY: [(&str, &str); 21] = [
    ("sched_process_fork", "parent_ns_inum"),
    ("sched_process_fork", "child_ns_inum"),
    ("sched_process_fork", "parent_pid"),
    ("sched_process_fork", "child_pid"),
    ("sched_process_fork", "_vtids_length"),
    ("sched_process_fork", "vtids"),
    // Gone from the kernel.
    ("sched_stat_runtime", "vruntime"),
    // Named in LTTng 2.1 as in the kernel.
    ("sched_process_exec", "pid"),
    ("sched_process_exec", "old_pid"),
    // Always 1, and dropped by LTTng too.
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

/// The type of a field, as far as it is compared.
#[derive(Debug, PartialEq)]
enum Shape {
    Integer { bits: u32, signed: bool },
    Text,
    Other,
}

/// The events in the metadata of the trace at `path`, as babeltrace2 prints it.
fn metadata(path: &Path) -> Option<BTreeMap<String, Vec<(String, Shape)>>> {
    let output = Command::new("babeltrace2").arg("--output-format=ctf-metadata").arg(path).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|text| !text.is_empty())?;
    let mut events = BTreeMap::new();
    for event in text.split("\nevent {").skip(1) {
        let name = event.split("name = ").nth(1)?.split([';', '\n']).next()?.trim_matches('"').to_owned();
        let fields = event.split("fields := struct {").nth(1)?.split("\n};").next()?;
        events.insert(name, fields.lines().filter_map(field).collect());
    }
    Some(events)
}

/// Reads `integer { size = 32; align = 8; signed = 1; ... } _pid;`, with or without `[16]`.
fn field(line: &str) -> Option<(String, Shape)> {
    let declaration = line.trim().strip_suffix(';')?;
    let (declaration, array) = match declaration.split_once('[') {
        Some((declaration, _)) => (declaration, true),
        None => (declaration, false),
    };
    let (ty, name) = declaration.rsplit_once(" _")?;
    let attribute = |key: &str| ty.split(key).nth(1)?.split(';').next();
    let shape = match (ty.starts_with("integer"), array) {
        _ if ty == "string" || ty.contains("UTF8") => Shape::Text,
        (true, false) => Shape::Integer {
            bits: attribute("size = ")?.parse().ok()?,
            signed: attribute("signed = ")? == "1",
        },
        _ => Shape::Other,
    };
    Some((name.to_owned(), shape))
}

fn shape(ty: &Type) -> Shape {
    match ty {
        Type::Scalar(Scalar::Integer(integer)) => {
            Shape::Integer { bits: integer.width.bits(), signed: integer.signed }
        }
        Type::String | Type::Text(_) => Shape::Text,
        _ => Shape::Other,
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that can't run says so")]
fn names_and_types_are_those_of_lttngs_traces() {
    let Some(tracefs) = tracefs() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/ctf");
    if !folder.is_dir() {
        return eprintln!("not measured here: {} does not exist", folder.display());
    }
    let mut ours = BTreeMap::new();
    for event in tracefs.events().unwrap() {
        let schema = lttng(&tracefs.format(&event).unwrap().schema()).schema;
        ours.insert(schema.name.clone(), schema);
    }
    let mut compared = 0;
    for trace in TRACES {
        let Some(events) = metadata(&folder.join(trace)) else {
            return eprintln!("not measured here: babeltrace2 does not print {trace}");
        };
        for (event, fields) in events {
            let old = OLD_NAMES.iter().any(|prefix| event.starts_with(prefix));
            let Some(schema) = ours.get(&event).filter(|_| !old) else { continue };
            if !["sched", "irq", "timer", "signal", "block"].contains(&schema.provider.as_str()) {
                continue;
            }
            for (name, expected) in fields {
                if LTTNG_ONLY.contains(&(event.as_str(), name.as_str())) {
                    continue;
                }
                let field = schema.fields.iter().find(|field| field.name == name);
                let field = field.unwrap_or_else(|| panic!("{trace}: {event} has {name}: {schema:?}"));
                assert_eq!(shape(&field.ty), expected, "{trace}: {name} of {event}");
                compared += 1;
            }
        }
    }
    assert!(compared > 150, "{compared} fields");
}
