//! Tables of text: JSON lines as `sordino events --json` prints them, and CSV.

use crate::Exporter;
use crate::calls::CallTracker;
use sordino_event::{Class, Classes, Domain};
use sordino_query::NameAddress;
use sordino_report::{Listing, ListingFormat, json_place, json_text, json_value};
use sordino_timeline::{Item, MergedClocks, Moment};

/// A writer of JSON lines.
#[derive(Debug)]
pub struct Json(Option<Listing>);

impl Json {
    /// Creates a writer of events of `classes`.
    pub fn new(classes: &Classes) -> Self {
        Self(Some(Listing::new(classes, ListingFormat::Json)))
    }

    /// Adds to each event its host, and whether its order is proven, as [`Listing::of_several`] does.
    #[must_use]
    pub fn of_several(self, hosts: &[String], clocks: MergedClocks) -> Self {
        Self(self.0.map(|listing| listing.of_several(hosts, clocks)))
    }
}

impl Exporter for Json {
    fn begin(&mut self, out: &mut Vec<u8>) {
        // Writing to a vector does not fail.
        let _ = self.0.as_mut().map(|lines| lines.head(out));
    }

    fn take(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        let _ = self.0.as_mut().map(|lines| lines.write(item, out));
    }

    fn end(&mut self, _: &mut Vec<u8>) {}

    fn name_functions(&mut self, names: NameAddress) {
        self.0 = self.0.take().map(|lines| lines.naming(names));
    }
}

/// A writer of CSV (RFC 4180): a line of names, then a line for each item. All texts are in quotes, lines end with a
/// newline alone.
#[derive(Debug)]
pub struct Csv {
    classes: Classes,
    functions: CallTracker,
    /// The fields of the item that is being written, as JSON.
    fields: Vec<u8>,
}

impl Csv {
    /// Creates a writer of events of `classes`.
    pub fn new(classes: &Classes) -> Self {
        Self { classes: classes.clone(), functions: CallTracker::default(), fields: Vec::new() }
    }

    fn event(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>) {
        let event = moment.event;
        out.extend_from_slice(b"event,");
        number(Some(event.time.0), out);
        number(moment.cpu.map(|cpu| cpu.0), out);
        number(moment.pid().map(|pid| pid.0), out);
        number(moment.tid.map(|tid| tid.0), out);
        text(moment.comm().map_or("", |comm| comm).as_bytes(), out);
        out.extend_from_slice(match moment.domain {
            Domain::User => b",user,",
            Domain::Kernel => b",kernel,",
        });
        let class = &self.classes[event.class];
        text(class.name.as_bytes(), out);
        out.push(b',');
        self.fields.clear();
        let function = self.functions.name(moment, &self.classes);
        object(moment, class, function.as_deref(), &mut self.fields);
        text(&self.fields, out);
        out.push(b'\n');
    }
}

impl Exporter for Csv {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"type,time_ns,cpu,pid,tid,comm,domain,name,fields\n");
    }

    fn take(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        match item {
            Item::Event(moment) => self.event(moment, out),
            Item::Loss(loss, _) => {
                out.extend_from_slice(b"loss,");
                number(Some(loss.from.0), out);
                number(loss.cpu.map(|cpu| cpu.0), out);
                number(loss.pid.map(|pid| pid.0), out);
                out.extend_from_slice(b",,,");
                text(loss.cause.to_string().as_bytes(), out);
                let count = loss.count.map_or("null".to_owned(), |count| count.to_string());
                let mut fields = format!("{{\"to_ns\":{},\"count\":{count}", loss.to.0).into_bytes();
                json_place(loss, &mut fields);
                fields.push(b'}');
                out.push(b',');
                text(&fields, out);
                out.push(b'\n');
            }
            Item::Disorder(disorder) => {
                out.extend_from_slice(b"disorder,");
                number(Some(disorder.at.0), out);
                let fields = format!("{{\"source\":{},\"back_ns\":{}}}", disorder.source, disorder.back.0);
                out.extend_from_slice(b",,,,,,");
                text(fields.as_bytes(), out);
                out.push(b'\n');
            }
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}

    fn name_functions(&mut self, names: NameAddress) {
        self.functions.set_names(names);
    }
}

/// Appends an event's fields as a JSON object, with the name of the event's function.
pub(crate) fn object(moment: &Moment<'_>, class: &Class, function: Option<&str>, out: &mut Vec<u8>) {
    let mut separator = b'{';
    for (name, value) in moment.event.fields(class) {
        out.push(separator);
        json_text(name.as_bytes(), out);
        out.push(b':');
        json_value(value, out);
        separator = b',';
    }
    if let Some(function) = function {
        out.push(separator);
        out.extend_from_slice(b"\"function_name\":");
        json_text(function.as_bytes(), out);
        separator = b',';
    }
    out.extend_from_slice(if separator == b'{' { b"{}" } else { b"}" });
}

/// Appends a number, if there is one, and a comma.
fn number(value: Option<impl itoa::Integer>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }
    out.push(b',');
}

/// Appends a text in quotes; quotes in it are doubled. A zero byte is replaced, as it ends the text for some readers.
fn text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\"\""),
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}
