//! The text of a trace's metadata.

use super::packet::FIRST_EVENT;
use crate::{ClockDescription, Environment, Error, Setting, Uuid};
use sordino_event::{Base, ByteOrder, Enumeration, FloatWidth, Integer, Scalar, Schema, Type};
use std::fmt::Write;

/// The streams that sordino records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamClass {
    /// A program's ring of one CPU.
    Cpu,
    /// A program's ring for the threads that can't use a CPU's ring.
    Shared,
    /// The losses of a program: a stream without events, which counts the hits before the recorder's answer.
    Unanswered,
    /// The kernel's events on one CPU.
    Kernel,
    /// The state when the recording began, in the kernel's trace.
    StateDump,
    /// Events of any trace, whose classes have contexts of their own, on one CPU.
    Exported,
    /// Events of a program that were imported from another format, which has their threads, and no CPUs.
    Imported,
}

impl StreamClass {
    /// Returns the class's number within its trace.
    pub const fn id(self) -> u32 {
        match self {
            Self::Cpu | Self::Kernel | Self::Exported => 0,
            Self::Shared | Self::StateDump => 1,
            Self::Unanswered => 2,
            Self::Imported => 3,
        }
    }

    /// Returns true if each of its streams belongs to a CPU.
    const fn has_cpu(self) -> bool {
        matches!(self, Self::Cpu | Self::Kernel | Self::Exported)
    }

    /// Returns the fields behind the time in an event's header. babeltrace2 warns of every other field there that is
    /// not called `id`; of several, the last `id` counts.
    const fn header(self) -> &'static str {
        match self {
            Self::Cpu | Self::Shared => "struct { uint16_t id; } lost; uint16_t id;",
            Self::Unanswered | Self::Kernel | Self::StateDump => "uint16_t id;",
            Self::Exported | Self::Imported => "uint32_t id;",
        }
    }

    const fn context(self) -> &'static str {
        match self {
            Self::Cpu | Self::Unanswered | Self::Imported => "int32_t _vtid;",
            Self::Shared => "int32_t _vtid; uint32_t _cpu_id; uint32_t _length;",
            Self::Kernel | Self::StateDump => "uint8_t _flags; uint8_t _preempt_count; int32_t _tid;",
            Self::Exported => "",
        }
    }

    /// Bytes in front of an event's fields: its time, the rest of its header, its context.
    pub const fn record_header(self) -> usize {
        size_of::<u64>() + declared_bytes(self.header()) + declared_bytes(self.context())
    }
}

/// The header of every packet.
const PACKET_HEADER: &str = "\t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\t\tuint32_t stream_id;\n";

/// The context of every packet, except for two fields of `uint32_t` that have different names.
const PACKET_CONTEXT: &str = "\t\tticks_t timestamp_begin;\n\t\tticks_t timestamp_end;\n\
     \t\tuint64_t content_size;\n\t\tuint64_t packet_size;\n\t\tuint64_t events_discarded;\n\
     \t\tuint64_t packet_seq_num;\n";

const _: () = assert!(
    FIRST_EVENT == declared_bytes(PACKET_HEADER) + declared_bytes(PACKET_CONTEXT) + 2 * size_of::<u32>()
);

/// Number of bytes of the fields that `text` declares: packed integers of [`preamble`]'s types, and arrays of them.
const fn declared_bytes(text: &str) -> usize {
    let text = text.as_bytes();
    let (mut bytes, mut size, mut count, mut at) = (0, 0, 1, 0);
    while at < text.len() {
        match text.split_at(at).1 {
            [b'i', b'n', b't', bits @ ..] => size = number(bits) / 8,
            [b't', b'i', b'c', b'k', b's', ..] => size = size_of::<u64>(),
            [b'[', length @ ..] => count = number(length),
            [b';', ..] => {
                bytes += size * count;
                (size, count) = (0, 1);
            }
            _ => {}
        }
        at += 1;
    }
    bytes
}

/// The decimal number at the beginning of `text`.
const fn number(mut text: &[u8]) -> usize {
    let mut number = 0;
    while let [digit @ b'0'..=b'9', rest @ ..] = text {
        (number, text) = (10 * number + (*digit - b'0') as usize, rest);
    }
    number
}

/// Returns the first block: the trace's identity, its environment, its clock.
///
/// # Errors
/// If the name of the clock or of an entry of `environment` is no C identifier, or if the clock's frequency is 0.
pub fn preamble(uuid: Uuid, environment: &Environment, clock: &ClockDescription) -> Result<String, Error> {
    identifier("clock", &clock.name)?;
    if clock.frequency == 0 {
        return Err(Error::Frequency { name: clock.name.clone() });
    }
    let order = if cfg!(target_endian = "big") { "be" } else { "le" };
    let mut text = String::from("/* CTF 1.8 */\n\n");
    for (bits, signed, name) in [
        (8, "false", "uint8_t"),
        (16, "false", "uint16_t"),
        (32, "false", "uint32_t"),
        (64, "false", "uint64_t"),
        (32, "true", "int32_t"),
    ] {
        text += &format!("typealias integer {{ size = {bits}; align = 8; signed = {signed}; }} := {name};\n");
    }
    text += &format!(
        "\ntrace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{uuid}\";\n\tbyte_order = {order};\n\
         \tpacket.header := struct {{\n{PACKET_HEADER}\t}};\n}};\n"
    );
    text += "\nenv {\n";
    for (name, value) in environment.iter() {
        identifier("environment", name)?;
        match value {
            Setting::Integer(number) => text += &format!("\t{name} = {number};\n"),
            Setting::Text(value) => text += &format!("\t{name} = {};\n", quoted(value)),
        }
    }
    let ClockDescription { name, frequency, offset_seconds, offset_ticks, .. } = clock;
    text += &format!("}};\n\nclock {{\n\tname = \"{name}\";\n");
    if let Some(uuid) = clock.uuid {
        text += &format!("\tuuid = \"{uuid}\";\n");
    }
    let absolute = if clock.absolute { "TRUE" } else { "FALSE" };
    text += &format!(
        "\tdescription = {};\n\tfreq = {frequency};\n\toffset_s = {offset_seconds};\n\toffset = {offset_ticks};\n\
         \tabsolute = {absolute};\n}};\n\n",
        quoted(&clock.description)
    );
    text += &format!(
        "typealias integer {{ size = 64; align = 8; signed = false; map = clock.{name}.value; }} := ticks_t;\n"
    );
    Ok(text)
}

/// Returns the block that declares a class of streams.
pub fn stream_class(class: StreamClass) -> String {
    let place = if class.has_cpu() { "cpu_id" } else { "reserved" };
    let last = if class == StreamClass::Unanswered { "unanswered" } else { "too_large" };
    let context = match class.context() {
        "" => String::new(),
        context => format!("\tevent.context := struct {{ {context} }};\n"),
    };
    format!(
        "\nstream {{\n\tid = {};\n\
         \tpacket.context := struct {{\n{PACKET_CONTEXT}\t\tuint32_t {place};\n\t\tuint32_t {last};\n\t}};\n\
         \tevent.header := struct {{ ticks_t timestamp; {} }} align(64);\n{context}}};\n",
        class.id(),
        class.header(),
    )
}

/// Returns the block that declares an event of the streams of `class`. Readers show the event as `name`, which is
/// `provider:name` for a tracepoint.
///
/// # Errors
/// If a field's name is no C identifier or occurs twice.
pub fn event_class(class: StreamClass, id: u16, name: &str, schema: &Schema) -> Result<String, Error> {
    event_classes(&[class], id, name, schema)
}

/// Returns the blocks that declare an event in the streams of each of `classes`, as [`event_class`] does for one.
///
/// # Errors
/// If a field's name is no C identifier or occurs twice.
pub fn event_classes(classes: &[StreamClass], id: u16, name: &str, schema: &Schema) -> Result<String, Error> {
    let (name, level, fields) = (quoted(name), schema.level.number(), fields(schema)?);
    let mut text = String::with_capacity(classes.len() * (name.len() + fields.len() + 100));
    for class in classes {
        let stream = class.id();
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\nevent {{\n\tname = {name};\n\tid = {id};\n\tstream_id = {stream};\n\tloglevel = {level};\n\
             \tfields := struct {{\n{fields}\t}};\n}};\n"
        );
    }
    Ok(text)
}

/// Returns the declarations of an event's fields.
fn fields(schema: &Schema) -> Result<String, Error> {
    let (mut text, names) = (String::new(), field_names(schema)?);
    for (field, name) in schema.fields.iter().zip(&names) {
        // The underscore in front keeps names from being keywords; readers remove it. Writing to a string does not
        // fail.
        let _ = match &field.ty {
            Type::Scalar(ty) => writeln!(text, "\t\t{} _{name};", scalar(ty)),
            Type::String => writeln!(text, "\t\tstring {{ encoding = UTF8; }} _{name};"),
            Type::Text(length) => writeln!(
                text,
                "\t\tinteger {{ size = 8; align = 8; signed = false; encoding = UTF8; }} _{name}[{length}];"
            ),
            Type::Array(element, length) => writeln!(text, "\t\t{} _{name}[{length}];", scalar(element)),
            Type::Sequence(element) => {
                let length = length_name(&names, name);
                writeln!(text, "\t\tuint16_t _{length};\n\t\t{} _{name}[_{length}];", scalar(element))
            }
        };
    }
    Ok(text)
}

/// Returns the names of the fields: those of the schema, except that a name may get underscores. babeltrace2 2.0
/// confuses `_a` with `a` behind it and refuses the trace.
fn field_names(schema: &Schema) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = Vec::new();
    for (index, field) in schema.fields.iter().enumerate() {
        identifier("field", &field.name)?;
        if schema.fields[..index].iter().any(|other| other.name == field.name) {
            return Err(Error::FieldTwice { event: schema.full_name(), field: field.name.clone() });
        }
        let mut name = field.name.clone();
        while names.iter().any(|other| *other == name || other.strip_prefix('_') == Some(&name)) {
            name.insert(0, '_');
        }
        names.push(name);
    }
    Ok(names)
}

/// Returns the name of the length of the sequence `name`: `_NAME_length`, with more underscores in front if it could be
/// confused with one of the other fields `names`.
fn length_name(names: &[String], name: &str) -> String {
    let mut length = format!("_{name}_length");
    let clashes = |length: &str| {
        names.iter().any(|other| {
            *other == length
                || other.strip_prefix('_') == Some(length)
                || length.strip_prefix('_') == Some(other)
        })
    };
    while clashes(&length) {
        length.insert(0, '_');
    }
    length
}

fn scalar(ty: &Scalar) -> String {
    match ty {
        Scalar::Integer(ty) => integer(*ty),
        Scalar::Float(FloatWidth::Single) => {
            "floating_point { exp_dig = 8; mant_dig = 24; align = 8; }".to_owned()
        }
        Scalar::Float(FloatWidth::Double) => {
            "floating_point { exp_dig = 11; mant_dig = 53; align = 8; }".to_owned()
        }
        Scalar::Bool => "enum : uint8_t { \"false\" = 0, \"true\" = 1 ... 255 }".to_owned(),
        Scalar::Enumeration(ty) => enumeration(ty),
    }
}

fn integer(ty: Integer) -> String {
    let base = match ty.base {
        Base::Decimal => 10,
        Base::Hexadecimal => 16,
        Base::Octal => 8,
        Base::Binary => 2,
    };
    let order = match ty.order {
        ByteOrder::Host => "",
        ByteOrder::Network => " byte_order = be;",
    };
    let (bits, signed) = (ty.width.bits(), ty.signed);
    format!("integer {{ size = {bits}; align = 8; signed = {signed}; base = {base};{order} }}")
}

/// Returns an enumeration's type. Labels for values that the integer cannot have are left out; without a label it is a
/// plain integer.
fn enumeration(ty: &Enumeration) -> String {
    let bits = ty.integer.width.bits();
    let (least, greatest) = match ty.integer.signed {
        true => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        false => (0, i64::try_from(u64::MAX >> (64 - bits)).unwrap_or(i64::MAX)),
    };
    let mut labels = String::new();
    for range in &ty.ranges {
        let (low, high) = (range.low.max(least), range.high.min(greatest));
        if low <= high {
            let separator = if labels.is_empty() { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = write!(labels, "{separator}{} = {low}", quoted(&range.label));
            if low < high {
                let _ = write!(labels, " ... {high}");
            }
        }
    }
    match labels.is_empty() {
        true => integer(ty.integer),
        false => format!("enum : {} {{ {labels} }}", integer(ty.integer)),
    }
}

fn identifier(what: &'static str, name: &str) -> Result<(), Error> {
    let start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if start && rest { Ok(()) } else { Err(Error::Identifier { what, name: name.to_owned() }) }
}

/// Returns `text` as a TSDL literal. Control characters are written in octal: hexadecimal escapes have no end.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            control if control.is_ascii_control() => quoted += &format!("\\{:03o}", u32::from(control)),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::{Field, Level, Range, Width};

    fn schema(fields: Vec<Field>) -> Schema {
        Schema { provider: "motor".into(), name: "period".into(), level: Level::Info, location: None, fields }
    }

    #[test]
    fn declarations_take_as_many_bytes_as_their_integers() {
        assert_eq!(declared_bytes("struct { uint16_t id; } lost; uint8_t b[16]; ticks_t c; int32_t _d;"), 30);
        let headers = [StreamClass::Cpu, StreamClass::Shared, StreamClass::Unanswered, StreamClass::Kernel];
        assert_eq!(headers.map(StreamClass::record_header), [16, 24, 14, 16]);
    }

    fn metadata(classes: [StreamClass; 2], name: &str, schema: &Schema) -> String {
        let mut environment = Environment::default();
        environment.set("domain", "ust").set("procname", "a \"b\"").set("vpid", 4711);
        let clock = ClockDescription {
            uuid: Some(Uuid([0xc1; 16])),
            frequency: 2_596_136_000,
            description: "time stamp counter".into(),
            offset_seconds: 1_700_000_000,
            offset_ticks: 12,
            ..ClockDescription::new("tsc")
        };
        let mut text = preamble(Uuid([0x51; 16]), &environment, &clock).unwrap();
        for class in classes {
            text += &stream_class(class);
            text += &event_class(class, 3, name, schema).unwrap();
        }
        text
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_text_is_this() {
        let ranges = vec![
            Range { label: "off".into(), low: -1, high: 0 },
            Range { label: "on\n".into(), low: 1, high: 999 },
            Range { label: "never".into(), low: 256, high: 257 },
        ];
        let kind = Enumeration { integer: Integer::new(Width::W8, false), ranges };
        let mut fields = vec![Field { name: "kind".into(), ty: Type::Scalar(Scalar::Enumeration(kind)) }];
        let types = ["u64", "i16xn", "f32", "f64", "bool", "string", "text:16", "[u8;6]", "[u8x]"];
        fields.extend(
            (0..).zip(types).map(|(index, ty)| Field { name: format!("f{index}"), ty: ty.parse().unwrap() }),
        );
        let user = metadata([StreamClass::Cpu, StreamClass::Shared], "motor:period", &schema(fields));
        assert_eq!(user, include_str!("../../../../../testdata/ctf/user.tsdl"));
        let kernel = metadata([StreamClass::Kernel, StreamClass::StateDump], "sched_switch", &schema(vec![]));
        assert_eq!(kernel, include_str!("../../../../../testdata/ctf/kernel.tsdl"));
    }
}
