//! The origin of an event among several recordings, and its place among their events.

use crate::value::{bare, json_text, member};
use sordino_timeline::{Host, MergedClocks, Moment, ProvenOrder};

/// The hosts and clocks of a listing of several recordings. Facts that all have in common are not written.
#[derive(Debug, Default)]
pub(super) struct Origins {
    /// The names of the hosts; empty if there is one.
    hosts: Vec<HostName>,
    /// The order of the events; `None` if they have one clock.
    order: Option<ProvenOrder>,
}

/// The name of a host.
#[derive(Debug)]
struct HostName {
    /// The name, padded to the longest.
    text: Vec<u8>,
    /// The name as JSON.
    json: Vec<u8>,
}

impl Origins {
    pub(super) fn new(hosts: &[String], clocks: MergedClocks) -> Self {
        let text = |name: &String| {
            let mut text = Vec::new();
            bare(name.as_bytes(), &mut text);
            text
        };
        let width = hosts.iter().map(|name| text(name).len()).max().unwrap_or(0);
        let padded = |name: &String| {
            let (mut text, mut json) = (text(name), Vec::new());
            text.resize(width, b' ');
            json_text(name.as_bytes(), &mut json);
            HostName { text, json }
        };
        Self {
            hosts: if hosts.len() > 1 { hosts.iter().map(padded).collect() } else { Vec::new() },
            order: clocks.are_several().then(|| ProvenOrder::new(clocks)),
        }
    }

    /// Writes a mark behind the time of an event whose place is not proven, and the name of its host in front of its
    /// CPU.
    pub(super) fn text(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>) {
        if let Some(order) = &mut self.order {
            let is_proven = order.add(moment.event.class, moment.event.time).is_none();
            out.push(if is_proven { b' ' } else { b'~' });
        }
        if let Some(host) = self.host(moment.host) {
            out.push(b' ');
            out.extend_from_slice(&host.text);
        }
    }

    /// Writes ` of HOST` after the records that were lost on that host.
    pub(super) fn lost(&self, host: Host, out: &mut Vec<u8>) {
        if let Some(host) = self.host(host) {
            out.extend_from_slice(b" of ");
            out.extend_from_slice(host.text.trim_ascii_end());
        }
    }

    /// Writes the member `,"host":"arm"` of an item.
    pub(super) fn json_host(&self, host: Host, out: &mut Vec<u8>) {
        if let Some(host) = self.host(host) {
            out.extend_from_slice(b",\"host\":");
            out.extend_from_slice(&host.json);
        }
    }

    /// Writes `,"order_known":false,"uncertainty_ns":1000`: whether the event is certainly later than those before, and
    /// the uncertainty if it is not, `null` if that is unknown.
    pub(super) fn json_order(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>) {
        let Some(order) = &mut self.order else { return };
        match order.add(moment.event.class, moment.event.time) {
            None => out.extend_from_slice(b",\"order_known\":true"),
            Some(unproven) => {
                out.extend_from_slice(b",\"order_known\":false");
                member(out, b",\"uncertainty_ns\":", unproven.uncertainty.map(|uncertainty| uncertainty.0));
            }
        }
    }

    fn host(&self, host: Host) -> Option<&HostName> {
        self.hosts.get(usize::from(host.0))
    }
}
