//! The Python package's native part: a recording, and its tables as streams of Arrow's C data interface.
//!
//! | module | contents |
//! |---|---|
//! | `options` | the options of `sordino events` that select events and a time |
//! | `stream` | a pass over the recording as a stream of batches |

mod options;
mod stream;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use sordino_event::text::with_causes;
use sordino_tables::{RecordingSource, TableKind};
use std::path::PathBuf;
use std::sync::Arc;
use stream::Rows;

create_exception!(
    sordino,
    Error,
    PyException,
    "A recording that can't be read, or an option that is invalid; the text has the remedy."
);

/// An open recording: what `sordino.open` returns.
#[pyclass(module = "sordino", name = "Recording", frozen)]
struct PyRecording {
    source: Arc<RecordingSource>,
    is_partial: bool,
}

#[pymethods]
impl PyRecording {
    /// Opens a recording; `sordino.open` has the meaning of the arguments.
    #[new]
    fn new(py: Python<'_>, path: Option<PathBuf>, words: Vec<String>, is_partial: bool) -> PyResult<Self> {
        let source = py.detach(|| options::open(path.as_deref(), words)).map_err(Error::new_err)?;
        Ok(Self { source: Arc::new(source), is_partial })
    }

    /// The table of this name: "events", "intervals", "latencies" or "losses"; with `columns`, these alone, in this
    /// order. Nothing is read before a library requests the rows of the table.
    ///
    /// >>> latencies = recording.table("latencies", columns=["comm", "length_ns"])
    /// >>> pyarrow.table(latencies).column_names
    /// ['comm', 'length_ns']
    #[pyo3(signature = (name, columns=None))]
    fn table(&self, name: &str, columns: Option<Vec<String>>) -> PyResult<PyTable> {
        let known = || TableKind::ALL.map(TableKind::name).join(", ");
        let table = TableKind::ALL.into_iter().find(|table| table.name() == name);
        let table = table.ok_or_else(|| {
            PyValueError::new_err(format!("a recording has no table '{name}': it has {}", known()))
        })?;
        let schema = table.schema();
        let index = |column: &String| {
            schema.index_of(column).map_err(|_| {
                let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                let known = known.join(", ");
                PyValueError::new_err(format!("the table {name} has no column '{column}': it has {known}"))
            })
        };
        let projection = match columns {
            Some(columns) => columns.iter().map(index).collect::<PyResult<Vec<_>>>()?,
            None => (0..schema.fields().len()).collect(),
        };
        if let Some(twice) =
            projection.iter().enumerate().find(|(at, index)| projection[..*at].contains(index))
        {
            let column = schema.field(*twice.1).name();
            return Err(PyValueError::new_err(format!("the column '{column}' is there twice: name it once")));
        }
        Ok(PyTable { source: Arc::clone(&self.source), table, projection, is_partial: self.is_partial })
    }

    /// The first and the last time of the recording, in nanoseconds since 1970.
    ///
    /// >>> first, last = recording.span_ns
    /// >>> first < last
    /// True
    #[getter]
    fn span_ns(&self) -> (i64, i64) {
        let (first, last) = self.source.span();
        (first.0, last.0)
    }

    /// The name of the traced machine, "unknown" if the trace lacks it.
    #[getter]
    fn host(&self) -> &str {
        self.source.host()
    }

    /// The reasons why parts of the recording can't be read, as far as they have been read.
    ///
    /// >>> recording.problems
    /// []
    #[getter]
    fn problems(&self) -> Vec<String> {
        self.source.findings().0
    }

    /// The number of places where records are missing, and the least number of these records, in the parts that have
    /// been read.
    ///
    /// >>> recording.lost
    /// (0, 0)
    #[getter]
    fn lost(&self) -> (u64, u64) {
        self.source.findings().1.unwrap_or_default()
    }

    fn __repr__(&self) -> String {
        format!("<sordino.Recording of {:?}>", self.source.path())
    }
}

/// A table of a recording: libraries that know Arrow's PyCapsule interface read it, each time in a new pass, batch by
/// batch, without a copy of the columns.
///
/// >>> pyarrow.table(recording.table("events")).num_rows > 0
/// True
/// >>> reader = pyarrow.RecordBatchReader.from_stream(recording.table("events"))
/// >>> sum(batch.num_rows for batch in reader) > 0
/// True
#[pyclass(module = "sordino", name = "Table", frozen)]
struct PyTable {
    source: Arc<RecordingSource>,
    table: TableKind,
    projection: Vec<usize>,
    is_partial: bool,
}

#[pymethods]
impl PyTable {
    /// Begins a pass over the recording, as a stream of Arrow's C interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer keep its own schema; the consumer converts.
        drop(requested_schema);
        let rows =
            Rows::begin(Arc::clone(&self.source), self.table, self.projection.clone(), self.is_partial);
        let rows = rows.map_err(|error| Error::new_err(with_causes(&error)))?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(rows)), c"arrow_array_stream")
    }

    /// Returns the columns, as a schema of Arrow's C interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = self.table.schema().project(&self.projection);
        let schema = schema.and_then(FFI_ArrowSchema::try_from);
        let schema = schema.map_err(|error| Error::new_err(with_causes(&error)))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The names of the columns.
    ///
    /// >>> recording.table("losses").columns
    /// ['from_ns', 'to_ns', 'cpu', 'pid', 'count', 'cause', 'place', 'host', 'hour']
    #[getter]
    fn columns(&self) -> Vec<String> {
        let schema = self.table.schema();
        self.projection.iter().map(|index| schema.field(*index).name().clone()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<sordino.Table {} of {:?}>", self.table.name(), self.source.path())
    }
}

#[pymodule]
fn _sordino(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<PyRecording>()?;
    module.add_class::<PyTable>()
}
