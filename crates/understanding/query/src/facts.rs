//! Facts about recorded events that conditions use besides the events' own fields.

use sordino_event::text::count;
use sordino_event::{ClassId, Classes, Tid, Time};
use sordino_filter::condition::{FunctionNames, Known};
use sordino_timeline::Moment;
use std::ops::Range;
use std::sync::Arc;

/// The facts that hold for all events of a recording, or of one of its traces.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The names of the machines, each with the indexes of the classes of the trace that was recorded there.
    hosts: Vec<(Range<usize>, Arc<str>)>,
    /// The time from which `$time` counts, if it is known.
    begin: Option<Time>,
    /// The names of functions, if any program recorded some.
    functions: Option<Arc<dyn FunctionNames + Send + Sync>>,
}

impl Facts {
    /// Adds the machine on which a trace was recorded: the trace with the classes from `first` on.
    pub fn add_host(&mut self, first: usize, classes: &Classes, name: &str) {
        self.hosts.push((first..classes.iter().count(), name.into()));
    }

    /// Sets the time from which `$time` counts.
    pub fn begin_at(&mut self, begin: Time) {
        self.begin = Some(begin);
    }

    /// Sets the names of functions, for `$function`.
    pub fn name_functions(&mut self, names: Arc<dyn FunctionNames + Send + Sync>) {
        self.functions = Some(names);
    }

    /// Returns a message if the names of some functions are not known, so that conditions can't compare them.
    pub fn note_on_functions(&self) -> Option<String> {
        let unnamed = self.functions.as_ref().map_or(0, |names| names.unnamed() as u64);
        let functions = count(unnamed, "function");
        (unnamed > 0).then(|| {
            format!("{functions} without a name, with which $function compares nothing: the files are not there, or are of another build")
        })
    }

    /// Returns the same facts without the begin, for a part of a recording that does not contain it.
    pub fn without_begin(self) -> Self {
        Self { begin: None, ..self }
    }

    /// Returns the facts about an event of the thread `tid`. The event may belong to another thread: a switch also
    /// belongs to the thread that comes.
    pub fn known<'a>(&'a self, moment: &'a Moment<'_>, tid: Option<Tid>) -> Known<'a> {
        let system = moment.system;
        let is_own = tid == moment.tid;
        let pid = if is_own { moment.pid() } else { tid.and_then(|tid| system.pid(tid)) };
        let comm = if is_own { moment.comm() } else { tid.and_then(|tid| system.comm(tid)) };
        let fibers = system.fibers();
        let fiber = moment.fiber_id().filter(|_| is_own);
        let name = |fiber| fibers.name(fiber).filter(|_| fibers.is_name_certain(fiber)).map(|name| &**name);
        let context = moment.context().filter(|_| is_own);
        Known {
            cpu: moment.cpu,
            pid,
            tid,
            comm: comm.map(|comm| &**comm),
            procname: pid.and_then(|pid| system.program(pid)).map(|name| &**name),
            priority: tid.and_then(|tid| system.priority(tid)).map(|priority| priority.0),
            host: self.host(moment.event.class),
            domain: Some(moment.domain),
            time: self.begin.map(|begin| moment.event.time - begin),
            fiber: fiber.map(|fiber| (fiber.number, name(fiber))),
            annotations: context.map(|context| &context.annotations),
            counters: context.map_or(&[], |context| &context.counters),
            functions: self.functions.as_deref().map(|names| names as &dyn FunctionNames),
        }
    }

    /// Returns the name of the machine on which events of this class were recorded.
    pub fn host(&self, class: ClassId) -> Option<&str> {
        self.hosts.iter().find(|(classes, _)| classes.contains(&class.index())).map(|(_, name)| &**name)
    }
}
