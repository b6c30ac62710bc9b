//! The metadata of CTF 1.8: the text of its description language.
//!
//! Names of fields are identifiers there: other characters become underscores.

use super::classes::{ExportedClass, ExportedClasses};
use super::exported_type::ExportedType;
use sordino_ctf::write::{StreamClass, preamble, quoted, stream_class};
use sordino_ctf::{ClockDescription, Environment, Uuid};
use sordino_event::{Base, Domain};
use std::fmt::Write as _;

const LENGTH: &str = "integer { size = 32; align = 8; signed = false; }";

/// Returns the metadata of a trace.
pub(super) fn metadata(
    uuid: Uuid,
    environment: &Environment,
    clock: &ClockDescription,
    classes: &ExportedClasses,
) -> String {
    // The names are identifiers, and the clock has a frequency.
    let mut text = preamble(uuid, environment, clock).unwrap_or_default();
    text += &stream_class(StreamClass::Exported);
    for (number, exported) in classes.exported.iter().enumerate() {
        event(number, exported, classes, &mut text);
    }
    text
}

fn event(number: usize, exported: &ExportedClass, classes: &ExportedClasses, text: &mut String) {
    let class = &classes.recorded[exported.class];
    // Writing to a string does not fail.
    let _ =
        write!(text, "\nevent {{\n\tname = {};\n\tid = {number};\n\tstream_id = 0;\n", quoted(&class.name));
    if let Some(level) = class.level {
        let _ = writeln!(text, "\tloglevel = {};", level.number());
    }
    let prefix = if class.domain == Domain::User { "v" } else { "" };
    let context = exported.context_members(class, prefix);
    let mut names = MemberNames::default();
    if !context.is_empty() {
        *text += "\tcontext := struct {\n";
        for (name, ty) in &context {
            match ty {
                Some(ty) => member(name, ty, &mut names, text),
                None => {
                    let ty = "integer { size = 32; align = 8; signed = true; }";
                    let _ = writeln!(text, "\t\t{ty} {};", names.add(name));
                }
            }
        }
        *text += "\t};\n";
    }
    *text += "\tfields := struct {\n";
    let mut names = MemberNames::default();
    for (name, ty) in exported.payload_members(class) {
        member(name, ty, &mut names, text);
    }
    *text += "\t};\n};\n";
}

fn member(name: &str, ty: &ExportedType, names: &mut MemberNames, text: &mut String) {
    let name = names.add(name);
    let _ = match ty {
        ExportedType::Sequence(element) => {
            let length = names.add(&format!("{name}_length"));
            writeln!(
                text,
                "\t\t{LENGTH} {length};\n\t\t{} {name}[{length}];",
                of_elements(element.as_deref())
            )
        }
        ExportedType::Array(element, length) => {
            writeln!(text, "\t\t{} {name}[{length}];", of_elements(element.as_deref()))
        }
        ty => writeln!(text, "\t\t{} {name};", declared(ty)),
    };
}

fn of_elements(element: Option<&ExportedType>) -> String {
    element.map_or_else(|| "integer { size = 8; align = 8; signed = false; }".to_owned(), declared)
}

fn declared(ty: &ExportedType) -> String {
    let integer = |signed: bool, base: Base| {
        let base = match base {
            Base::Decimal => 10,
            Base::Hexadecimal => 16,
            Base::Octal => 8,
            Base::Binary => 2,
        };
        format!("integer {{ size = 64; align = 8; signed = {signed}; base = {base}; }}")
    };
    match ty {
        ExportedType::Unsigned(base) => integer(false, *base),
        ExportedType::Signed(base) => integer(true, *base),
        ExportedType::Float => "floating_point { exp_dig = 11; mant_dig = 53; align = 8; }".to_owned(),
        ExportedType::Text => "string { encoding = UTF8; }".to_owned(),
        ExportedType::Label(labels) if labels.is_empty() => integer(true, Base::Decimal),
        ExportedType::Label(labels) => {
            let labels: Vec<_> =
                labels.iter().map(|(value, label)| format!("{} = {value}", quoted(label))).collect();
            format!("enum : {} {{ {} }}", integer(true, Base::Decimal), labels.join(", "))
        }
        ExportedType::Group(members) => {
            let (mut text, mut names) = (String::from("struct {\n"), MemberNames::default());
            for (name, ty) in members {
                member(name, ty, &mut names, &mut text);
            }
            text + "\t\t}"
        }
        // These have no type without a name.
        ExportedType::Sequence(element) | ExportedType::Array(element, _) => of_elements(element.as_deref()),
    }
}

/// The names of a structure's members, each an identifier with an underscore in front, which readers remove.
#[derive(Default)]
struct MemberNames(Vec<String>);

impl MemberNames {
    /// Returns the name of a member. It differs from the names of other members, also without their leading
    /// underscores: babeltrace2 2.0 confuses `_a` and `a`.
    fn add(&mut self, name: &str) -> String {
        let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
        let mut name: String = std::iter::once('_').chain(letters).collect();
        while self.0.iter().any(|other| *other == name || other.strip_prefix('_') == Some(&name)) {
            name.insert(0, '_');
        }
        self.0.push(name.clone());
        name
    }
}
