//! The lines of a listing for people.

use super::context;
use super::functions::FunctionNamer;
use super::origin::Origins;
use crate::color::{KERNEL, OFF, USER, WARNING};
use crate::time::{TimeFormat, TimeWriter};
use crate::value::{bare, decimal, text_fields, text_names};
use sordino_event::functions::function_field;
use sordino_event::text::printable;
use sordino_event::{Class, Classes, Cpu, Domain, Loss, Pid, Tid, View};
use sordino_timeline::{Contradiction, Disorder, Host, Item, Moment, Mounted, Vocabulary};
use std::io::Write;

/// Terminal colours, or empty strings.
#[derive(Clone, Copy, Debug, Default)]
struct Colors {
    user: &'static str,
    kernel: &'static str,
    warning: &'static str,
    off: &'static str,
}

#[derive(Debug)]
pub(super) struct TextLines {
    classes: Vec<TextClass>,
    time: TimeWriter,
    colors: Colors,
    place: CpuThreadText,
    /// True if lines have a column for fibers.
    has_fibers: bool,
    pub(super) functions: FunctionNamer,
    pub(super) origins: Origins,
}

/// The common parts of all lines of a class.
#[derive(Debug)]
struct TextClass {
    /// The coloured name, with a space behind it if fields follow.
    name: Vec<u8>,
    /// The text before each field's value; before the first, the name too.
    fields: Vec<Vec<u8>>,
    /// True if the values are addresses of functions.
    is_function: bool,
}

/// The CPU and the thread of the last line and their text, which seldom change.
#[derive(Debug, Default)]
struct CpuThreadText {
    of: Option<TextOrigin>,
    text: Vec<u8>,
}

/// The facts that determine the text: the place, the arguments of [`Moment::comm`], and the revision of the names.
type TextOrigin = ((Host, Option<Cpu>, Option<Tid>), (Domain, Option<Pid>), u64);

impl TextLines {
    pub(super) fn new(classes: &Classes, time: TimeFormat, color: bool) -> Self {
        let colors = if color {
            Colors { user: USER, kernel: KERNEL, warning: WARNING, off: OFF }
        } else {
            Colors::default()
        };
        let class = |class: &Class| {
            let color = match class.domain {
                Domain::User => colors.user,
                Domain::Kernel => colors.kernel,
            };
            let mut name = color.as_bytes().to_vec();
            bare(class.name.as_bytes(), &mut name);
            name.extend_from_slice(colors.off.as_bytes());
            let mut fields = text_names(class);
            if let Some(first) = fields.first_mut() {
                name.push(b' ');
                first.splice(..0, name.iter().copied());
            }
            TextClass { name, fields, is_function: function_field(class).is_some() }
        };
        Self {
            classes: classes.iter().map(|(_, known)| class(known)).collect(),
            time: TimeWriter::new(time),
            colors,
            place: CpuThreadText::default(),
            has_fibers: Vocabulary::new(classes).has_fibers(),
            functions: FunctionNamer::default(),
            origins: Origins::default(),
        }
    }

    pub(super) fn line(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        match item {
            Item::Event(moment) => {
                if let Some(contradiction) = &moment.contradiction() {
                    self.contradiction(contradiction, out);
                }
                self.time.write(moment.event.time, out);
                self.origins.text(moment, out);
                out.extend_from_slice(self.place.text(moment));
                if self.has_fibers {
                    fiber(moment, out);
                }
                match self.classes.get(moment.event.class.index()) {
                    Some(class) => {
                        let behind = |value: &View<'_>, out: &mut Vec<u8>| {
                            if class.is_function {
                                self.functions.text(value, moment.pid(), out);
                            }
                        };
                        let begin = out.len();
                        text_fields(moment.event, &class.fields, behind, out);
                        if out.len() == begin {
                            out.extend_from_slice(&class.name);
                        }
                    }
                    None => out.push(b'?'),
                }
                context::text(moment, out);
            }
            Item::Loss(loss, host) => {
                out.extend_from_slice(self.colors.warning.as_bytes());
                self.loss(loss, *host, out);
                out.extend_from_slice(self.colors.off.as_bytes());
            }
            Item::Disorder(disorder) => {
                out.extend_from_slice(self.colors.warning.as_bytes());
                self.disorder(*disorder, out);
                out.extend_from_slice(self.colors.off.as_bytes());
            }
        }
    }

    fn loss(&mut self, loss: &Loss, host: Host, out: &mut Vec<u8>) {
        out.extend_from_slice(b"-- ");
        match loss.count {
            Some(1) => out.extend_from_slice(b"1 record"),
            Some(count) => {
                decimal(count, out);
                out.extend_from_slice(b" records");
            }
            None => out.extend_from_slice(b"unknown number of records"),
        }
        match loss.pid {
            Some(pid) => {
                out.extend_from_slice(b" of process ");
                decimal(pid.0, out);
            }
            None => out.extend_from_slice(b" of the kernel"),
        }
        self.origins.lost(host, out);
        out.extend_from_slice(b" lost");
        if let Some(cpu) = loss.cpu {
            out.extend_from_slice(b" on cpu");
            decimal(cpu.0, out);
        }
        out.extend_from_slice(b" between ");
        self.time.write(loss.from, out);
        out.extend_from_slice(b" and ");
        self.time.write(loss.to, out);
        let _ = write!(out, " ({}", loss.cause);
        if let Some(place) = &loss.place {
            let _ = write!(out, ": {}", printable(place));
        }
        out.push(b')');
    }

    /// Writes a line of its own, before that of the event that shows the contradiction.
    fn contradiction(&mut self, contradiction: &Contradiction, out: &mut Vec<u8>) {
        out.extend_from_slice(self.colors.warning.as_bytes());
        out.extend_from_slice(b"-- contradiction at ");
        self.time.write(contradiction.time, out);
        for (word, id) in [
            (" in process ", contradiction.pid.map(|pid| pid.0)),
            (", thread ", contradiction.tid.map(|tid| tid.0)),
        ] {
            out.extend_from_slice(word.as_bytes());
            match id {
                Some(id) => decimal(id, out),
                None => out.push(b'?'),
            }
        }
        let _ = write!(out, ": {}{}", contradiction.what, self.colors.off);
        out.push(b'\n');
    }

    fn disorder(&mut self, Disorder { source, at, back }: Disorder, out: &mut Vec<u8>) {
        let _ = write!(out, "-- time went back by {back} in source {source}; the next event was moved to ");
        self.time.write(at, out);
    }
}

/// Writes `8(work/6) `, padded to 12 characters: the fiber of the event. A name that the fiber may have lost has a `?`
/// behind it. `-` stands for no fiber, `?` for an unknown one.
fn fiber(moment: &Moment<'_>, out: &mut Vec<u8>) {
    let begin = out.len();
    match moment.fiber {
        Mounted::Outside | Mounted::Scheduler => out.push(b'-'),
        Mounted::Unknown => out.push(b'?'),
        Mounted::Fiber(fiber) => {
            let fibers = moment.system.fibers();
            decimal(fiber.number, out);
            if let Some(name) = fibers.name(fiber) {
                out.push(b'(');
                bare(name.as_bytes(), out);
                out.extend_from_slice(if fibers.is_name_certain(fiber) { b")" } else { b"?)" });
            }
        }
    }
    out.resize(out.len().max(begin + 12), b' ');
    out.push(b' ');
}

impl CpuThreadText {
    /// Returns ` cpu1 npt/10 `, with the thread padded to 16 characters.
    fn text(&mut self, moment: &Moment<'_>) -> &[u8] {
        let Moment { event, domain, host, cpu, tid, system, .. } = *moment;
        let of = Some(((host, cpu, tid), (domain, event.pid), system.names_revision()));
        if self.of != of {
            self.of = of;
            self.text.clear();
            let text = &mut self.text;
            text.extend_from_slice(b" cpu");
            match cpu {
                Some(cpu) => decimal(cpu.0, text),
                None => text.push(b'?'),
            }
            text.push(b' ');
            let begin = text.len();
            bare(moment.comm().map_or(b"?", |comm| comm.as_bytes()), text);
            text.push(b'/');
            match tid {
                Some(tid) => decimal(tid.0, text),
                None => text.push(b'?'),
            }
            text.resize(text.len().max(begin + 16), b' ');
            text.push(b' ');
        }
        &self.text
    }
}
