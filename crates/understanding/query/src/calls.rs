//! System calls, from entry to exit.

use crate::finder::SpanFinder;
use crate::kernel_names::KernelNames;
use crate::span::{FoundSpan, Span};
use foldhash::HashMap;
use sordino_event::{Loss, Tid, Time};
use sordino_timeline::{Kernel, Moment};
use std::sync::Arc;

/// The system calls that threads are in.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: HashMap<Tid, (Arc<str>, Time)>,
    names: KernelNames,
    lost_until: Option<Time>,
}

impl SpanFinder for Calls {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let Some(tid) = moment.tid else { return };
        let now = moment.event.time;
        match moment.kernel {
            Some(Kernel::SyscallEntry { call, .. }) => {
                let name = self.names.call(&call);
                if self.open.insert(tid, (name, now)).is_some() {
                    found.push(FoundSpan::Broken);
                }
            }
            Some(Kernel::SyscallExit) => found.push(match self.open.remove(&tid) {
                Some((name, from)) if self.lost_until.is_none_or(|until| until <= from) => {
                    let (tid, cpu, name) = (Some(tid), moment.cpu, Some(name));
                    FoundSpan::Whole(Span { tid, cpu, name, ..Span::between(from, now) })
                }
                _ => FoundSpan::Broken,
            }),
            // A call of `exit` does not return.
            Some(Kernel::Gone { tid }) => {
                self.open.remove(&tid);
            }
            _ => {}
        }
    }

    fn lose(&mut self, loss: &Loss, _found: &mut Vec<FoundSpan>) {
        if loss.pid.is_none() {
            self.lost_until = self.lost_until.max(Some(loss.to));
        }
    }

    /// Returns the number of calls that have not returned.
    fn finish(&mut self, _end: Time, _found: &mut Vec<FoundSpan>) -> u64 {
        self.open.len() as u64
    }
}
