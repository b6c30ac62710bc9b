//! Names of interrupts and system calls, each allocated once.

use foldhash::HashMap;
use sordino_timeline::Arch;
use sordino_timeline::kernel::{Interrupt, Syscall, softirq_name};
use std::sync::Arc;

/// The names that occurred so far.
#[derive(Debug, Default)]
pub(crate) struct KernelNames {
    irqs: HashMap<i64, Arc<str>>,
    softirqs: HashMap<i64, Arc<str>>,
    calls: HashMap<i64, Arc<str>>,
    texts: HashMap<Box<str>, Arc<str>>,
}

impl KernelNames {
    /// Returns `36 eth0`, `local_timer` or `NET_RX`.
    pub(crate) fn interrupt(&mut self, interrupt: &Interrupt<'_>) -> Arc<str> {
        match *interrupt {
            // The exit has no name.
            Interrupt::Irq(number, b"") => {
                self.irqs.get(&number).map_or_else(|| number.to_string().into(), Arc::clone)
            }
            Interrupt::Irq(number, handler) => {
                let named = || format!("{number} {}", String::from_utf8_lossy(handler)).into();
                Arc::clone(self.irqs.entry(number).or_insert_with(named))
            }
            Interrupt::Vector(name) => self.text(name),
            Interrupt::Ipi(reason) => self.text(&String::from_utf8_lossy(reason)),
            Interrupt::Softirq(number) => {
                let named = || softirq_name(number).map_or_else(|| number.to_string().into(), Arc::from);
                Arc::clone(self.softirqs.entry(number).or_insert_with(named))
            }
        }
    }

    pub(crate) fn call(&mut self, call: &Syscall<'_>) -> Arc<str> {
        match *call {
            Syscall::Name(name) => self.text(name),
            Syscall::Number(number) => {
                Arc::clone(self.calls.entry(number).or_insert_with(|| Arch::default().name(call)))
            }
        }
    }

    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let name: Arc<str> = text.into();
        self.texts.insert(text.into(), Arc::clone(&name));
        name
    }
}
