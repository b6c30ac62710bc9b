//! Build ids, which identify the build of a mapped file.

use super::open::{Mapped, Skip, open};
use object::elf::{ELF_NOTE_GNU, FileHeader32, FileHeader64, NT_GNU_BUILD_ID, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};
use object::read::{FileKind, ReadCache, ReadRef};
use object::{Endianness, read};
use rustix::fs::Stat;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Maximum size of one read from a file, in bytes.
const READ_MAX: u64 = 1 << 20;

/// Maximum size of all reads from one file, in bytes.
const FILE_MAX: u64 = 4 << 20;

/// Maximum size of a notes segment, in bytes; a linker's has some hundred.
const NOTES_MAX: u64 = 64 << 10;

/// A version of a file: its device, its inode number, and the time of its last status change.
type Version = (u64, u64, (i64, i64));

/// Build ids read by earlier dumps: the next dump is often only a chunk away.
#[derive(Debug, Default)]
struct BuildIdCache {
    /// Each build id, with the number of the last dump that used it.
    build_ids: HashMap<Version, (String, u64)>,
    dump: u64,
}

static KNOWN: Mutex<Option<BuildIdCache>> = Mutex::new(None);

/// The reason why a file's build id is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The file could not be opened.
    Skipped(Skip),
    /// The file's headers or notes exceed the limits.
    TooLarge,
}

/// A build id in hexadecimal (empty if the file has none), and true if the file's device number is that of `maps`.
pub(super) type Found = (String, bool);

/// Returns the build id of a mapped file.
///
/// # Errors
/// [`Unknown`], the reason that it could not be determined.
pub(super) fn of(mapped: &Mapped, has_other_devices: bool) -> Result<Found, Unknown> {
    let opened = open(mapped, has_other_devices).map_err(Unknown::Skipped)?;
    let version = version(&opened.stat);
    if let Some(known) = with(|known| known.get(&version)) {
        return Ok((known, opened.exact));
    }
    let build_id = read(opened.file)?;
    with(|known| known.build_ids.insert(version, (build_id.clone(), known.dump)));
    Ok((build_id, opened.exact))
}

/// Ends a dump: drops build ids that neither it nor the previous one used.
pub(super) fn forget() {
    with(BuildIdCache::forget);
}

fn with<T>(what: impl FnOnce(&mut BuildIdCache) -> T) -> T {
    what(KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

impl BuildIdCache {
    fn get(&mut self, version: &Version) -> Option<String> {
        let (build_id, dump) = self.build_ids.get_mut(version)?;
        *dump = self.dump;
        Some(build_id.clone())
    }

    fn forget(&mut self) {
        let dump = self.dump;
        self.build_ids.retain(|_, (_, last)| *last + 1 >= dump);
        self.dump += 1;
    }
}

fn version(stat: &Stat) -> Version {
    (stat.st_dev, stat.st_ino, (stat.st_ctime, stat.st_ctime_nsec as i64))
}

/// Reads the build id of a file. Files other than ELF have none.
fn read(file: File) -> Result<String, Unknown> {
    let (cache, limits) = (ReadCache::new(file), ReadLimits::default());
    let data = LimitedFile { cache: &cache, limits: &limits };
    let id = match FileKind::parse(data) {
        Ok(FileKind::Elf64) => in_notes::<FileHeader64<Endianness>>(data),
        Ok(FileKind::Elf32) => in_notes::<FileHeader32<Endianness>>(data),
        _ => Ok(None),
    };
    if limits.exceeded.get() {
        return Err(Unknown::TooLarge);
    }
    let mut text = String::new();
    for byte in id.ok().flatten().unwrap_or_default() {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// Finds the build id in an ELF file's notes segments.
fn in_notes<'a, Header: FileHeader<Endian = Endianness>>(
    data: LimitedFile<'a>,
) -> read::Result<Option<&'a [u8]>> {
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    for segment in header.program_headers(endian, data)? {
        if segment.p_type(endian) == PT_NOTE && segment.p_filesz(endian).into() > NOTES_MAX {
            data.limits.exceeded.set(true);
            continue;
        }
        let Some(mut notes) = segment.notes(endian, data)? else { continue };
        while let Some(note) = notes.next()? {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                data.limits.exceeded.set(false);
                return Ok(Some(note.desc()));
            }
        }
    }
    Ok(None)
}

/// The limits for reading one file: the bytes left, and whether more were needed.
#[derive(Debug)]
struct ReadLimits {
    left: Cell<u64>,
    exceeded: Cell<bool>,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { left: Cell::new(FILE_MAX), exceeded: Cell::new(false) }
    }
}

/// A file that is read only within its limits, whatever its headers claim.
#[derive(Clone, Copy, Debug)]
struct LimitedFile<'a> {
    cache: &'a ReadCache<File>,
    limits: &'a ReadLimits,
}

impl<'a> ReadRef<'a> for LimitedFile<'a> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        let left = self.limits.left.get().checked_sub(size).filter(|_| size <= READ_MAX);
        self.limits.exceeded.set(self.limits.exceeded.get() || left.is_none());
        self.limits.left.set(left.ok_or(())?);
        self.cache.read_bytes_at(offset, size)
    }

    /// Always fails: the parser needs no search for a delimiter here.
    fn read_bytes_at_until(self, _range: Range<u64>, _delimiter: u8) -> Result<&'a [u8], ()> {
        Err(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::FileExt;

    fn of_path(path: &str) -> Result<String, Unknown> {
        read(File::open(path).unwrap())
    }

    #[test]
    fn a_file_without_a_build_id_has_an_empty_one() {
        assert_eq!(of_path("/etc/passwd"), Ok(String::new()));
        assert_eq!(of_path("/dev/null"), Ok(String::new()));
    }

    #[test]
    fn the_c_library_has_a_build_id_and_is_read_once() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let pid = std::process::id() as i32;
        let mut lines = maps.lines().filter(|line| line.contains("libc.so"));
        let line = lines.find(|line| line.contains(" r-xp ")).expect("tests are linked with the C library");
        let mapped = super::super::process::mapping(pid, line).unwrap().mapped;
        let other = super::super::filesystems::FileSystems::default().server(mapped.file.device, pid);
        let other = other == Some(super::super::filesystems::FileServer::KernelElsewhere);
        let (build_id, _) = of(&mapped, other).unwrap();
        assert_eq!(build_id.len(), 40, "{build_id}");
        // Replaces the cached build id, to show that the file is not read again.
        let version = version(&open(&mapped, other).unwrap().stat);
        with(|known| known.build_ids.get_mut(&version).unwrap().0 = "known".to_owned());
        assert_eq!(of(&mapped, other).unwrap().0, "known");
        with(|known| known.build_ids.get_mut(&version).unwrap().0 = build_id);
    }

    #[test]
    fn what_two_dumps_do_not_have_is_forgotten() {
        let (mut known, version) = (BuildIdCache::default(), (1, 2, (3, 4)));
        known.build_ids.insert(version, ("id".to_owned(), 0));
        known.forget();
        assert_eq!(known.get(&version).as_deref(), Some("id"));
        known.forget();
        known.forget();
        assert_eq!(known.get(&version).as_deref(), Some("id"));
        (0..3).for_each(|_| known.forget());
        assert_eq!(known.get(&version), None);
    }

    /// Returns a 64-bit ELF file with these notes segments, `(offset, size)`.
    fn elf(notes: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes = [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 9]].concat();
        // Type, machine, version, entry, offsets of program and section headers, flags, sizes and numbers.
        bytes.extend([3, 0, 62, 0, 1, 0, 0, 0]);
        for word in [0_u64, 64, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0; 4]);
        for half in [64, 56, notes.len() as u16, 64, 0, 0] {
            bytes.extend(half.to_le_bytes());
        }
        for (offset, size) in notes {
            bytes.extend([4, 0, 0, 0, 4, 0, 0, 0]);
            for word in [*offset, 0, 0, *size, *size, 4] {
                bytes.extend(word.to_le_bytes());
            }
        }
        bytes
    }

    #[test]
    fn no_more_of_a_file_is_read_than_the_limits_allow() {
        let mut file = tempfile::tempfile().unwrap();
        let mut write = |notes: &[(u64, u64)]| {
            file.set_len(0).unwrap();
            file.write_all_at(&elf(notes), 0).unwrap();
            file.flush().unwrap();
            file.set_len(4 << 30).unwrap();
            read(file.try_clone().unwrap())
        };
        assert_eq!(write(&[(8192, 32)]), Ok(String::new()));
        assert_eq!(write(&[(8192, 2 << 30)]), Err(Unknown::TooLarge));
        assert_eq!(write(&[(8192, NOTES_MAX / 12 * 12); 100]), Err(Unknown::TooLarge));
        assert_eq!(write(&[(8192, NOTES_MAX / 12 * 12); 10]), Ok(String::new()));
    }
}
