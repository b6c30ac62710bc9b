//! Names and values of LTTng's kernel tracer for the kernel's events.
//!
//! Tools that read kernel traces expect LTTng's names and values: `prev_tid` for the kernel's `prev_pid`,
//! `irq_softirq_entry` for `softirq_entry`, a priority of 20 for 120. Events that LTTng does not have, and fields that
//! it leaves out, keep the kernel's names.

use sordino_event::{Base, Field, Integer, PriorityNumbering, Scalar, Schema, Type, Width};

/// Conversion of an event's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventConversion {
    /// Name and fields of the result.
    pub schema: Schema,
    /// Source of each of its fields.
    pub sources: Vec<FieldSource>,
}

/// Source of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSource {
    /// Index of the kernel's field in [`Format::fields`](crate::Format::fields).
    pub field: usize,
    /// Conversion of its value.
    pub conversion: Conversion,
}

/// Conversion of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// The value is unchanged.
    Same,
    /// Priorities: the kernel counts from the highest real-time priority, LTTng from the highest of ordinary threads,
    /// so nice 0 is 120 or 20.
    Priority,
    /// Kinds of block requests: the kernel writes letters, LTTng a set of flags.
    RequestFlags,
}

/// The numbering of the priorities that [`Conversion::Priority`] gives.
pub const PRIORITIES: PriorityNumbering = PriorityNumbering::Lttng;

impl EventConversion {
    /// Returns a mapping that keeps the kernel's names and values.
    pub fn unchanged(schema: &Schema) -> Self {
        let sources =
            (0..schema.fields.len()).map(|field| FieldSource { field, conversion: Conversion::Same });
        Self { schema: schema.clone(), sources: sources.collect() }
    }
}

/// Returns the mapping to LTTng's names and values for an event with this [`schema`](crate::Format::schema).
///
/// ```
/// use sordino_tracefs::{Conversion, Format, lttng};
/// # let text = "name: sched_wakeup\nID: 1\n\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\
/// #     \tfield:int prio;\toffset:12;\tsize:4;\tsigned:1;\nprint fmt: \"\"";
/// let format = Format::parse("sched", text)?;
/// let mapping = lttng(&format.schema());
/// assert_eq!(mapping.schema.fields[0].name, "tid");
/// assert_eq!(mapping.sources[1].conversion, Conversion::Priority);
/// # Ok::<(), sordino_tracefs::Error>(())
/// ```
pub fn lttng(schema: &Schema) -> EventConversion {
    let Some(name) = name(&schema.provider, &schema.name) else { return EventConversion::unchanged(schema) };
    let mut mapping = EventConversion {
        schema: Schema { name, fields: Vec::new(), ..schema.clone() },
        sources: Vec::new(),
    };
    for (place, field) in schema.fields.iter().enumerate() {
        let Some((name, conversion)) = rename(&schema.provider, field) else { continue };
        let ty = match (&field.ty, conversion) {
            (_, Conversion::RequestFlags) => Type::Scalar(Scalar::Integer(Integer::new(Width::W32, false))),
            (Type::Scalar(Scalar::Enumeration(labelled)), _) => {
                Type::Scalar(Scalar::Integer(labelled.integer))
            }
            (ty, _) => ty.clone(),
        };
        mapping.add(name, ty, place, conversion);
        if let ("irq", "vec") = (schema.provider.as_str(), name) {
            // A further field has the name for this number.
            mapping.add("name", field.ty.clone(), place, conversion);
        }
    }
    mapping
}

impl EventConversion {
    fn add(&mut self, name: &str, ty: Type, field: usize, conversion: Conversion) {
        self.schema.fields.push(Field { name: name.to_owned(), ty });
        self.sources.push(FieldSource { field, conversion });
    }
}

/// Returns LTTng's name of an event, if LTTng has the event.
fn name(system: &str, event: &str) -> Option<String> {
    let known = |events: &[&str]| events.contains(&event).then(|| event.to_owned());
    let prefixed = |prefix: &str, events: &[&str]| known(events).map(|event| prefix.to_owned() + &event);
    match system {
        "sched" => known(SCHED),
        "irq" => known(&["irq_handler_entry", "irq_handler_exit"])
            .or_else(|| prefixed("irq_", &["softirq_entry", "softirq_exit", "softirq_raise"])),
        "irq_vectors" => vector(event),
        "timer" => match event.split_once('_')?.0 {
            "timer" => known(&[
                "timer_init",
                "timer_start",
                "timer_cancel",
                "timer_expire_entry",
                "timer_expire_exit",
            ]),
            _ => prefixed("timer_", HIGH_RESOLUTION_TIMER),
        },
        "exceptions" => prefixed("x86_exceptions_", &["page_fault_user", "page_fault_kernel"]),
        "workqueue" => known(WORKQUEUE),
        "power" => known(&["power_domain_target"]).or_else(|| prefixed("power_", POWER)),
        "signal" => known(&["signal_generate", "signal_deliver"]),
        "net" => known(&["net_dev_xmit", "net_dev_queue"])
            .or_else(|| {
                event.strip_prefix("netif_").and_then(|rest| Some(format!("net_if_{}", received(rest)?)))
            })
            .or_else(|| {
                event.strip_prefix("napi_").and_then(|rest| Some(format!("net_napi_{}", polled(rest)?)))
            }),
        "block" => known(BLOCK),
        _ => None,
    }
}

const SCHED: &[&str] = &[
    "sched_kthread_stop",
    "sched_kthread_stop_ret",
    "sched_migrate_task",
    "sched_pi_setprio",
    "sched_process_exec",
    "sched_process_exit",
    "sched_process_fork",
    "sched_process_free",
    "sched_process_wait",
    "sched_stat_blocked",
    "sched_stat_iowait",
    "sched_stat_runtime",
    "sched_stat_sleep",
    "sched_stat_wait",
    "sched_switch",
    "sched_wait_task",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_waking",
];
const HIGH_RESOLUTION_TIMER: &[&str] = &[
    "hrtimer_cancel",
    "hrtimer_expire_entry",
    "hrtimer_expire_exit",
    "hrtimer_init",
    "hrtimer_start",
    "itimer_expire",
    "itimer_state",
];
const WORKQUEUE: &[&str] =
    &["workqueue_activate_work", "workqueue_execute_end", "workqueue_execute_start", "workqueue_queue_work"];
const POWER: &[&str] = &[
    "clock_disable",
    "clock_enable",
    "clock_set_rate",
    "cpu_frequency",
    "cpu_idle",
    "machine_suspend",
    "wakeup_source_activate",
    "wakeup_source_deactivate",
];
const BLOCK: &[&str] = &[
    "block_bio_backmerge",
    "block_bio_bounce",
    "block_bio_complete",
    "block_bio_frontmerge",
    "block_bio_queue",
    "block_bio_remap",
    "block_dirty_buffer",
    "block_getrq",
    "block_plug",
    "block_rq_complete",
    "block_rq_insert",
    "block_rq_issue",
    "block_rq_merge",
    "block_rq_remap",
    "block_rq_requeue",
    "block_sleeprq",
    "block_split",
    "block_touch_buffer",
    "block_unplug",
];

/// Returns LTTng's name of an entry or exit event of an x86 interrupt vector.
fn vector(event: &str) -> Option<String> {
    let (vector, end) = event.rsplit_once('_').filter(|(_, end)| matches!(*end, "entry" | "exit"))?;
    let vector = match vector {
        "x86_platform_ipi" => "ipi",
        "call_function"
        | "call_function_single"
        | "deferred_error_apic"
        | "error_apic"
        | "irq_work"
        | "local_timer"
        | "reschedule"
        | "spurious_apic"
        | "thermal_apic"
        | "threshold_apic" => vector,
        _ => return None,
    };
    Some(format!("x86_irq_vectors_{vector}_{end}"))
}

fn received(event: &str) -> Option<&str> {
    let call = event.trim_end_matches("_entry").trim_end_matches("_exit");
    matches!(call, "receive_skb" | "receive_skb_list" | "rx" | "rx_ni").then_some(event)
}

fn polled(event: &str) -> Option<&str> {
    matches!(event, "gro_frags_entry" | "gro_frags_exit" | "gro_receive_entry" | "gro_receive_exit")
        .then_some(event)
}

/// Returns LTTng's name of a field and the conversion of its value; `None` if LTTng leaves out the field.
fn rename<'a>(system: &str, field: &'a Field) -> Option<(&'a str, Conversion)> {
    let is_integer = matches!(
        &field.ty,
        Type::Scalar(Scalar::Integer(Integer { width: Width::W32, signed: true, base: Base::Decimal, .. }))
    );
    Some(match (system, field.name.as_str()) {
        // The value is always 1 since Linux 3.
        ("sched", "success") => return None,
        ("sched", "pid") => ("tid", Conversion::Same),
        ("sched", "old_pid") => ("old_tid", Conversion::Same),
        ("sched", "prev_pid") => ("prev_tid", Conversion::Same),
        ("sched", "next_pid") => ("next_tid", Conversion::Same),
        ("sched", "parent_pid") => ("parent_tid", Conversion::Same),
        ("sched", "child_pid") => ("child_tid", Conversion::Same),
        ("sched", name @ ("prio" | "prev_prio" | "next_prio" | "oldprio" | "newprio")) if is_integer => {
            (name, Conversion::Priority)
        }
        ("block", name @ "rwbs") if matches!(field.ty, Type::Text(_)) => (name, Conversion::RequestFlags),
        (_, name) => (name, Conversion::Same),
    })
}

/// Converts the letters of a block request to LTTng's flags.
///
/// The kernel writes an `F` if a flush comes first, then one letter for the operation (two for a secure erase), then
/// one for each property.
pub(crate) fn request_flags(letters: &[u8]) -> u32 {
    let (mut flags, rest) = match letters {
        [b'F', rest @ ..] if rest.first().is_some_and(|letter| b"WDRFNZ".contains(letter)) => (1 << 10, rest),
        _ => (0, letters),
    };
    let Some((operation, properties)) = rest.split_first() else { return flags };
    flags |= match operation {
        b'W' => 1 << 0,
        b'D' => 1 << 1,
        b'R' => 1 << 2,
        b'F' => 1 << 8,
        _ => 0,
    };
    for property in properties.iter().take_while(|letter| **letter != 0) {
        flags |= match property {
            b'A' => 1 << 3,
            b'S' => 1 << 5,
            b'M' => 1 << 6,
            b'E' => 1 << 7,
            b'F' => 1 << 9,
            _ => 0,
        };
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_become_flags() {
        for (letters, flags) in [
            ("R", 1 << 2),
            ("RA", 1 << 2 | 1 << 3),
            ("WS", 1 << 0 | 1 << 5),
            ("FWFSM", 1 << 10 | 1 << 0 | 1 << 9 | 1 << 5 | 1 << 6),
            ("DE", 1 << 1 | 1 << 7),
            ("FF", 1 << 10 | 1 << 8),
            ("F", 1 << 8),
            ("FS", 1 << 8 | 1 << 5),
            ("N", 0),
            ("", 0),
            ("W\0S", 1 << 0),
        ] {
            assert_eq!(request_flags(letters.as_bytes()), flags, "{letters}");
        }
    }

    #[test]
    fn events_are_called_as_lttng_calls_them() {
        for (system, event, expected) in [
            ("sched", "sched_switch", Some("sched_switch")),
            ("sched", "sched_move_numa", None),
            ("irq", "irq_handler_entry", Some("irq_handler_entry")),
            ("irq", "softirq_raise", Some("irq_softirq_raise")),
            ("irq", "tasklet_entry", None),
            ("irq_vectors", "local_timer_entry", Some("x86_irq_vectors_local_timer_entry")),
            ("irq_vectors", "x86_platform_ipi_exit", Some("x86_irq_vectors_ipi_exit")),
            ("irq_vectors", "vector_alloc", None),
            ("timer", "timer_expire_entry", Some("timer_expire_entry")),
            ("timer", "timer_base_idle", None),
            ("timer", "hrtimer_start", Some("timer_hrtimer_start")),
            ("timer", "itimer_state", Some("timer_itimer_state")),
            ("timer", "tick_stop", None),
            ("exceptions", "page_fault_user", Some("x86_exceptions_page_fault_user")),
            ("power", "cpu_idle", Some("power_cpu_idle")),
            ("power", "power_domain_target", Some("power_domain_target")),
            ("net", "netif_receive_skb_list_exit", Some("net_if_receive_skb_list_exit")),
            ("net", "netif_rx", Some("net_if_rx")),
            ("net", "napi_gro_receive_entry", Some("net_napi_gro_receive_entry")),
            ("net", "net_dev_start_xmit", None),
            ("block", "block_rq_issue", Some("block_rq_issue")),
            ("raw_syscalls", "sys_enter", None),
        ] {
            assert_eq!(name(system, event).as_deref(), expected, "{system}:{event}");
        }
    }
}
