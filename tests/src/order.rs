//! A recording rewritten as a machine of the other byte order would have written it.
//!
//! The metadata is read with a small parser of its own, which knows only the subset that sordino writes. It shares no
//! code with the reader under test, so an error of that reader is not repeated here.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

/// Layout of a field in a file, in file order.
#[derive(Clone, Debug)]
enum SwappedType {
    /// A number of this many bytes. It is swapped if the flag is set: the metadata gives it no byte order of its own.
    Number(usize, bool),
    /// Bytes up to and including a zero byte.
    Text,
    /// Fields, each with its name and its repetitions, aligned to this many bytes.
    Struct(Vec<(String, SwappedType, Repetition)>, usize),
}

#[derive(Clone, Debug)]
enum Repetition {
    Once,
    Fixed(usize),
    /// The number of repetitions is the value of the earlier field of this name.
    Counted(String),
}

/// Words of the metadata: names, numbers, quoted strings and single characters.
struct MetadataWords<'a>(std::iter::Peekable<std::vec::IntoIter<&'a str>>);

impl<'a> MetadataWords<'a> {
    fn of(text: &'a str) -> Self {
        let (mut words, mut rest) = (Vec::new(), text);
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            let end = match first {
                '"' => {
                    let mut escaped = false;
                    let closes = |c: char| {
                        let ends = c == '"' && !escaped;
                        escaped = c == '\\' && !escaped;
                        ends
                    };
                    2 + rest[1..].find(closes).expect("a closed string")
                }
                '/' => 2 + rest.find("*/").expect("a closed comment"),
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                c => c.len_utf8(),
            };
            let (word, behind) = rest.split_at(end);
            if first != '/' && !first.is_whitespace() {
                words.push(word);
            }
            rest = behind;
        }
        Self(words.into_iter().peekable())
    }

    fn next(&mut self) -> &'a str {
        self.0.next().expect("more metadata")
    }

    fn is_next(&mut self, word: &str) -> bool {
        self.0.next_if(|next| *next == word).is_some()
    }

    /// Reads the rest of a block, `NAME = VALUE;` each.
    fn attributes(&mut self) -> HashMap<&'a str, &'a str> {
        assert_eq!(self.next(), "{");
        let mut attributes = HashMap::new();
        while !self.is_next("}") {
            let (name, sign, value, end) = (self.next(), self.next(), self.next(), self.next());
            assert_eq!((sign, end), ("=", ";"), "{name}");
            attributes.insert(name, value);
        }
        attributes
    }

    fn ty(&mut self, known: &HashMap<&'a str, SwappedType>) -> SwappedType {
        match self.next() {
            "integer" => {
                // A clock's integer has `map = clock.NAME.value`, whose value is one word here.
                let attributes = self.attributes();
                let size: usize = attributes["size"].parse().expect("a size");
                SwappedType::Number(size / 8, !attributes.contains_key("byte_order"))
            }
            "floating_point" => {
                let attributes = self.attributes();
                let bits =
                    ["exp_dig", "mant_dig"].map(|name| attributes[name].parse::<usize>().expect("digits"));
                SwappedType::Number(bits.iter().sum::<usize>() / 8, true)
            }
            "string" => {
                self.attributes();
                SwappedType::Text
            }
            "enum" => {
                assert_eq!(self.next(), ":");
                let number = self.ty(known);
                while self.next() != "}" {}
                number
            }
            "struct" => {
                assert_eq!(self.next(), "{");
                let mut fields = Vec::new();
                while !self.is_next("}") {
                    let (ty, name) = (self.ty(known), self.next());
                    let times = if self.is_next("[") { self.times() } else { Repetition::Once };
                    assert_eq!(self.next(), ";", "behind {name}");
                    fields.push((name.to_owned(), ty, times));
                }
                let mut align = 1;
                if self.is_next("align") {
                    let words = [self.next(), self.next(), self.next()];
                    align = words[1].parse::<usize>().expect("bits") / 8;
                }
                SwappedType::Struct(fields, align)
            }
            name => known[name].clone(),
        }
    }

    fn times(&mut self) -> Repetition {
        let (length, end) = (self.next(), self.next());
        assert_eq!(end, "]");
        length.parse().map_or_else(|_| Repetition::Counted(length.to_owned()), Repetition::Fixed)
    }
}

/// Layouts that the metadata declares.
#[derive(Debug, Default)]
struct DeclaredLayouts {
    /// Layout of `packet.header`, if it is declared.
    header: Option<SwappedType>,
    /// Layouts of `packet.context`, `event.header` and `event.context` by stream class.
    streams: HashMap<u64, HashMap<String, SwappedType>>,
    /// Layouts of the fields, by stream class and event class.
    events: HashMap<(u64, u64), SwappedType>,
}

impl DeclaredLayouts {
    fn of(metadata: &str) -> Self {
        let (mut words, mut known, mut layout) =
            (MetadataWords::of(metadata), HashMap::new(), Self::default());
        while words.0.peek().is_some() {
            let block = words.next();
            if block == "typealias" {
                let ty = words.ty(&known);
                assert_eq!([words.next(), words.next()], [":", "="]);
                known.insert(words.next(), ty);
            } else {
                layout.block(block, &mut words, &known);
            }
            assert_eq!(words.next(), ";", "behind {block}");
        }
        layout
    }

    fn block<'a>(
        &mut self,
        block: &str,
        words: &mut MetadataWords<'a>,
        known: &HashMap<&'a str, SwappedType>,
    ) {
        let (mut numbers, mut types) = (HashMap::new(), HashMap::new());
        assert_eq!(words.next(), "{");
        while !words.is_next("}") {
            let name = words.next();
            let is_type = words.is_next(":");
            assert_eq!(words.next(), "=", "{name}");
            if is_type {
                types.insert(name.to_owned(), words.ty(known));
            } else {
                numbers.insert(name, words.next());
            }
            assert_eq!(words.next(), ";", "behind {name}");
        }
        let number = |name: &str| numbers[name].parse::<u64>().expect("a number");
        match block {
            "trace" => self.header = types.remove("packet.header"),
            "stream" => drop(self.streams.insert(number("id"), types)),
            "event" => {
                let fields = types.remove("fields").expect("fields");
                self.events.insert((number("stream_id"), number("id")), fields);
            }
            _ => {}
        }
    }

    /// Swaps the byte order of all packets of a file.
    fn swap(&self, bytes: &mut [u8]) {
        let mut packet = bytes;
        while !packet.is_empty() {
            let mut walk = SwappedPacket { bytes: packet, at: 0, seen: BTreeMap::new() };
            walk.swap(self.header.as_ref().expect("a packet header"));
            let stream = walk.seen["stream_id"];
            let types = &self.streams[&stream];
            walk.swap(&types["packet.context"]);
            let [content, size] = ["content_size", "packet_size"].map(|name| walk.seen[name] as usize / 8);
            while walk.at < content {
                walk.swap(&types["event.header"]);
                let event = walk.seen["id"];
                walk.swap(&types["event.context"]);
                walk.swap(&self.events[&(stream, event)]);
            }
            assert_eq!(walk.at, content, "a packet's content ends where its last event does");
            packet = &mut packet[size..];
        }
    }
}

/// A packet that is being swapped.
struct SwappedPacket<'a> {
    bytes: &'a mut [u8],
    at: usize,
    /// Values of the numbers so far, the last one of each name.
    seen: BTreeMap<String, u64>,
}

impl SwappedPacket<'_> {
    fn swap(&mut self, ty: &SwappedType) -> u64 {
        match ty {
            &SwappedType::Number(width, swapped) => {
                let bytes = &mut self.bytes[self.at..self.at + width];
                self.at += width;
                let mut wide = [0; 8];
                wide[..width].copy_from_slice(bytes);
                if swapped {
                    bytes.reverse();
                }
                u64::from_le_bytes(wide)
            }
            SwappedType::Text => {
                let length = self.bytes[self.at..].iter().position(|&byte| byte == 0);
                self.at += length.expect("a string that ends") + 1;
                0
            }
            SwappedType::Struct(fields, align) => {
                self.at = self.at.next_multiple_of(*align);
                for (name, ty, times) in fields {
                    let times = match times {
                        Repetition::Once => 1,
                        Repetition::Fixed(times) => *times,
                        Repetition::Counted(by) => self.seen[by] as usize,
                    };
                    for _ in 0..times {
                        let number = self.swap(ty);
                        self.seen.insert(name.clone(), number);
                    }
                }
                0
            }
        }
    }
}

/// Rewrites the trace in `directory`, which a little-endian machine wrote, as a big-endian one would have. Returns the
/// number of changed bytes.
///
/// # Panics
/// If the trace has anything that sordino does not write.
pub fn to_big_endian(directory: &Path) -> usize {
    let path = directory.join("metadata");
    let metadata = fs::read_to_string(&path).expect("metadata");
    let layout = DeclaredLayouts::of(&metadata);
    assert_eq!(metadata.matches("\tbyte_order = le;").count(), 1, "{metadata}");
    fs::write(path, metadata.replace("\tbyte_order = le;", "\tbyte_order = be;")).expect("metadata");
    let mut changed = 0;
    for file in fs::read_dir(directory).expect("a trace").flatten().map(|entry| entry.path()) {
        if !file.ends_with("metadata") {
            let before = fs::read(&file).expect("a stream");
            let mut bytes = before.clone();
            layout.swap(&mut bytes);
            changed += bytes.iter().zip(&before).filter(|(new, old)| new != old).count();
            fs::write(file, bytes).expect("a stream");
        }
    }
    changed
}
