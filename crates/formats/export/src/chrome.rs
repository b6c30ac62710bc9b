//! Chrome's trace event format: JSON that chrome://tracing, Perfetto and speedscope read.
//!
//! Times are microseconds since the recording began, with three decimals: since the epoch they would not fit the
//! numbers of JavaScript.

use crate::calls::{Call, CallTracker};
use crate::lines::object;
use crate::runs::{CpuActivity, CpuSpan, CpuSpans};
use crate::{Exporter, Origin};
use sordino_event::{Classes, Domain, Pid, Tid, Time};
use sordino_query::NameAddress;
use sordino_report::{json_place, json_text};
use sordino_timeline::{Item, Moment, System};
use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::sync::Arc;

/// The process whose threads are the CPUs: CPU n is thread `CPUS` + n, its interrupts `INTERRUPTS` + n. The numbers lie
/// above those that Linux gives to processes, which end at 2^22.
const CPUS: u64 = 5_000_000;
const INTERRUPTS: u64 = 6_000_000;

/// A writer of Chrome's format.
#[derive(Debug)]
pub struct Chrome {
    origin: Origin,
    classes: Classes,
    spans: CpuSpans,
    functions: CallTracker,
    /// The names of threads and processes that were written.
    threads: HashMap<(Option<Pid>, Tid), Option<Arc<str>>>,
    /// The threads that stand for CPUs and were named.
    cpus: HashSet<u64>,
    is_first: bool,
}

impl Chrome {
    /// Creates a writer of events of `classes`.
    pub fn new(classes: &Classes, origin: Origin) -> Self {
        let (threads, cpus) = (HashMap::new(), HashSet::new());
        let (spans, functions) = (CpuSpans::default(), CallTracker::new(classes));
        Self { origin, classes: classes.clone(), spans, functions, threads, cpus, is_first: true }
    }

    fn moment(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>) {
        if let Some(span) = self.spans.take(moment) {
            self.span(&span, moment.system, out);
        }
        let (pid, tid) = match (moment.domain, moment.cpu) {
            (Domain::Kernel, Some(cpu)) => (CPUS, self.cpu(CPUS, cpu.0, out)),
            (Domain::Kernel, None) => (CPUS, CPUS - 1),
            (Domain::User, _) => self.thread(moment, out),
        };
        let class = &self.classes[moment.event.class];
        separate(&mut self.is_first, out);
        out.extend_from_slice(b"{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"");
        out.extend_from_slice(if moment.domain == Domain::User { b"user" } else { b"kernel" });
        out.extend_from_slice(b"\",\"name\":");
        json_text(class.name.as_bytes(), out);
        place(pid, tid, out);
        time(",\"ts\":", moment.event.time.0.saturating_sub(self.origin.begin.0), out);
        out.extend_from_slice(b",\"args\":");
        let function = self.functions.name(moment, &self.classes);
        object(moment, class, function.as_deref(), out);
        out.push(b'}');
    }

    /// Writes the call of a function: a span of its thread, or one that begins and ends in its fiber, on any thread.
    fn call(&mut self, call: &Call, out: &mut Vec<u8>) {
        let (pid, tid) = (u64::from(call.pid.0.cast_unsigned()), u64::from(call.tid.0.cast_unsigned()));
        let begin = call.begin.0.saturating_sub(self.origin.begin.0);
        let length = call.end.0.saturating_sub(call.begin.0);
        let phases = match call.fiber {
            None => &[("X", begin)][..],
            Some(_) => &[("b", begin), ("e", begin + length)],
        };
        for (phase, at) in phases {
            separate(&mut self.is_first, out);
            put(out, format_args!("{{\"ph\":\"{phase}\",\"cat\":\"function\",\"name\":"));
            json_text(call.name.as_bytes(), out);
            place(pid, tid, out);
            time(",\"ts\":", *at, out);
            match call.fiber {
                None => time(",\"dur\":", length, out),
                Some(fiber) => put(out, format_args!(",\"id\":\"fiber {} of {pid}\"", fiber.number)),
            }
            out.extend_from_slice(b",\"args\":{}}");
        }
    }

    fn span(&mut self, span: &CpuSpan, system: &System, out: &mut Vec<u8>) {
        let (first, category) = match span.kind {
            CpuActivity::Run(Tid(0), _) => return,
            CpuActivity::Run(..) => (CPUS, "sched"),
            CpuActivity::Interrupt(_) => (INTERRUPTS, "irq"),
        };
        let tid = self.cpu(first, span.cpu.0, out);
        separate(&mut self.is_first, out);
        put(out, format_args!("{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":"));
        let args = match &span.kind {
            CpuActivity::Run(tid, state) => {
                json_text(system.comm(*tid).map_or("?", |comm| comm).as_bytes(), out);
                format!("{{\"tid\":{},\"state\":\"{}\"}}", tid.0, state.letter())
            }
            CpuActivity::Interrupt(name) => {
                json_text(name.as_bytes(), out);
                "{}".to_owned()
            }
        };
        place(CPUS, tid, out);
        time(",\"ts\":", span.begin.0.saturating_sub(self.origin.begin.0), out);
        time(",\"dur\":", span.end.0.saturating_sub(span.begin.0), out);
        put(out, format_args!(",\"args\":{args}}}"));
    }

    /// Returns the thread that stands for a CPU. Names it if it is new.
    fn cpu(&mut self, first: u64, cpu: u32, out: &mut Vec<u8>) -> u64 {
        let thread = first + u64::from(cpu);
        if self.cpus.insert(thread) {
            let name = if first == CPUS { format!("cpu{cpu}") } else { format!("cpu{cpu} interrupts") };
            name_of("thread_name", CPUS, thread, &name, &mut self.is_first, out);
        }
        thread
    }

    /// Returns the ids of an event's process and thread, and names those that are new or have another name.
    fn thread(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>) -> (u64, u64) {
        let number = |id: i32| u64::from(id.cast_unsigned());
        let (pid, tid) = (moment.pid(), moment.tid.unwrap_or(Tid(0)));
        let ids = (pid.map_or(0, |pid| number(pid.0)), number(tid.0));
        let comm = moment.comm();
        let known = self.threads.get(&(pid, tid));
        if known.is_none_or(|known| known.as_ref() != comm) {
            self.threads.insert((pid, tid), comm.cloned());
            let (name, program) = (comm.map_or("?", |comm| comm), moment.program().map_or("?", |name| name));
            name_of("process_name", ids.0, ids.1, program, &mut self.is_first, out);
            name_of("thread_name", ids.0, ids.1, name, &mut self.is_first, out);
        }
        ids
    }

    /// Writes an instant that concerns all threads, with these arguments.
    fn global(&mut self, name: &str, at: Time, args: &[u8], out: &mut Vec<u8>) {
        separate(&mut self.is_first, out);
        put(out, format_args!("{{\"ph\":\"i\",\"s\":\"g\",\"cat\":\"loss\",\"name\":\"{name}\""));
        place(CPUS, CPUS - 1, out);
        time(",\"ts\":", at.0.saturating_sub(self.origin.begin.0), out);
        out.extend_from_slice(b",\"args\":");
        out.extend_from_slice(args);
        out.push(b'}');
    }
}

impl Exporter for Chrome {
    fn begin(&mut self, out: &mut Vec<u8>) {
        let begin = self.origin.begin.0;
        put(
            out,
            format_args!(
                "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"begin_ns\":\"{begin}\"}},\"traceEvents\":["
            ),
        );
        name_of("process_name", CPUS, CPUS - 1, "CPUs", &mut self.is_first, out);
        name_of("thread_name", CPUS, CPUS - 1, "no CPU", &mut self.is_first, out);
    }

    fn take(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        if let Some(call) = self.functions.take(item) {
            self.call(&call, out);
        }
        match item {
            Item::Event(moment) => self.moment(moment, out),
            Item::Loss(loss, _) => {
                self.spans.lose(loss);
                let or_null = |number: Option<i128>| number.map_or("null".to_owned(), |it| it.to_string());
                let mut args = format!(
                    "{{\"cause\":\"{}\",\"count\":{},\"cpu\":{},\"pid\":{},\"to_ns\":{}",
                    loss.cause,
                    or_null(loss.count.map(Into::into)),
                    or_null(loss.cpu.map(|cpu| cpu.0.into())),
                    or_null(loss.pid.map(|pid| pid.0.into())),
                    loss.to.0
                )
                .into_bytes();
                json_place(loss, &mut args);
                args.push(b'}');
                self.global("lost records", loss.from, &args, out);
            }
            Item::Disorder(disorder) => {
                let args = format!("{{\"source\":{},\"back_ns\":{}}}", disorder.source, disorder.back.0);
                self.global("time went back", disorder.at, args.as_bytes(), out);
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\n]}\n");
    }

    fn name_functions(&mut self, names: NameAddress) {
        self.functions.set_names(names);
    }
}

fn name_of(what: &str, pid: u64, tid: u64, name: &str, is_first: &mut bool, out: &mut Vec<u8>) {
    separate(is_first, out);
    put(out, format_args!("{{\"ph\":\"M\",\"name\":\"{what}\""));
    place(pid, tid, out);
    out.extend_from_slice(b",\"args\":{\"name\":");
    json_text(name.as_bytes(), out);
    out.extend_from_slice(b"}}");
}

fn separate(is_first: &mut bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if std::mem::replace(is_first, false) { b"\n" } else { b",\n" });
}

fn place(pid: u64, tid: u64, out: &mut Vec<u8>) {
    put(out, format_args!(",\"pid\":{pid},\"tid\":{tid}"));
}

/// Appends nanoseconds as microseconds with three decimals.
fn time(name: &str, nanos: i64, out: &mut Vec<u8>) {
    let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    put(out, format_args!("{name}{sign}{}.{:03}", nanos / 1000, nanos % 1000));
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector does not fail.
    let _ = out.write_fmt(text);
}
