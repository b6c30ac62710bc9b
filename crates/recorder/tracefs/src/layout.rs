//! Layout of the pages of the kernel's trace buffers, as the kernel describes it.

use crate::format::{RecordField, field};
use crate::{Error, Instance};
use std::path::Path;

/// Layout of a page of the trace buffer: a sub-buffer of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Offset of the 64-bit timestamp of the page's first record.
    pub(crate) timestamp: usize,
    /// Offset of the size of the records, and true if that has 8 bytes instead of 4: it is a `long` of the kernel.
    pub(crate) commit: usize,
    pub(crate) commit_is_64_bit: bool,
    /// Offset of the records, and the room for them in bytes.
    pub(crate) data: usize,
    pub(crate) room: usize,
}

/// Limit of a page's size in bytes, which keeps the arithmetic on untrusted sizes small.
const LARGEST: u32 = 1 << 24;

impl PageLayout {
    /// Parses the content of the kernel's files `events/header_page` and `events/header_event`.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if one of them describes something else than a trace buffer of Linux 2.6.30 or later.
    pub fn parse(header_page: &str, header_event: &str) -> Result<Self, Error> {
        let unexpected = |file: &str, expected, found: &str| Error::Unexpected {
            path: Path::new("events").join(file),
            expected,
            found: found.trim().to_owned(),
        };
        if let Some((expected, found)) = odd_event_header(header_event) {
            return Err(unexpected("header_event", expected, found));
        }
        let find = |name: &str| -> Option<RecordField> {
            let fields = header_page.lines().filter_map(|line| line.trim().strip_prefix("field:"));
            fields.filter_map(|text| field(text.trim()).ok()).find(|field| field.name == name)
        };
        let layout = || {
            let (timestamp, commit, data) = (find("timestamp")?, find("commit")?, find("data")?);
            let sound = timestamp.size == 8
                && matches!(commit.size, 4 | 8)
                && timestamp.offset.checked_add(8)? <= data.offset
                && commit.offset.checked_add(commit.size)? <= data.offset
                && data.offset <= LARGEST
                && (1..=LARGEST).contains(&data.size);
            sound.then_some(Self {
                timestamp: timestamp.offset as usize,
                commit: commit.offset as usize,
                commit_is_64_bit: commit.size == 8,
                data: data.offset as usize,
                room: data.size as usize,
            })
        };
        layout().ok_or_else(|| unexpected("header_page", "timestamp, commit and data", header_page))
    }

    /// Returns the layout of pages of `size` bytes in a 64-bit kernel, for pages without a description.
    ///
    /// # Errors
    /// Returns an error if no page has that size.
    pub fn of_size(size: u32) -> Result<Self, Error> {
        let data = 16;
        let room = size.checked_sub(data).filter(|room| (1..=LARGEST).contains(room));
        let room = room.ok_or_else(|| Error::Unexpected {
            path: "page".into(),
            expected: "a size of 17 bytes to 16 MiB",
            found: size.to_string(),
        })?;
        Ok(Self { timestamp: 0, commit: 8, commit_is_64_bit: true, data: data as usize, room: room as usize })
    }

    /// Returns the size of a page in bytes. A raw recording of a CPU is a series of such pages.
    pub fn page_size(&self) -> usize {
        self.data + self.room
    }
}

impl Instance {
    /// Reads the layout of this instance's pages, which depends on the size of its sub-buffers.
    ///
    /// # Errors
    /// Returns an error if the kernel does not describe the layout, or describes an unknown one.
    pub fn page_layout(&self) -> Result<PageLayout, Error> {
        // Before Linux 6.8, only the uppermost directory has the files: all pages are alike there.
        let read = |name| match self.dir.read(name) {
            Err(Error::Missing { .. }) => self.tracefs.root.read(name),
            text => text,
        };
        PageLayout::parse(&read("events/header_page")?, &read("events/header_event")?)
    }
}

/// Finds a part of a record's header that [`Page`](crate::Page) could not parse. Returns the expected text and the
/// line.
fn odd_event_header(text: &str) -> Option<(&'static str, &str)> {
    let known = [
        ("type_len", "5 bits"),
        ("time_delta", "27 bits"),
        ("array", "32 bits"),
        ("padding", "type == 29"),
        ("time_extend", "type == 30"),
        ("time_stamp", "type == 31"),
        ("data max type_len", "== 28"),
    ];
    for line in text.lines().map(str::trim) {
        for (name, value) in known {
            let Some(rest) = line.strip_prefix(name).map(str::trim_start) else { continue };
            if rest.starts_with([':', '=']) && !rest.ends_with(value) {
                return Some((value, line));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
        \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
        \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

    fn page(commit: u32, data: u32) -> String {
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{commit};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
             \tfield: char data;\toffset:{};\tsize:{data};\tsigned:0;\n",
            8 + commit
        )
    }

    #[test]
    fn the_kernels_description_is_read() {
        let layout = PageLayout::parse(&page(8, 4080), EVENT).unwrap();
        assert_eq!((layout.page_size(), layout.data, layout.commit_is_64_bit), (4096, 16, true));
        assert_eq!(layout, PageLayout::of_size(4096).unwrap());
        let layout = PageLayout::parse(&page(4, 4084), EVENT).unwrap();
        assert_eq!((layout.page_size(), layout.data, layout.commit_is_64_bit), (4096, 12, false));
    }

    #[test]
    fn another_layout_is_refused() {
        for (page, event) in [
            ("", EVENT),
            (&page(8, 0), EVENT),
            (&page(2, 4080), EVENT),
            (&page(8, u32::MAX), EVENT),
            (&page(8, 4080).replace("offset:16", "offset:8"), EVENT),
            (&page(8, 4080).replace("timestamp", "time"), EVENT),
            (&page(8, 4080), &EVENT.replace("type == 30", "type == 28")),
            (&page(8, 4080), &EVENT.replace("5 bits", "4 bits")),
        ] {
            assert!(matches!(PageLayout::parse(page, event), Err(Error::Unexpected { .. })), "{page}{event}");
        }
        assert!(PageLayout::of_size(16).is_err());
    }
}
