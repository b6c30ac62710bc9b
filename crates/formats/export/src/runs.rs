//! Spans of time on CPUs: runs of threads, and interrupts.

use sordino_event::{Cpu, Loss, Tid, Time};
use sordino_timeline::{Kernel, Moment, TaskState};
use std::collections::BTreeMap;

/// Maximum depth of nested interrupts on a CPU.
const DEPTH_MAX: usize = 16;

/// A span that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuSpan {
    pub(crate) cpu: Cpu,
    pub(crate) begin: Time,
    pub(crate) end: Time,
    pub(crate) kind: CpuActivity,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CpuActivity {
    /// The thread ran, and left the CPU in this state.
    Run(Tid, TaskState),
    /// The CPU handled this interrupt.
    Interrupt(String),
}

/// The spans that have not ended. A loss of the kernel's records ends those of its CPU without a span.
#[derive(Debug, Default)]
pub(crate) struct CpuSpans {
    runs: BTreeMap<Cpu, (Tid, Time)>,
    interrupts: BTreeMap<Cpu, Vec<(String, Time)>>,
}

impl CpuSpans {
    /// Returns the span that ends with this event.
    pub(crate) fn take(&mut self, moment: &Moment<'_>) -> Option<CpuSpan> {
        let (kernel, cpu, end) = (moment.kernel?, moment.cpu?, moment.event.time);
        let (begin, kind) = match kernel {
            Kernel::Switch { prev, state, next } => {
                let (_, begin) =
                    self.runs.insert(cpu, (next.tid, end)).filter(|(tid, _)| *tid == prev.tid)?;
                (begin, CpuActivity::Run(prev.tid, state))
            }
            Kernel::Enter(interrupt) => {
                let open = self.interrupts.entry(cpu).or_default();
                if open.len() < DEPTH_MAX {
                    open.push((interrupt.label(), end));
                }
                return None;
            }
            Kernel::Exit(interrupt) => {
                let open = self.interrupts.get_mut(&cpu)?;
                // The name of a device's handler is known on entry only.
                let ended = interrupt.label();
                let index = open.iter().rposition(|(name, _)| name.starts_with(&ended))?;
                let (name, begin) = open.drain(index..).next()?;
                (begin, CpuActivity::Interrupt(name))
            }
            _ => return None,
        };
        Some(CpuSpan { cpu, begin, end, kind })
    }

    /// Drops the spans in which records are missing.
    pub(crate) fn lose(&mut self, loss: &Loss) {
        match (loss.pid, loss.cpu) {
            (Some(_), _) => {}
            (None, Some(cpu)) => {
                self.runs.remove(&cpu);
                self.interrupts.remove(&cpu);
            }
            (None, None) => *self = Self::default(),
        }
    }
}
