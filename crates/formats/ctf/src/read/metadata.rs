//! The content of a trace's metadata, assembled from its blocks.

use super::lex::{At, Result};
use super::parse::{Block, BlockEntry, EntryValue, parse};
use super::types::{DeclaredType, Endianness, Path};
use crate::{ClockDescription, Environment, Problem, Setting, Uuid};
use sordino_event::Level;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) uuid: Option<Uuid>,
    pub(super) order: Endianness,
    pub(super) packet_header: Option<Arc<DeclaredType>>,
    pub(super) environment: Environment,
    /// The clocks by their names.
    pub(super) clocks: BTreeMap<String, ClockDescription>,
    pub(super) streams: Vec<StreamDeclaration>,
}

/// A class of streams.
#[derive(Debug, Default)]
pub(super) struct StreamDeclaration {
    pub(super) id: u64,
    pub(super) packet_context: Option<Arc<DeclaredType>>,
    pub(super) event_header: Option<Arc<DeclaredType>>,
    pub(super) event_context: Option<Arc<DeclaredType>>,
    pub(super) events: Vec<EventDeclaration>,
}

/// A class of events.
#[derive(Debug)]
pub(super) struct EventDeclaration {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) level: Option<Level>,
    pub(super) context: Option<Arc<DeclaredType>>,
    pub(super) fields: Option<Arc<DeclaredType>>,
}

impl Metadata {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let blocks = parse(text)?;
        let of = |kind: &'static str| blocks.iter().filter(move |block| block.kind == kind);
        let trace = of("trace").next().ok_or(At { offset: 0, problem: Problem::Missing("trace") })?;
        if let Some(second) = of("trace").nth(1) {
            return second.fail(Problem::Twice("trace".to_owned()));
        }
        let mut metadata = Self::trace(trace)?;
        for block in of("env") {
            for entry in &block.entries {
                metadata.environment.set(entry.name.clone(), setting(entry)?);
            }
        }
        for block in of("clock") {
            let clock = clock(block)?;
            let name = clock.name.clone();
            if metadata.clocks.insert(name.clone(), clock).is_some() {
                return block.fail(Problem::Twice(format!("clock {name}")));
            }
        }
        let mut index = HashMap::new();
        for block in of("stream") {
            let stream = stream(block)?;
            if index.insert(stream.id, metadata.streams.len()).is_some() {
                return block.fail(Problem::Twice(format!("stream {}", stream.id)));
            }
            metadata.streams.push(stream);
        }
        if metadata.streams.is_empty() {
            index.insert(0, 0);
            metadata.streams.push(StreamDeclaration::default());
        }
        let mut ids = HashSet::new();
        for block in of("event") {
            let stream_id = block.unsigned("stream_id")?.unwrap_or(metadata.streams[0].id);
            let event = event(block)?;
            if !ids.insert((stream_id, event.id)) {
                return block.fail(Problem::Twice(format!("event {} of stream {stream_id}", event.id)));
            }
            match index.get(&stream_id) {
                Some(&stream) => metadata.streams[stream].events.push(event),
                None => return block.fail(Problem::UnknownStream(stream_id)),
            }
        }
        Ok(metadata)
    }

    fn trace(block: &Block) -> Result<Self> {
        let version = |name| {
            let entry = block.required(name)?;
            entry.number().ok_or_else(|| entry.bad())
        };
        let (major, minor) = (version("major")?, version("minor")?);
        if (major, minor) != (1, 8) {
            return block.fail(Problem::Version { major, minor });
        }
        let order = block.required("byte_order")?;
        Ok(Self {
            uuid: block.uuid()?,
            order: order.order().flatten().ok_or_else(|| order.bad())?,
            packet_header: block.ty("packet.header")?,
            environment: Environment::default(),
            clocks: BTreeMap::new(),
            streams: Vec::new(),
        })
    }

    /// Returns the clock that `path`, written `clock.NAME.value`, refers to.
    pub(super) fn clock(&self, path: &Path) -> Result<&ClockDescription> {
        let found = match path.words.as_slice() {
            [clock, name, value] if clock == "clock" && value == "value" => self.clocks.get(name),
            _ => None,
        };
        found.ok_or_else(|| At { offset: path.offset, problem: Problem::UnknownClock(path.text()) })
    }
}

fn stream(block: &Block) -> Result<StreamDeclaration> {
    Ok(StreamDeclaration {
        id: block.unsigned("id")?.unwrap_or(0),
        packet_context: block.ty("packet.context")?,
        event_header: block.ty("event.header")?,
        event_context: block.ty("event.context")?,
        events: Vec::new(),
    })
}

fn event(block: &Block) -> Result<EventDeclaration> {
    let id = block.unsigned("id")?.unwrap_or(0);
    Ok(EventDeclaration {
        id,
        name: match block.entry("name")? {
            Some(name) => dotted(name).ok_or_else(|| name.bad())?,
            None => format!("event {id}"),
        },
        level: level(block.entry("loglevel")?),
        context: block.ty("context")?,
        fields: block.ty("fields")?,
    })
}

fn clock(block: &Block) -> Result<ClockDescription> {
    let text = |name: &'static str| -> Result<Option<String>> {
        let Some(entry) = block.entry(name)? else { return Ok(None) };
        Ok(Some(dotted(entry).ok_or_else(|| entry.bad())?))
    };
    let mut clock = ClockDescription::new(text("name")?.ok_or_else(|| block.missing("name"))?);
    clock.uuid = block.uuid()?;
    clock.description = text("description")?.unwrap_or_default();
    clock.absolute = false;
    if let Some(entry) = block.entry("freq")? {
        let frequency = entry.number().and_then(|number| u64::try_from(number).ok());
        clock.frequency = frequency.filter(|frequency| *frequency > 0).ok_or_else(|| entry.bad())?;
    }
    if let Some(entry) = block.entry("offset_s")? {
        clock.offset_seconds =
            entry.number().and_then(|number| i64::try_from(number).ok()).ok_or_else(|| entry.bad())?;
    }
    clock.offset_ticks = block.unsigned("offset")?.unwrap_or(0);
    if let Some(entry) = block.entry("absolute")? {
        clock.absolute = entry.boolean().ok_or_else(|| entry.bad())?;
    }
    Ok(clock)
}

fn setting(entry: &BlockEntry) -> Result<Setting> {
    match &entry.value {
        EntryValue::Number(number) => Ok(Setting::Integer(i64::try_from(*number).or(Err(entry.bad()))?)),
        _ => dotted(entry).map(Setting::Text).ok_or_else(|| entry.bad()),
    }
}

/// Returns the text, which may also be a name: old LTTng does not quote event names.
fn dotted(entry: &BlockEntry) -> Option<String> {
    match &entry.value {
        EntryValue::Text(text) => Some(text.clone()),
        EntryValue::Name(path) => Some(path.text()),
        _ => None,
    }
}

/// Returns the log level; `None` if LTTng does not have it.
fn level(entry: Option<&BlockEntry>) -> Option<Level> {
    Level::from_number(u8::try_from(entry?.number()?).ok()?)
}

impl BlockEntry {
    fn bad(&self) -> At {
        At { offset: self.offset, problem: self.complaint() }
    }
}

impl Block {
    fn fail<T>(&self, problem: Problem) -> Result<T> {
        Err(At { offset: self.offset, problem })
    }

    fn missing(&self, name: &'static str) -> At {
        At { offset: self.offset, problem: Problem::Missing(name) }
    }

    fn entry(&self, name: &str) -> Result<Option<&BlockEntry>> {
        let mut entries = self.entries.iter().filter(|entry| entry.name == name);
        match (entries.next(), entries.next()) {
            (_, Some(second)) => Err(At { offset: second.offset, problem: Problem::Twice(name.to_owned()) }),
            (first, None) => Ok(first),
        }
    }

    fn required(&self, name: &'static str) -> Result<&BlockEntry> {
        self.entry(name)?.ok_or_else(|| self.missing(name))
    }

    fn unsigned(&self, name: &str) -> Result<Option<u64>> {
        let Some(entry) = self.entry(name)? else { return Ok(None) };
        match entry.number().and_then(|number| u64::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(entry.bad()),
        }
    }

    fn uuid(&self) -> Result<Option<Uuid>> {
        let Some(entry) = self.entry("uuid")? else { return Ok(None) };
        match entry.text().and_then(|text| text.parse().ok()) {
            Some(uuid) => Ok(Some(uuid)),
            None => Err(entry.bad()),
        }
    }

    fn ty(&self, name: &str) -> Result<Option<Arc<DeclaredType>>> {
        let Some(entry) = self.entry(name)? else { return Ok(None) };
        match &entry.value {
            EntryValue::Type(ty) if matches!(ty.kind, super::types::TypeKind::Structure(_)) => {
                Ok(Some(Arc::clone(ty)))
            }
            _ => Err(entry.bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::lex::position;

    const TRACE: &str = "trace { major = 1; minor = 8; byte_order = le; };";

    fn complaint(text: &str) -> String {
        let at = Metadata::parse(text).unwrap_err();
        let (line, column) = position(text, at.offset);
        format!("{line}:{column}: {}", at.problem)
    }

    #[test]
    fn a_trace_needs_no_stream_block() {
        let metadata = Metadata::parse(&format!("{TRACE} event {{ name = a.b; }};")).unwrap();
        assert_eq!((metadata.streams[0].id, metadata.streams[0].events[0].name.as_str()), (0, "a.b"));
    }

    #[test]
    fn clocks_and_environment_are_understood() {
        let text = format!(
            "{TRACE} env {{ a = -1; b = \"x\\ny\"; }};
            clock {{ name = \"t\"; freq = 3; offset_s = -2; offset = 7; absolute = TRUE; description = \"d\";
            uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\"; precision = 3; }};"
        );
        let metadata = Metadata::parse(&text).unwrap();
        assert_eq!(metadata.environment.integer("a"), Some(-1));
        assert_eq!(metadata.environment.text("b"), Some("x\ny"));
        let clock = &metadata.clocks["t"];
        assert_eq!((clock.frequency, clock.offset_seconds, clock.offset_ticks), (3, -2, 7));
        assert_eq!((clock.name.as_str(), clock.description.as_str(), clock.absolute), ("t", "d", true));
        assert_eq!(clock.uuid, "2a6422d0-6cee-11e0-8c08-cb07d7b3a564".parse().ok());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        for (text, expected) in [
            ("", "1:1: no `trace`"),
            ("\n trace { };", "2:2: no `major`"),
            ("trace { major = 1; minor = 9; };", "1:1: CTF 1.9, not 1.8"),
            ("trace { major = 1; minor = 8; };", "1:1: no `byte_order`"),
            ("trace { major = 1; minor = 8; byte_order = native; };", "1:31: `byte_order` can't be `native`"),
            ("trace { major = 1; major = 1; };", "1:20: `major` is defined twice"),
        ] {
            assert_eq!(complaint(text), expected, "{text}");
        }
        for (text, expected) in [
            ("trace { };", "1:50: `trace` is defined twice"),
            ("stream { id = -1; };", "1:59: `id` can't be -1"),
            ("stream { }; stream { id = 0; };", "1:62: `stream 0` is defined twice"),
            ("stream { id = 1; }; event { stream_id = 2; };", "1:70: event for the unknown stream 2"),
            ("event { id = 1; }; event { id = 1; };", "1:69: `event 1 of stream 0` is defined twice"),
            ("event { fields := integer { size = 8; }; };", "1:58: `fields` can't be a type"),
            ("event { name = 1; };", "1:58: `name` can't be 1"),
            ("clock { freq = 1; };", "1:50: no `name`"),
            ("clock { name = a; freq = 0; };", "1:68: `freq` can't be 0"),
            ("clock { name = a; uuid = \"x\"; };", "1:68: `uuid` can't be \"x\""),
            ("env { a = 18446744073709551615; };", "1:56: `a` can't be 18446744073709551615"),
        ] {
            assert_eq!(complaint(&format!("{TRACE}{text}")), expected, "{text}");
        }
    }
}
