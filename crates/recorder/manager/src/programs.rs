//! Programs that can be recorded, as text and as JSON.

use serde_json::{Value, json};
use sordino_event::Schema;
use sordino_event::text::printable;
use sordino_intake::Listed;

/// Returns a program with its tracepoints, or the reason why it can't be recorded.
pub fn program_text(program: &Listed) -> String {
    let mut text =
        format!("  {} ({}) {}\n", printable(&program.name), program.pid, printable(&program.executable));
    if let Some(problem) = &program.problem {
        text += &format!("    can't be recorded: {}\n", printable(problem));
    }
    for note in &program.notes {
        text += &format!("    {}\n", printable(note));
    }
    for (name, pid) in &program.recorded_by {
        text += &format!("    is being recorded by '{}' (process {pid})\n", printable(name));
    }
    for schema in &program.tracepoints {
        let fields: Vec<String> = schema
            .fields
            .iter()
            .map(|field| format!("{}: {}", printable(&field.name), printable(&field.ty.to_string())))
            .collect();
        text += &format!("    {} [{}] {}", printable(&schema.full_name()), schema.level, fields.join(", "));
        text = text.trim_end().to_owned() + "\n";
    }
    text
}

/// Returns the same facts about a program as JSON.
pub fn program_json(program: &Listed) -> Value {
    let tracepoints: Vec<Value> = program.tracepoints.iter().map(tracepoint_json).collect();
    let recorded_by = program.recorded_by.iter().map(|(name, pid)| json!({ "name": name, "pid": pid }));
    json!({
        "pid": program.pid,
        "name": program.name,
        "executable": program.executable,
        "problem": program.problem,
        "notes": program.notes,
        "recorded_by": recorded_by.collect::<Vec<_>>(),
        "tracepoints": tracepoints,
    })
}

fn tracepoint_json(schema: &Schema) -> Value {
    let fields =
        schema.fields.iter().map(|field| json!({ "name": field.name, "type": field.ty.to_string() }));
    json!({
        "name": schema.full_name(),
        "level": schema.level.name(),
        "file": schema.location.as_ref().map(|(file, _)| file),
        "line": schema.location.as_ref().map(|(_, line)| line),
        "fields": fields.collect::<Vec<_>>(),
    })
}
