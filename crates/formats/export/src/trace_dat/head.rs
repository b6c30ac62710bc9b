//! The head of `trace.dat`: sections with the formats of events, the names of threads, and the places of the events.

use super::formats::EventFormats;
use super::page::{HEADER, PAGE};
use sordino_event::Tid;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Numbers of options and of the sections that they point to.
const DONE: u16 = 0;
const BUFFER: u16 = 3;
const CLOCK: u16 = 4;
const CPU_COUNT: u16 = 8;
const HEADER_INFO: u16 = 16;
const FTRACE_EVENTS: u16 = 17;
const EVENT_FORMATS: u16 = 18;
const SYMBOLS: u16 = 19;
const PRINTK: u16 = 20;
const COMMAND_LINES: u16 = 21;
/// Bytes of a section's header.
const SECTION: usize = 16;

/// Returns the head of a file with pages of these CPUs, which has whole pages. `sizes` are the bytes of each CPU's
/// pages, which follow in this order.
pub(super) fn head(formats: &EventFormats, names: &HashMap<Tid, Arc<str>>, sizes: &[(u32, u64)]) -> Vec<u8> {
    let mut head = Vec::from(*b"\x17\x08\x44tracing7\0");
    head.push(u8::from(cfg!(target_endian = "big")));
    head.push(size_of::<u64>() as u8);
    head.extend((PAGE as u32).to_ne_bytes());
    head.extend_from_slice(b"none\0\0");
    let options_place = head.len();
    head.extend([0; 8]);
    let mut options = Vec::new();
    for (number, content) in [
        (HEADER_INFO, header_info()),
        (FTRACE_EVENTS, 0_u32.to_ne_bytes().to_vec()),
        (EVENT_FORMATS, event_formats(formats)),
        (SYMBOLS, 0_u32.to_ne_bytes().to_vec()),
        (PRINTK, 0_u32.to_ne_bytes().to_vec()),
        (COMMAND_LINES, command_lines(names)),
    ] {
        option(number, &(head.len() as u64).to_ne_bytes(), &mut options);
        section(number, &content, &mut head);
    }
    let cpus = sizes.iter().map(|(cpu, _)| cpu + 1).max().unwrap_or(0);
    option(CPU_COUNT, &cpus.to_ne_bytes(), &mut options);
    option(CLOCK, b"[mono]\0", &mut options);
    // The events lie behind the options, whose length does not depend on the places.
    let events = |place: u64| {
        let mut buffer = place.to_ne_bytes().to_vec();
        buffer.extend_from_slice(b"\0mono\0");
        buffer.extend((PAGE as u32).to_ne_bytes());
        buffer.extend((sizes.len() as u32).to_ne_bytes());
        let mut offset = (place + SECTION as u64).next_multiple_of(PAGE as u64);
        for (cpu, bytes) in sizes {
            buffer.extend(cpu.to_ne_bytes());
            buffer.extend(offset.to_ne_bytes());
            buffer.extend(bytes.to_ne_bytes());
            offset += bytes;
        }
        buffer
    };
    let done = 0_u64.to_ne_bytes();
    let option_header = size_of::<u16>() + size_of::<u32>();
    let behind = SECTION + options.len() + option_header + events(0).len() + option_header + done.len();
    let place = (head.len() + behind) as u64;
    option(BUFFER, &events(place), &mut options);
    option(DONE, &done, &mut options);
    let begin = (head.len() as u64).to_ne_bytes();
    head[options_place..options_place + 8].copy_from_slice(&begin);
    section(0, &options, &mut head);
    let bytes = sizes.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let first = (head.len() + SECTION).next_multiple_of(PAGE);
    let padded = bytes + (first - head.len() - SECTION) as u64;
    section_header(BUFFER, padded, &mut head);
    head.resize(first, 0);
    head
}

fn section_header(number: u16, bytes: u64, out: &mut Vec<u8>) {
    out.extend(number.to_ne_bytes());
    out.extend(0_u16.to_ne_bytes());
    out.extend(0_u32.to_ne_bytes());
    out.extend(bytes.to_ne_bytes());
}

fn section(number: u16, content: &[u8], out: &mut Vec<u8>) {
    section_header(number, content.len() as u64, out);
    out.extend_from_slice(content);
}

fn option(number: u16, content: &[u8], out: &mut Vec<u8>) {
    out.extend(number.to_ne_bytes());
    out.extend((content.len() as u32).to_ne_bytes());
    out.extend_from_slice(content);
}

/// Returns the layout of pages and of entries, as the kernel describes them.
fn header_info() -> Vec<u8> {
    let data = PAGE - HEADER;
    let page = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:{data};\tsigned:1;\n"
    );
    let event = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\
                 \tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
    let mut info = Vec::new();
    for (name, text) in [("header_page\0", page.as_str()), ("header_event\0", event)] {
        info.extend_from_slice(name.as_bytes());
        info.extend((text.len() as u64).to_ne_bytes());
        info.extend_from_slice(text.as_bytes());
    }
    info
}

fn event_formats(formats: &EventFormats) -> Vec<u8> {
    let mut systems: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    formats.texts().for_each(|(system, text)| systems.entry(system).or_default().push(text));
    let mut content = (systems.len() as u32).to_ne_bytes().to_vec();
    for (system, texts) in systems {
        content.extend_from_slice(system.as_bytes());
        content.push(0);
        content.extend((texts.len() as u32).to_ne_bytes());
        for text in texts {
            content.extend((text.len() as u64).to_ne_bytes());
            content.extend_from_slice(text.as_bytes());
        }
    }
    content
}

/// Returns the names of threads, each in a line behind its number.
fn command_lines(names: &HashMap<Tid, Arc<str>>) -> Vec<u8> {
    let mut lines: Vec<_> = names.iter().filter(|(tid, _)| tid.0 > 0).collect();
    lines.sort_unstable_by_key(|(tid, _)| tid.0);
    let visible = |name: &str| name.replace(|letter: char| letter.is_control(), "?");
    let text: String = lines.iter().map(|(tid, name)| format!("{} {}\n", tid.0, visible(name))).collect();
    let mut content = (text.len() as u64).to_ne_bytes().to_vec();
    content.extend_from_slice(text.as_bytes());
    content
}
