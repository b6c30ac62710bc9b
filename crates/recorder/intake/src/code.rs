//! The code that a process has mapped: its files, and the functions in them.

use sordino_inspect::dump::{ExecutableMapping, mapped_files};
use sordino_proc::status::code_size;
use sordino_symbols::{FunctionTable, MappedFile};

/// The code that a process had mapped at one time.
#[derive(Debug, Default)]
pub struct MappedCode {
    /// The size of all of it, as [`code_size`] returns it.
    pub size: Option<u64>,
    /// The files that it has mapped executable.
    pub files: Vec<ExecutableMapping>,
    /// The functions in the files, if rules name some.
    pub functions: Option<FunctionTable>,
}

impl MappedCode {
    /// Reads the mappings of a process, and the symbols of their files if rules name functions. Both may keep the
    /// caller waiting, as a hostile process wishes.
    pub(super) fn of(pid: i32, names_functions: bool) -> Self {
        // First, so that another mapping meanwhile shows as another size later.
        let size = code_size(pid);
        let files = mapped_files(pid);
        let functions =
            names_functions.then(|| FunctionTable::of(&files.iter().map(mapped).collect::<Vec<_>>()));
        Self { size, files, functions }
    }
}

fn mapped(file: &ExecutableMapping) -> MappedFile {
    MappedFile {
        addresses: file.addresses.0..file.addresses.1,
        offset: file.offset,
        path: file.path.clone().into(),
        build_id: file.build_id.clone(),
    }
}
