//! The result of a query: a table, CSV, JSON lines or a Parquet file.

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::writer::{LineDelimited, WriterBuilder};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use sordino_command::failure::Failure;
use sordino_event::text::{count, printable};
use sordino_handover::ExportStream;
use sordino_selection::ResultFormat as Format;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use unicode_width::UnicodeWidthStr;

/// Number of rows whose cells decide the width of a table's columns.
const WIDTH_ROWS: usize = 1000;

/// A writer of batches in one format.
pub(crate) struct ResultWriter {
    format: Format,
    out: ExportStream,
    schema: SchemaRef,
    is_begun: bool,
    rows: usize,
    /// The first rows of a table, until their widths are known.
    first: Vec<RecordBatch>,
    widths: Vec<usize>,
    parquet: Option<(ArrowWriter<SharedBuffer>, SharedBuffer)>,
}

impl ResultWriter {
    /// Creates a writer of results with these columns.
    pub(crate) fn new(format: Format, out: ExportStream, schema: &SchemaRef) -> Result<Self, Failure> {
        let parquet = (format == Format::Parquet).then(|| {
            let bytes = SharedBuffer::default();
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            Ok::<_, Failure>((
                ArrowWriter::try_new(bytes.clone(), Arc::clone(schema), Some(properties))?,
                bytes,
            ))
        });
        let parquet = parquet.transpose()?;
        let (schema, first, widths) = (Arc::clone(schema), Vec::new(), Vec::new());
        Ok(Self { format, out, schema, is_begun: false, rows: 0, first, widths, parquet })
    }

    /// Writes a batch. Returns false if the reader closed the output.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<bool, Failure> {
        self.rows += batch.num_rows();
        match self.format {
            Format::Table => self.write_table(batch),
            Format::Csv => {
                let batch = flat(batch)?;
                let header = !std::mem::replace(&mut self.is_begun, true);
                let mut text = Vec::new();
                csv::WriterBuilder::new().with_header(header).build(&mut text).write(&batch)?;
                self.put(text)
            }
            Format::Json => {
                let text = json(batch)?;
                self.put(text)
            }
            Format::Parquet => {
                let Some((writer, bytes)) = &mut self.parquet else { return Ok(true) };
                writer.write(batch)?;
                let bytes = bytes.take();
                self.put(bytes)
            }
        }
    }

    fn put(&mut self, bytes: Vec<u8>) -> Result<bool, Failure> {
        Ok(bytes.is_empty() || self.out.write(bytes)?)
    }

    /// Completes the output. A file then belongs to the user and the group `owner`, if given.
    pub(crate) fn close(mut self, owner: Option<(u32, u32)>) -> Result<(), Failure> {
        match self.format {
            Format::Table => {
                self.begin_table()?;
                let rows = format!("({})\n", count(self.rows, "row"));
                self.put(rows.into_bytes())?;
            }
            Format::Csv if !self.is_begun => {
                self.write(&RecordBatch::new_empty(Arc::clone(&self.schema)))?;
            }
            Format::Csv | Format::Json => {}
            Format::Parquet => {
                if let Some((writer, bytes)) = self.parquet.take() {
                    writer.close()?;
                    let bytes = bytes.take();
                    self.put(bytes)?;
                }
            }
        }
        self.out.close(owner)?;
        Ok(())
    }

    fn write_table(&mut self, batch: &RecordBatch) -> Result<bool, Failure> {
        if self.is_begun {
            let text = self.lines(&cells(batch)?);
            return self.put(text);
        }
        self.first.push(batch.clone());
        if self.rows >= WIDTH_ROWS { self.begin_table() } else { Ok(true) }
    }

    /// Writes the head of a table, and the rows that are kept.
    fn begin_table(&mut self) -> Result<bool, Failure> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(true);
        }
        let names = self.schema.fields().iter().map(|field| printable(field.name()).into_owned());
        let head: Vec<String> = names.collect();
        let batches = std::mem::take(&mut self.first);
        let rows = batches.iter().map(cells).collect::<Result<Vec<_>, _>>()?.concat();
        self.widths = head.iter().map(|name| name.width()).collect();
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let rule: Vec<String> = self.widths.iter().map(|width| "-".repeat(*width)).collect();
        let mut text = self.lines(&[head, rule]);
        text.extend(self.lines(&rows));
        self.put(text)
    }

    /// Returns rows as lines with columns of the known widths; numbers stand at the right.
    fn lines(&self, rows: &[Vec<String>]) -> Vec<u8> {
        let mut text = Vec::new();
        for row in rows {
            let mut line = String::new();
            let cells = row.iter().map(String::as_str);
            for ((cell, width), field) in cells.zip(&self.widths).zip(self.schema.fields()) {
                let space = " ".repeat(width.saturating_sub(cell.width()));
                let separator = if line.is_empty() { "" } else { "  " };
                line += separator;
                match field.data_type().is_numeric() {
                    true => line.extend([space.as_str(), cell]),
                    false => line.extend([cell, space.as_str()]),
                }
            }
            text.extend_from_slice(line.trim_end().as_bytes());
            text.push(b'\n');
        }
        text
    }
}

/// Returns the cells of a batch, row by row, in which all characters are printable.
fn cells(batch: &RecordBatch) -> Result<Vec<Vec<String>>, ArrowError> {
    let batch = flat(batch)?;
    let options = FormatOptions::new().with_null("");
    let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let cell =
        |column: &ArrayFormatter<'_>, row| Ok(printable(&column.value(row).try_to_string()?).into_owned());
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| cell(column, row)).collect()).collect()
}

/// Returns the batch with JSON in place of maps, lists and structs.
fn flat(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let mut fields: Vec<Field> = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if field.data_type().is_nested() {
            fields.push(Field::new(field.name(), DataType::Utf8, true));
            columns.push(Arc::new(json_cells(column)?));
        } else {
            fields.push(field.as_ref().clone());
            columns.push(Arc::clone(column));
        }
    }
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

/// Returns the values of a column as JSON.
fn json_cells(column: &ArrayRef) -> Result<StringArray, ArrowError> {
    let field = Field::new("v", column.data_type().clone(), true);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::clone(column)])?;
    let text = json(&batch)?;
    let text = String::from_utf8_lossy(&text);
    let value = |line: &str| line.strip_prefix("{\"v\":")?.strip_suffix('}').map(ToOwned::to_owned);
    Ok(text.lines().map(value).collect())
}

/// Returns the rows of a batch as JSON lines.
fn json(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut text = Vec::new();
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut text);
    writer.write(batch)?;
    writer.finish()?;
    drop(writer);
    Ok(text)
}

/// Bytes that a writer appends and another owner removes.
#[derive(Clone, Debug, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
