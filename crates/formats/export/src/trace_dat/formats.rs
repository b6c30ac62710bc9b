//! Formats of events, made from their values, and records in these formats.

use super::page::RECORD_MAX;
use sordino_event::{Base, Classes, Event, PriorityNumbering, Tid, View};
use sordino_report::json_value;
use sordino_timeline::Moment;
use std::fmt::Write as _;

/// Bytes in front of a record's fields: number, flags, preemption count, thread.
const COMMON: usize = 8;
/// The kernel's length of a thread's name, with its zero byte.
const COMM: usize = 16;
/// The end of a text that is cut.
const CUT: &[u8] = b"...";
/// Maximum number of formats of one class's events; values that fit none of them are texts.
const FORMATS_MAX: usize = 16;
/// Maximum number of classes with formats: a format's number has 16 bits.
const CLASSES_MAX: usize = 3000;
/// Number of fields that fit a record whatever their types are.
const FIELDS_ALWAYS: usize = (RECORD_MAX - COMMON) / COMM;
/// The first number of formats. Smaller ones belong to the kernel's own.
const FIRST: usize = 100;

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldType {
    Signed,
    Unsigned,
    Hexadecimal,
    /// The name of a thread.
    Comm,
    Text,
}

/// A format: the number of the class and the types of the fields.
#[derive(Debug)]
struct EventFormat {
    class: usize,
    types: Vec<FieldType>,
}

/// A class by the kernel's names.
#[derive(Debug)]
struct KernelClass {
    name: String,
    fields: Vec<KernelField>,
}

#[derive(Debug)]
struct KernelField {
    name: String,
    is_priority: bool,
    /// The role of a context that each record has.
    common: Option<CommonField>,
}

#[derive(Clone, Copy, Debug)]
enum CommonField {
    Flags,
    PreemptCount,
}

/// The formats so far.
#[derive(Debug)]
pub(super) struct EventFormats {
    classes: Vec<KernelClass>,
    formats: Vec<EventFormat>,
    of_class: Vec<Vec<usize>>,
    /// The difference between the kernel's priorities and those of the trace.
    offset: i64,
    text: Vec<u8>,
}

impl EventFormats {
    pub(super) fn new(classes: &Classes, priorities: Option<PriorityNumbering>) -> Self {
        let of = |class: &sordino_event::Class| {
            let name = class.name.strip_prefix("irq_softirq_").map(|name| format!("softirq_{name}"));
            let name = identifier(&name.unwrap_or_else(|| class.name.clone()));
            let is_scheduler = name.starts_with("sched_");
            let mut fields: Vec<KernelField> = Vec::new();
            for field in &class.fields {
                let common = match &**field {
                    "$ctx.flags" => Some(CommonField::Flags),
                    "$ctx.preempt_count" => Some(CommonField::PreemptCount),
                    _ => None,
                };
                // LTTng's name of a thread's id.
                let kernels = match field.strip_suffix("tid").filter(|_| is_scheduler) {
                    Some(stem) if stem.is_empty() || stem.ends_with('_') => format!("{stem}pid"),
                    _ => field.replacen("$ctx.", "", 1),
                };
                let mut own = identifier(&kernels);
                while fields.iter().any(|other| other.name == own) {
                    own.push('_');
                }
                let is_priority = is_scheduler && own.ends_with("prio");
                fields.push(KernelField { name: own, is_priority, common });
            }
            KernelClass { name, fields }
        };
        Self {
            classes: classes.iter().map(|(_, class)| of(class)).collect(),
            formats: Vec::new(),
            of_class: vec![Vec::new(); classes.len()],
            offset: priorities.map_or(0, |priorities| priorities.offset().into()),
            text: Vec::new(),
        }
    }

    /// Returns true if the events of the event's class can have formats, and its fields without their texts fit a
    /// record.
    pub(super) fn has_room(&self, event: &Event) -> bool {
        let class = event.class.index();
        let has_format = self.of_class.len() <= CLASSES_MAX
            || !self.of_class[class].is_empty()
            || self.formats.len() < CLASSES_MAX * FORMATS_MAX;
        // A format of texts alone is not larger than that of the values' own types.
        has_format
            && (event.len() <= FIELDS_ALWAYS || {
                let fields = self.classes[class].fields.iter().enumerate();
                let types =
                    fields.filter_map(|(index, field)| Some(FieldType::of(event.value(index)?, &field.name)));
                COMMON + types.map(FieldType::bytes_min).sum::<usize>() <= RECORD_MAX
            })
    }

    /// Encodes an event of the thread `tid`, for which there is room, as a record of its format. Texts that do not fit
    /// are cut.
    pub(super) fn encode(&mut self, moment: &Moment<'_>, tid: Tid, out: &mut Vec<u8>) {
        let number = self.format(moment);
        let Self { formats, classes, offset, text, .. } = self;
        let (event, format) = (moment.event, &formats[number]);
        let class = &classes[format.class];
        out.clear();
        out.extend(((FIRST + number) as u16).to_ne_bytes());
        out.extend([0, 0]);
        out.extend(tid.0.to_ne_bytes());
        let fixed: usize = COMMON + format.types.iter().map(|ty| ty.bytes()).sum::<usize>();
        // The bytes for texts, without their zero bytes.
        let ends = format.types.iter().filter(|ty| **ty == FieldType::Text).count();
        let mut room = RECORD_MAX.saturating_sub(fixed + ends);
        let mut texts = Vec::new();
        for ((index, field), ty) in class.fields.iter().enumerate().zip(&format.types) {
            let Some(value) = event.value(index) else { continue };
            match (field.common, value) {
                (Some(CommonField::Flags), View::Unsigned(flags, _)) => out[2] = flags as u8,
                (Some(CommonField::PreemptCount), View::Unsigned(count, _)) => out[3] = count as u8,
                _ => {}
            }
            match ty {
                FieldType::Signed | FieldType::Unsigned | FieldType::Hexadecimal => {
                    let shift = if field.is_priority { *offset } else { 0 };
                    let bits = match value {
                        View::Signed(value, _) | View::Label(value, _) => value.wrapping_add(shift),
                        View::Unsigned(value, _) => value.cast_signed(),
                        _ => 0,
                    };
                    out.extend(bits.to_ne_bytes());
                }
                FieldType::Comm => {
                    let View::Text(comm) = value else { continue };
                    out.extend_from_slice(comm);
                    out.resize(out.len() + COMM - comm.len(), 0);
                }
                FieldType::Text => {
                    text.clear();
                    match value {
                        View::Text(value) => text.extend_from_slice(value),
                        other => json_value(other, text),
                    }
                    // A zero byte would end the text.
                    text.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'?');
                    let place = fixed + texts.len();
                    if text.len() > room {
                        let dots = if room < CUT.len() { &[] } else { CUT };
                        text.truncate(room - dots.len());
                        text.extend_from_slice(dots);
                    }
                    room -= text.len();
                    text.push(0);
                    out.extend((place as u32 | (text.len() as u32) << 16).to_ne_bytes());
                    texts.extend_from_slice(text);
                }
            }
        }
        out.append(&mut texts);
    }

    /// Returns the index of the format that the event's values have.
    fn format(&mut self, moment: &Moment<'_>) -> usize {
        let (event, class) = (moment.event, moment.event.class.index());
        let fields = &self.classes[class].fields;
        let ty = |index: usize| event.value(index).map(|value| FieldType::of(value, &fields[index].name));
        let has = |format: &EventFormat| {
            format.types.len() == event.len()
                && format.types.iter().enumerate().all(|(index, own)| ty(index) == Some(*own))
        };
        let known = &mut self.of_class[class];
        if let Some(place) = known.iter().position(|number| has(&self.formats[*number])) {
            known.swap(0, place);
            return known[0];
        }
        let count = event.len().min(fields.len());
        // Behind the last formats of all, a class may have one, of texts.
        let is_full = known.len() >= FORMATS_MAX || self.formats.len() >= CLASSES_MAX * (FORMATS_MAX - 1);
        let types: Vec<FieldType> =
            if is_full { vec![FieldType::Text; count] } else { (0..count).filter_map(ty).collect() };
        if let Some(number) = known.iter().find(|number| self.formats[**number].types == types) {
            return *number;
        }
        self.formats.push(EventFormat { class, types });
        known.push(self.formats.len() - 1);
        self.formats.len() - 1
    }

    /// Returns the formats' texts, each with the name of the system to which its event belongs.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.formats.iter().enumerate().map(|(number, format)| {
            let class = &self.classes[format.class];
            (system(&class.name), text(FIRST + number, class, &format.types))
        })
    }
}

impl FieldType {
    fn of(value: View<'_>, name: &str) -> Self {
        match value {
            View::Unsigned(_, Base::Hexadecimal) => Self::Hexadecimal,
            View::Unsigned(..) => Self::Unsigned,
            View::Signed(..) | View::Label(..) => Self::Signed,
            View::Text(text) if name.ends_with("comm") && text.len() < COMM => Self::Comm,
            _ => Self::Text,
        }
    }

    /// Returns the number of bytes of the field in front of the texts.
    fn bytes(self) -> usize {
        match self {
            Self::Signed | Self::Unsigned | Self::Hexadecimal => size_of::<u64>(),
            Self::Comm => COMM,
            Self::Text => size_of::<u32>(),
        }
    }

    /// Returns the minimum size of a value in bytes: that of the field, and the zero byte of a text.
    fn bytes_min(self) -> usize {
        self.bytes() + usize::from(self == Self::Text)
    }
}

/// Returns the text of a format, as the kernel writes it.
fn text(number: usize, class: &KernelClass, types: &[FieldType]) -> String {
    let mut text = format!("name: {}\nID: {number}\nformat:\n", class.name);
    for (ty, name, offset, size, signed) in [
        ("unsigned short", "common_type", 0, 2, 0),
        ("unsigned char", "common_flags", 2, 1, 0),
        ("unsigned char", "common_preempt_count", 3, 1, 0),
        ("int", "common_pid", 4, 4, 1),
    ] {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\tfield:{ty} {name};\toffset:{offset};\tsize:{size};\tsigned:{signed};");
    }
    text.push('\n');
    let (mut offset, mut print, mut arguments) = (COMMON, String::new(), String::new());
    for (KernelField { name, common, .. }, ty) in class.fields.iter().zip(types) {
        let (size, signed) = (ty.bytes(), u8::from(*ty == FieldType::Signed));
        let declaration = match ty {
            FieldType::Signed => format!("s64 {name}"),
            FieldType::Unsigned | FieldType::Hexadecimal => format!("u64 {name}"),
            FieldType::Comm => format!("char {name}[{COMM}]"),
            FieldType::Text => format!("__data_loc char[] {name}"),
        };
        let _ = writeln!(text, "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};");
        offset += size;
        // The records' own flags are printed in their place.
        if common.is_none() {
            let (form, argument) = match ty {
                FieldType::Signed => ("%lld", format!("REC->{name}")),
                FieldType::Unsigned => ("%llu", format!("REC->{name}")),
                FieldType::Hexadecimal => ("0x%llx", format!("REC->{name}")),
                FieldType::Comm => ("%s", format!("REC->{name}")),
                FieldType::Text => ("%s", format!("__get_str({name})")),
            };
            let separator = if print.is_empty() { "" } else { " " };
            let _ = write!(print, "{separator}{name}={form}");
            let _ = write!(arguments, ", {argument}");
        }
    }
    let _ = writeln!(text, "\nprint fmt: \"{print}\"{arguments}");
    text
}

/// Returns the kernel's system of events that an event belongs to.
fn system(name: &str) -> &'static str {
    const SYSTEMS: [(&str, &str); 10] = [
        ("sched_", "sched"),
        ("irq_", "irq"),
        ("softirq_", "irq"),
        ("sys_e", "raw_syscalls"),
        ("timer_", "timer"),
        ("hrtimer_", "timer"),
        ("workqueue_", "workqueue"),
        ("signal_", "signal"),
        ("task_", "task"),
        ("page_fault_", "exceptions"),
    ];
    SYSTEMS.iter().find(|(prefix, _)| name.starts_with(prefix)).map_or("kernel", |(_, system)| system)
}

/// Returns a name with other characters than letters, digits and underscores replaced.
fn identifier(name: &str) -> String {
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    let name: String = letters.collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) || name.is_empty() {
        format!("_{name}")
    } else {
        name
    }
}
