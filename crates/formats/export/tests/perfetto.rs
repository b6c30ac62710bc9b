//! Perfetto's packets, decoded field by field.

#[path = "support/packets.rs"]
mod packets;
#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use packets::DecodedMessage;
use sordino_export::Perfetto;
use std::collections::HashMap;
use support::{HOSTILE, Kinds, PLACE, exported, origin};

/// The decoded packets, with the interned names.
struct PerfettoTrace {
    packets: Vec<DecodedMessage>,
    events: HashMap<u64, String>,
    annotations: HashMap<u64, String>,
}

impl PerfettoTrace {
    fn read(bytes: &[u8]) -> Self {
        let packets: Vec<DecodedMessage> = DecodedMessage::read(bytes).messages(1).collect();
        let names = |field| {
            let interned = packets.iter().flat_map(|packet| packet.messages(12)).collect::<Vec<_>>();
            let entries = interned.iter().flat_map(|data| data.messages(field)).collect::<Vec<_>>();
            entries
                .iter()
                .map(|entry| (entry.number(1).unwrap(), entry.text(2).unwrap().to_owned()))
                .collect()
        };
        Self { events: names(2), annotations: names(3), packets }
    }

    /// Returns the track events of a name: time, track, packet's event.
    fn named(&self, name: &str) -> Vec<(u64, DecodedMessage)> {
        let events = self.packets.iter().flat_map(|packet| {
            let time = packet.number(8).unwrap_or(0);
            packet.messages(11).map(move |event| (time, event))
        });
        events.filter(|(_, event)| self.events[&event.number(10).unwrap()] == name).collect()
    }

    fn annotation(&self, event: &DecodedMessage, name: &str) -> DecodedMessage {
        let mut found = event.messages(4).filter(|field| self.annotations[&field.number(1).unwrap()] == name);
        found.next().unwrap_or_else(|| panic!("no annotation {name}"))
    }

    /// Returns the number of the kernel's events of a kind, in order of time within each bundle.
    fn ftrace(&self, kind: u32) -> usize {
        let bundles = self.packets.iter().flat_map(|packet| packet.messages(1));
        let mut count = 0;
        for bundle in bundles {
            let events: Vec<DecodedMessage> = bundle.messages(2).collect();
            let times: Vec<u64> = events.iter().map(|event| event.number(1).unwrap()).collect();
            assert!(times.is_sorted());
            count += events.iter().filter(|event| event.all(kind).next().is_some()).count();
        }
        count
    }
}

#[test]
fn each_event_is_there_once_and_a_flow_joins_each_wake_up_to_its_run() {
    let kinds = Kinds::new();
    let bytes = exported(Perfetto::new(&kinds.classes, origin()), &kinds.classes, kinds.rounds(500));
    let trace = PerfettoTrace::read(&bytes);
    assert!(trace.packets.iter().all(|packet| packet.number(10) == Some(1)));
    let kernel = [4, 20, 24, 25].map(|kind| trace.ftrace(kind));
    assert_eq!(kernel, [2000, 1000, 1000, 2000]);
    let periods = trace.named("motor:period");
    assert_eq!(periods.len(), 2000);
    let cycles = periods.iter().map(|(_, event)| trace.annotation(event, "cycle").number(4).unwrap());
    assert_eq!(cycles.sum::<u64>(), (0..1000).sum::<u64>() * 2);
    let half = trace.annotation(&periods[0].1, "late").number(5).map(f64::from_bits);
    assert_eq!(half, Some(0.5));
    let (wakes, runs) = (trace.named("wakes"), trace.named("runs"));
    let flows = |events: &[(u64, DecodedMessage)], field| {
        events.iter().map(|(time, event)| (event.number(field).unwrap(), *time)).collect::<Vec<_>>()
    };
    let (from, to) = (flows(&wakes, 47), flows(&runs, 48));
    assert_eq!((from.len(), to.len()), (1000, 1000));
    for ((flow, woken), (same, ran)) in from.iter().zip(&to) {
        assert_eq!((flow, ran - woken), (same, 100_000));
    }
}

#[test]
fn hostile_names_are_texts_and_values_out_of_range_keep_their_bits() {
    let kinds = Kinds::new();
    let bytes = exported(Perfetto::new(&kinds.classes, origin()), &kinds.classes, kinds.hostile());
    let trace = PerfettoTrace::read(&bytes);
    let events = trace.named(&String::from_utf8_lossy(HOSTILE[0]));
    assert_eq!(events.len(), 8);
    for ((_, event), name) in events.iter().zip(HOSTILE) {
        let expected = String::from_utf8_lossy(name).replace('\0', "\u{fffd}");
        assert_eq!(trace.annotation(event, "text").text(6), Some(&*expected));
        let label = trace.annotation(event, "label");
        let members: Vec<DecodedMessage> = label.messages(11).collect();
        assert_eq!(members[0].text(6), Some(&*expected));
        assert_eq!(members[1].number(4), Some(i64::MIN.cast_unsigned()));
        assert_eq!(trace.annotation(event, "hex").number(7), Some(u64::MAX));
        assert_eq!(trace.annotation(event, "empty").text(6), Some("[]"));
        assert_eq!(trace.annotation(event, "list").messages(12).count(), 2);
        assert!(trace.annotation(event, "nan").number(5).map(f64::from_bits).unwrap().is_nan());
    }
    assert_eq!(trace.ftrace(4), 8);
    let losses = trace.named("lost records");
    assert_eq!(losses.len(), 2);
    assert_eq!(trace.annotation(&losses[0].1, "count").number(3), Some(u64::MAX));
    assert_eq!(trace.annotation(&losses[1].1, "cause").text(6), Some("bytes do not make sense"));
    assert_eq!(trace.annotation(&losses[1].1, "place").text(6), Some(PLACE));
    // An event that went back in time was moved; it is the kernel's and has no CPU.
    assert_eq!((trace.named("time went back").len(), trace.named("odd").len()), (1, 1));
}

#[test]
fn records_behind_a_loss_are_marked() {
    use sordino_event::{Cpu, Loss, LossCause, Step, Time};
    let kinds = Kinds::new();
    let mut rounds = kinds.rounds(10);
    let mut count = 0;
    let source = move |event: &mut sordino_event::Event| {
        count += 1;
        // In the first round, between the wake-up and the run.
        if count == 4 {
            let (from, to, count) = (Time(1_000_250_000), Time(1_000_260_000), Some(3));
            let cause = LossCause::KernelOverrun;
            return Ok(Step::Loss(Loss {
                from,
                to,
                cpu: Some(Cpu(0)),
                pid: None,
                count,
                cause,
                place: None,
            }));
        }
        rounds(event)
    };
    let trace =
        PerfettoTrace::read(&exported(Perfetto::new(&kinds.classes, origin()), &kinds.classes, source));
    let bundles = trace.packets.iter().flat_map(|packet| packet.messages(1));
    let marks: Vec<_> = bundles.map(|bundle| (bundle.number(1), bundle.number(3))).collect();
    assert_eq!(marks, [(Some(0), None), (Some(0), Some(1)), (Some(1), None)]);
    assert_eq!((trace.named("wakes").len(), trace.named("runs").len()), (20, 19));
}
