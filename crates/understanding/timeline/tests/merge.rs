//! The order of the merged trace.

use proptest::prelude::*;
use sordino_event::{Class, ClassId, Classes, Cpu, Domain, Event, Loss, LossCause, Nanos, Step, Time, Value};
use sordino_timeline::{Disorder, Merge, Merged};

fn classes() -> (Classes, ClassId, ClassId) {
    let mut classes = Classes::default();
    let user = classes.add(Class::new(Domain::User, "t:e", ["serial"]));
    let kernel = classes.add(Class::new(Domain::Kernel, "sched_switch", ["serial"]));
    (classes, user, kernel)
}

#[derive(Clone, Debug)]
enum SourceEntry {
    Event { time: i64, class: ClassId, cpu: Option<u32>, serial: u64 },
    Loss(i64),
    Fails,
}

fn source(entries: Vec<SourceEntry>) -> impl FnMut(&mut Event) -> Result<Step, &'static str> {
    let mut entries = entries.into_iter();
    move |event| match entries.next() {
        Some(SourceEntry::Event { time, class, cpu, serial }) => {
            event.begin(Time(time), class);
            event.cpu = cpu.map(Cpu);
            event.push(Value::unsigned(serial));
            Ok(Step::Event)
        }
        Some(SourceEntry::Loss(from)) => Ok(Step::Loss(Loss {
            from: Time(from),
            to: Time(from + 1),
            cpu: None,
            pid: None,
            count: None,
            cause: LossCause::RingFull,
            place: None,
        })),
        Some(SourceEntry::Fails) => Err("torn"),
        None => Ok(Step::End),
    }
}

/// Returns the items of the merge: `time#serial`, `time loss`, `time back by`, `error`.
fn merged(classes: &Classes, sources: Vec<Vec<SourceEntry>>) -> Vec<String> {
    let mut merge = Merge::new(classes, sources.into_iter().map(source));
    let mut out = Vec::new();
    loop {
        out.push(match merge.next() {
            Ok(Some(Merged::Event(event))) => format!("{}#{}", event.time.0, event.integer(0).unwrap()),
            Ok(Some(Merged::Loss(loss, _))) => format!("{} loss", loss.from.0),
            Ok(Some(Merged::Disorder(Disorder { source, at, back: Nanos(back) }))) => {
                format!("{} source {source} back by {back}", at.0)
            }
            Ok(None) => return out,
            Err(error) => format!("{error}: {}", error.error),
        });
    }
}

#[test]
fn at_one_time_losses_come_first_then_the_kernel_then_cpus_then_sources() {
    let (classes, user, kernel) = classes();
    let event = |class, cpu, serial| vec![SourceEntry::Event { time: 5, class, cpu, serial }];
    let sources = vec![
        event(user, Some(1), 0),
        event(user, Some(0), 1),
        event(user, Some(0), 2),
        event(user, None, 3),
        event(kernel, Some(1), 4),
        vec![SourceEntry::Loss(5)],
        event(kernel, Some(0), 6),
    ];
    assert_eq!(merged(&classes, sources), ["5 loss", "5#6", "5#4", "5#3", "5#1", "5#2", "5#0"]);
}

#[test]
fn time_that_goes_back_is_reported_and_the_event_moved() {
    let (classes, class, _) = classes();
    let event = |time, serial| SourceEntry::Event { time, class, cpu: None, serial };
    let sources = vec![vec![event(10, 0), event(7, 1), event(12, 2)], vec![event(9, 3), event(11, 4)]];
    assert_eq!(merged(&classes, sources), ["9#3", "10#0", "10 source 0 back by 3", "10#1", "11#4", "12#2"]);
}

#[test]
fn a_loss_that_is_told_late_stands_where_it_was_told() {
    let (classes, class, _) = classes();
    let event = |time, serial| SourceEntry::Event { time, class, cpu: None, serial };
    let sources = vec![vec![event(10, 0), SourceEntry::Loss(4), event(20, 1)], vec![event(12, 2)]];
    assert_eq!(merged(&classes, sources), ["10#0", "4 loss", "12#2", "20#1"]);
}

#[test]
fn a_loss_after_the_event_that_follows_it_is_a_disorder() {
    let (classes, class, _) = classes();
    let sources =
        vec![vec![SourceEntry::Loss(30), SourceEntry::Event { time: 20, class, cpu: None, serial: 1 }]];
    assert_eq!(merged(&classes, sources), ["30 loss", "30 source 0 back by 10", "30#1"]);
}

#[test]
fn a_source_that_fails_is_named_and_the_others_go_on() {
    let (classes, class, _) = classes();
    let event = |time, serial| SourceEntry::Event { time, class, cpu: None, serial };
    let sources = vec![
        vec![SourceEntry::Fails],
        vec![event(1, 0), event(3, 1)],
        vec![event(2, 2), SourceEntry::Fails, event(4, 3)],
    ];
    assert_eq!(
        merged(&classes, sources),
        ["source 0 can't be read further: torn", "1#0", "2#2", "source 2 can't be read further: torn", "3#1"]
    );
}

#[test]
fn the_ends_of_time_are_no_special_case() {
    let (classes, class, _) = classes();
    let event = |time, serial| SourceEntry::Event { time, class, cpu: None, serial };
    let sources =
        vec![vec![event(i64::MAX, 0), event(i64::MIN, 1)], vec![event(i64::MIN, 2), event(i64::MAX, 3)]];
    let out = merged(&classes, sources);
    assert_eq!(out[0], format!("{}#2", i64::MIN));
    assert_eq!(out.len(), 5);
}

#[test]
fn ten_thousand_sources_are_merged() {
    let (classes, class, _) = classes();
    let sources = (0..10_000).map(|serial| {
        let time = |round| i64::from(round) * 10_000 + (serial as i64 * 7_919) % 10_000;
        (0..3).map(|round| SourceEntry::Event { time: time(round), class, cpu: None, serial }).collect()
    });
    let out = merged(&classes, sources.collect());
    let times: Vec<i64> = out.iter().map(|line| line.split('#').next().unwrap().parse().unwrap()).collect();
    assert_eq!(times, (0..30_000).collect::<Vec<i64>>());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The merge is the stable sort of its sources' items.
    #[test]
    fn merging_is_sorting(streams in proptest::collection::vec(
        proptest::collection::vec((0i64..20, any::<bool>(), proptest::option::of(0u32..3)), 0..12), 0..8)) {
        let (classes, user, kernel) = classes();
        let mut serial = 0;
        let mut all = Vec::new();
        let mut sources = Vec::new();
        for (number, mut stream) in streams.into_iter().enumerate() {
            stream.sort_by_key(|(time, ..)| *time);
            let mut entries = Vec::new();
            for (time, of_kernel, cpu) in stream {
                let class = if of_kernel { kernel } else { user };
                entries.push(SourceEntry::Event { time, class, cpu, serial });
                all.push((time, !of_kernel, cpu, number, serial));
                serial += 1;
            }
            sources.push(entries);
        }
        let out = merged(&classes, sources);
        let times = out.iter().map(|line| line.split_once('#').unwrap());
        let serials: Vec<u64> = times.clone().map(|(_, serial)| serial.parse().unwrap()).collect();
        let sorted: Vec<i64> = times.map(|(time, _)| time.parse().unwrap()).collect();
        prop_assert!(sorted.is_sorted());
        // Within a source its own order precedes the tie-break: the expected order selects the least head each time.
        let mut expected = Vec::new();
        let mut left = all;
        while !left.is_empty() {
            let heads = left.iter().filter(|a| !left.iter().any(|b| b.3 == a.3 && b.4 < a.4));
            let next = *heads.min().unwrap();
            left.retain(|entry| entry.4 != next.4);
            expected.push(next.4);
        }
        prop_assert_eq!(serials, expected);
    }
}
