//! The facts about recorded events that conditions use besides fields.

use sordino_event::{Cpu, Domain, Nanos, Pid, Tid};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// The names of functions, by their addresses in processes.
pub trait FunctionNames: Debug {
    /// Returns the name of the function at this address of a process, as its source has it; `None` if it is not known.
    fn name(&self, pid: Pid, address: u64) -> Option<Arc<str>>;

    /// Returns the number of functions so far whose names are not known.
    fn unnamed(&self) -> usize;
}

/// The facts about a decoded event besides its class and its fields.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// The value of `$cpu`.
    pub cpu: Option<Cpu>,
    /// The value of `$pid`.
    pub pid: Option<Pid>,
    /// The value of `$tid`.
    pub tid: Option<Tid>,
    /// The value of `$comm`, the thread's name.
    pub comm: Option<&'a str>,
    /// The value of `$procname`, the program's name.
    pub procname: Option<&'a str>,
    /// The value of `$prio`: the thread's priority in the kernel's numbering.
    pub priority: Option<i32>,
    /// The value of `$host`, the name of the machine.
    pub host: Option<&'a str>,
    /// The value of `$domain`: the origin of the event.
    pub domain: Option<Domain>,
    /// The value of `$time`: the time since the recording began.
    pub time: Option<Nanos>,
    /// The value of `$fiber`: the number of the thread's fiber, and its name if that is known.
    pub fiber: Option<(u64, Option<&'a str>)>,
    /// The annotations of the thread, by name.
    pub annotations: Option<&'a BTreeMap<Arc<str>, Arc<str>>>,
    /// The performance counters at the event, with their names.
    pub counters: &'a [(Arc<str>, u64)],
    /// The names of functions, for the value of `$function` at their entries and exits.
    pub functions: Option<&'a dyn FunctionNames>,
}

impl Known<'_> {
    /// No fact: what a condition can use before an event is decoded.
    pub const NOTHING: Self = Known {
        cpu: None,
        pid: None,
        tid: None,
        comm: None,
        procname: None,
        priority: None,
        host: None,
        domain: None,
        time: None,
        fiber: None,
        annotations: None,
        counters: &[],
        functions: None,
    };
}
