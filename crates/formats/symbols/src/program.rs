//! The segments and symbols of a program's file.

use crate::MappedFile;
use object::SegmentFlags;
use object::elf::PF_X;
use object::read::{File, Object, ObjectSegment, ObjectSymbol, ObjectSymbolTable, SymbolIndex, SymbolKind};
use std::fmt::Write;
use std::ops::Range;

/// The maximum number of symbols and of segments of a file.
const SYMBOLS_MAX: usize = 1 << 20;
const SEGMENTS_MAX: usize = 1 << 10;
/// The maximum length of a name, in bytes. Names of C++ templates have some thousand.
const NAME_MAX: usize = 1 << 14;

/// The maximum size of a page of memory, in bytes.
const PAGE_MAX: u64 = 64 << 10;

/// A program's file in memory.
#[derive(Debug)]
pub(crate) struct ProgramFile {
    data: Vec<u8>,
    build_id: String,
    segments: Vec<Segment>,
    /// True if the symbols are from the dynamic linker's table, as the file has no other.
    is_dynamic: bool,
    /// The symbols of variables and functions, by their first addresses.
    symbols: Vec<Symbol>,
}

/// A part of the file that is mapped.
#[derive(Debug)]
struct Segment {
    addresses: Range<u64>,
    offsets: Range<u64>,
    is_executable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    address: u64,
    size: u64,
    index: usize,
}

impl ProgramFile {
    /// Parses a file; `None` if it is no ELF file, has no build id, or exceeds a limit.
    pub(crate) fn new(data: Vec<u8>) -> Option<Self> {
        let file = File::parse(&*data).ok()?;
        let mut build_id = String::new();
        for byte in file.build_id().ok()?? {
            let _ = write!(build_id, "{byte:02x}");
        }
        let segments = file.segments().take(SEGMENTS_MAX).filter_map(|segment| {
            let (address, (offset, size)) = (segment.address(), segment.file_range());
            let flags = segment.flags();
            Some(Segment {
                addresses: address..address.checked_add(segment.size())?,
                offsets: offset..offset.checked_add(size)?,
                is_executable: matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0),
            })
        });
        let segments = segments.collect();
        let is_dynamic = file.symbols().next().is_none();
        let table = if is_dynamic { file.dynamic_symbol_table() } else { file.symbol_table() };
        let symbols = table.into_iter().flat_map(|table| table.symbols());
        let mut symbols: Vec<Symbol> = symbols
            .take(SYMBOLS_MAX + 1)
            .filter(|symbol| {
                let is_named = matches!(symbol.kind(), SymbolKind::Data | SymbolKind::Text);
                is_named && symbol.is_definition() && symbol.size() > 0
            })
            .map(|symbol| Symbol { address: symbol.address(), size: symbol.size(), index: symbol.index().0 })
            .collect();
        if symbols.len() > SYMBOLS_MAX {
            return None;
        }
        symbols.sort_unstable();
        drop(file);
        Some(Self { data, build_id, segments, is_dynamic, symbols })
    }

    pub(crate) fn build_id(&self) -> &str {
        &self.build_id
    }

    /// Returns the address, as the file has it, of one in a process that has mapped a part of the file; `None` if it is
    /// in none of the file's segments.
    pub(crate) fn address_in_file(&self, mapped: &MappedFile, address: u64) -> Option<u64> {
        let first = self.first(mapped)?;
        let in_file = address.wrapping_sub(mapped.addresses.start).wrapping_add(first);
        self.segments.iter().any(|segment| segment.addresses.contains(&in_file)).then_some(in_file)
    }

    /// Passes the symbols of variables and functions: the address of each in a process that has mapped a part of the
    /// file, its name, and true if it is code.
    pub(crate) fn each_symbol(&self, mapped: &MappedFile, take: &mut impl FnMut(u64, &str, bool)) {
        let (Some(first), Ok(file)) = (self.first(mapped), File::parse(&*self.data)) else { return };
        let table = if self.is_dynamic { file.dynamic_symbol_table() } else { file.symbol_table() };
        for symbol in &self.symbols {
            let found =
                table.as_ref().and_then(|table| table.symbol_by_index(SymbolIndex(symbol.index)).ok());
            let name = found.as_ref().and_then(|found| found.name().ok());
            let Some((found, name)) = found.as_ref().zip(name.filter(|name| name.len() <= NAME_MAX)) else {
                continue;
            };
            let address = symbol.address.wrapping_sub(first).wrapping_add(mapped.addresses.start);
            take(address, name, found.kind() == SymbolKind::Text);
        }
    }

    /// Returns the address, as the file has it, of the begin of a mapped part.
    fn first(&self, mapped: &MappedFile) -> Option<u64> {
        // The kernel maps whole pages: a part begins at most a page before its segment.
        let mut parts = self.segments.iter().filter(|segment| {
            let offsets = &segment.offsets;
            let before = offsets.start.saturating_sub(mapped.offset);
            segment.is_executable && mapped.offset < offsets.end && before < PAGE_MAX
        });
        let (Some(part), None) = (parts.next(), parts.next()) else { return None };
        Some(part.addresses.start.wrapping_sub(part.offsets.start).wrapping_add(mapped.offset))
    }

    /// Returns the name of the symbol that contains an address of the file.
    pub(crate) fn symbol(&self, address: u64) -> Option<&str> {
        let end = self.symbols.partition_point(|symbol| symbol.address <= address);
        // Symbols with other names may lie at the same address; of those, the first of the table.
        let last = self.symbols[..end].last()?.address;
        let first = self.symbols[..end].partition_point(|symbol| symbol.address < last);
        let at = self.symbols[first..end].iter().filter(|symbol| address - symbol.address < symbol.size);
        let index = SymbolIndex(at.min_by_key(|symbol| symbol.index)?.index);
        let file = File::parse(&*self.data).ok()?;
        let table = if self.is_dynamic { file.dynamic_symbol_table()? } else { file.symbol_table()? };
        let name = table.symbol_by_index(index).ok()?.name().ok()?;
        (!name.is_empty() && name.len() <= NAME_MAX).then_some(name)
    }
}
