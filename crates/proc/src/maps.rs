//! Lines of a process's `maps`: proc(5).

/// A part of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRange<'a> {
    /// The first address, and the one behind the last.
    pub range: (u64, u64),
    /// True if the memory may be executed.
    pub is_executable: bool,
    /// The offset of the memory in its file, in bytes.
    pub offset: u64,
    /// The major and the minor number of the file's device.
    pub device: (u32, u32),
    /// The file's inode number; 0 for memory without a file.
    pub inode: u64,
    /// The file's path, or a name in brackets, or nothing.
    pub path: &'a str,
}

impl<'a> MappedRange<'a> {
    /// Parses a line; `None` if it is not one.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let is_executable = words.next()?.as_bytes().get(2) == Some(&b'x');
        let offset = hexadecimal(words.next()?)?;
        let (major, minor) = words.next()?.split_once(':')?;
        let inode = words.next()?.parse().ok()?;
        Some(Self {
            range: (hexadecimal(start)?, hexadecimal(end)?),
            is_executable,
            offset,
            device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
            inode,
            path: words.next().unwrap_or_default().trim_start(),
        })
    }

    /// Returns true if the address is in this part.
    pub fn contains(&self, address: u64) -> bool {
        (self.range.0..self.range.1).contains(&address)
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_spaces_in_its_path_and_without_a_path() {
        let line =
            "7f0000001000-7f0000003000 r-xp 00002000 fd:01 1234                       /usr/lib/with space.so";
        let expected = MappedRange {
            range: (0x7f00_0000_1000, 0x7f00_0000_3000),
            is_executable: true,
            offset: 0x2000,
            device: (0xfd, 1),
            inode: 1234,
            path: "/usr/lib/with space.so",
        };
        assert_eq!(MappedRange::parse(line), Some(expected));
        let nameless = MappedRange::parse("7f00-7f10 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!((nameless.path, nameless.is_executable, nameless.inode), ("", false, 0));
        assert_eq!(
            MappedRange::parse("7f00-7f10 rw-p 00000000 00:00 0").map(|mapping| mapping.path),
            Some("")
        );
        assert_eq!(
            [0x7eff, 0x7f00, 0x7f0f, 0x7f10].map(|at| nameless.contains(at)),
            [false, true, true, false]
        );
        for bad in ["", "nonsense", "7f00 rw-p 0 0:0 0", "7f00-7f10 rw-p 0 00 0", "7f00-7f10 rw-p 0 00:00"] {
            assert_eq!(MappedRange::parse(bad), None, "{bad}");
        }
    }
}
