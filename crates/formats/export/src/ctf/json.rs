//! The metadata of CTF 2: a sequence of JSON texts.

use super::classes::{ExportedClass, ExportedClasses};
use super::exported_type::ExportedType;
use sordino_ctf::{ClockDescription, Environment, Setting, Uuid};
use sordino_event::{Base, Domain};
use sordino_report::json_text;
use std::collections::BTreeMap;

/// Returns the metadata of a trace.
pub(super) fn metadata(
    uuid: Uuid,
    environment: &Environment,
    clock: &ClockDescription,
    classes: &ExportedClasses,
) -> String {
    let entries = environment.iter().map(|(name, value)| match value {
        Setting::Integer(number) => format!("{}:{number}", quoted(name)),
        Setting::Text(text) => format!("{}:{}", quoted(name), quoted(text)),
    });
    let header = structure(
        8,
        &[
            integer_member("magic", 32, &["packet-magic-number"]),
            (
                "uuid".into(),
                r#"{"type":"static-length-blob","length":16,"roles":["metadata-stream-uuid"]}"#.into(),
            ),
            integer_member("stream_id", 32, &["data-stream-class-id"]),
        ],
    );
    let packet_context = structure(
        8,
        &[
            integer_member("timestamp_begin", 64, &["default-clock-timestamp"]),
            integer_member("timestamp_end", 64, &["packet-end-default-clock-timestamp"]),
            integer_member("content_size", 64, &["packet-content-length"]),
            integer_member("packet_size", 64, &["packet-total-length"]),
            integer_member("events_discarded", 64, &["discarded-event-record-counter-snapshot"]),
            integer_member("packet_seq_num", 64, &["packet-sequence-number"]),
            integer_member("cpu_id", 32, &[]),
            integer_member("too_large", 32, &[]),
        ],
    );
    let event_header = structure(
        64,
        &[
            integer_member("timestamp", 64, &["default-clock-timestamp"]),
            integer_member("id", 32, &["event-record-class-id"]),
        ],
    );
    let ClockDescription { name, frequency, offset_seconds, description, .. } = clock;
    let mut fragments = vec![
        format!(r#"{{"type":"preamble","version":2,"uuid":{:?}}}"#, uuid.0),
        format!(
            r#"{{"type":"trace-class","environment":{{{}}},"packet-header-field-class":{header}}}"#,
            entries.collect::<Vec<_>>().join(",")
        ),
        format!(
            r#"{{"type":"clock-class","id":{0},"name":{0},"description":{1},"frequency":{frequency},"origin":"unix-epoch","offset-from-origin":{{"seconds":{offset_seconds},"cycles":0}}}}"#,
            quoted(name),
            quoted(description)
        ),
        format!(
            r#"{{"type":"data-stream-class","id":0,"default-clock-class-id":{},"packet-context-field-class":{packet_context},"event-record-header-field-class":{event_header}}}"#,
            quoted(name)
        ),
    ];
    fragments.extend(
        classes.exported.iter().enumerate().map(|(number, exported)| event(number, exported, classes)),
    );
    fragments.iter().map(|fragment| format!("\u{1e}{fragment}\n")).collect()
}

fn event(number: usize, exported: &ExportedClass, classes: &ExportedClasses) -> String {
    let class = &classes.recorded[exported.class];
    let prefix = if class.domain == Domain::User { "v" } else { "" };
    let mut text = format!(
        r#"{{"type":"event-record-class","id":{number},"data-stream-class-id":0,"name":{}"#,
        quoted(&class.name)
    );
    let context = exported.context_members(class, prefix);
    if !context.is_empty() {
        let mut members = Members::default();
        for (name, ty) in &context {
            match ty {
                Some(ty) => members.add(name, ty),
                None => _ = members.push(name, integer(32, true, Base::Decimal, "")),
            }
        }
        text += &format!(r#","specific-context-field-class":{}"#, structure(8, &members.0));
    }
    let mut members = Members::default();
    for (name, ty) in exported.payload_members(class) {
        members.add(name, ty);
    }
    text + &format!(r#","payload-field-class":{}}}"#, structure(8, &members.0))
}

/// The members of a structure: names and field classes.
#[derive(Default)]
struct Members(Vec<(String, String)>);

impl Members {
    /// Adds a member; its name gets an underscore if there is one of that name. Returns the name.
    fn push(&mut self, name: &str, class: String) -> String {
        let mut name = name.to_owned();
        while self.0.iter().any(|(other, _)| *other == name) {
            name.push('_');
        }
        self.0.push((name.clone(), class));
        name
    }

    fn add(&mut self, name: &str, ty: &ExportedType) {
        let class = match ty {
            ExportedType::Sequence(element) => {
                let length = self.push(&format!("_{name}_length"), integer(32, false, Base::Decimal, ""));
                let element = of_elements(element.as_deref());
                format!(
                    r#"{{"type":"dynamic-length-array","element-field-class":{element},"length-field-location":{{"origin":"event-record-payload","path":[{}]}}}}"#,
                    quoted(&length)
                )
            }
            ExportedType::Array(element, length) => {
                let element = of_elements(element.as_deref());
                format!(
                    r#"{{"type":"static-length-array","length":{length},"element-field-class":{element}}}"#
                )
            }
            ty => class(ty),
        };
        self.push(name, class);
    }
}

fn of_elements(element: Option<&ExportedType>) -> String {
    element.map_or_else(|| integer(8, false, Base::Decimal, ""), class)
}

fn class(ty: &ExportedType) -> String {
    match ty {
        ExportedType::Unsigned(base) => integer(64, false, *base, ""),
        ExportedType::Signed(base) => integer(64, true, *base, ""),
        ExportedType::Float => {
            format!(
                r#"{{"type":"fixed-length-floating-point-number","length":64,"byte-order":"{ORDER}","alignment":8}}"#
            )
        }
        ExportedType::Text => r#"{"type":"null-terminated-string"}"#.to_owned(),
        ExportedType::Label(labels) => {
            let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for (value, label) in labels {
                values.entry(label).or_default().push(format!("[{value},{value}]"));
            }
            let mappings: Vec<_> = values
                .iter()
                .map(|(label, values)| format!("{}:[{}]", quoted(label), values.join(",")))
                .collect();
            let rest = match mappings.is_empty() {
                true => String::new(),
                false => format!(r#","mappings":{{{}}}"#, mappings.join(",")),
            };
            integer(64, true, Base::Decimal, &rest)
        }
        ExportedType::Group(members) => {
            let mut all = Members::default();
            for (name, ty) in members {
                all.add(name, ty);
            }
            structure(8, &all.0)
        }
        // These stand in structures only.
        ExportedType::Sequence(element) | ExportedType::Array(element, _) => of_elements(element.as_deref()),
    }
}

const ORDER: &str = if cfg!(target_endian = "big") { "big-endian" } else { "little-endian" };

fn integer(bits: u32, is_signed: bool, base: Base, rest: &str) -> String {
    let kind = if is_signed { "signed" } else { "unsigned" };
    let base = match base {
        Base::Decimal => 10,
        Base::Hexadecimal => 16,
        Base::Octal => 8,
        Base::Binary => 2,
    };
    format!(
        r#"{{"type":"fixed-length-{kind}-integer","length":{bits},"byte-order":"{ORDER}","alignment":8,"preferred-display-base":{base}{rest}}}"#
    )
}

fn integer_member(name: &str, bits: u32, roles: &[&str]) -> (String, String) {
    let roles: Vec<_> = roles.iter().map(|role| quoted(role)).collect();
    let rest = if roles.is_empty() { String::new() } else { format!(r#","roles":[{}]"#, roles.join(",")) };
    (name.to_owned(), integer(bits, false, Base::Decimal, &rest))
}

fn structure(alignment: u32, members: &[(String, String)]) -> String {
    let members: Vec<_> = members
        .iter()
        .map(|(name, class)| format!(r#"{{"name":{},"field-class":{class}}}"#, quoted(name)))
        .collect();
    format!(
        r#"{{"type":"structure","minimum-alignment":{alignment},"member-classes":[{}]}}"#,
        members.join(",")
    )
}

fn quoted(text: &str) -> String {
    let mut json = Vec::new();
    json_text(text.as_bytes(), &mut json);
    String::from_utf8_lossy(&json).into_owned()
}
