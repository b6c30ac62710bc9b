//! Tests with every event format of this kernel.

use super::*;
use sordino_event::{Field, Schema, catalogue};
use sordino_tracefs::{FieldKind, lttng};

fn formats(tracefs: &Tracefs) -> Vec<Format> {
    let events = tracefs.events().unwrap();
    assert!(events.len() > 100, "{} events", events.len());
    events.iter().map(|event| tracefs.format(event).unwrap()).collect()
}

#[test]
fn every_format_of_this_kernel_is_understood() {
    let Some(tracefs) = tracefs() else { return };
    let formats = formats(&tracefs);
    for format in &formats {
        let schema = format.schema();
        for (field, Field { ty, .. }) in format.fields.iter().zip(&schema.fields) {
            let fixed = matches!(field.kind, FieldKind::Single | FieldKind::Array { .. });
            assert_eq!(ty.bytes(), fixed.then_some(field.size), "{} {}", format.event, field.name);
        }
        let mapping = lttng(&schema);
        assert_eq!(mapping.schema.fields.len(), mapping.sources.len());
        assert!(mapping.sources.iter().all(|source| source.field < format.fields.len()), "{}", format.event);
    }
    let mappings: Vec<EventConversion> = formats.iter().map(|format| lttng(&format.schema())).collect();
    Converter::new(formats.iter().zip(&mappings)).unwrap();
}

#[test]
fn every_schema_of_this_kernel_can_be_written_and_read() {
    let Some(tracefs) = tracefs() else { return };
    for format in formats(&tracefs) {
        for schema in [format.schema(), lttng(&format.schema()).schema] {
            assert_eq!(written_and_read(&schema), schema);
        }
    }
}

fn written_and_read(schema: &Schema) -> Schema {
    let mut text = String::new();
    let mut writer = catalogue::Writer::new(&mut text);
    writer.event(1, schema.level, &schema.provider, &schema.name, "", 0).unwrap();
    for field in &schema.fields {
        writer.field(&field.ty, &field.name).unwrap();
        if let Some(labelled) = field.ty.clone().enumeration_mut() {
            for range in &labelled.ranges {
                writer.label(range.low, range.high, &range.label).unwrap();
            }
        }
    }
    writer.end().unwrap();
    let (mut read, _) = catalogue::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    read.remove(0).1
}

#[test]
fn the_events_that_matter_most_have_the_expected_fields() {
    let Some(tracefs) = tracefs() else { return };
    let fields = |system, name| -> Vec<String> {
        let schema = tracefs.format(&event(system, name)).unwrap().schema();
        schema.fields.iter().map(|field| format!("{} {}", field.name, field.ty)).collect()
    };
    let switch = fields("sched", "sched_switch");
    let expected = [
        "prev_comm text:16",
        "prev_pid i32",
        "prev_prio i32",
        "prev_state enum:i64",
        "next_comm text:16",
        "next_pid i32",
        "next_prio i32",
    ];
    assert!(expected.iter().all(|field| switch.iter().any(|found| found == field)), "{switch:?}");
    assert_eq!(fields("irq", "irq_handler_entry"), ["irq i32", "name string"]);
    assert_eq!(fields("irq", "softirq_entry"), ["vec enum:u32"]);
    assert_eq!(fields("raw_syscalls", "sys_enter"), ["id i64", "args [u64x;6]"]);
    assert_eq!(fields("timer", "hrtimer_expire_entry"), ["hrtimer u64x", "now i64", "function u64x"]);
}
