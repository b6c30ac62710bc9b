//! Assembly of a function as text that stays the same while its instructions do.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Output of `objdump --disassemble` for one program.
#[derive(Debug, Default)]
pub struct Disassembly {
    /// Instructions by their addresses.
    lines: BTreeMap<u64, String>,
    /// Names of functions by their first addresses.
    names: BTreeMap<u64, String>,
}

impl Disassembly {
    /// Parses objdump's output in Intel syntax, printed without the instructions' bytes.
    pub fn parse(text: &str) -> Self {
        let mut disassembly = Self::default();
        for line in text.lines() {
            if let Some((address, name)) = line.split_once(" <").and_then(|(address, rest)| {
                Some((u64::from_str_radix(address, 16).ok()?, rest.strip_suffix(">:")?))
            }) {
                disassembly.names.insert(address, name.to_owned());
            } else if let Some((address, text)) = line.trim_start().split_once(":\t")
                && let Ok(address) = u64::from_str_radix(address, 16)
            {
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                disassembly.lines.insert(address, text);
            }
        }
        disassembly
    }

    /// Returns the function `name` with its abort handlers, which lie in another section. The text has no addresses and
    /// no displacements, and labels at jump targets. `None` if there is no such function.
    pub fn function(&self, name: &str) -> Option<String> {
        let (&start, _) = self.names.iter().find(|(_, other)| *other == name)?;
        let end = self.names.range(start + 1..).next().map_or(u64::MAX, |(&next, _)| next);
        let all = self.lines.range(start..end).map(|(&at, text)| (at, text.as_str()));
        let mut shown: Vec<(u64, &str)> = all.filter(|(_, text)| !is_padding(text)).collect();
        let inside: Vec<u64> = shown.iter().filter_map(|(_, text)| jump(text)).map(|(_, to)| to).collect();
        for to in inside.into_iter().filter(|to| !self.names.contains_key(to)) {
            let is_new = shown.iter().all(|(at, _)| *at != to);
            shown.extend(self.block(to).filter(|_| is_new));
        }
        let targets = shown.iter().filter_map(|(_, text)| jump(text)).map(|(_, to)| to);
        let targets: Vec<u64> = targets.filter(|to| shown.iter().any(|(at, _)| at == to)).collect();
        let mut labels: Vec<u64> =
            shown.iter().map(|(at, _)| *at).filter(|at| targets.contains(at)).collect();
        labels.dedup();
        let label = |at: u64| labels.iter().position(|&other| other == at).map(|index| index + 1);
        let mut text = format!("{name}:\n");
        for (at, instruction) in shown {
            if let Some(number) = label(at) {
                _ = writeln!(text, ".{number}:");
            }
            let instruction = match jump(instruction) {
                Some((mnemonic, to)) => match label(to) {
                    Some(number) => format!("{mnemonic} .{number}"),
                    None => format!("{mnemonic} {}", self.names.get(&to).map_or("elsewhere", String::as_str)),
                },
                None => without_place(instruction),
            };
            _ = writeln!(text, "    {instruction}");
        }
        Some(text)
    }

    /// Returns the instructions from `start` up to and including the next unconditional jump or return.
    fn block(&self, start: u64) -> impl Iterator<Item = (u64, &str)> {
        let mut ended = false;
        self.lines.range(start..).map(|(&at, text)| (at, text.as_str())).take_while(move |(_, text)| {
            let before = ended;
            ended |= text.starts_with("jmp ") || *text == "ret";
            !before
        })
    }
}

/// Returns true if an instruction only pads the space before the next one.
fn is_padding(text: &str) -> bool {
    text.split(' ').any(|word| word == "nop") || text == "xchg ax,ax" || text == "int3"
}

/// Returns the mnemonic and the target of a jump or a call to a constant address.
fn jump(text: &str) -> Option<(&str, u64)> {
    let (mnemonic, operand) = text.split_once(' ')?;
    let address = operand.split_whitespace().next()?;
    let jumps = mnemonic.starts_with('j') || mnemonic == "call";
    Some((mnemonic, u64::from_str_radix(address, 16).ok().filter(|_| jumps)?))
}

/// Returns an instruction without the parts that depend on the program's memory layout: `[rip+0x3e8be] # 51e48 <name>`
/// becomes `[rip] # name`. Names with an offset or an `@` (relocations) are dropped, too.
fn without_place(text: &str) -> String {
    let (instruction, name) = text.split_once(" # ").unwrap_or((text, ""));
    let name = name.split_once('<').and_then(|(_, rest)| rest.strip_suffix('>'));
    let mut text = instruction.to_owned();
    if let Some(start) = text.find("[rip").map(|at| at + "[rip".len())
        && let Some(length) = text[start..].find(']')
    {
        text.replace_range(start..start + length, "");
    }
    match name.filter(|name| !name.contains("+0x") && !name.contains('@')) {
        Some(name) => format!("{text} # {name}"),
        None => text,
    }
}
