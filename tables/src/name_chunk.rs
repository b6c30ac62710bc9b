//! A column of names in one row group of a Parquet file. The library looks up the name of every row; here, each row
//! comes with the index of its name in its batch's dictionary, and each name of a batch is looked up once.
//!
//! The format is described in <https://github.com/apache/parquet-format>.

use crate::hybrid::{BitLevels, encode, index_width};
use bytes::Bytes;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, DictionaryArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::UInt32Type;
use parquet::basic::{Compression, Encoding, PageType};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder, PageEncodingStats};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::collections::HashMap;

/// Number of values, or of rows without one, at which a page ends with its row.
const PAGE_VALUES: usize = 1 << 16;
/// Bytes that a name takes in the hash table and the allocator besides its text, at most.
const NAME_BYTES: usize = 96;

/// For each row, the index of its name in the dictionary of the batch.
pub(crate) type NameIndexes = DictionaryArray<UInt32Type>;

/// A column of names that is being filled.
pub(crate) struct NameChunk {
    column: ColumnDescPtr,
    dictionary: GroupDictionary,
    page: OpenPage,
    pages: Vec<FinishedPage>,
}

/// The names of a row group, each once.
#[derive(Default)]
struct GroupDictionary {
    indexes: HashMap<Box<str>, u32>,
    /// The names as a page has them, each behind its length.
    plain: Vec<u8>,
    /// The names of the last batch.
    batch: Option<ArrayRef>,
    /// For each of them that occurred, its index here, or none if it is null.
    of_batch: Vec<Option<Option<u32>>>,
}

/// The rows that are in no page yet.
#[derive(Default)]
struct OpenPage {
    rows: usize,
    /// 0 for the first value of a row and 1 for the others, if a row may have several.
    repetitions: BitLevels,
    /// 1 for a value and 0 for none, if a row may have none.
    definitions: BitLevels,
    /// The indexes of the values.
    indexes: Vec<u32>,
}

struct FinishedPage {
    page: CompressedPage,
    rows: usize,
}

impl NameChunk {
    pub(crate) fn new(column: ColumnDescPtr) -> Self {
        Self { column, dictionary: GroupDictionary::default(), page: OpenPage::default(), pages: Vec::new() }
    }

    /// Appends rows with one name or none.
    pub(crate) fn push(&mut self, names: &NameIndexes) -> Result<()> {
        self.dictionary.begin_batch(names.values());
        let may_lack = self.column.max_def_level() > 0;
        for key in names.keys() {
            let index = key.and_then(|key| self.dictionary.index(key));
            if may_lack {
                self.page.definitions.push(index.is_some(), 1);
            }
            if let Some(index) = index {
                self.page.indexes.push(index);
            }
            self.end_row()?;
        }
        Ok(())
    }

    /// Appends rows with any number of names, which are between two of the `limits`.
    pub(crate) fn push_lists(&mut self, limits: &OffsetBuffer<i32>, names: &NameIndexes) -> Result<()> {
        self.dictionary.begin_batch(names.values());
        for row in limits.windows(2) {
            let (begin, end) = (row[0] as usize, row[1] as usize);
            self.page.definitions.push(begin < end, (end - begin).max(1));
            self.page.repetitions.push(false, 1);
            self.page.repetitions.push(true, (end - begin).saturating_sub(1));
            for key in &names.keys().values()[begin..end] {
                if let Some(index) = self.dictionary.index(*key) {
                    self.page.indexes.push(index);
                }
            }
            self.end_row()?;
        }
        Ok(())
    }

    fn end_row(&mut self) -> Result<()> {
        self.page.rows += 1;
        let levels = self.page.definitions.len().max(self.page.rows);
        if levels >= PAGE_VALUES { self.end_page() } else { Ok(()) }
    }

    fn end_page(&mut self) -> Result<()> {
        let page = std::mem::take(&mut self.page);
        let may_lack = self.column.max_def_level() > 0;
        let (levels, names) = match may_lack {
            true => (page.definitions.len(), page.definitions.ones()),
            false => (page.rows, page.rows),
        };
        if names != page.indexes.len() {
            let (column, found) = (self.column.path(), page.indexes.len());
            return Err(ParquetError::General(format!("column {column}: {found} of {names} names")));
        }
        let mut body = Vec::new();
        if self.column.max_rep_level() > 0 {
            put_levels(&page.repetitions, &mut body);
        }
        if may_lack {
            put_levels(&page.definitions, &mut body);
        }
        let width = index_width(self.dictionary.indexes.len());
        body.push(width as u8);
        encode(&page.indexes, width, &mut body);
        let finished = Page::DataPage {
            buf: compressed(&body)?,
            num_values: u32::try_from(levels)?,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        self.pages.push(FinishedPage { page: CompressedPage::new(finished, body.len()), rows: page.rows });
        Ok(())
    }

    /// Returns the bytes that the names and the pages take in memory.
    pub(crate) fn bytes(&self) -> usize {
        let pages = self.pages.iter().map(|page| page.page.compressed_size());
        let names = 2 * self.dictionary.plain.len() + NAME_BYTES * self.dictionary.indexes.len();
        names + pages.sum::<usize>() + size_of::<u32>() * self.page.indexes.len()
    }

    /// Returns the column as a file has it, with its description.
    pub(crate) fn close(mut self) -> Result<(Bytes, ColumnCloseResult)> {
        if self.page.rows > 0 {
            self.end_page()?;
        }
        let mut out = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut out);
        let dictionary = pages.write_page(self.dictionary.page()?)?;
        let (mut uncompressed, mut values, mut rows) = (dictionary.uncompressed_size, 0, 0);
        let mut index = OffsetIndexBuilder::new();
        let number = i32::try_from(self.pages.len())?;
        for page in self.pages {
            let written = pages.write_page(page.page)?;
            index.append_row_count(page.rows as i64);
            index.append_offset_and_size(written.offset as i64, i32::try_from(written.compressed_size)?);
            uncompressed += written.uncompressed_size;
            values += i64::from(written.num_values);
            rows += page.rows as u64;
        }
        let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let metadata = ColumnChunkMetaData::builder(self.column)
            .set_compression(Compression::SNAPPY)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_page_encoding_stats(vec![
                stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1),
                stats(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, number),
            ])
            .set_total_compressed_size(out.bytes_written() as i64)
            .set_total_uncompressed_size(uncompressed as i64)
            .set_num_values(values)
            .set_dictionary_page_offset(Some(0))
            .set_data_page_offset(dictionary.bytes_written as i64)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: out.bytes_written() as u64,
            rows_written: rows,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: Some(index.build()),
        };
        Ok((out.into_inner()?.into(), close))
    }
}

impl GroupDictionary {
    fn begin_batch(&mut self, names: &ArrayRef) {
        let is_last = |batch: &ArrayRef| std::ptr::addr_eq(batch.as_ref(), names.as_ref());
        if !self.batch.as_ref().is_some_and(is_last) {
            self.of_batch.clear();
            self.of_batch.resize(names.len(), None);
            self.batch = Some(ArrayRef::clone(names));
        }
    }

    /// Returns the index of the name at `key` of the batch; none if that is null.
    #[inline]
    fn index(&mut self, key: u32) -> Option<u32> {
        match self.of_batch.get(key as usize) {
            Some(Some(known)) => *known,
            _ => self.learn(key as usize),
        }
    }

    #[cold]
    fn learn(&mut self, key: usize) -> Option<u32> {
        let name = self.batch.as_ref().and_then(|batch| text(batch, key));
        let index = name.map(|name| {
            self.indexes.get(name).copied().unwrap_or_else(|| {
                let index = self.indexes.len() as u32;
                self.indexes.insert(name.into(), index);
                self.plain.extend_from_slice(&(name.len() as u32).to_le_bytes());
                self.plain.extend_from_slice(name.as_bytes());
                index
            })
        });
        if let Some(known) = self.of_batch.get_mut(key) {
            *known = Some(index);
        }
        index
    }

    fn page(&self) -> Result<CompressedPage> {
        let page = Page::DictionaryPage {
            buf: compressed(&self.plain)?,
            num_values: u32::try_from(self.indexes.len())?,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        Ok(CompressedPage::new(page, self.plain.len()))
    }
}

/// Returns the text at an index of an array of texts of either type.
fn text(names: &ArrayRef, index: usize) -> Option<&str> {
    if names.is_null(index) {
        return None;
    }
    let views = names.as_string_view_opt().map(|names| names.value(index));
    views.or_else(|| names.as_string_opt::<i32>().map(|names| names.value(index)))
}

/// Appends levels behind the length of their encoding.
fn put_levels(levels: &BitLevels, out: &mut Vec<u8>) {
    let begin = out.len() + 4;
    out.extend_from_slice(&[0; 4]);
    levels.encode(out);
    let length = (out.len() - begin) as u32;
    out[begin - 4..begin].copy_from_slice(&length.to_le_bytes());
}

fn compressed(bytes: &[u8]) -> Result<Bytes> {
    let compressed = snap::raw::Encoder::new().compress_vec(bytes);
    let mut compressed = compressed.map_err(|error| ParquetError::External(error.into()))?;
    // It has room for data that can't be compressed.
    compressed.shrink_to_fit();
    Ok(compressed.into())
}
