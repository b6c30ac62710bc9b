//! Interrupt handlers that CPUs execute, with the kernel's events that caused them.

use crate::kernel_names::KernelNames;
use foldhash::HashMap;
use sordino_event::{Cpu, Loss, Time};
use sordino_timeline::kernel::Interrupt;
use sordino_timeline::{Kernel, Moment};
use std::sync::Arc;

/// The maximum depth of nested handlers; a trace with more has lost their exits.
const DEPTH_MAX: usize = 32;

/// The kernel's event that caused a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OriginEvent {
    pub(crate) name: Arc<str>,
    pub(crate) at: Time,
}

/// A handler that a CPU is in.
#[derive(Clone, Debug)]
pub(crate) struct EnteredHandler {
    name: Arc<str>,
    pub(crate) is_softirq: bool,
    pub(crate) entered: Time,
    /// The interrupt that raised the softirq, or the handler itself.
    pub(crate) origin: OriginEvent,
}

/// The handlers of all CPUs, and the softirqs that wait for theirs.
#[derive(Debug, Default)]
pub(crate) struct CpuHandlers {
    cpus: HashMap<Cpu, Vec<EnteredHandler>>,
    raised: HashMap<(Cpu, i64), OriginEvent>,
    names: KernelNames,
}

impl CpuHandlers {
    pub(crate) fn take(&mut self, moment: &Moment<'_>) {
        let (Some(cpu), Some(kernel)) = (moment.cpu, moment.kernel) else { return };
        let now = moment.event.time;
        match kernel {
            Kernel::Enter(interrupt) => {
                let name = self.names.interrupt(&interrupt);
                let raised = match interrupt {
                    Interrupt::Softirq(number) => self.raised.remove(&(cpu, number)),
                    _ => None,
                };
                let own = || OriginEvent { name: Arc::clone(&name), at: now };
                let is_softirq = matches!(interrupt, Interrupt::Softirq(_));
                let origin = raised.unwrap_or_else(own);
                let stack = self.cpus.entry(cpu).or_default();
                if stack.len() < DEPTH_MAX {
                    stack.push(EnteredHandler { name, is_softirq, entered: now, origin });
                }
            }
            Kernel::Exit(interrupt) => {
                let name = self.names.interrupt(&interrupt);
                let Some(stack) = self.cpus.get_mut(&cpu) else { return };
                if let Some(depth) = stack.iter().rposition(|context| context.name == name) {
                    stack.truncate(depth);
                }
            }
            Kernel::Raise { softirq } => {
                let origin = self.on(cpu).map(|context| context.origin.clone());
                if let Some(origin) = origin {
                    self.raised.entry((cpu, softirq)).or_insert(origin);
                }
            }
            // A handler does not outlive a switch, and a softirq that was raised may have run in a thread.
            Kernel::Switch { .. } => self.forget(|other| other == cpu),
            _ => {}
        }
    }

    /// Returns the innermost handler of a CPU.
    pub(crate) fn on(&self, cpu: Cpu) -> Option<&EnteredHandler> {
        self.cpus.get(&cpu)?.last()
    }

    pub(crate) fn lose(&mut self, loss: &Loss) {
        if loss.pid.is_none() {
            self.forget(|cpu| loss.cpu.is_none_or(|lost| lost == cpu));
        }
    }

    fn forget(&mut self, is_it: impl Fn(Cpu) -> bool) {
        self.cpus.iter_mut().filter(|(cpu, _)| is_it(**cpu)).for_each(|(_, stack)| stack.clear());
        self.raised.retain(|(cpu, _), _| !is_it(*cpu));
    }
}
