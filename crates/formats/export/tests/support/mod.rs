//! A trace made by hand, with names, values and gaps that are hard to write.

use sordino_event::{
    Base, Class, ClassId, Classes, Cpu, Domain, Event, Loss, LossCause, Pid, Step, Tid, Time, Value,
};
use sordino_export::{Exporter, Origin};
use sordino_timeline::{Item, SuperTrace};
use std::convert::Infallible;

/// The place of the corrupt stretch, with a hostile name.
pub(crate) const PLACE: &str = "a\n\"\x1b[2J/cpu0, stream 0, packet 1, byte 4096";

/// Names that break lines, quotes, paths, markup, terminals and decoders.
pub(crate) const HOSTILE: [&[u8]; 8] = [
    b"\"quoted\" 'so' `too`",
    b"two\nlines\r\n",
    b"\xff\xfe invalid \xc3\x28",
    b"../../etc/passwd",
    b"a,b;c\td",
    b"\x1b[31mred\x07",
    "\u{202e}turned\u{2066}".as_bytes(),
    b"zero\0inside \\ <b>&amp;%n",
];

/// The classes of the trace.
pub(crate) struct Kinds {
    pub(crate) classes: Classes,
    switch: ClassId,
    waking: ClassId,
    softirq: [ClassId; 2],
    other: ClassId,
    user: ClassId,
    hostile: ClassId,
}

impl Kinds {
    pub(crate) fn new() -> Self {
        let mut classes = Classes::default();
        let mut add = |domain, name: &str, fields: &[&str]| {
            classes.add(Class::new(domain, name, fields.iter().copied()))
        };
        let names =
            ["prev_comm", "prev_tid", "prev_prio", "prev_state", "next_comm", "next_tid", "next_prio"];
        let switch = add(Domain::Kernel, "sched_switch", &names);
        let waking = add(Domain::Kernel, "sched_waking", &["comm", "tid", "prio", "target_cpu"]);
        let softirq = ["softirq_entry", "softirq_exit"].map(|name| add(Domain::Kernel, name, &["vec"]));
        let other = add(Domain::Kernel, "odd", &["text", "list", "float", "large"]);
        let user = add(Domain::User, "motor:period", &["cycle", "late"]);
        let name = String::from_utf8_lossy(HOSTILE[0]).into_owned();
        let field = String::from_utf8_lossy(HOSTILE[1]).into_owned();
        let fields = [&field, "text", "label", "group", "empty", "nan", "hex", "list"];
        let hostile = add(Domain::User, &name, &fields);
        Self { classes, switch, waking, softirq, other, user, hostile }
    }

    /// Returns a source of `count` rounds on each of two CPUs. A round is a millisecond and has eight events: a thread
    /// is woken, runs for 300 us, and writes two events.
    pub(crate) fn rounds(&self, count: i64) -> impl FnMut(&mut Event) -> Result<Step, Infallible> + use<> {
        let (switch, waking, softirq, user) = (self.switch, self.waking, self.softirq, self.user);
        let mut number = 0;
        move |event| {
            let (round, part) = (number / 8, number % 8);
            number += 1;
            if round == 2 * count {
                return Ok(Step::End);
            }
            let (cpu, tid) = (round % 2, 100 + round % 2);
            let time = Time((1_000 + round) * 1_000_000 + part * 100_000);
            let mut begin = |class| {
                event.begin(time, class);
                event.cpu = Some(Cpu(cpu as u32));
            };
            match part {
                0 | 1 => {
                    begin(softirq[part as usize]);
                    event.push(Value::unsigned(1));
                }
                2 => {
                    begin(waking);
                    event.push_text(b"motor");
                    signed(event, &[tid, 95, cpu]);
                }
                3 | 6 => {
                    begin(switch);
                    let (idle, motor) = ((0, &b"swapper"[..]), (tid, &b"motor"[..]));
                    let (prev, next) = if part == 3 { (idle, motor) } else { (motor, idle) };
                    event.push_text(prev.1);
                    signed(event, &[prev.0, 120, part / 6]);
                    event.push_text(next.1);
                    signed(event, &[next.0, 120]);
                }
                4 | 5 => {
                    begin(user);
                    (event.pid, event.tid) = (Some(Pid(100)), Some(Tid(tid as i32)));
                    event.push(Value::signed(round));
                    event.push(Value::Float(0.5));
                }
                _ => {
                    begin(softirq[1]);
                    event.push(Value::unsigned(9));
                }
            }
            Ok(Step::Event)
        }
    }

    /// Returns a source of `count` threads one after the other, with few ids but each with a name of its own, and a
    /// text of its own in an event.
    pub(crate) fn names(&self, count: i64) -> impl FnMut(&mut Event) -> Result<Step, Infallible> + use<> {
        let (switch, hostile) = (self.switch, self.hostile);
        let mut number = 0;
        move |event| {
            let (thread, part) = (number / 2, number % 2);
            number += 1;
            if thread == count {
                return Ok(Step::End);
            }
            let tid = |thread: i64| 100 + thread.rem_euclid(50);
            let name = |thread: i64| format!("{thread:015}");
            event.begin(Time(number * 1_000), if part == 0 { switch } else { hostile });
            event.cpu = Some(Cpu(0));
            if part == 0 {
                event.push_text(name(thread - 1).as_bytes());
                signed(event, &[tid(thread - 1), 120, 0]);
                event.push_text(name(thread).as_bytes());
                signed(event, &[tid(thread), 120]);
            } else {
                (event.pid, event.tid) = (Some(Pid(100)), Some(Tid(tid(thread) as i32)));
                event.push(Value::unsigned(0));
                event.push_text(name(thread).as_bytes());
            }
            Ok(Step::Event)
        }
    }

    /// Returns a source with hostile names and values, gaps and disorder, all within one second.
    pub(crate) fn hostile(&self) -> impl FnMut(&mut Event) -> Result<Step, Infallible> + use<> {
        let (switch, other, hostile) = (self.switch, self.other, self.hostile);
        let mut number = 0;
        move |event| {
            let index = number as usize;
            number += 1;
            let name = HOSTILE[index % HOSTILE.len()];
            let time = Time(1_000_000_000 + number * 1_000);
            match index {
                0..8 => {
                    event.begin(time, hostile);
                    (event.pid, event.tid) = (Some(Pid(7)), Some(Tid(70 + index as i32)));
                    event.push(Value::unsigned(u64::MAX));
                    event.push_text(name);
                    let label = event.intern(name);
                    event.push(Value::Label(i64::MIN, Some(label)));
                    event.push(Value::Group(1));
                    event.push_text(name);
                    event.push(Value::List(1));
                    event.push_text(name);
                    event.push(Value::List(0));
                    event.push(Value::Float(f64::NAN));
                    event.push(Value::Unsigned(u64::MAX, Base::Hexadecimal));
                    event.push(Value::List(2));
                    signed(event, &[1, 2]);
                }
                8..16 => {
                    event.begin(time, switch);
                    event.cpu = Some(Cpu(if index == 15 { u32::MAX } else { 0 }));
                    event.push_text(name);
                    signed(event, &[70, i64::from(i32::MIN), i64::MAX]);
                    event.push_text(name);
                    signed(event, &[70, i64::from(i32::MAX)]);
                }
                16 => {
                    // The time goes back; the kernel's event has no CPU.
                    event.begin(Time(-5), other);
                    event.push_text(HOSTILE[2]);
                    event.push(Value::List(1));
                    event.push_text(HOSTILE[1]);
                    event.push(Value::Float(f64::INFINITY));
                    event.push(Value::unsigned(u64::MAX));
                }
                17 => {
                    let count = Some(u64::MAX);
                    let (from, to, cpu) = (time, Time(i64::MAX), Some(Cpu(0)));
                    return Ok(Step::Loss(Loss {
                        from,
                        to,
                        cpu,
                        pid: None,
                        count,
                        cause: LossCause::KernelOverrun,
                        place: None,
                    }));
                }
                18 => {
                    let (from, to) = (time, time);
                    let pid = Some(Pid(i32::MIN));
                    return Ok(Step::Loss(Loss {
                        from,
                        to,
                        cpu: None,
                        pid,
                        count: None,
                        cause: LossCause::Corrupt,
                        place: Some(PLACE.into()),
                    }));
                }
                _ => return Ok(Step::End),
            }
            Ok(Step::Event)
        }
    }
}

fn signed(event: &mut Event, numbers: &[i64]) {
    numbers.iter().for_each(|number| event.push(Value::signed(*number)));
}

/// Passes each item of the sources to `take`.
pub(crate) fn each<S: FnMut(&mut Event) -> Result<Step, Infallible>>(
    classes: &Classes,
    sources: impl IntoIterator<Item = S>,
    mut take: impl FnMut(&Item<'_>),
) {
    let mut trace = SuperTrace::new(classes, sources);
    while let Ok(Some(item)) = trace.next() {
        take(&item);
    }
}

/// Returns what `exporter` writes for the source.
pub(crate) fn exported<S: FnMut(&mut Event) -> Result<Step, Infallible>>(
    mut exporter: impl Exporter,
    classes: &Classes,
    source: S,
) -> Vec<u8> {
    let mut out = Vec::new();
    exporter.begin(&mut out);
    each(classes, [source], |item| exporter.take(item, &mut out));
    exporter.end(&mut out);
    out
}

pub(crate) fn origin() -> Origin {
    Origin {
        begin: Time(1_000_000_000),
        kernel_release: Some("6.1.0-13-amd64".into()),
        machine: Some("x86_64".into()),
        ..Origin::default()
    }
}
