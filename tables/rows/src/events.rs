//! The columns of the table `events`, filled event by event.

use crate::fields::{FieldColumns, FieldKeys};
use crate::names::{Hours, NameColumn, NameForm};
use crate::schema::TableKind;
use arrow_array::builder::{Int32Builder, Int64Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringViewArray, UInt32Array};
use arrow_schema::{ArrowError, SchemaRef};
use sordino_event::{Class, Classes, Domain, Event};
use sordino_query::Facts;
use sordino_timeline::Moment;
use std::sync::Arc;

/// The name of a machine that the trace does not name.
pub(crate) const UNKNOWN_HOST: &str = "unknown";

/// The columns that are the same for all events of a class.
#[derive(Debug)]
pub(crate) struct ClassColumns {
    classes: Classes,
    host: ArrayRef,
    domain: ArrayRef,
    name: ArrayRef,
    level: ArrayRef,
    keys: Arc<FieldKeys>,
}

impl ClassColumns {
    /// Collects the columns of all classes.
    pub(crate) fn new(classes: &Classes, facts: &Facts) -> Self {
        let of = |text: &dyn Fn(sordino_event::ClassId, &Class) -> Option<String>| -> ArrayRef {
            Arc::new(classes.iter().map(|(id, class)| text(id, class)).collect::<StringViewArray>())
        };
        Self {
            classes: classes.clone(),
            host: of(&|id, _| Some(facts.host(id).unwrap_or(UNKNOWN_HOST).to_owned())),
            domain: of(&|_, class| Some(domain(class.domain).to_owned())),
            name: of(&|_, class| Some(class.name.clone())),
            level: of(&|_, class| class.level.map(|level| level.name().to_owned())),
            keys: Arc::new(FieldKeys::new(classes)),
        }
    }
}

fn domain(domain: Domain) -> &'static str {
    match domain {
        Domain::User => "user",
        Domain::Kernel => "kernel",
    }
}

/// The rows of a batch.
pub(crate) struct EventColumns {
    schema: SchemaRef,
    shared: Arc<ClassColumns>,
    columns: Vec<EventColumn>,
    form: NameForm,
    /// The class of each row.
    rows: Vec<u32>,
    /// The values of fields; `None` if no column has any.
    fields: Option<Box<FieldColumns>>,
}

enum EventColumn {
    Time(Int64Builder),
    Cpu(Int32Builder),
    Pid(Int32Builder),
    Tid(Int32Builder),
    Comm(NameColumn),
    Priority(Int32Builder),
    Fiber(UInt64Builder),
    FiberName(NameColumn),
    Hour(Hours),
    /// The index, in [`FieldColumns`], of the fields' values of one type.
    Fields(usize),
    /// A column whose value is the same for all events of a class.
    OfClass(ArrayRef),
    /// The name of the machine, which is that of a directory in Parquet: always as texts.
    Host(ArrayRef),
}

/// Returns true if the column needs neither the state of the machine nor the event's fields.
pub fn is_plain(column: &str) -> bool {
    matches!(column, "time_ns" | "domain" | "name" | "level" | "host" | "hour")
}

impl EventColumns {
    /// Creates a batch with the columns of the table that `projection` has the indexes of.
    pub(crate) fn new(
        shared: &Arc<ClassColumns>,
        projection: &[usize],
        form: NameForm,
    ) -> Result<Self, ArrowError> {
        let schema = Arc::new(TableKind::Events.schema_in(form).project(projection)?);
        let column = |name: &str| match name {
            "time_ns" => EventColumn::Time(Int64Builder::new()),
            "cpu" => EventColumn::Cpu(Int32Builder::new()),
            "pid" => EventColumn::Pid(Int32Builder::new()),
            "tid" => EventColumn::Tid(Int32Builder::new()),
            "comm" => EventColumn::Comm(NameColumn::default()),
            "priority" => EventColumn::Priority(Int32Builder::new()),
            "fiber" => EventColumn::Fiber(UInt64Builder::new()),
            "fiber_name" => EventColumn::FiberName(NameColumn::default()),
            "integers" => EventColumn::Fields(0),
            "reals" => EventColumn::Fields(1),
            "texts" => EventColumn::Fields(2),
            "domain" => EventColumn::OfClass(Arc::clone(&shared.domain)),
            "name" => EventColumn::OfClass(Arc::clone(&shared.name)),
            "level" => EventColumn::OfClass(Arc::clone(&shared.level)),
            "host" => EventColumn::Host(Arc::clone(&shared.host)),
            _ => EventColumn::Hour(Hours::default()),
        };
        let columns: Vec<EventColumn> = schema.fields().iter().map(|field| column(field.name())).collect();
        let has_fields = columns.iter().any(|column| matches!(column, EventColumn::Fields(_)));
        let fields = has_fields.then(|| Box::new(FieldColumns::new(&shared.keys, form)));
        Ok(Self { schema, shared: Arc::clone(shared), columns, form, rows: Vec::new(), fields })
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Appends an event. Columns that need the state of the machine are empty without `moment`.
    pub(crate) fn push(&mut self, event: &Event, moment: Option<&Moment<'_>>) -> Result<(), ArrowError> {
        self.rows.push(event.class.index() as u32);
        for column in &mut self.columns {
            column.push(event, moment);
        }
        if let Some(fields) = &mut self.fields {
            fields.push(event, &self.shared.classes[event.class], moment)?;
        }
        Ok(())
    }

    /// Returns the batch, and begins the next.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = UInt32Array::from(std::mem::take(&mut self.rows));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let mut fields = self.fields.as_mut().map(|fields| fields.finish()).transpose()?;
        let columns = self.columns.iter_mut().map(|column| match column {
            EventColumn::Fields(index) => {
                let column = fields.as_mut().and_then(|fields| fields[*index].take());
                column.ok_or_else(|| ArrowError::ComputeError("a column of fields twice".to_owned()))
            }
            column => column.finish(&rows, self.form),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

impl EventColumn {
    fn push(&mut self, event: &Event, moment: Option<&Moment<'_>>) {
        let fiber = || moment.and_then(Moment::fiber_id);
        match self {
            Self::Time(times) => times.append_value(event.time.0),
            Self::Cpu(cpus) => {
                let cpu = moment.map_or(event.cpu, |moment| moment.cpu);
                cpus.append_option(cpu.and_then(|cpu| i32::try_from(cpu.0).ok()));
            }
            Self::Pid(pids) => {
                pids.append_option(moment.map_or(event.pid, Moment::pid).map(|pid| pid.0));
            }
            Self::Tid(tids) => {
                tids.append_option(moment.map_or(event.tid, |moment| moment.tid).map(|tid| tid.0));
            }
            Self::Comm(names) => names.push(moment.and_then(Moment::comm)),
            Self::Priority(priorities) => {
                let priority = moment.and_then(Moment::priority);
                priorities.append_option(priority.map(|priority| priority.0));
            }
            Self::Fiber(fibers) => fibers.append_option(fiber().map(|fiber| fiber.number)),
            Self::FiberName(names) => names.push(fiber().zip(moment).and_then(|(fiber, moment)| {
                let fibers = moment.system.fibers();
                fibers.name(fiber).filter(|_| fibers.is_name_certain(fiber))
            })),
            Self::Hour(hours) => hours.push(event.time.0),
            Self::Fields(_) | Self::OfClass(_) | Self::Host(_) => {}
        }
    }

    fn finish(&mut self, rows: &UInt32Array, form: NameForm) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Time(times) => Arc::new(times.finish()),
            Self::Cpu(numbers) | Self::Pid(numbers) | Self::Tid(numbers) | Self::Priority(numbers) => {
                Arc::new(numbers.finish())
            }
            Self::Comm(names) | Self::FiberName(names) => names.finish(form)?,
            Self::Fiber(fibers) => Arc::new(fibers.finish()),
            Self::Hour(hours) => hours.finish()?,
            Self::OfClass(names) => form.column(names, rows.clone())?,
            Self::Host(names) => NameForm::Texts.column(names, rows.clone())?,
            Self::Fields(_) => {
                return Err(ArrowError::ComputeError("fields are finished together".to_owned()));
            }
        })
    }
}
