//! Files that are being written: bytes to append, by the files' names.

/// Bytes to be appended to files of a directory, in their order.
#[derive(Debug, Default)]
pub struct Files(Vec<(String, Vec<u8>)>);

impl Files {
    /// Appends bytes to a file, whose name has slashes for directories.
    pub(crate) fn append(&mut self, name: &str, bytes: &[u8]) {
        match self.0.last_mut() {
            Some((last, known)) if last == name => known.extend_from_slice(bytes),
            _ => self.0.push((name.to_owned(), bytes.to_owned())),
        }
    }

    /// Returns the number of bytes that wait to be written.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Removes and returns the bytes, with the names of their files, for writing.
    pub fn drain(&mut self) -> impl Iterator<Item = (String, Vec<u8>)> {
        self.0.drain(..)
    }
}
