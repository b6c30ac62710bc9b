//! The lines of a listing as JSON.

use super::context;
use super::functions::FunctionNamer;
use super::origin::Origins;
use crate::value::{json_fields, json_names, json_place, json_text, member};
use sordino_event::functions::function_field;
use sordino_event::{Class, Classes, Domain};
use sordino_timeline::{Disorder, Item, Moment, Mounted, Vocabulary};

#[derive(Debug)]
pub(super) struct JsonLines {
    classes: Vec<JsonClass>,
    /// True if events have members for their fibers.
    has_fibers: bool,
    pub(super) functions: FunctionNamer,
    pub(super) origins: Origins,
}

/// The common parts of all lines of a class.
#[derive(Debug)]
struct JsonClass {
    /// The domain and the name, up to the first field.
    head: Vec<u8>,
    /// The text before each field's value.
    fields: Vec<Vec<u8>>,
    /// The index of the field with the address of a function.
    function: Option<usize>,
}

impl JsonLines {
    pub(super) fn new(classes: &Classes) -> Self {
        let class = |class: &Class| {
            let mut head = match class.domain {
                Domain::User => b",\"domain\":\"user\",\"name\":".to_vec(),
                Domain::Kernel => b",\"domain\":\"kernel\",\"name\":".to_vec(),
            };
            json_text(class.name.as_bytes(), &mut head);
            head.extend_from_slice(b",\"fields\":{");
            JsonClass { head, fields: json_names(class), function: function_field(class) }
        };
        Self {
            classes: classes.iter().map(|(_, known)| class(known)).collect(),
            has_fibers: Vocabulary::new(classes).has_fibers(),
            functions: FunctionNamer::default(),
            origins: Origins::default(),
        }
    }

    pub(super) fn line(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        match item {
            Item::Event(moment) => self.event(moment, out),
            Item::Loss(loss, host) => {
                member(out, b"{\"type\":\"loss\",\"from_ns\":", Some(loss.from.0));
                member(out, b",\"to_ns\":", Some(loss.to.0));
                self.origins.json_host(*host, out);
                member(out, b",\"cpu\":", loss.cpu.map(|cpu| cpu.0));
                member(out, b",\"pid\":", loss.pid.map(|pid| pid.0));
                member(out, b",\"count\":", loss.count);
                out.extend_from_slice(b",\"cause\":");
                json_text(loss.cause.to_string().as_bytes(), out);
                json_place(loss, out);
                out.push(b'}');
            }
            Item::Disorder(Disorder { source, at, back }) => {
                member(out, b"{\"type\":\"disorder\",\"source\":", Some(*source));
                member(out, b",\"time_ns\":", Some(at.0));
                member(out, b",\"back_ns\":", Some(back.0));
                out.push(b'}');
            }
        }
    }

    fn event(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>) {
        if let Some(contradiction) = &moment.contradiction() {
            member(out, b"{\"type\":\"contradiction\",\"time_ns\":", Some(contradiction.time.0));
            self.origins.json_host(moment.host, out);
            member(out, b",\"pid\":", contradiction.pid.map(|pid| pid.0));
            member(out, b",\"tid\":", contradiction.tid.map(|tid| tid.0));
            out.extend_from_slice(b",\"kind\":");
            json_text(contradiction.what.kind().as_bytes(), out);
            out.extend_from_slice(b",\"text\":");
            json_text(contradiction.what.to_string().as_bytes(), out);
            out.extend_from_slice(b"}\n");
        }
        member(out, b"{\"type\":\"event\",\"time_ns\":", Some(moment.event.time.0));
        self.origins.json_order(moment, out);
        self.origins.json_host(moment.host, out);
        member(out, b",\"cpu\":", moment.cpu.map(|cpu| cpu.0));
        member(out, b",\"pid\":", moment.pid().map(|pid| pid.0));
        member(out, b",\"tid\":", moment.tid.map(|tid| tid.0));
        if self.has_fibers {
            fiber(moment, out);
        }
        context::json(moment, out);
        out.extend_from_slice(b",\"comm\":");
        match moment.comm() {
            Some(comm) => json_text(comm.as_bytes(), out),
            None => out.extend_from_slice(b"null"),
        }
        match self.classes.get(moment.event.class.index()) {
            Some(class) => {
                class.function.into_iter().for_each(|field| self.functions.json(field, moment, out));
                out.extend_from_slice(&class.head);
                json_fields(moment.event, &class.fields, out);
                out.extend_from_slice(b"}}");
            }
            None => out.push(b'}'),
        }
    }
}

/// Writes `,"fiber":8,"fiber_name":"work/6","fiber_known":true`. The last member is `false` if the fiber is not known,
/// or if it may have lost its name.
fn fiber(moment: &Moment<'_>, out: &mut Vec<u8>) {
    let (fibers, fiber) = (moment.system.fibers(), moment.fiber_id());
    member(out, b",\"fiber\":", fiber.map(|fiber| fiber.number));
    out.extend_from_slice(b",\"fiber_name\":");
    match fiber.and_then(|fiber| fibers.name(fiber)) {
        Some(name) => json_text(name.as_bytes(), out),
        None => out.extend_from_slice(b"null"),
    }
    let is_known = match moment.fiber {
        Mounted::Unknown => false,
        Mounted::Outside | Mounted::Scheduler => true,
        Mounted::Fiber(fiber) => fibers.name(fiber).is_none() || fibers.is_name_certain(fiber),
    };
    out.extend_from_slice(if is_known { b",\"fiber_known\":true" } else { b",\"fiber_known\":false" });
}
