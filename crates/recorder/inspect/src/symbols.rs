//! Names for the kernel functions that a trace mentions by address.
//!
//! The kernel records the function that a timer, a work item or an NMI ran by its address, which differs from one boot
//! to the next. `/proc/kallsyms` has the names; the few that occur are written into the trace.

use sordino_proc::file::text;
use sordino_tracefs::Format;
use std::collections::{HashMap, HashSet};

/// Fields that hold a function's address.
const FIELDS: [&str; 3] = ["function", "handler", "func"];

/// The functions that events mention.
#[derive(Debug)]
pub struct Functions {
    /// Offset of the address in a record, by the event's number in the trace.
    offsets: Vec<Option<usize>>,
    seen: HashSet<u64>,
}

impl Functions {
    /// Prepares for events with these formats, in the order of their numbers in the trace.
    pub fn of<'a>(formats: impl Iterator<Item = &'a Format>) -> Self {
        let offset = |format: &Format| {
            let is_address = |name: &str, size| FIELDS.contains(&name) && size == 8;
            let field = format.fields.iter().find(|field| is_address(&field.name, field.size))?;
            usize::try_from(field.offset).ok()
        };
        Self { offsets: formats.map(offset).collect(), seen: HashSet::new() }
    }

    /// Notes the function that a record of `event` mentions.
    pub fn note(&mut self, event: usize, record: &[u8]) {
        let Some(Some(offset)) = self.offsets.get(event) else { return };
        if let Some(address) = record.get(*offset..).and_then(|rest| rest.first_chunk()) {
            self.seen.insert(u64::from_ne_bytes(*address));
        }
    }

    /// Returns the functions' names, by address, as far as `/proc/kallsyms` has them.
    pub fn names(&self) -> Vec<(u64, String)> {
        self.names_in(&text("/proc/kallsyms").unwrap_or_default())
    }

    fn names_in(&self, kallsyms: &str) -> Vec<(u64, String)> {
        let mut names: HashMap<u64, &str> = HashMap::new();
        for (address, name) in kallsyms.lines().filter_map(symbol) {
            if address != 0 && self.seen.contains(&address) {
                names.entry(address).or_insert(name);
            }
        }
        let mut names: Vec<_> = names.into_iter().map(|(address, name)| (address, name.to_owned())).collect();
        names.sort_unstable();
        names
    }
}

/// Parses `ffffffff81000000 T _stext`, with or without a module after it.
fn symbol(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let is_text = matches!(kind, "t" | "T" | "w" | "W");
    Some((u64::from_str_radix(address, 16).ok()?, name)).filter(|_| is_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: hrtimer_expire_entry\nID: 300\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:void * hrtimer;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:void * function;\toffset:16;\tsize:8;\tsigned:0;\n\nprint fmt: \"\"\n";

    #[test]
    fn functions_that_occur_get_their_names() {
        let format = Format::parse("timer", FORMAT).unwrap();
        let mut functions = Functions::of([&format].into_iter());
        let mut record = [0; 24];
        for address in [0x10u64, 0x20, 0x20] {
            record[16..].copy_from_slice(&address.to_ne_bytes());
            functions.note(0, &record);
        }
        functions.note(0, &record[..20]);
        functions.note(1, &record);
        let kallsyms = "0010 D data\n0020 t tick\n0020 T alias\n0030 T other\nnonsense\n";
        assert_eq!(functions.names_in(kallsyms), [(0x20, "tick".to_owned())]);
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let format = Format::parse("timer", FORMAT).unwrap();
        let mut functions = Functions::of([&format].into_iter());
        functions.note(0, &[0; 24]);
        assert!(functions.names_in("0000000000000000 T tick\n").is_empty());
    }
}
