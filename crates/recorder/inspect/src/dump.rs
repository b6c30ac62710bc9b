//! The state dump: the machine's state at the start of the recording, which gives names to the threads and interrupts
//! of the trace.
//!
//! Processes and interrupts are written as LTTng's kernel tracer does (`lttng_statedump_process_state`,
//! `lttng_statedump_interrupt`), so that tools for its traces understand them. Data that LTTng does not have
//! (priorities, mappings with build ids, topology, clocks) is written as `sordino_statedump_*`.

mod build_id;
mod devices;
mod filesystems;
mod left_out;
mod of_process;
mod open;
mod process;
mod share;
mod walk;

pub use of_process::{ExecutableMapping, mapped_files};

use crate::context::{Attribute, Observation};
use crate::interrupted::InterruptedTime;
use crate::steal::StolenTime;
use crate::threads::OwnThread;
use process::{CodeMapping, ProcThread};
use rustix::param::clock_ticks_per_second;
use sordino_clock::Sample;
use sordino_ctf::write::{
    Argument, StreamClass, StreamWriter, encode, event_class, kernel_header, stream_class,
};
use sordino_ctf::{Error, Uuid};
use sordino_event::{Cpu, Ticks};
use sordino_event::{Field, Integer, Level, Scalar, Schema, Type, Width};
use sordino_proc::file;
use sordino_proc::machine::{CpuInfo, InterruptCounts, interrupts};
use std::fs;
use std::io::Write;
use walk::{Walked, walk};

/// The machine's state, read once.
#[derive(Debug)]
pub struct Dump {
    threads: Vec<ProcThread>,
    mappings: Vec<CodeMapping>,
    interrupts: Vec<InterruptLine>,
    cpus: Vec<Topology>,
    clock: Sample,
    /// The recording's notes on missing parts.
    pub notes: Vec<String>,
}

/// A numbered line of `/proc/interrupts`.
#[derive(Debug, PartialEq, Eq)]
struct InterruptLine {
    irq: u32,
    name: String,
    action: String,
}

/// A CPU's position in the machine's topology; -1 where unknown.
#[derive(Debug, PartialEq, Eq)]
struct Topology {
    cpu: Cpu,
    package: i32,
    core: i32,
    node: i32,
    model: String,
}

impl Dump {
    /// Reads `/proc` and `/sys`, for one second, or up to four where the CPU is lacking. Files that cannot be read, for
    /// lack of rights or because they are gone, are left out silently. `notes` lists those left out for their size or
    /// because they did not answer.
    pub fn take(clock: Sample) -> Self {
        let Walked { threads, mappings, notes } = walk();
        let interrupts = file::text("/proc/interrupts").unwrap_or_default();
        let cpuinfo = CpuInfo::read().unwrap_or_default();
        Self {
            threads,
            mappings,
            interrupts: interrupts_of(&interrupts),
            cpus: topology(&cpuinfo),
            clock,
            notes,
        }
    }

    /// Returns the metadata of the dump's stream.
    pub fn metadata() -> Result<String, Error> {
        let mut text = stream_class(StreamClass::StateDump);
        for (id, schema) in (0..).zip(schemas()) {
            text += &event_class(StreamClass::StateDump, id, &schema.name, &schema)?;
        }
        Ok(text)
    }

    /// Writes the dump's stream, with the timestamp `ticks` for all events.
    pub fn write(&self, out: impl Write, uuid: Uuid, ticks: Ticks) -> Result<(), Error> {
        let stream = StreamWriter::new(out, uuid, StreamClass::StateDump, None, 1 << 20)?;
        let mut writer = DumpWriter { stream, schemas: schemas(), ticks, payload: Vec::new() };
        writer.event("lttng_statedump_start", 0, &[])?;
        let clock = [
            self.clock.cycles,
            self.clock.width,
            self.clock.monotonic,
            self.clock.monotonic_raw,
            self.clock.realtime,
            self.clock.boottime,
            clock_ticks_per_second(),
        ];
        writer.event("sordino_statedump_clock", 0, &clock.map(Argument::from))?;
        for cpu in &self.cpus {
            writer.event("sordino_statedump_cpu", 0, &cpu.arguments())?;
        }
        for interrupt in &self.interrupts {
            writer.event("lttng_statedump_interrupt", 0, &interrupt.arguments())?;
        }
        for thread in &self.threads {
            writer.event("lttng_statedump_process_state", thread.tid, &thread.arguments())?;
        }
        for mapping in &self.mappings {
            writer.event("sordino_statedump_mapping", mapping.mapped.pid, &mapping.arguments())?;
        }
        writer.event("lttng_statedump_end", 0, &[])?;
        writer.stream.finish().map(drop)
    }
}

/// Writes a stream of the time taken by the hypervisor.
pub fn write_stolen(stolen: &[StolenTime], out: impl Write, uuid: Uuid) -> Result<(), Error> {
    let stream = StreamWriter::new(out, uuid, StreamClass::StateDump, None, 1 << 16)?;
    let mut writer = DumpWriter { stream, schemas: schemas(), ticks: Ticks(0), payload: Vec::new() };
    for &StolenTime { at, cpu, time_ns, window_ns } in stolen {
        writer.ticks = at;
        writer.event("sordino_steal", 0, &[cpu.0.into(), time_ns.into(), window_ns.into()])?;
    }
    writer.stream.finish().map(drop)
}

/// Writes a stream of gaps that interrupts made in the recorder's own loop; a tick lasts `tick_ns` nanoseconds.
pub fn write_gaps(gaps: &[InterruptedTime], tick_ns: f64, out: impl Write, uuid: Uuid) -> Result<(), Error> {
    let stream = StreamWriter::new(out, uuid, StreamClass::StateDump, None, 1 << 16)?;
    let mut writer = DumpWriter { stream, schemas: schemas(), ticks: Ticks(0), payload: Vec::new() };
    for &InterruptedTime { at, cpu, ticks } in gaps {
        writer.ticks = at;
        let time_ns = (ticks as f64 * tick_ns) as u64;
        writer.event("sordino_statedump_interrupted", 0, &[cpu.0.into(), time_ns.into()])?;
    }
    writer.stream.finish().map(drop)
}

/// Writes a stream of names of kernel functions, timestamped `ticks`.
pub fn write_symbols(
    names: &[(u64, String)],
    out: impl Write,
    uuid: Uuid,
    ticks: Ticks,
) -> Result<(), Error> {
    let stream = StreamWriter::new(out, uuid, StreamClass::StateDump, None, 1 << 16)?;
    let mut writer = DumpWriter { stream, schemas: schemas(), ticks, payload: Vec::new() };
    for (address, name) in names {
        writer.event("sordino_statedump_symbol", 0, &[(*address).into(), name.as_str().into()])?;
    }
    writer.stream.finish().map(drop)
}

/// Writes a stream of names of the recorder's own threads, timestamped `ticks`.
pub fn write_recorder(own: &[OwnThread], out: impl Write, uuid: Uuid, ticks: Ticks) -> Result<(), Error> {
    let stream = StreamWriter::new(out, uuid, StreamClass::StateDump, None, 1 << 16)?;
    let mut writer = DumpWriter { stream, schemas: schemas(), ticks, payload: Vec::new() };
    for OwnThread { tid, name, .. } in own {
        writer.event("sordino_statedump_recorder", *tid, &[(*tid).into(), name.as_str().into()])?;
    }
    writer.stream.finish().map(drop)
}

/// Writes a stream of observed attributes of threads. Those from before `begin` get the timestamp `begin`.
pub fn write_contexts(
    observations: &[Observation],
    out: impl Write,
    uuid: Uuid,
    begin: Ticks,
) -> Result<(), Error> {
    let stream = StreamWriter::new(out, uuid, StreamClass::StateDump, None, 1 << 16)?;
    let mut writer = DumpWriter { stream, schemas: schemas(), ticks: Ticks(0), payload: Vec::new() };
    let mut observations: Vec<_> = observations.iter().collect();
    observations.sort_by_key(|observation| observation.at);
    for Observation { at, thread, attribute } in observations {
        writer.ticks = begin.max(*at);
        let (name, values) = context(attribute);
        let ids = [thread.pid, thread.tid, thread.vtid].map(Argument::from);
        let arguments: Vec<_> = ids.into_iter().chain(values).collect();
        writer.event(name, thread.tid, &arguments)?;
    }
    writer.stream.finish().map(drop)
}

/// Returns the name of an attribute's event, and the fields after the thread's ids.
fn context(attribute: &Attribute) -> (&'static str, Vec<Argument<'_>>) {
    match attribute {
        Attribute::Ids { vpid } => ("sordino_context_ids", vec![(*vpid).into()]),
        Attribute::Comm(comm) => ("sordino_context_comm", vec![comm.as_str().into()]),
        Attribute::Priority { policy, priority, nice } => {
            ("sordino_context_priority", vec![(*policy).into(), (*priority).into(), (*nice).into()])
        }
        Attribute::Cgroup(path) => ("sordino_context_cgroup", vec![path.as_str().into()]),
        Attribute::Annotation { name, text } => {
            ("sordino_context_value", vec![name.as_str().into(), text.as_str().into()])
        }
        Attribute::End => ("sordino_context_end", Vec::new()),
    }
}

struct DumpWriter<W> {
    stream: StreamWriter<W>,
    schemas: Vec<Schema>,
    ticks: Ticks,
    payload: Vec<u8>,
}

impl<W: Write> DumpWriter<W> {
    fn event(&mut self, name: &str, tid: i32, values: &[Argument<'_>]) -> Result<(), Error> {
        let known = (0u16..).zip(&self.schemas).find(|(_, schema)| schema.name == name);
        let Some((id, schema)) = known else { return Ok(()) };
        self.payload.clear();
        encode(schema, values, &mut self.payload)?;
        self.stream.append(self.ticks, kernel_header(id, 0, 0), &tid.to_ne_bytes(), &self.payload)
    }
}

/// Returns the dump's events, in the order of their ids.
fn schemas() -> Vec<Schema> {
    let integer = |width, signed| Type::Scalar(Scalar::Integer(Integer::new(width, signed)));
    let hexadecimal = Type::Scalar(Scalar::Integer(Integer::new(Width::W64, false).hexadecimal()));
    let (i32_, u32_, u64_) =
        (integer(Width::W32, true), integer(Width::W32, false), integer(Width::W64, false));
    let text = Type::String;
    let of_thread = |more: &[(&'static str, _)]| {
        let ids = ["pid", "tid", "vtid"].map(|name| (name, &i32_));
        ids.into_iter().chain(more.iter().copied()).collect()
    };
    let events: [(&str, Vec<(&str, &Type)>); 17] = [
        ("lttng_statedump_start", Vec::new()),
        (
            "sordino_statedump_clock",
            ["cycles", "width", "monotonic", "monotonic_raw", "realtime", "boottime", "jiffies_per_second"]
                .map(|name| (name, &u64_))
                .to_vec(),
        ),
        (
            "sordino_statedump_cpu",
            vec![("cpu", &u32_), ("package", &i32_), ("core", &i32_), ("node", &i32_), ("model", &text)],
        ),
        ("lttng_statedump_interrupt", vec![("irq", &u32_), ("name", &text), ("action", &text)]),
        (
            "lttng_statedump_process_state",
            ["tid", "vtid", "pid", "vpid", "ppid", "vppid"]
                .map(|name| (name, &i32_))
                .into_iter()
                .chain([("name", &text)])
                .chain(["type", "mode", "submode", "status"].map(|name| (name, &i32_)))
                .chain([("ns_level", &u32_), ("cpu", &u32_), ("prio", &i32_), ("policy", &u32_)])
                .collect(),
        ),
        (
            "sordino_statedump_mapping",
            vec![
                ("pid", &i32_),
                ("start", &hexadecimal),
                ("end", &hexadecimal),
                ("offset", &hexadecimal),
                ("path", &text),
                ("build_id", &text),
            ],
        ),
        ("lttng_statedump_end", Vec::new()),
        ("sordino_steal", vec![("cpu", &u32_), ("time_ns", &u64_), ("window_ns", &u64_)]),
        ("sordino_statedump_symbol", vec![("address", &hexadecimal), ("name", &text)]),
        ("sordino_context_ids", of_thread(&[("vpid", &i32_)])),
        ("sordino_context_comm", of_thread(&[("comm", &text)])),
        ("sordino_context_priority", of_thread(&[("policy", &u32_), ("priority", &u32_), ("nice", &i32_)])),
        ("sordino_context_cgroup", of_thread(&[("path", &text)])),
        ("sordino_context_value", of_thread(&[("name", &text), ("value", &text)])),
        ("sordino_context_end", of_thread(&[])),
        ("sordino_statedump_recorder", vec![("tid", &i32_), ("name", &text)]),
        ("sordino_statedump_interrupted", vec![("cpu", &u32_), ("time_ns", &u64_)]),
    ];
    let schema = |(name, fields): (&str, Vec<(&str, &Type)>)| Schema {
        provider: "statedump".to_owned(),
        name: name.to_owned(),
        level: Level::Info,
        location: None,
        fields: fields
            .into_iter()
            .map(|(name, ty)| Field { name: name.to_owned(), ty: ty.clone() })
            .collect(),
    };
    events.map(schema).to_vec()
}

impl InterruptLine {
    fn arguments(&self) -> [Argument<'_>; 3] {
        [self.irq.into(), self.name.as_str().into(), self.action.as_str().into()]
    }
}

impl Topology {
    fn arguments(&self) -> [Argument<'_>; 5] {
        [
            self.cpu.0.into(),
            self.package.into(),
            self.core.into(),
            self.node.into(),
            self.model.as_str().into(),
        ]
    }
}

/// Parses the numbered lines of `/proc/interrupts`: a count for each CPU, then the chip with its pin, then the handler.
fn interrupts_of(text: &str) -> Vec<InterruptLine> {
    interrupts(text)
        .filter_map(|InterruptCounts { label, description, .. }| {
            let (name, rest) = description.split_first().unwrap_or((&"", &[]));
            let action = rest.last().copied().unwrap_or_default();
            Some(InterruptLine {
                irq: label.parse().ok()?,
                name: (*name).to_owned(),
                action: action.to_owned(),
            })
        })
        .collect()
}

fn topology(cpuinfo: &CpuInfo) -> Vec<Topology> {
    cpuinfo
        .entries()
        .filter_map(|entry| {
            let number = |name: &str| entry.field(name).and_then(|value| value.parse().ok()).unwrap_or(-1);
            let cpu = Cpu(entry.cpu()?);
            Some(Topology {
                cpu,
                package: number("physical id"),
                core: number("core id"),
                node: node(cpu),
                model: entry.field("model name").unwrap_or_default().to_owned(),
            })
        })
        .collect()
}

/// Returns a CPU's memory node, to which its sysfs directory has a link; -1 if unknown.
fn node(cpu: Cpu) -> i32 {
    let entries = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next().unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_read_as_proc_writes_them() {
        let text = "           CPU0       CPU1\n  0:          9          0   IO-APIC   2-edge      timer\n\
                    24:   1   2   PCI-MSIX-0000:00:01.0   0-edge      virtio0-config\nNMI:  0  0  Non-maskable interrupts\n";
        let [timer, virtio] = &interrupts_of(text)[..] else { panic!("not two") };
        assert_eq!((timer.irq, timer.name.as_str(), timer.action.as_str()), (0, "IO-APIC", "timer"));
        assert_eq!((virtio.irq, virtio.action.as_str()), (24, "virtio0-config"));
        assert!(interrupts_of("").is_empty());
    }

    #[test]
    fn this_machine_has_a_topology_and_this_process_is_in_the_dump() {
        let dump = Dump::take(Sample::take());
        assert!(!dump.cpus.is_empty());
        let pid = std::process::id() as i32;
        assert!(dump.threads.iter().any(|thread| thread.tid == pid && thread.pid == pid));
        assert!(dump.mappings.iter().any(|mapping| mapping.mapped.pid == pid));
        let mut bytes = Vec::new();
        dump.write(&mut bytes, Uuid([1; 16]), Ticks(42)).unwrap();
        assert!(bytes.len() >= 4096 && bytes.len() % 4096 == 0);
    }
}
