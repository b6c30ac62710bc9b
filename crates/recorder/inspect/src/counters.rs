//! The offsets of the CPUs' cycle counters from the counter of one CPU.
//!
//! Firmware and hypervisors start the counters of CPUs a little apart. A thread on each of two CPUs exchanges readings
//! through a word of memory: what one CPU reads between two readings of the other lies between these, if the counters
//! agree. Each exchange thus gives bounds of the offset, and all of them together the narrowest. The method is that of
//! network time protocols (RFC 5905, section 8), with bounds instead of means, so that an interrupt in an exchange
//! makes it useless and not wrong.

use crate::threads;
use sordino_clock::cycles_in_order;
use sordino_event::{Cpu, Ticks};
use sordino_sched::{CpuList, allow_prompt_sleep, set_affinity};
use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The name of the threads that measure.
const NAME: &str = "sordino-counter";
/// The longest stretch of a measurement on a CPU, in ticks: 20 to 50 us at 2 to 5 GHz.
const STRETCH: u64 = 100_000;
/// Maximum number of exchanges of a measurement.
const EXCHANGES: u64 = 64;
/// Number of attempts to have both threads on their CPUs at one time.
const ATTEMPTS: u32 = 16;
/// Time until the next attempt, for which both threads sleep.
const PAUSE: Duration = Duration::from_millis(1);
/// Time after which no measurement of another CPU begins.
const LONGEST: Duration = Duration::from_secs(1);
/// Time between the begins of two measurements of all CPUs.
const EVERY: Duration = Duration::from_secs(60);
/// Maximum number of offsets that are kept. At the limit the older half is dropped.
const MOST: usize = 1 << 16;

/// The offset of a CPU's cycle counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterOffset {
    /// The time of the measurement, by the counter to which the offset refers.
    pub at: Ticks,
    /// The CPU of the counter.
    pub cpu: Cpu,
    /// The number of ticks by which it is ahead.
    pub offset: i64,
    /// The greatest error of `offset`, in ticks.
    pub uncertainty: u64,
}

impl CounterOffset {
    /// Returns true if both may be right: the offset need not have changed.
    fn agrees(&self, other: &Self) -> bool {
        self.offset.abs_diff(other.offset) <= self.uncertainty.saturating_add(other.uncertainty)
    }
}

/// The measured offsets of a recording, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterOffsets(Vec<CounterOffset>);

impl CounterOffsets {
    /// Adds an offset. Of several that agree, the first and the last are kept, so that a long recording does not grow
    /// by them.
    pub fn add(&mut self, offset: CounterOffset) {
        let mut own = (0..self.0.len()).rev().filter(|index| self.0[*index].cpu == offset.cpu);
        if let (Some(last), Some(before)) = (own.next(), own.next())
            && [last, before].iter().all(|index| self.0[*index].agrees(&offset))
        {
            self.0.remove(last);
        }
        if self.0.len() >= MOST {
            self.0.drain(..MOST / 2);
        }
        self.0.push(offset);
    }

    /// Keeps the last offset of each CPU, for a recording that begins now.
    pub fn keep_last(&mut self) {
        let all = std::mem::take(&mut self.0);
        let is_last = |index: usize| all[index + 1..].iter().all(|later| later.cpu != all[index].cpu);
        self.0 = (0..all.len()).filter(|index| is_last(*index)).map(|index| all[index]).collect();
    }

    /// Returns all of them.
    pub fn as_slice(&self) -> &[CounterOffset] {
        &self.0
    }
}

/// The measurements during a recording: one at its begin, one each minute, one at its end.
#[derive(Debug, Default)]
pub struct CounterWatch {
    running: Option<JoinHandle<Vec<CounterOffset>>>,
    /// The time at which the last measurement began.
    began: Option<Instant>,
}

impl CounterWatch {
    /// Begins a measurement of these CPUs, unless one is running. Without the right to have another thread, there is
    /// none.
    pub fn begin(&mut self, cpus: &CpuList) {
        if self.running.is_none() {
            self.began = Some(Instant::now());
            self.running = measure_offsets(cpus).ok();
        }
    }

    /// Begins another measurement if there was one.
    pub fn begin_again(&mut self, cpus: &CpuList) {
        if self.began.is_some() {
            self.begin(cpus);
        }
    }

    /// Returns true if it is time for the next measurement.
    pub fn is_due(&self) -> bool {
        self.running.is_none() && self.began.is_some_and(|began| began.elapsed() >= EVERY)
    }

    /// Returns the result of a measurement that has ended; nothing while it is running.
    pub fn ended(&mut self) -> Vec<CounterOffset> {
        match self.running.take_if(|running| running.is_finished()) {
            Some(ended) => result(ended),
            None => Vec::new(),
        }
    }

    /// Waits for the end of a measurement that is running: about a second at most, as for [`measure_offsets`].
    pub fn wait(&mut self) -> Vec<CounterOffset> {
        self.running.take().map(result).unwrap_or_default()
    }
}

/// Returns the result of a measurement. A panic, which has printed its message, leaves none.
fn result(measurement: JoinHandle<Vec<CounterOffset>>) -> Vec<CounterOffset> {
    measurement.join().unwrap_or_default()
}

/// Measures the offsets of the counters of `cpus` from that of the first of them, in a thread of its own.
///
/// The CPUs are measured one after the other, each for at most 50 us at a stretch. A CPU that has no offset in the
/// result could not be measured: a real-time thread had it, or the recorder may not run there. It takes some
/// milliseconds for each CPU, at most about a second in all.
///
/// # Errors
/// No thread could be started.
pub fn measure_offsets(cpus: &CpuList) -> io::Result<JoinHandle<Vec<CounterOffset>>> {
    let cpus = cpus.as_slice().to_vec();
    threads::start(NAME, move || {
        // Its CPUs are part of the measurement.
        threads::stay();
        let Some((first, others)) = cpus.split_first() else { return Vec::new() };
        let begin = Instant::now();
        let others = others.iter().take_while(|_| begin.elapsed() < LONGEST);
        others.filter_map(|other| offset(*first, *other)).collect()
    })
}

/// Measures the offset of the counter of `cpu` from that of `reference`.
fn offset(reference: u32, cpu: u32) -> Option<CounterOffset> {
    let attempts = Instant::now() + PAUSE;
    (0..ATTEMPTS).find_map(|attempt| {
        let begin = attempts + PAUSE * attempt;
        let mail = Mail::default();
        let bounds = thread::scope(|scope| {
            let other = thread::Builder::new().name(NAME.into()).spawn_scoped(scope, || {
                let _own = threads::enter(NAME.to_owned());
                threads::stay();
                arrive(cpu, begin)?;
                mail.answer();
                io::Result::Ok(())
            });
            other.and_then(|_| arrive(reference, begin)).is_ok().then(|| mail.exchange())
        });
        let (offset, uncertainty) = bounds?.offset()?;
        Some(CounterOffset { at: Ticks(cycles_in_order()), cpu: Cpu(cpu), offset, uncertainty })
    })
}

/// Moves the calling thread to a CPU, where it sleeps until `begin`.
fn arrive(cpu: u32, begin: Instant) -> io::Result<()> {
    allow_prompt_sleep();
    set_affinity(&CpuList::new([cpu]))?;
    thread::sleep(begin.saturating_duration_since(Instant::now()));
    Ok(())
}

/// The words through which two threads exchange readings, each in a cache line of its own.
///
/// The release of each word and its acquisition by the other thread order the readings before and after it: a reading
/// happens behind all loads before it ([`cycles_in_order`]), and a store becomes visible behind the reading before it,
/// since stores do not pass earlier instructions on x86.
#[derive(Debug, Default)]
struct Mail {
    request: MailWord,
    answer: MailWord,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct MailWord(AtomicU64);

impl Mail {
    /// Requests readings and takes the answers, until there are enough, or its time is over.
    fn exchange(&self) -> OffsetBounds {
        let begin = cycles_in_order();
        let (mut bounds, mut last) = (OffsetBounds::UNKNOWN, 0);
        for number in 1..=EXCHANGES {
            let sent = cycles_in_order();
            self.request.0.store(number, Ordering::Release);
            let Some(read) = self.answer.await_change(last, begin) else { break };
            bounds.narrow(sent, read, cycles_in_order());
            last = read;
        }
        bounds
    }

    /// Answers requests until there were enough, or its time is over.
    fn answer(&self) {
        let begin = cycles_in_order();
        for number in 0..EXCHANGES {
            if self.request.await_change(number, begin).is_none() {
                return;
            }
            self.answer.0.store(cycles_in_order(), Ordering::Release);
        }
    }
}

impl MailWord {
    /// Waits for another value than `last`; `None` if the stretch since `begin` ends before.
    fn await_change(&self, last: u64, begin: u64) -> Option<u64> {
        loop {
            match self.0.load(Ordering::Acquire) {
                value if value != last => return Some(value),
                _ if cycles_in_order().wrapping_sub(begin) > STRETCH => return None,
                _ => spin_loop(),
            }
        }
    }
}

/// The bounds of an offset, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetBounds {
    least: i64,
    greatest: i64,
}

impl OffsetBounds {
    const UNKNOWN: Self = Self { least: i64::MIN, greatest: i64::MAX };

    /// Applies an exchange: the other counter showed `read` between two readings of the own one.
    fn narrow(&mut self, sent: u64, read: u64, received: u64) {
        self.least = self.least.max(read.wrapping_sub(received).cast_signed());
        self.greatest = self.greatest.min(read.wrapping_sub(sent).cast_signed());
    }

    /// Returns the middle of the bounds and its greatest error. `None` without an exchange, or if the exchanges
    /// contradict each other: a counter was set meanwhile.
    fn offset(self) -> Option<(i64, u64)> {
        let width = self.greatest.checked_sub(self.least).filter(|width| *width >= 0)?.cast_unsigned();
        Some((self.least + (width / 2).cast_signed(), width.div_ceil(2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Applies exchanges with a counter that is ahead by `offset`: the times to the other CPU and back.
    fn measured(offset: i64, trips: &[(u64, u64)]) -> Option<(i64, u64)> {
        let (mut bounds, mut now) = (OffsetBounds::UNKNOWN, 1_000_u64);
        for (there, back) in trips {
            let read = (now + there).wrapping_add_signed(offset);
            bounds.narrow(now, read, now + there + back);
            now += there + back + 10;
        }
        bounds.offset()
    }

    #[test]
    fn the_offset_lies_within_the_uncertainty_of_any_exchanges() {
        for offset in [0, 1, -1, 7, 12_345, -999_999, i64::from(i32::MAX)] {
            for trips in [&[(100, 100)][..], &[(90, 700), (5_000, 80), (300, 301)], &[(1, 0)]] {
                let (found, uncertainty) = measured(offset, trips).unwrap();
                assert!(found.abs_diff(offset) <= uncertainty, "{found} +- {uncertainty} for {offset}");
                let (there, back) = trips
                    .iter()
                    .fold((u64::MAX, u64::MAX), |least, trip| (least.0.min(trip.0), least.1.min(trip.1)));
                assert_eq!(uncertainty, (there + back).div_ceil(2));
            }
        }
    }

    #[test]
    fn a_counter_that_is_set_meanwhile_has_no_offset() {
        let mut bounds = OffsetBounds::UNKNOWN;
        assert_eq!(bounds.offset(), None);
        bounds.narrow(1_000, 1_050, 1_100);
        bounds.narrow(2_000, 2_500, 2_100);
        assert_eq!(bounds.offset(), None);
    }

    #[test]
    fn of_offsets_that_agree_the_first_and_the_last_are_kept() {
        let offset = |at, cpu, offset| CounterOffset { at: Ticks(at), cpu: Cpu(cpu), offset, uncertainty: 5 };
        let mut offsets = CounterOffsets::default();
        (0..10).for_each(|at| (1..3).for_each(|cpu| offsets.add(offset(at, cpu, 100))));
        (10..15).for_each(|at| offsets.add(offset(at, 2, 111)));
        let kept = offsets.as_slice().iter().map(|kept| (kept.at.0, kept.cpu.0)).collect::<Vec<_>>();
        assert_eq!(kept, [(0, 1), (0, 2), (9, 1), (9, 2), (10, 2), (14, 2)]);
        offsets.keep_last();
        assert_eq!(offsets.as_slice(), [offset(9, 1, 100), offset(14, 2, 111)]);
        (0..MOST as i64).for_each(|at| offsets.add(offset(at.cast_unsigned(), 1, at * 100)));
        assert!(
            offsets.as_slice().len() <= MOST && offsets.as_slice().last().unwrap().at.0 == MOST as u64 - 1
        );
    }

    #[test]
    fn a_side_without_a_partner_ends_in_time() {
        let (mail, begin) = (Mail::default(), cycles_in_order());
        assert_eq!(mail.exchange().offset(), None);
        mail.answer();
        assert!(mail.answer.0.load(Ordering::Relaxed) > begin, "the request of before is answered");
    }

    #[test]
    fn the_counters_of_this_machine_are_measured() {
        let cpus = sordino_sched::affinity().unwrap();
        let offsets = measure_offsets(&cpus).unwrap().join().unwrap();
        for measured in &offsets {
            assert!(cpus.contains(measured.cpu.0) && measured.uncertainty < STRETCH, "{measured:?}");
        }
        if offsets.len() + 1 < cpus.as_slice().len() {
            let _ =
                writeln!(io::stderr(), "not measured here: offsets of counters of some CPUs: they were busy");
        }
    }
}
