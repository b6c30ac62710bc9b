//! One Parquet file of a table: its row groups, column by column.

use crate::name_chunk::{NameChunk, NameIndexes};
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef, UInt32Type};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnWriter, ArrowLeafColumn, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
};
use parquet::basic::{Compression, Encoding};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use sordino_tables::TableKind;
use std::fs::File;

/// Maximum number of rows of a row group: a reader skips groups by their times.
const GROUP_ROWS: usize = 1 << 18;
/// Maximum size of a row group in memory, in bytes.
const GROUP_BYTES: usize = 32 << 20;

/// A file that is being written.
pub(crate) struct TableFile {
    schema: SchemaRef,
    file: SerializedFileWriter<File>,
    factory: ArrowRowGroupWriterFactory,
    /// The columns of the open row group, if there is one.
    columns: Vec<OpenColumn>,
    /// The rows in it.
    rows: usize,
}

/// A column of the file, in the open row group.
enum OpenColumn {
    Names(Box<NameChunk>),
    Values(Box<ArrowColumnWriter>),
}

/// The values of some rows in a column of the file.
enum LeafRows<'a> {
    Names(&'a NameIndexes),
    /// Each row's names are between two of the limits.
    NameLists(&'a OffsetBuffer<i32>, &'a NameIndexes),
    Values(ArrowLeafColumn),
}

impl TableFile {
    pub(crate) fn create(file: File, table: TableKind, schema: &SchemaRef) -> Result<Self> {
        let options = ArrowWriterOptions::new().with_properties(properties(table, schema));
        // Readers have the types of Parquet; those of Arrow are this program's own choice.
        let options = options.with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(file, SchemaRef::clone(schema), options)?;
        let (file, factory) = writer.into_serialized_writer()?;
        Ok(Self { schema: SchemaRef::clone(schema), file, factory, columns: Vec::new(), rows: 0 })
    }

    fn begin_group(&mut self) -> Result<()> {
        let descriptions = self.file.schema_descr().columns().iter();
        let writers = self.factory.create_column_writers(self.file.flushed_row_groups().len())?;
        let types = self.schema.fields().iter().flat_map(|field| leaf_types(field.data_type()));
        let columns = descriptions.zip(writers).zip(types).map(|((description, writer), leaf)| match leaf {
            DataType::Dictionary(..) => OpenColumn::Names(Box::new(NameChunk::new(description.clone()))),
            _ => OpenColumn::Values(Box::new(writer)),
        });
        self.columns = columns.collect();
        self.rows = 0;
        Ok(())
    }

    /// Appends the rows of a batch.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut begin = 0;
        while begin < batch.num_rows() {
            if self.columns.is_empty() {
                self.begin_group()?;
            }
            let rows = (GROUP_ROWS - self.rows).min(batch.num_rows() - begin);
            self.append(&batch.slice(begin, rows))?;
            begin += rows;
            if self.rows == GROUP_ROWS
                || self.columns.iter().map(OpenColumn::bytes).sum::<usize>() > GROUP_BYTES
            {
                self.end_group()?;
            }
        }
        Ok(())
    }

    fn append(&mut self, rows: &RecordBatch) -> Result<()> {
        let mut columns = self.columns.iter_mut();
        for (field, array) in self.schema.fields().iter().zip(rows.columns()) {
            for (leaf, column) in leaves(field, array)?.into_iter().zip(&mut columns) {
                match (column, leaf) {
                    (OpenColumn::Names(names), LeafRows::Names(rows)) => names.push(rows)?,
                    (OpenColumn::Names(names), LeafRows::NameLists(limits, rows)) => {
                        names.push_lists(limits, rows)?;
                    }
                    (OpenColumn::Values(values), LeafRows::Values(rows)) => values.write(&rows)?,
                    _ => return Err(ParquetError::General(format!("column {}: another type", field.name()))),
                }
            }
        }
        self.rows += rows.num_rows();
        Ok(())
    }

    fn end_group(&mut self) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for column in self.columns.drain(..) {
            match column {
                OpenColumn::Names(names) => {
                    let (bytes, description) = names.close()?;
                    group.append_column(&bytes, description)?;
                }
                OpenColumn::Values(values) => values.close()?.append_to_row_group(&mut group)?,
            }
        }
        group.close()?;
        Ok(())
    }

    /// Completes the file. Returns its size in bytes.
    pub(crate) fn close(mut self) -> Result<u64> {
        if !self.columns.is_empty() {
            self.end_group()?;
        }
        self.file.finish()?;
        Ok(self.file.bytes_written() as u64)
    }
}

impl OpenColumn {
    fn bytes(&self) -> usize {
        match self {
            Self::Names(names) => names.bytes(),
            Self::Values(values) => values.get_estimated_total_bytes(),
        }
    }
}

/// Returns the types of a column's parts that are columns of their own in the file.
fn leaf_types(of: &DataType) -> Vec<&DataType> {
    match of {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(parts) => parts.iter().map(|part| part.data_type()).collect(),
            _ => vec![of],
        },
        _ => vec![of],
    }
}

fn leaves<'a>(field: &Field, array: &'a ArrayRef) -> Result<Vec<LeafRows<'a>>> {
    if let Some(names) = array.as_dictionary_opt::<UInt32Type>() {
        return Ok(vec![LeafRows::Names(names)]);
    }
    let mut leaves: Vec<_> = compute_leaves(field, array)?.into_iter().map(LeafRows::Values).collect();
    if let Some(map) = array.as_map_opt()
        && let Some(names) = map.keys().as_dictionary_opt()
        && let Some(keys) = leaves.first_mut()
    {
        *keys = LeafRows::NameLists(map.offsets(), names);
    }
    Ok(leaves)
}

fn properties(table: TableKind, schema: &SchemaRef) -> WriterProperties {
    let order = schema.index_of(table.time()).ok().map(|column| {
        vec![SortingColumn { column_idx: column as i32, descending: false, nulls_first: false }]
    });
    // Times ascend, and hardly one occurs twice: their differences are smaller than a dictionary.
    let time = ColumnPath::from(table.time());
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        // Readers skip groups by their times; the other values of a group are those of the whole machine.
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(time.clone(), EnabledStatistics::Chunk)
        .set_column_dictionary_enabled(time.clone(), false)
        .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED)
        .set_sorting_columns(order)
        .set_created_by("sordino".to_owned())
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{
        Array, Int64Array, MapArray, StringArray, StringViewArray, StructArray, UInt32Array,
    };
    use datafusion::arrow::compute::cast;
    use datafusion::arrow::datatypes::{Int64Type, Schema};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use std::sync::Arc;

    /// Numbers that look random and are the same in each run.
    struct Draws(u64);

    impl Draws {
        fn below(&mut self, limit: u32) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as u32 % limit
        }
    }

    /// A row: a name or none, a name, and a name and a value for each entry of its map.
    type Row = (Option<String>, String, Vec<(String, i64)>);

    /// Returns a batch whose rows have indexes of `names`, of which the first is null.
    fn batch(names: &[String], rows: &[(Option<u32>, Vec<u32>)], begin: usize) -> RecordBatch {
        let nullable: StringViewArray = [None].into_iter().chain(names.iter().map(Some)).collect();
        let keys = Arc::new(StringArray::from_iter_values(names));
        let required = Arc::new(StringViewArray::from_iter_values(names));
        let of_rows: UInt32Array = (0..rows.len()).map(|row| (row % names.len()) as u32).collect();
        let indexes: UInt32Array = rows.iter().map(|(name, _)| *name).collect();
        let entries: UInt32Array = rows.iter().flat_map(|(_, entries)| entries).copied().collect();
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..entries.len() as i64));
        let keys: ArrayRef = Arc::new(NameIndexes::new(entries, keys));
        let parts = StructArray::from(vec![
            (Arc::new(Field::new("key", keys.data_type().clone(), false)), keys),
            (Arc::new(Field::new("value", DataType::Int64, true)), values),
        ]);
        let field = Field::new("key_value", parts.data_type().clone(), false);
        let limits = OffsetBuffer::from_lengths(rows.iter().map(|(_, entries)| entries.len()));
        let times = (begin..begin + rows.len()).map(|time| time as i64);
        let columns: [ArrayRef; 4] = [
            Arc::new(Int64Array::from_iter_values(times)),
            Arc::new(NameIndexes::new(indexes, Arc::new(nullable))),
            Arc::new(NameIndexes::new(of_rows, required)),
            Arc::new(MapArray::new(Arc::new(field), limits, parts, None, false)),
        ];
        let fields = ["time_ns", "comm", "name", "integers"].iter().zip(&columns);
        let fields =
            fields.map(|(name, column)| Field::new(*name, column.data_type().clone(), *name == "comm"));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        RecordBatch::try_new(Arc::new(schema), columns.to_vec()).unwrap()
    }

    fn rows(batch: &RecordBatch) -> Vec<Row> {
        let texts = |array: &ArrayRef| cast(array, &DataType::Utf8).unwrap().as_string::<i32>().clone();
        let (nullable, required) = (texts(batch.column(1)), texts(batch.column(2)));
        let map = batch.column(3).as_map();
        let (keys, values) = (texts(map.keys()), map.values().as_primitive::<Int64Type>());
        let entries = |row: usize| {
            let entries = map.offsets()[row] as usize..map.offsets()[row + 1] as usize;
            entries.map(|entry| (keys.value(entry).to_owned(), values.value(entry))).collect()
        };
        let name = |row| nullable.is_valid(row).then(|| nullable.value(row).to_owned());
        let row = |row| (name(row), required.value(row).to_owned(), entries(row));
        (0..batch.num_rows()).map(row).collect()
    }

    /// Writes the batches, and compares the rows that a reader finds. Returns the number of row groups.
    fn written_and_read(batches: &[RecordBatch]) -> usize {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        let file = File::create_new(&path).unwrap();
        let mut file = TableFile::create(file, TableKind::Events, &batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| file.write(batch).unwrap());
        let size = file.close().unwrap();
        assert_eq!(size, path.metadata().unwrap().len());
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
        let groups = reader.metadata().num_row_groups();
        let found: Vec<Row> = reader.build().unwrap().flat_map(|batch| rows(&batch.unwrap())).collect();
        let expected: Vec<Row> = batches.iter().flat_map(rows).collect();
        assert_eq!(found.len(), expected.len());
        for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "row {row}");
        }
        groups
    }

    /// Returns a batch whose first rows are cut off.
    fn any_batch(draws: &mut Draws) -> RecordBatch {
        let number = 1 + draws.below(300);
        let names: Vec<String> = (0..number).map(|_| "\u{fc}b".repeat(draws.below(40) as usize)).collect();
        let rows = (0..draws.below(300)).map(|_| {
            let name = (draws.below(3) > 0).then(|| draws.below(number));
            (name, (0..draws.below(4)).map(|_| draws.below(number)).collect())
        });
        let whole = batch(&names, &rows.collect::<Vec<_>>(), 0);
        let begin = draws.below(whole.num_rows() as u32 + 1) as usize;
        whole.slice(begin, whole.num_rows() - begin)
    }

    #[test]
    fn any_names_come_back() {
        for seed in 0..200 {
            let mut draws = Draws(seed);
            let batches: Vec<_> = (0..1 + draws.below(4)).map(|_| any_batch(&mut draws)).collect();
            written_and_read(&batches);
        }
    }

    #[test]
    fn a_name_that_is_null_where_there_has_to_be_one_is_an_error() {
        let names = ["a".to_owned()];
        let batch = batch(&names, &[(Some(0), vec![]), (Some(1), vec![])], 0);
        // The first row's index is that of a null.
        let required = batch.schema().field(1).clone().with_nullable(false);
        let schema = Arc::new(Schema::new(vec![batch.schema().field(0).clone(), required]));
        let columns = batch.columns()[..2].to_vec();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let mut file = TableFile::create(tempfile::tempfile().unwrap(), TableKind::Events, &schema).unwrap();
        let written = file.write(&batch).and_then(|()| file.close());
        assert_eq!(written.unwrap_err().to_string(), "Parquet error: column \"comm\": 1 of 2 names");
    }

    #[test]
    fn a_file_without_rows_has_none() {
        assert_eq!(written_and_read(&[batch(&["a".to_owned()], &[], 0)]), 0);
    }

    #[test]
    fn names_come_back_from_several_pages_and_row_groups() {
        let names: Vec<String> = (0..700).map(|name| format!("name {name}")).collect();
        let batches = (0..5).map(|index| {
            // Runs and changes, more names from batch to batch, and maps from none to three entries.
            let row = |row: u32| {
                let name = match row % 11 {
                    _ if (row / 1000).is_multiple_of(3) => Some(7),
                    0 => None,
                    _ => Some(row % (140 * index + 2)),
                };
                (name, (0..row / 100 % 4).map(|entry| (row + entry) % 700).collect())
            };
            batch(&names, &(0..60_000).map(row).collect::<Vec<_>>(), index as usize * 60_000)
        });
        assert_eq!(written_and_read(&batches.collect::<Vec<_>>()), 2);
    }
}
