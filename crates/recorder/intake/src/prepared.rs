//! An area that is prepared before a program requests one, with the memory of the rings that the program will use.
//!
//! A program that writes at full speed from its first hit on uses memory faster than it can be supplied. So a session
//! has one area ready while no program is recorded. The first program to request it gets it, and registers with it as
//! with one that it made itself. The memory is part of the session's budget from the start.

use crate::hold::{PreparedStart, Wishes};
use crate::ledger::{HeldMemory, Ledger};
use crate::portion::prepared_portion;
use sordino_inspect::discover::executes_our_program;
use sordino_inspect::threads;
use sordino_registration::AreaSizes;
use sordino_ring::area::control::{FileId, Preparation};
use sordino_ring::layout::{CATALOGUE, Capacity, POINTS};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time from the offer of an area to the program's registration, after which it counts as unused.
const UNUSED: Duration = Duration::from_secs(10);

/// Time without a program after which another area is prepared: programs that start one after another are usually
/// short-lived, and one area costs more than all that they need.
const IDLE: Duration = Duration::from_secs(5);

/// The prepared areas of a session.
#[derive(Clone, Debug)]
pub struct PreparedAreas(Arc<AreaStore>);

#[derive(Debug)]
struct AreaStore {
    ledger: Ledger,
    state: Mutex<PreparationState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PreparationState {
    /// True while a thread prepares an area.
    is_preparing: bool,
    ready: Option<PreparedArea>,
    /// The time at which a program was recorded last.
    used: Option<Instant>,
    /// True if a program requested an area and did not register.
    is_abused: bool,
    /// Areas that programs have, but did not register yet, and the times of the offers. The descriptors keep the files'
    /// identities.
    offered: Vec<(PreparedArea, Instant)>,
}

/// An area's file, and what its rings have.
#[derive(Debug)]
struct PreparedArea {
    file: Arc<OwnedFd>,
    id: FileId,
    sizes: AreaSizes,
    start: PreparedStart,
    skips_ours: bool,
    _memory: HeldMemory,
}

impl PreparedAreas {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self(Arc::new(AreaStore { ledger, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// Returns areas of which this file is ready.
    #[cfg(test)]
    pub(crate) fn ready(file: &Arc<OwnedFd>, sizes: AreaSizes) -> Self {
        let ledger = Ledger::of_this_process(crate::ledger::IntakeLimits::of_this_machine(None));
        let portion = sordino_ring::area::control::Portion { per_cpu: 1, shared: 1 };
        let start = PreparedStart { first_seqno: sordino_ring::number::Seqno(0), portion };
        let id = FileId::of(&**file).unwrap();
        let area = PreparedArea {
            file: Arc::clone(file),
            id,
            sizes,
            start,
            skips_ours: false,
            _memory: ledger.hold(0).unwrap(),
        };
        let areas = Self::new(ledger);
        areas.lock().ready = Some(area);
        areas
    }

    /// Ignores poisoning: no code panics while it holds the lock, and each change is complete.
    fn lock(&self) -> MutexGuard<'_, PreparationState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread that prepares an area, if none is ready. It takes some 30 ms of a CPU.
    pub(crate) fn prepare(&self, wishes: &Wishes) {
        let mut state = self.lock();
        if state.ready.is_some() || state.is_preparing || !wishes.is_sparse {
            return;
        }
        let (areas, wishes) = (self.clone(), wishes.clone());
        let started = threads::start("sordino-prepare", move || {
            // Without memory there is none: programs make their own.
            let area = areas.make(&wishes).ok();
            let mut state = areas.lock();
            (state.ready, state.is_preparing) = (area, false);
            areas.0.changed.notify_all();
        });
        state.is_preparing = started.is_ok();
    }

    fn make(&self, wishes: &Wishes) -> io::Result<PreparedArea> {
        let start = PreparedStart {
            first_seqno: crate::hold::first_seqno(),
            portion: prepared_portion(wishes.geometry, wishes.cpus.len(), self.0.ledger.memory().budget),
        };
        let options = wishes.prepared_options(start);
        let capacity = Capacity { cpus: configured_cpus()?, points: POINTS as u32 };
        let preparation = Preparation { options: &options, capacity, catalogue: CATALOGUE as u64 };
        let memory = self.0.ledger.hold(preparation.memory()).ok_or(io::ErrorKind::OutOfMemory)?;
        let file = preparation.make()?;
        let sizes = AreaSizes {
            cpus: capacity.cpus,
            points: capacity.points,
            catalogue: preparation.catalogue,
            reserve: preparation.size(),
        };
        let (id, skips_ours) = (FileId::of(&file)?, wishes.skip_ours);
        Ok(PreparedArea { file: Arc::new(file), id, sizes, start, skips_ours, _memory: memory })
    }

    /// Waits until an area is ready, or none can be made, or `time` has passed.
    pub(crate) fn wait(&self, time: Duration) {
        let state = self.lock();
        // An area that is late is ready for a later program.
        drop(self.0.changed.wait_timeout_while(state, time, |state| state.is_preparing));
    }

    /// Returns the file of the area that is ready, if its sizes are these, for the program `pid` alone. Commands of
    /// sordino itself, which sessions do not record, get none; nor does npt, which they do record.
    pub(crate) fn offer(&self, pid: i32, sizes: AreaSizes) -> Option<Arc<OwnedFd>> {
        let mut state = self.lock();
        let fits = |area: &mut PreparedArea| {
            sizes.reserve >= area.sizes.reserve
                && AreaSizes { reserve: area.sizes.reserve, ..sizes } == area.sizes
                && !(area.skips_ours && executes_our_program(pid))
        };
        let area = state.ready.take_if(fits)?;
        let file = Arc::clone(&area.file);
        state.used = Some(Instant::now());
        state.offered.push((area, Instant::now()));
        Some(file)
    }

    /// Takes back the newest offer, which did not reach its program.
    pub(crate) fn withdraw(&self) {
        let mut state = self.lock();
        if let Some((area, _)) = state.offered.pop() {
            (state.ready, state.used) = (Some(area), None);
        }
    }

    /// Returns the start of the rings in an offered area, whose program has registered. The caller accounts for the
    /// memory from here on.
    pub(crate) fn take(&self, id: FileId) -> Option<PreparedStart> {
        let mut state = self.lock();
        let index = state.offered.iter().position(|(area, _)| area.id == id)?;
        Some(state.offered.swap_remove(index).0.start)
    }

    /// Forgets areas whose programs did not register: such programs keep the memory, so no other is prepared. While
    /// programs are recorded, none is ready: the first one has taken it, or made its own, and later ones are not alone.
    /// After a time without any, another is prepared.
    pub(crate) fn look_after(&self, wishes: &Wishes, has_programs: bool) {
        let now = Instant::now();
        let mut state = self.lock();
        let unused: Vec<_> = state.offered.extract_if(.., |(_, offered)| now - *offered >= UNUSED).collect();
        state.is_abused |= !unused.is_empty();
        if has_programs {
            state.used = Some(now);
        }
        let unwanted = if has_programs { state.ready.take() } else { None };
        let is_idle = !has_programs && state.used.take_if(|used| now - *used >= IDLE).is_some();
        let is_abused = state.is_abused;
        drop(state);
        if unwanted.is_some() || !unused.is_empty() {
            // To free their memory takes milliseconds, for which programs would wait.
            let _ = threads::start("sordino-prepare", move || drop((unwanted, unused)));
        }
        if is_idle && !is_abused {
            self.prepare(wishes);
        }
    }
}

/// Returns the number of CPUs for which a program's area has room: `sysconf(_SC_NPROCESSORS_CONF)` counts these
/// entries.
fn configured_cpus() -> io::Result<u32> {
    let is_cpu = |name: &str| name.strip_prefix("cpu").is_some_and(|digits| digits.parse::<u32>().is_ok());
    let entries = fs::read_dir("/sys/devices/system/cpu")?;
    let cpus = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_cpu)).count();
    u32::try_from(cpus).ok().filter(|cpus| (1..=4096).contains(cpus)).ok_or(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::IntakeLimits;
    use sordino_event::Cpu;
    use sordino_ring::layout::Geometry;
    use sordino_ring::write::TimestampClock;
    use std::os::unix::fs::MetadataExt;

    /// Time for which a test waits for an area.
    const SOON: Duration = Duration::from_secs(60);

    fn wishes() -> Wishes {
        Wishes {
            name: "prepared".to_owned(),
            geometry: Geometry::new(128 << 10, 256).unwrap(),
            clock: TimestampClock::Cycles,
            cpus: vec![Cpu(0)],
            leave_out_others: false,
            wake: false,
            block: None,
            is_sparse: true,
            conditions: false,
            with_kernel: false,
            is_session: true,
            skip_ours: false,
            functions: false,
            names_functions: false,
        }
    }

    /// Areas of a session that may use `budget` bytes.
    fn prepared(budget: u64) -> (PreparedAreas, Ledger) {
        let ledger = Ledger::of_this_process(IntakeLimits::of_this_machine(Some(budget)));
        let areas = PreparedAreas::new(ledger.clone());
        areas.prepare(&wishes());
        areas.wait(SOON);
        (areas, ledger)
    }

    fn own() -> i32 {
        std::process::id() as i32
    }

    fn sizes() -> AreaSizes {
        AreaSizes {
            cpus: configured_cpus().unwrap(),
            points: POINTS as u32,
            catalogue: CATALOGUE as u64,
            reserve: 1 << 30,
        }
    }

    #[test]
    fn an_area_is_offered_to_one_program_that_would_make_the_same() {
        let (areas, _) = prepared(128 << 20);
        let sizes = sizes();
        for other in [
            AreaSizes { cpus: sizes.cpus + 1, ..sizes },
            AreaSizes { points: sizes.points - 1, ..sizes },
            AreaSizes { catalogue: sizes.catalogue - 1, ..sizes },
            AreaSizes { reserve: 1 << 20, ..sizes },
        ] {
            assert!(areas.offer(own(), other).is_none(), "{other:?}");
        }
        let file = areas.offer(own(), sizes).unwrap();
        assert!(areas.offer(own(), sizes).is_none());
        let id = FileId::of(&*file).unwrap();
        assert!(areas.take(FileId { inode: id.inode + 1, ..id }).is_none());
        assert_eq!(areas.take(id).unwrap().portion.per_cpu, 128);
        assert!(areas.take(id).is_none());
    }

    #[test]
    fn the_memory_is_there_and_counted_until_the_program_registers() {
        let (areas, ledger) = prepared(128 << 20);
        let held = ledger.memory().used;
        assert!(held >= 16 << 20);
        let file = areas.offer(own(), sizes()).unwrap();
        let allocated = fs::File::from(file.try_clone().unwrap()).metadata().unwrap().blocks() * 512;
        assert_eq!(allocated, held);
        assert_eq!(ledger.memory().used, held);
        areas.take(FileId::of(&*file).unwrap()).unwrap();
        assert_eq!(ledger.memory().used, 0);
    }

    #[test]
    fn an_area_whose_program_never_registers_is_forgotten() {
        let (areas, ledger) = prepared(128 << 20);
        let id = FileId::of(&*areas.offer(own(), sizes()).unwrap()).unwrap();
        areas.look_after(&wishes(), false);
        assert!(ledger.memory().used > 0);
        areas.lock().offered[0].1 -= UNUSED;
        areas.look_after(&wishes(), false);
        assert!(areas.take(id).is_none());
        areas.lock().used = Instant::now().checked_sub(IDLE);
        areas.look_after(&wishes(), false);
        areas.wait(SOON);
        assert!(areas.offer(own(), sizes()).is_none(), "its program has the memory of the first");
    }

    #[test]
    fn a_command_of_sordino_gets_none_where_it_is_not_recorded() {
        let (areas, _) = prepared(128 << 20);
        // This test is the recorder's own program.
        areas.lock().ready.as_mut().unwrap().skips_ours = true;
        assert!(areas.offer(own(), sizes()).is_none());
        assert!(areas.offer(1, sizes()).is_some());
    }

    #[test]
    fn an_offer_that_did_not_reach_its_program_is_ready_for_another() {
        let (areas, ledger) = prepared(128 << 20);
        let (first, used) = (areas.offer(own(), sizes()).unwrap(), ledger.memory().used);
        areas.withdraw();
        let second = areas.offer(own(), sizes()).unwrap();
        assert_eq!(FileId::of(&*first).unwrap(), FileId::of(&*second).unwrap());
        assert_eq!(ledger.memory().used, used);
    }

    #[test]
    fn one_is_ready_only_while_no_program_is_recorded() {
        let (areas, ledger) = prepared(128 << 20);
        areas.look_after(&wishes(), true);
        assert!(areas.offer(own(), sizes()).is_none());
        let end = Instant::now() + SOON;
        while ledger.memory().used > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(ledger.memory().used, 0);
        areas.look_after(&wishes(), false);
        assert!(!areas.lock().is_preparing, "a program may follow");
        areas.lock().used = Instant::now().checked_sub(IDLE);
        areas.look_after(&wishes(), false);
        areas.wait(SOON);
        assert!(areas.offer(own(), sizes()).is_some());
    }

    #[test]
    fn without_memory_and_for_rings_of_a_given_size_there_is_none() {
        let (areas, ledger) = prepared(100 << 10);
        assert!(areas.offer(own(), sizes()).is_none() && ledger.memory().used == 0);
        let areas = PreparedAreas::new(ledger);
        areas.prepare(&Wishes { is_sparse: false, ..wishes() });
        areas.wait(SOON);
        assert!(areas.offer(own(), sizes()).is_none());
    }
}
