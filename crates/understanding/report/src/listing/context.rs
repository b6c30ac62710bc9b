//! The context of an event's thread, in a listing.

use crate::value::{bare, decimal, json_text};
use sordino_timeline::{Moment, ThreadContext};
use std::sync::Arc;

/// Writes ` {request = 7, cycles = 1234, priority = FIFO 90}`: the facts that the line does not have otherwise; nothing
/// if there are none.
pub(super) fn text(moment: &Moment<'_>, out: &mut Vec<u8>) {
    let Some(context) = moment.context() else { return };
    let begin = out.len();
    for (name, value) in &context.annotations {
        member(name, out, begin);
        bare(value.as_bytes(), out);
    }
    for (name, count) in &context.counters {
        member(name, out, begin);
        decimal(*count, out);
    }
    if let Some(scheduling) = context.scheduling {
        member("priority", out, begin);
        bare(scheduling.to_string().as_bytes(), out);
    }
    if let Some(path) = &context.cgroup {
        member("cgroup", out, begin);
        bare(path.as_bytes(), out);
    }
    if let Some((tid, vpid)) = context.ids
        && (Some(tid) != moment.tid || Some(vpid) != moment.pid())
    {
        for (name, id) in [("tid", tid.0), ("vpid", vpid.0)] {
            member(name, out, begin);
            decimal(id, out);
        }
    }
    if out.len() > begin {
        out.push(b'}');
    }
}

fn member(name: &str, out: &mut Vec<u8>, begin: usize) {
    out.extend_from_slice(if out.len() == begin { b" {" } else { b", " });
    bare(name.as_bytes(), out);
    out.extend_from_slice(b" = ");
}

/// Writes `,"context":{...}` with all facts; nothing if the recording has none.
pub(super) fn json(moment: &Moment<'_>, out: &mut Vec<u8>) {
    let Some(ThreadContext { comm, ids, scheduling, cgroup, annotations, counters }) = moment.context()
    else {
        return;
    };
    let mut separator: &[u8] = b",\"context\":{";
    let mut key = |name: &str, out: &mut Vec<u8>| {
        out.extend_from_slice(separator);
        separator = b",";
        json_text(name.as_bytes(), out);
        out.push(b':');
    };
    for (name, text) in [("comm", comm), ("cgroup", cgroup)] {
        if let Some(text) = text {
            key(name, out);
            json_text(text.as_bytes(), out);
        }
    }
    if let Some((tid, vpid)) = ids {
        for (name, id) in [("tid", tid.0), ("vpid", vpid.0)] {
            key(name, out);
            decimal(id, out);
        }
    }
    if let Some(scheduling) = scheduling {
        key("policy", out);
        match scheduling.policy_name() {
            Some(name) => json_text(name.as_bytes(), out),
            None => decimal(scheduling.policy, out),
        }
        for (name, number) in [("priority", scheduling.priority), ("nice", scheduling.nice)] {
            key(name, out);
            decimal(number, out);
        }
    }
    key("annotations", out);
    object(annotations, out, |value, out| json_text(value.as_bytes(), out));
    if !counters.is_empty() {
        key("counters", out);
        object(counters.iter().map(|(name, count)| (name, count)), out, |count, out| decimal(*count, out));
    }
    out.push(b'}');
}

/// Writes a JSON object, `{"NAME":VALUE,...}`.
fn object<'a, V>(
    members: impl IntoIterator<Item = (&'a Arc<str>, V)>,
    out: &mut Vec<u8>,
    value: impl Fn(V, &mut Vec<u8>),
) {
    out.push(b'{');
    for (place, (name, member)) in members.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        json_text(name.as_bytes(), out);
        out.push(b':');
        value(member, out);
    }
    out.push(b'}');
}
