//! Names of addresses in the files that programs have mapped.
//!
//! A recording's state dump has the executable mappings of processes, with the build ids of their files. A
//! [`SymbolFiles`] finds the symbol of an address in such a file's own table. The files may belong to other users, and
//! may have changed since. A file is used only if it is a regular file of at most 128 MiB with the recorded build id.
//!
//! | module | contents |
//! |---|---|
//! | `demangle` | names of C++ and Rust |
//! | `functions` | the functions of a process |
//! | `open` | a file's contents, with a check of its kind and size |
//! | `program` | a file's segments and symbols |
#![forbid(unsafe_code)]

mod demangle;
mod functions;
mod open;
mod program;

pub use demangle::{demangled, named_function};
pub use functions::FunctionTable;

use program::ProgramFile;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The maximum size of all files together, in bytes, each of which stays in memory.
const TOTAL_MAX: u64 = 256 << 20;
/// The maximum number of files that are tried.
const FILES_MAX: usize = 1024;

/// An executable part of a file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// The addresses of the part in the process.
    pub addresses: Range<u64>,
    /// The offset of the part in the file, in bytes.
    pub offset: u64,
    /// The path of the file, as the process saw it.
    pub path: PathBuf,
    /// The file's build id in hexadecimal.
    pub build_id: String,
}

/// The files that were read so far, each once.
#[derive(Debug, Default)]
pub struct SymbolFiles {
    /// The files by path and build id; `None` for those that cannot be used.
    files: HashMap<(PathBuf, String), Option<ProgramFile>>,
    total: u64,
}

impl SymbolFiles {
    /// Returns the name of the symbol at an address of the process that has mapped the file. The address may be in
    /// another part of the same file, as variables are.
    ///
    /// `None` if the file has no symbol there, is not the recorded one, or was recorded without a build id.
    pub fn name(&mut self, mapped: &MappedFile, address: u64) -> Option<&str> {
        let program = self.program(mapped)?;
        program.symbol(program.address_in_file(mapped, address)?)
    }

    /// Passes each symbol of the file: its address in the process that has mapped the file, its name, and true if it is
    /// code.
    pub(crate) fn each_symbol(&mut self, mapped: &MappedFile, mut take: impl FnMut(u64, &str, bool)) {
        let program = self.program(mapped);
        program.into_iter().for_each(|program| program.each_symbol(mapped, &mut take));
    }

    /// Returns the file of the mapping, if it can be used.
    fn program(&mut self, mapped: &MappedFile) -> Option<&ProgramFile> {
        if mapped.build_id.is_empty() {
            return None;
        }
        let key = (mapped.path.clone(), mapped.build_id.clone());
        if !self.files.contains_key(&key) {
            let program =
                (self.files.len() < FILES_MAX).then(|| self.read(&mapped.path, &mapped.build_id))?;
            self.files.insert(key.clone(), program);
        }
        self.files.get(&key)?.as_ref()
    }

    /// Reads a file with this build id, if there is room.
    fn read(&mut self, path: &Path, build_id: &str) -> Option<ProgramFile> {
        let data = open::contents(path, TOTAL_MAX - self.total)?;
        let size = data.len() as u64;
        let program = ProgramFile::new(data).filter(|program| program.build_id() == build_id)?;
        self.total += size;
        Some(program)
    }
}
