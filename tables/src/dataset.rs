//! The Parquet files of an export: one directory for each table, partitioned by host and hour.

use crate::table_file::TableFile;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Field, Int64Type, Schema, SchemaRef};
use parquet::errors::ParquetError;
use sordino_command::failure::{Failure, UNUSABLE};
use sordino_dirfd::{Dir, WholeDir};
use sordino_event::Time;
use sordino_tables::{PARTITIONS, TableKind, hour_name, hour_of};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of files that are written at the same time.
const OPEN_MAX: usize = 8;
/// Maximum length of a directory's name, in bytes.
const NAME_MAX: usize = 250;

/// A directory of Parquet files that is being written.
pub(crate) struct Dataset {
    path: PathBuf,
    dir: WholeDir,
    /// The open files, by table and host.
    open: BTreeMap<(TableKind, String), PartitionFile>,
    /// The number of files in each directory so far.
    parts: BTreeMap<String, u32>,
    bytes: u64,
}

/// A file that is being written.
struct PartitionFile {
    hour: i64,
    file: TableFile,
    /// The number of the last use.
    used: u64,
}

impl Dataset {
    /// Creates the directory, with an empty directory for each table.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        if path.symlink_metadata().is_ok() {
            let reason = "it exists, and this format is a directory: name one that does not exist";
            return Err(Failure::new(UNUSABLE, format!("{shown}: {reason}")));
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let name =
            name.ok_or_else(|| Failure::new(UNUSABLE, format!("{shown}: its name is no text: use another")))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = Dir::open(parent).and_then(|parent| WholeDir::begin(parent, name));
        let dir = dir.map_err(|error| unwritten(path, &error))?;
        Ok(Self { path: path.to_owned(), dir, open: BTreeMap::new(), parts: BTreeMap::new(), bytes: 0 })
    }

    /// Writes the rows of a batch to their files.
    pub(crate) fn write(&mut self, table: TableKind, batch: &RecordBatch) -> Result<(), Failure> {
        for (host, hour, rows) in partitions(table, batch)? {
            self.write_part(table, host, hour, &rows)?;
        }
        Ok(())
    }

    fn write_part(
        &mut self,
        table: TableKind,
        host: String,
        hour: i64,
        rows: &RecordBatch,
    ) -> Result<(), Failure> {
        let used = self.open.values().map(|part| part.used).max().unwrap_or(0) + 1;
        let key = (table, host);
        if self.open.get(&key).is_none_or(|part| part.hour != hour) {
            if let Some(part) = self.open.remove(&key) {
                self.close_part(part)?;
            }
            if self.open.len() >= OPEN_MAX {
                let oldest = self.open.iter().min_by_key(|(_, part)| part.used).map(|(key, _)| key.clone());
                if let Some(part) = oldest.and_then(|oldest| self.open.remove(&oldest)) {
                    self.close_part(part)?;
                }
            }
            let file = self.begin_part(table, &key.1, hour, &rows.schema())?;
            self.open.insert(key.clone(), PartitionFile { hour, file, used });
        }
        let Some(part) = self.open.get_mut(&key) else { return Ok(()) };
        part.used = used;
        part.file.write(rows).map_err(|error| self.unwritten(error))
    }

    /// Creates the next file of a partition.
    fn begin_part(
        &mut self,
        table: TableKind,
        host: &str,
        hour: i64,
        schema: &SchemaRef,
    ) -> Result<TableFile, Failure> {
        let hour = hour_name(hour.saturating_mul(3_600_000_000_000));
        let [host_name, hour_column] = PARTITIONS;
        let directory = format!("{}/{host_name}={}/{hour_column}={hour}", table.name(), escaped(host));
        let number = self.parts.entry(directory.clone()).or_default();
        *number += 1;
        let name = format!("{directory}/part-{number:04}.parquet");
        let file = self.dir.create(&name).map_err(|error| unwritten(&self.path, &error))?;
        Ok(TableFile::create(file, table, schema)?)
    }

    fn close_part(&mut self, part: PartitionFile) -> Result<(), Failure> {
        self.bytes += part.file.close().map_err(|error| self.unwritten(error))?;
        Ok(())
    }

    fn unwritten(&self, error: ParquetError) -> Failure {
        unwritten(&self.path, &std::io::Error::other(error))
    }

    /// Completes the directory, which then belongs to the user and the group `owner`, if given. A table without rows
    /// gets an empty file in the partition of `host` and the time `begin`. Returns the bytes.
    pub(crate) fn close(
        mut self,
        host: &str,
        begin: Time,
        owner: Option<(u32, u32)>,
    ) -> Result<u64, Failure> {
        for part in std::mem::take(&mut self.open).into_values() {
            self.close_part(part)?;
        }
        for table in TableKind::ALL {
            let made = format!("{}/", table.name());
            if self.parts.keys().all(|name| !name.starts_with(&made)) {
                let schema = Arc::new(without_partitions(&table.schema()));
                self.begin_part(table, host, hour_of(begin.0), &schema)?.close()?;
            }
        }
        self.dir.finish(owner).map_err(|error| unwritten(&self.path, &error))?;
        Ok(self.bytes)
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(UNUSABLE, format!("can't write {}: {error}{}", path.display(), sordino_dirfd::remedy(error)))
}

/// Returns the columns that are in the files.
fn without_partitions(schema: &Schema) -> Schema {
    Schema::new(schema.fields().iter().filter(|field| is_in_files(field)).cloned().collect::<Vec<_>>())
}

/// Returns true if the column is in the files: the others are their directories' names.
fn is_in_files(field: &Field) -> bool {
    !PARTITIONS.contains(&field.name().as_str())
}

/// Divides a batch into runs of rows of one host and one hour, without the columns of both.
fn partitions(table: TableKind, batch: &RecordBatch) -> Result<Vec<(String, i64, RecordBatch)>, Failure> {
    let schema = batch.schema();
    let times = batch.column(schema.index_of(table.time())?).as_primitive::<Int64Type>();
    let hosts = batch.column(schema.index_of(PARTITIONS[0])?).as_string_view();
    let kept = schema.fields().iter().enumerate().filter(|(_, field)| is_in_files(field));
    let rows = batch.project(&kept.map(|(column, _)| column).collect::<Vec<_>>())?;
    let key = |row: usize| (hosts.value(row), hour_of(times.value(row)));
    let (mut parts, mut begin) = (Vec::new(), 0);
    while begin < batch.num_rows() {
        let (host, hour) = key(begin);
        let length = (begin..batch.num_rows()).take_while(|row| key(*row) == (host, hour)).count();
        parts.push((host.to_owned(), hour, rows.slice(begin, length)));
        begin += length;
    }
    Ok(parts)
}

/// Returns the text as Hive writes it into the name of a directory.
fn escaped(text: &str) -> String {
    if text.is_empty() {
        return "__HIVE_DEFAULT_PARTITION__".to_owned();
    }
    let mut escaped = String::new();
    for character in text.chars() {
        let mut next = String::new();
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => next.push(character),
            other => other.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| {
                // Writing to a string does not fail.
                let _ = write!(next, "%{byte:02X}");
            }),
        }
        if escaped.len() + next.len() > NAME_MAX - PARTITIONS[0].len() {
            break;
        }
        escaped += &next;
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_name_is_the_name_of_one_directory() {
        for (text, name) in [
            ("motor-1.lab", "motor-1.lab"),
            ("", "__HIVE_DEFAULT_PARTITION__"),
            ("a/b=c%", "a%2Fb%3Dc%25"),
            ("\u{fc}\n", "%C3%BC%0A"),
        ] {
            assert_eq!(escaped(text), name, "{text}");
        }
        assert!(escaped(&"/".repeat(300)).len() <= NAME_MAX);
    }
}
