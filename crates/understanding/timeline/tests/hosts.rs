//! Several hosts in one super-trace: each has a state of its own.

use proptest::prelude::*;
use sordino_event::{
    Class, ClassId, Classes, Cpu, Domain, Event, Loss, LossCause, Pid, Step, Tid, Time, Value,
};
use sordino_timeline::{Host, Hosts, Item, Moment, SuperTrace};
use std::convert::Infallible;

/// An action on a host, on a CPU or in a thread of this number.
#[derive(Clone, Copy, Debug)]
enum HostAction {
    Switch {
        cpu: u32,
        next: i32,
    },
    /// An event of a program whose thread is known, and whose CPU follows from the schedule.
    Own {
        tid: i32,
    },
    /// An event of the kernel whose thread follows from the schedule.
    Interrupt {
        cpu: u32,
    },
    Loss {
        cpu: u32,
    },
}

/// The classes of a host.
#[derive(Clone, Copy)]
struct HostClasses {
    switch: ClassId,
    own: ClassId,
    interrupt: ClassId,
}

fn declare(classes: &mut Classes) -> HostClasses {
    let fields = ["prev_comm", "prev_tid", "prev_prio", "prev_state", "next_comm", "next_tid", "next_prio"];
    HostClasses {
        switch: classes.add(Class::new(Domain::Kernel, "sched_switch", fields)),
        own: classes.add(Class::new(Domain::User, "motor:tick", [""; 0])),
        interrupt: classes.add(Class::new(Domain::Kernel, "irq_handler_entry", ["irq", "name"])),
    }
}

/// Returns the stream of a host on which the actions happen at these times.
fn stream(
    declared: HostClasses,
    name: &'static str,
    actions: Vec<(i64, HostAction)>,
) -> impl FnMut(&mut Event) -> Result<Step, Infallible> {
    let (mut actions, mut running) = (actions.into_iter(), [0; 2]);
    move |event| {
        let Some((time, action)) = actions.next() else { return Ok(Step::End) };
        match action {
            HostAction::Switch { cpu, next } => {
                let prev = std::mem::replace(&mut running[cpu as usize], next);
                event.begin(Time(time), declared.switch);
                event.cpu = Some(Cpu(cpu));
                event.push_text(name.as_bytes());
                [prev, 120, 1].into_iter().for_each(|value| event.push(Value::signed(value.into())));
                event.push_text(name.as_bytes());
                [next, 120].into_iter().for_each(|value| event.push(Value::signed(value.into())));
            }
            HostAction::Own { tid } => {
                event.begin(Time(time), declared.own);
                (event.pid, event.tid) = (Some(Pid(tid)), Some(Tid(tid)));
            }
            HostAction::Interrupt { cpu } => {
                event.begin(Time(time), declared.interrupt);
                event.cpu = Some(Cpu(cpu));
                event.push(Value::signed(7));
                event.push_text(b"eth0");
            }
            HostAction::Loss { cpu } => {
                let (from, cause) = (Time(time), LossCause::KernelOverrun);
                return Ok(Step::Loss(Loss {
                    from,
                    to: from,
                    cpu: Some(Cpu(cpu)),
                    pid: None,
                    count: None,
                    cause,
                    place: None,
                }));
            }
        }
        Ok(Step::Event)
    }
}

/// Returns all known facts at an event.
fn known(moment: &Moment<'_>) -> String {
    let running = [0, 1].map(|cpu| moment.system.running(Cpu(cpu)));
    let states = [1, 2, 3].map(|tid| moment.system.thread_state(Tid(tid)));
    let (time, cpu, tid, pid) = (moment.event.time, moment.cpu, moment.tid, moment.pid());
    format!("{time:?} {cpu:?} {tid:?} {pid:?} {:?} {running:?} {states:?}", moment.comm())
}

/// Returns the known facts at the items of each of two hosts.
fn seen<S>(mut trace: SuperTrace<S>) -> [Vec<String>; 2]
where
    S: FnMut(&mut Event) -> Result<Step, Infallible>,
{
    let mut seen = [Vec::new(), Vec::new()];
    while let Some(item) = trace.next().unwrap() {
        let (host, text) = match item {
            Item::Event(moment) => (moment.host, known(&moment)),
            Item::Loss(loss, host) => (host, format!("{loss:?}")),
            Item::Disorder(disorder) => panic!("{disorder:?}"),
        };
        seen[usize::from(host.0)].push(text);
    }
    seen
}

fn actions() -> impl Strategy<Value = Vec<(i64, HostAction)>> {
    let action = prop_oneof![
        4 => (0..2_u32, 0..4_i32).prop_map(|(cpu, next)| HostAction::Switch { cpu, next }),
        2 => (1..4_i32).prop_map(|tid| HostAction::Own { tid }),
        2 => (0..2_u32).prop_map(|cpu| HostAction::Interrupt { cpu }),
        1 => (0..2_u32).prop_map(|cpu| HostAction::Loss { cpu }),
    ];
    let at_random = prop::collection::vec((0..60_i64, action), 0..40);
    at_random.prop_map(|mut actions| {
        actions.sort_by_key(|(time, _)| *time);
        actions
    })
}

proptest! {
    #[test]
    fn what_is_known_of_a_host_does_not_depend_on_the_others(first in actions(), second in actions()) {
        let mut classes = Classes::default();
        let (one, other) = (declare(&mut classes), declare(&mut classes));
        let of_classes = [Host(0), Host(1)].map(|host| vec![host; 3]).concat();
        let hosts = Hosts::new(Host(1), of_classes, vec![Host(0), Host(1)]);
        let both = [stream(one, "one", first.clone()), stream(other, "other", second.clone())];
        let merged = seen(SuperTrace::new(&classes, both).of_hosts(hosts));
        let [alone_first, _] = seen(SuperTrace::new(&classes, [stream(one, "one", first)]));
        let [alone_second, _] = seen(SuperTrace::new(&classes, [stream(other, "other", second)]));
        prop_assert_eq!(&merged[0], &alone_first);
        prop_assert_eq!(&merged[1], &alone_second);
    }
}
