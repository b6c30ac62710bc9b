//! npt's tracepoint for another tracer: a shared object that is built here with the installed headers, and loaded.
//!
//! This way, `sordino` is linked with no other tracer, and measures each with the same loop. A hit costs an additional
//! indirect call, about a nanosecond.

use crate::Error;
use crate::command::output_of_package;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};
use tempfile::TempDir;

/// Tracer for which a provider is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderKind {
    /// A tracepoint of LTTng-UST.
    Lttng,
    /// A statically defined tracepoint of `<sys/sdt.h>`.
    Usdt,
}

impl ProviderKind {
    /// Returns the source code and the linker's options for libraries.
    fn source(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Lttng => (include_str!("../providers/lttng.c"), &["-llttng-ust", "-ldl"]),
            Self::Usdt => (include_str!("../providers/usdt.c"), &[]),
        }
    }

    /// Returns the required header, and the error if it is missing.
    fn header(self) -> (&'static str, Error) {
        let missing = |what, remedy| Error::Missing { what, remedy };
        match self {
            Self::Lttng => {
                ("lttng/tracepoint.h", missing("LTTng-UST", "apt install liblttng-ust-dev lttng-tools"))
            }
            Self::Usdt => ("sys/sdt.h", missing("<sys/sdt.h>", "apt install systemtap-sdt-dev")),
        }
    }
}

/// File of a provider; removed when this value is dropped.
#[derive(Debug)]
pub struct Built {
    file: PathBuf,
    _directory: TempDir,
}

impl Built {
    /// Compiles a provider in a new directory in `place`.
    ///
    /// # Errors
    /// Names the package if the compiler or the tracer's header is missing.
    pub fn new(kind: ProviderKind, place: &Path) -> Result<Self, Error> {
        let directory = tempfile::tempdir_in(place).map_err(Error::io("a temporary directory"))?;
        let (source, libraries) = kind.source();
        for (name, text) in [("provider.c", source), ("npt.h", include_str!("../providers/npt.h"))] {
            fs::write(directory.path().join(name), text).map_err(Error::io(name))?;
        }
        let file = directory.path().join("provider.so");
        let mut compile = Command::new("cc");
        compile
            .args(["-O2", "-fPIC", "-shared", "-I."])
            .arg("-o")
            .arg(&file)
            .arg("provider.c")
            .args(libraries);
        let built = output_of_package(
            compile.current_dir(directory.path()).env("LC_ALL", "C"),
            "a C compiler",
            "apt install gcc libc6-dev",
        );
        let (header, missing) = kind.header();
        match built {
            Ok(_) => Ok(Self { file, _directory: directory }),
            Err(Error::Failed { text, .. }) if text.contains(&format!("{header}: No such file")) => {
                Err(missing)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the path of the shared object, for tracers that attach to it.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// A loaded provider. It is never unloaded, because LTTng-UST's threads execute its code.
#[derive(Clone, Copy, Debug)]
pub struct Provider(extern "C" fn(u64, u64));

impl Provider {
    /// Loads a file that [`Built`] made. LTTng-UST starts its threads, and waits until its daemon, if it runs, has
    /// registered this process.
    ///
    /// # Errors
    /// Returns an error if the file is not a provider.
    pub fn load(file: &Path) -> Result<Self, Error> {
        let failed =
            || Error::Io { what: file.display().to_string(), source: io::Error::other(last_error()) };
        // Without a slash in the path, the loader would search for it elsewhere.
        let path = file.canonicalize().map_err(Error::io(file.display()))?;
        let path = CString::new(path.as_os_str().as_bytes())
            .map_err(|error| Error::Io { what: file.display().to_string(), source: error.into() })?;
        // SAFETY: `path` is a C string that outlives the call. The constructors of the file run: by naming it, the
        // caller vouches that it is a provider that [`Built`] made.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(failed());
        }
        // SAFETY: `library` is an open handle, and the name is a C string.
        let symbol = unsafe { libc::dlsym(library, c"sordino_peer_hit".as_ptr()) };
        if symbol.is_null() {
            return Err(failed());
        }
        // SAFETY: each source in `providers/` defines the symbol with this type, and the library is never closed.
        let hit = unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64, u64)>(symbol) };
        Ok(Self(hit))
    }

    /// Hits the tracepoint.
    ///
    /// Real-time: depends on the tracer.
    #[inline(always)]
    pub fn hit(&self, number: u64, duration: u64) {
        (self.0)(number, duration);
    }
}

/// Returns the loader's description of the last error.
fn last_error() -> String {
    // SAFETY: dlerror takes no arguments.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it can't be loaded".to_owned();
    }
    // SAFETY: dlerror returned a C string, which is valid until this thread's next call of the loader.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_built_and_hit_or_the_package_is_named() {
        for kind in [ProviderKind::Lttng, ProviderKind::Usdt] {
            match Built::new(kind, &std::env::temp_dir()) {
                Ok(built) => Provider::load(built.file()).unwrap().hit(1, 2),
                Err(error) => assert!(error.to_string().contains("apt install"), "{error}"),
            }
        }
    }

    #[test]
    fn what_is_no_provider_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = Provider::load(file.path()).unwrap_err().to_string();
        assert!(refused.contains(file.path().to_str().unwrap()), "{refused}");
        assert!(Provider::load(Path::new("/nowhere.so")).is_err());
    }
}
