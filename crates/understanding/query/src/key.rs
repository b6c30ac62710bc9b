//! The keys by which spans are put into rows.

use crate::fiber_names::{named, unnamed};
use crate::span::Span;
use sordino_event::{ClassId, Classes, Pid, Tid, View};
use sordino_timeline::{FiberId, Host, Moment};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A key: the things that the rows of a table are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Per {
    /// A thread, by its id.
    Thread,
    /// A process, by its id.
    Process,
    /// All threads of one name.
    Comm,
    /// A CPU, by its number.
    Cpu,
    /// All threads of one priority.
    Priority,
    /// An event, by its name.
    Event,
    /// An interrupt, by its number or name.
    Irq,
    /// A softirq, by its name.
    Softirq,
    /// A system call, by its name.
    Syscall,
    /// A fiber, by its number in its process.
    Fiber,
    /// A machine, by its name.
    Host,
    /// The thread that another one waits for.
    Holder,
    /// The address of a lock.
    Address,
    /// A function, by its name.
    Function,
    /// A link of a path.
    Link,
    /// The value of the field of this name.
    Field(String),
}

/// A word that is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}': expected thread, process, comm, cpu, priority, event, irq, softirq, syscall, fiber, host, holder, address, function, link or field:NAME"
)]
pub struct PerError(String);

impl Per {
    /// Returns true if a value has another meaning on another host: an id, a number or an address.
    pub fn is_of_host(&self) -> bool {
        match self {
            Self::Thread | Self::Process | Self::Cpu | Self::Irq | Self::Fiber => true,
            Self::Holder | Self::Address | Self::Function => true,
            Self::Comm | Self::Priority | Self::Event | Self::Softirq | Self::Syscall => false,
            Self::Host | Self::Link | Self::Field(_) => false,
        }
    }
}

impl FromStr for Per {
    type Err = PerError;

    fn from_str(text: &str) -> Result<Self, PerError> {
        Ok(match text {
            "thread" => Self::Thread,
            "process" => Self::Process,
            "comm" => Self::Comm,
            "cpu" => Self::Cpu,
            "priority" => Self::Priority,
            "event" => Self::Event,
            "irq" => Self::Irq,
            "softirq" => Self::Softirq,
            "syscall" => Self::Syscall,
            "fiber" => Self::Fiber,
            "host" => Self::Host,
            "holder" => Self::Holder,
            "address" => Self::Address,
            "function" => Self::Function,
            "link" => Self::Link,
            _ => match text.split_once(':') {
                Some(("field", name)) if !name.is_empty() => Self::Field(name.to_owned()),
                _ => return Err(PerError(text.to_owned())),
            },
        })
    }
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "thread",
            Self::Process => "process",
            Self::Comm => "comm",
            Self::Cpu => "cpu",
            Self::Priority => "priority",
            Self::Event => "event",
            Self::Irq => "irq",
            Self::Softirq => "softirq",
            Self::Syscall => "syscall",
            Self::Fiber => "fiber",
            Self::Host => "host",
            Self::Holder => "holder",
            Self::Address => "address",
            Self::Function => "function",
            Self::Link => "link",
            Self::Field(name) => name,
        })
    }
}

/// The value of a key, by which rows are distinguished.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KeyValue {
    Unknown,
    Thread(Tid),
    Process(Pid),
    Fiber(FiberId),
    Host(Host),
    /// An address of a process, if it is known.
    Address(Option<Pid>, u64),
    Number(i64),
    Text(Arc<str>),
    Class(ClassId),
}

/// A key, prepared for the classes of a trace.
#[derive(Debug)]
pub(crate) struct PreparedKey {
    per: Per,
    /// The index of the field; indexed by class.
    fields: Vec<Option<usize>>,
    /// The first class of the same name, indexed by class: each trace has classes of its own.
    namesakes: Vec<ClassId>,
}

impl PreparedKey {
    pub(crate) fn new(per: &Per, classes: &Classes) -> Self {
        let fields = match per {
            Per::Field(name) => classes.iter().map(|(_, class)| class.field(name)).collect(),
            _ => Vec::new(),
        };
        let mut first = HashMap::new();
        let namesakes = match per {
            Per::Event => classes.iter().map(|(id, class)| *first.entry(&class.name).or_insert(id)).collect(),
            _ => Vec::new(),
        };
        Self { per: per.clone(), fields, namesakes }
    }

    /// Returns true if no event has the field.
    pub(crate) fn lacks_field(&self) -> bool {
        matches!(self.per, Per::Field(_)) && self.fields.iter().all(Option::is_none)
    }

    /// Returns true if the value comes from a field of this class's events.
    pub(crate) fn reads_field(&self, class: ClassId) -> bool {
        self.fields.get(class.index()).is_some_and(Option::is_some)
    }

    /// Returns the value for a span that ends with this event.
    pub(crate) fn value(&self, span: &Span, moment: &Moment<'_>) -> KeyValue {
        let system = moment.system;
        let value = || match self.per {
            Per::Thread => span.tid.map(KeyValue::Thread),
            Per::Process => match span.tid == moment.tid {
                true => moment.pid(),
                false => system.pid(span.tid?),
            }
            .map(KeyValue::Process),
            Per::Comm => comm(span, moment).map(KeyValue::Text),
            Per::Cpu => span.cpu.map(|cpu| KeyValue::Number(cpu.0.into())),
            Per::Priority => system.priority(span.tid?).map(|priority| KeyValue::Number(priority.0.into())),
            Per::Event => self.namesakes.get(moment.event.class.index()).copied().map(KeyValue::Class),
            Per::Fiber => match span.tid == moment.tid {
                true => span.fiber.or(moment.fiber_id()),
                false => span.fiber,
            }
            .map(KeyValue::Fiber),
            Per::Host => Some(KeyValue::Host(moment.host)),
            Per::Holder => span.other.map(KeyValue::Thread),
            Per::Address => span
                .address
                .map(|address| KeyValue::Address(span.tid.and_then(|tid| system.pid(tid)), address)),
            Per::Function => span.address.map(|address| KeyValue::Address(moment.pid(), address)),
            Per::Irq | Per::Softirq | Per::Syscall | Per::Link => span.name.clone().map(KeyValue::Text),
            Per::Field(_) => {
                let field = (*self.fields.get(moment.event.class.index())?)?;
                match moment.event.value(field)? {
                    View::Unsigned(value, _) => Some(KeyValue::Number(value.cast_signed())),
                    View::Signed(value, _) | View::Label(value, None) => Some(KeyValue::Number(value)),
                    View::Text(text) | View::Label(_, Some(text)) => {
                        Some(KeyValue::Text(String::from_utf8_lossy(text).into()))
                    }
                    View::Float(_) | View::List(_) | View::Group(_) => None,
                }
            }
        };
        value().unwrap_or(KeyValue::Unknown)
    }

    /// Returns the text of a value, given the event at which a span of its row was found last.
    pub(crate) fn label(
        &self,
        value: &KeyValue,
        span: &Span,
        moment: &Moment<'_>,
        classes: &[Arc<str>],
    ) -> Arc<str> {
        let with_id = |name: Option<Arc<str>>, id: i32| match name {
            Some(name) => format!("{name}/{id}").into(),
            None => id.to_string().into(),
        };
        match value {
            KeyValue::Unknown => "?".into(),
            KeyValue::Thread(tid) if self.per == Per::Holder => {
                with_id(moment.system.comm(*tid).cloned(), tid.0)
            }
            KeyValue::Thread(tid) => with_id(comm(span, moment), tid.0),
            KeyValue::Fiber(fiber) => {
                let fibers = moment.system.fibers();
                let name = fibers.name(*fiber).filter(|_| fibers.is_name_certain(*fiber));
                name.map_or_else(|| unnamed(*fiber), |name| named(name, *fiber))
            }
            KeyValue::Process(pid) => with_id(moment.system.program(*pid).cloned(), pid.0),
            KeyValue::Host(host) => host.0.to_string().into(),
            KeyValue::Address(_, address) => format!("{address:#x}").into(),
            KeyValue::Number(number) => match self.per {
                Per::Cpu => format!("cpu{number}").into(),
                Per::Priority => {
                    sordino_timeline::Priority(i32::try_from(*number).unwrap_or_default()).to_string().into()
                }
                _ => number.to_string().into(),
            },
            KeyValue::Text(text) => Arc::clone(text),
            KeyValue::Class(class) => classes.get(class.index()).cloned().unwrap_or_else(|| "?".into()),
        }
    }
}

fn comm(span: &Span, moment: &Moment<'_>) -> Option<Arc<str>> {
    if span.tid == moment.tid { moment.comm().cloned() } else { moment.system.comm(span.tid?).cloned() }
}
