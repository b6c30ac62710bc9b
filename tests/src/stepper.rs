//! A debugger that counts the instructions of a hit: it steps through the program from one breakpoint to the next.
//!
//! The program marks a hit by an `int3` before, with the address of its thread's rseq area in the register rdi, and one
//! behind. The kernel aborts a restartable section at every stop in it, so it must not know the area
//! (`programs/fake_rseq.h`). [`HitInterruption`] does the kernel's work, once or each time, before the section's last
//! instruction.

use crate::running::RunningProcess;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// Interruption of each hit that is stepped through, before the last instruction of a section: the store of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitInterruption {
    /// No interruption at all.
    None,
    /// The thread is preempted this many times in a hit.
    Preempted(u32),
    /// The thread gets a signal once in a hit.
    Signalled(Signal),
}

/// Cost of a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitCost {
    /// Number of instructions that retired. One that repeats itself (`rep`) counts once.
    pub instructions: u64,
    /// Number of those instructions that entered the kernel.
    pub system_calls: u64,
}

/// A program that is being stepped through.
#[derive(Debug)]
pub struct Stepper {
    pid: Pid,
}

/// A thread's restartable section, from the kernel's `struct rseq_cs`, and the address of the rseq area.
struct Section {
    area: u64,
    end: u64,
    abort: u64,
}

/// Offset of `rseq_cs` in `struct rseq`, in bytes.
const RSEQ_CS: u64 = 8;

impl Stepper {
    /// Attaches to a program and stops it.
    ///
    /// # Errors
    /// The error of the kernel's system call.
    pub fn new(running: &RunningProcess) -> Result<Self, Errno> {
        let pid = Pid::from_raw(running.pid());
        ptrace::seize(pid, ptrace::Options::PTRACE_O_EXITKILL)?;
        ptrace::interrupt(pid)?;
        waitpid(pid, None)?;
        Ok(Self { pid })
    }

    /// Lets the program run until it has completed its next `hits`.
    ///
    /// # Errors
    /// The error of the kernel's system call.
    pub fn skip(&self, hits: u64) -> Result<(), Errno> {
        (0..2 * hits).try_for_each(|_| self.run_to_breakpoint())
    }

    /// Steps through the program's next hit. Returns its cost, behind the cost of a hit in a signal handler that
    /// interrupted it.
    ///
    /// # Errors
    /// The error of the kernel's system call; [`Errno::ECHILD`] if the program has ended.
    pub fn step(&self, interruption: HitInterruption) -> Result<Vec<HitCost>, Errno> {
        self.run_to_breakpoint()?;
        let area = ptrace::getregs(self.pid)?.rdi;
        let mut hits = Vec::new();
        self.step_to_breakpoint(area, interruption, &mut hits)?;
        Ok(hits)
    }

    fn run_to_breakpoint(&self) -> Result<(), Errno> {
        ptrace::cont(self.pid, None)?;
        self.wait()
    }

    /// Steps until behind the next breakpoint, and adds the cost to `hits`.
    fn step_to_breakpoint(
        &self,
        area: u64,
        interruption: HitInterruption,
        hits: &mut Vec<HitCost>,
    ) -> Result<(), Errno> {
        let (mut hit, mut interruptions) = (HitCost::default(), 0);
        let mut at = ptrace::getregs(self.pid)?.rip;
        loop {
            let code = self.read(at)?.to_le_bytes();
            let due = interruption.is_due(interruptions);
            let section = if due { self.section(area, at)? } else { None };
            if let Some(section) = section.filter(|section| section.is_last(at)) {
                interruptions += 1;
                self.abort(&section)?;
                if let HitInterruption::Signalled(signal) = interruption {
                    self.step_through_handler(signal, &section, hits)?;
                }
                at = section.abort;
                continue;
            }
            let next = self.step_one(None)?;
            if code[0] == INT3 {
                hits.push(hit);
                return Ok(());
            }
            if next != at {
                hit.instructions += 1;
                hit.system_calls += u64::from(SYSTEM_CALLS.contains(&[code[0], code[1]]));
            }
            at = next;
        }
    }

    /// Delivers `signal` and steps through the hit in its handler, until the thread returns to the section's abort
    /// handler.
    fn step_through_handler(
        &self,
        signal: Signal,
        section: &Section,
        hits: &mut Vec<HitCost>,
    ) -> Result<(), Errno> {
        let mut at = self.step_one(Some(signal))?;
        while at != section.abort {
            let begins = self.read(at)?.to_le_bytes()[0] == INT3;
            at = self.step_one(None)?;
            if begins {
                self.step_to_breakpoint(section.area, HitInterruption::None, hits)?;
                at = ptrace::getregs(self.pid)?.rip;
            }
        }
        Ok(())
    }

    /// Steps one instruction, or into the handler of `signal`. Returns the program's new instruction pointer.
    fn step_one(&self, signal: Option<Signal>) -> Result<u64, Errno> {
        ptrace::step(self.pid, signal)?;
        self.wait()?;
        Ok(ptrace::getregs(self.pid)?.rip)
    }

    /// Waits until the program has made its step or is at a breakpoint.
    fn wait(&self) -> Result<(), Errno> {
        match waitpid(self.pid, None)? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => Ok(()),
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => Err(Errno::ECHILD),
            // No other signal is sent to these programs.
            _ => Err(Errno::EPROTO),
        }
    }

    fn read(&self, address: u64) -> Result<u64, Errno> {
        Ok(ptrace::read(self.pid, address as ptrace::AddressType)? as u64)
    }

    /// Returns the section that contains the thread's next instruction at `at`, if any.
    fn section(&self, area: u64, at: u64) -> Result<Option<Section>, Errno> {
        let description = self.read(area + RSEQ_CS)?;
        if description == 0 {
            return Ok(None);
        }
        // Behind two words of 32 bits: the begin, the length, where to continue.
        let [start, length, abort] = [8, 16, 24].map(|offset| self.read(description + offset));
        let (start, length, abort) = (start?, length?, abort?);
        Ok((at.wrapping_sub(start) < length).then_some(Section { area, end: start + length, abort }))
    }

    /// Aborts a section as the kernel does: clears `rseq_cs` and continues at the abort handler.
    fn abort(&self, section: &Section) -> Result<(), Errno> {
        ptrace::write(self.pid, (section.area + RSEQ_CS) as ptrace::AddressType, 0)?;
        let mut registers = ptrace::getregs(self.pid)?;
        registers.rip = section.abort;
        ptrace::setregs(self.pid, registers)
    }
}

impl HitInterruption {
    fn is_due(self, before: u32) -> bool {
        match self {
            Self::None => false,
            Self::Preempted(times) => before < times,
            Self::Signalled(_) => before == 0,
        }
    }
}

/// Opcode of the breakpoint instruction.
const INT3: u8 = 0xcc;
/// Opcodes of `syscall`, `sysenter` and `int 0x80`.
const SYSTEM_CALLS: [[u8; 2]; 3] = [[0x0f, 0x05], [0x0f, 0x34], [0xcd, 0x80]];

impl Section {
    /// Returns true if the instruction at `at` is the section's last one, which stores the head. It takes 3 or 4 bytes,
    /// and the one before at least 2.
    fn is_last(&self, at: u64) -> bool {
        self.end - at <= 4
    }
}
