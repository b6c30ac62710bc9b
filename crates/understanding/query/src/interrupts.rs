//! Handlers of interrupts and softirqs, from entry to exit.

use crate::finder::SpanFinder;
use crate::kernel_names::KernelNames;
use crate::span::{FoundSpan, Span};
use foldhash::HashMap;
use sordino_event::{Cpu, Loss, Time};
use sordino_timeline::kernel::Interrupt;
use sordino_timeline::{Kernel, Moment};
use std::sync::Arc;

/// The maximum depth of nested handlers; a trace with more has lost their exits.
const DEPTH_MAX: usize = 32;

/// The handlers that CPUs are in: of interrupts, or of softirqs.
#[derive(Debug)]
pub(crate) struct Interrupts {
    softirqs: bool,
    open: HashMap<Cpu, Vec<(Arc<str>, Time)>>,
    names: KernelNames,
}

impl Interrupts {
    pub(crate) fn new(softirqs: bool) -> Self {
        Self { softirqs, open: HashMap::default(), names: KernelNames::default() }
    }

    fn is_its(&self, interrupt: &Interrupt<'_>) -> bool {
        matches!(interrupt, Interrupt::Softirq(_)) == self.softirqs
    }
}

impl SpanFinder for Interrupts {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let Some(cpu) = moment.cpu else { return };
        let now = moment.event.time;
        match moment.kernel {
            Some(Kernel::Enter(interrupt)) if self.is_its(&interrupt) => {
                let name = self.names.interrupt(&interrupt);
                let stack = self.open.entry(cpu).or_default();
                if stack.len() == DEPTH_MAX {
                    found.push(FoundSpan::Broken);
                } else {
                    stack.push((name, now));
                }
            }
            Some(Kernel::Exit(interrupt)) if self.is_its(&interrupt) => {
                let name = self.names.interrupt(&interrupt);
                let stack = self.open.entry(cpu).or_default();
                let Some(depth) = stack.iter().rposition(|(inner, _)| *inner == name) else {
                    found.push(FoundSpan::Broken);
                    return;
                };
                // The exits of handlers nested in this one were not recorded.
                found.extend(stack.drain(depth + 1..).map(|_| FoundSpan::Broken));
                let Some((name, from)) = stack.pop() else { return };
                let (tid, cpu, name) = (moment.tid, Some(cpu), Some(name));
                found.push(FoundSpan::Whole(Span { tid, cpu, name, ..Span::between(from, now) }));
            }
            _ => {}
        }
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>) {
        if loss.pid.is_none() {
            let lost = self.open.iter_mut().filter(|(cpu, _)| loss.cpu.is_none_or(|lost| lost == **cpu));
            lost.for_each(|(_, stack)| found.extend(stack.drain(..).map(|_| FoundSpan::Broken)));
        }
    }

    /// Returns the number of handlers that have not returned.
    fn finish(&mut self, _end: Time, _found: &mut Vec<FoundSpan>) -> u64 {
        self.open.values().map(|stack| stack.len() as u64).sum()
    }
}
