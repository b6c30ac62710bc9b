//! Visits all processes on a thread of its own, `sordino-dump`, because mapped files and processes' memory can block
//! their reader. The recorder waits at most [`DUMP_TIME`], or [`STARVED_TIME`] where the thread lacks a CPU.
//!
//! A thread that hangs is abandoned, another one continues with the rest, and the device on which it hung is not read
//! again. Once [`LEFT_MAX`] threads are abandoned, neither files nor mappings are read.

use super::build_id::{self, Found, Unknown};
use super::devices;
use super::filesystems::{FileServer, FileSystems};
use super::left_out::LeftOut;
use super::open::{InodeId, Mapped, Skip};
use super::process::{self, CodeMapping, ProcThread};
use super::share::{Share, spent, waited_for_a_cpu};
use crate::threads;
use rustix::process::Pid;
use rustix::thread::gettid;
use sordino_proc::file::of_thread;
use sordino_proc::list::pids;
use sordino_proc::stat::Stat;
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for a dump whose thread has a CPU.
const DUMP_TIME: Duration = Duration::from_secs(1);
/// Longest wait for a dump in any case.
const STARVED_TIME: Duration = Duration::from_secs(4);
/// Longest wait for one file or one process.
const STEP_TIME: Duration = Duration::from_millis(250);
/// Maximum number of abandoned threads.
const LEFT_MAX: usize = 4;

/// The number of abandoned threads that still hang.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// The result of a visit of all processes.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) threads: Vec<ProcThread>,
    pub(super) mappings: Vec<CodeMapping>,
    /// Notes on missing parts.
    pub(super) notes: Vec<String>,
}

/// Reads the state of all processes from `/proc`, as far as possible in time.
pub(super) fn walk() -> Walked {
    let walk = Arc::new(Walk::new());
    if !start(&walk) {
        walk.on_this_thread();
    }
    loop {
        let state = walk.lock();
        if state.done || !state.has_time() {
            return walk.end(state);
        }
        if state.current.as_ref().is_some_and(Current::hangs) {
            walk.leave_behind(state);
            if !start(&walk) {
                walk.on_this_thread();
            }
            continue;
        }
        let wait = walk.changed.wait_timeout(state, STEP_TIME / 5);
        drop(wait.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Starts a thread that works on `walk`, unless too many threads hang already.
fn start(walk: &Arc<Walk>) -> bool {
    if LEFT.load(Ordering::Relaxed) >= LEFT_MAX {
        return false;
    }
    let mut state = walk.lock();
    let (generation, theirs) = (state.generation, Arc::clone(walk));
    // The lock is held until `working` is set; the thread takes it first.
    state.working = threads::start("sordino-dump", move || theirs.work(generation)).is_ok();
    state.working
}

/// One part of the work, which is done without the lock.
#[derive(Clone, Debug)]
enum WalkTask {
    List,
    Threads(i32),
    Mappings(i32),
    File(Mapped),
}

/// The result of a task.
enum WalkResult {
    /// Processes and their users.
    List(Vec<(i32, u32)>),
    Threads(i32, Vec<ProcThread>, bool),
    Mappings(i32, Vec<CodeMapping>, bool),
    File(Mapped, Result<Found, Unknown>),
}

/// The task in progress, its thread and its start.
#[derive(Debug)]
struct Current {
    task: WalkTask,
    thread: Pid,
    since: Instant,
}

#[derive(Debug)]
struct Walk {
    state: Mutex<WalkState>,
    filesystems: Mutex<FileSystems>,
    changed: Condvar,
}

#[derive(Debug)]
struct WalkState {
    begin: Instant,
    /// The thread that works on it, once it runs.
    thread: Option<Pid>,
    /// True once the processes are listed or about to be.
    listed: bool,
    done: bool,
    /// True while the thread of the current generation works on it.
    working: bool,
    /// The current generation of worker; an abandoned thread has an earlier number.
    generation: u32,
    current: Option<Current>,
    tasks: VecDeque<WalkTask>,
    /// True if tasks that can hang are skipped.
    cautious: bool,
    users: HashMap<i32, u32>,
    shares: HashMap<u32, Share>,
    threads: Vec<ProcThread>,
    mappings: Vec<CodeMapping>,
    build_ids: HashMap<InodeId, String>,
    /// Build ids of files whose device numbers are valid for one process only.
    own_build_ids: HashMap<(i32, InodeId), String>,
    left_out: LeftOut,
}

impl Walk {
    fn new() -> Self {
        Self { state: Mutex::new(WalkState::new()), filesystems: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, WalkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until all is done, time is up, or another thread has taken over.
    fn work(&self, generation: u32) {
        loop {
            let next = self.lock().begin(generation);
            let Some(task) = next else { break };
            let device = if let WalkTask::File(mapped) = &task { Some(mapped.file.device) } else { None };
            let begin = spent(device.is_some());
            let done = task.run(&self.filesystems);
            let time = spent(device.is_some()).saturating_sub(begin);
            let mut state = self.lock();
            match device {
                _ if state.generation == generation => state.current = None,
                Some(device) => devices::answered(device),
                None => {}
            }
            state.add(done, time);
        }
        let mut state = self.lock();
        if state.generation == generation {
            state.working = false;
        } else {
            LEFT.fetch_sub(1, Ordering::Relaxed);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Performs the tasks that cannot hang on the calling thread.
    fn on_this_thread(&self) {
        let mut state = self.lock();
        (state.cautious, state.working) = (true, true);
        state.left_out.add("mappings are left out: too many files or processes do not answer".to_owned());
        let generation = state.generation;
        drop(state);
        self.work(generation);
    }

    /// Abandons the thread that hangs.
    fn leave_behind(&self, mut state: MutexGuard<'_, WalkState>) {
        match state.current.take().map(|current| current.task) {
            Some(WalkTask::File(mapped)) => {
                devices::hangs(mapped.file.device);
                let user = state.user(mapped.pid);
                state.left_out.hung(&mapped, user);
            }
            Some(WalkTask::Threads(pid) | WalkTask::Mappings(pid)) => {
                let user = state.user(pid);
                state.left_out.add(format!("process {pid} (user {user}) does not answer"));
            }
            Some(WalkTask::List) | None => {}
        }
        state.dismiss();
    }

    /// Ends the visit and returns the results so far.
    fn end(&self, mut state: MutexGuard<'_, WalkState>) -> Walked {
        if !state.done {
            let left = state.tasks.len() + usize::from(state.current.is_some());
            let limit = DUMP_TIME.as_secs();
            state.left_out.add(format!(
                "{left} of the processes and files are left out: it took longer than {limit} s"
            ));
            if let Some(WalkTask::File(mapped)) = state.current.take().map(|current| current.task) {
                // Barred until the file answers.
                devices::hangs(mapped.file.device);
            }
            state.tasks.clear();
            state.dismiss();
        } else if !state.cautious {
            build_id::forget();
        }
        let mut mappings = std::mem::take(&mut state.mappings);
        for mapping in &mut mappings {
            mapping.build_id = state.build_id(&mapping.mapped);
        }
        let notes = std::mem::take(&mut state.left_out).notes();
        let mut threads = std::mem::take(&mut state.threads);
        threads.sort_by_key(|thread| thread.pid);
        mappings.sort_by_key(|mapping| mapping.mapped.pid);
        Walked { threads, mappings, notes }
    }
}

impl WalkState {
    fn new() -> Self {
        Self {
            begin: Instant::now(),
            thread: None,
            listed: false,
            done: false,
            working: false,
            generation: 0,
            current: None,
            tasks: VecDeque::new(),
            cautious: false,
            users: HashMap::new(),
            shares: HashMap::new(),
            threads: Vec::new(),
            mappings: Vec::new(),
            build_ids: HashMap::new(),
            own_build_ids: HashMap::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Returns true if the dump may continue. Time during which its thread waited for a CPU counts only up to a limit.
    fn has_time(&self) -> bool {
        let time = self.begin.elapsed();
        let waited = || self.thread.map_or(time, waited_for_a_cpu);
        time < DUMP_TIME || time < STARVED_TIME && time.saturating_sub(waited()) < DUMP_TIME
    }

    /// Returns the next task for the thread of this generation; `None` if there is none for it.
    fn begin(&mut self, generation: u32) -> Option<WalkTask> {
        let thread = gettid();
        self.thread = Some(thread).filter(|_| self.generation == generation).or(self.thread);
        if self.generation != generation || self.cautious && !self.has_time() {
            return None;
        }
        let task =
            if std::mem::replace(&mut self.listed, true) { self.next_task() } else { Some(WalkTask::List) };
        self.done = task.is_none();
        let current = |task: &WalkTask| Current { task: task.clone(), thread, since: Instant::now() };
        self.current = task.as_ref().map(current);
        task
    }

    /// Returns the next task that is within its user's share and not barred.
    fn next_task(&mut self) -> Option<WalkTask> {
        while let Some(task) = self.tasks.pop_front() {
            let pid = match &task {
                WalkTask::List => return Some(task),
                WalkTask::Threads(pid) => *pid,
                WalkTask::Mappings(_) | WalkTask::File(_) if self.cautious => continue,
                WalkTask::Mappings(pid) => *pid,
                WalkTask::File(mapped) => mapped.pid,
            };
            let user = self.user(pid);
            if self.shares.get(&user).is_some_and(Share::is_used_up) {
                self.left_out.share_used_up(user);
                continue;
            }
            match &task {
                WalkTask::File(mapped) if self.build_ids.contains_key(&mapped.file) => {}
                WalkTask::File(mapped) if devices::is_barred(mapped.file.device) => {
                    self.left_out.barred(mapped, user);
                }
                _ => return Some(task),
            }
        }
        None
    }

    /// Adds the result of a task that took `time`.
    fn add(&mut self, done: WalkResult, time: Duration) {
        let (pid, bytes) = match done {
            WalkResult::List(processes) => return self.add_processes(processes),
            WalkResult::Threads(pid, mut threads, more) => {
                if more {
                    let user = self.user(pid);
                    self.left_out.too_many(pid, user, "threads", process::THREADS_MAX);
                }
                let bytes = threads.len() * size_of::<ProcThread>();
                self.threads.append(&mut threads);
                (pid, bytes)
            }
            WalkResult::Mappings(pid, mappings, more) => (pid, self.add_mappings(pid, mappings, more)),
            WalkResult::File(mapped, found) => {
                self.add_build_id(&mapped, found);
                (mapped.pid, 0)
            }
        };
        let share = self.shares.entry(self.user(pid)).or_default();
        share.time += time;
        share.bytes += bytes;
    }

    /// Queues the processes' tasks, alternating between users so that no user's many processes delay another's;
    /// threads, which cannot hang, come first.
    fn add_processes(&mut self, mut processes: Vec<(i32, u32)>) {
        let mut counts: HashMap<u32, usize> = HashMap::new();
        let mut rank = |user| {
            let count = counts.entry(user).or_default();
            *count += 1;
            *count
        };
        let mut ranked: Vec<_> = processes.drain(..).map(|(pid, user)| (rank(user), pid, user)).collect();
        ranked.sort_unstable();
        self.tasks = ranked.iter().map(|(_, pid, _)| WalkTask::Threads(*pid)).collect();
        self.tasks.extend(ranked.iter().map(|(_, pid, _)| WalkTask::Mappings(*pid)));
        self.users = ranked.into_iter().map(|(_, pid, user)| (pid, user)).collect();
    }

    /// Adds a process's mappings and queues their files. Returns their size in memory, in bytes.
    fn add_mappings(&mut self, pid: i32, mut mappings: Vec<CodeMapping>, more: bool) -> usize {
        if more {
            let user = self.user(pid);
            self.left_out.too_many(pid, user, "executable mappings", process::MAPPINGS_MAX);
        }
        let mut files = HashSet::new();
        for CodeMapping { mapped, .. } in mappings.iter().rev() {
            if !self.build_ids.contains_key(&mapped.file) && files.insert(mapped.file) {
                self.tasks.push_front(WalkTask::File(mapped.clone()));
            }
        }
        let bytes = mappings.iter().map(|mapping| size_of::<CodeMapping>() + mapping.mapped.path.len()).sum();
        self.mappings.append(&mut mappings);
        bytes
    }

    fn add_build_id(&mut self, mapped: &Mapped, found: Result<Found, Unknown>) {
        match found {
            Ok((build_id, true)) => drop(self.build_ids.insert(mapped.file, build_id)),
            Ok((build_id, false)) => drop(self.own_build_ids.insert((mapped.pid, mapped.file), build_id)),
            Err(why) => {
                let user = self.user(mapped.pid);
                if why != Unknown::Skipped(Skip::Nothing) && why != Unknown::Skipped(Skip::Replaced) {
                    // The result would be the same for the next process with this file.
                    self.build_ids.insert(mapped.file, String::new());
                }
                self.left_out.unknown(mapped, user, why);
            }
        }
    }

    fn build_id(&self, mapped: &Mapped) -> String {
        let own = || self.own_build_ids.get(&(mapped.pid, mapped.file));
        self.build_ids.get(&mapped.file).or_else(own).cloned().unwrap_or_default()
    }

    fn user(&self, pid: i32) -> u32 {
        self.users.get(&pid).copied().unwrap_or_default()
    }

    /// Dismisses the worker, which counts as abandoned until it notices.
    fn dismiss(&mut self) {
        if std::mem::take(&mut self.working) {
            LEFT.fetch_add(1, Ordering::Relaxed);
        }
        self.generation += 1;
        self.thread = None;
    }
}

impl WalkTask {
    fn run(self, filesystems: &Mutex<FileSystems>) -> WalkResult {
        match self {
            Self::List => {
                let user = |pid| std::fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid());
                WalkResult::List(pids().filter_map(|pid| Some((pid, user(pid)?))).collect())
            }
            Self::Threads(pid) => {
                let (threads, more) = process::threads(pid);
                WalkResult::Threads(pid, threads, more)
            }
            Self::Mappings(pid) => {
                let (mappings, more) = process::mappings(pid);
                WalkResult::Mappings(pid, mappings, more)
            }
            Self::File(mapped) => {
                let found = build_id_of(&mapped, filesystems);
                WalkResult::File(mapped, found)
            }
        }
    }
}

/// Returns the build id of a mapped file, unless a program serves its file system.
pub(super) fn build_id_of(mapped: &Mapped, filesystems: &Mutex<FileSystems>) -> Result<Found, Unknown> {
    let mut known = filesystems.lock().unwrap_or_else(PoisonError::into_inner);
    let server = known.server(mapped.file.device, mapped.pid);
    drop(known);
    match server {
        Some(FileServer::Kernel) => build_id::of(mapped, false),
        Some(FileServer::KernelElsewhere) => build_id::of(mapped, true),
        Some(FileServer::Program) => Err(Unknown::Skipped(Skip::Served)),
        None => Err(Unknown::Skipped(Skip::Nothing)),
    }
}

impl Current {
    /// Returns true if its thread has been blocked for too long. A thread that lacks a CPU does not count.
    fn hangs(&self) -> bool {
        let stat =
            || of_thread(std::process::id().cast_signed(), self.thread.as_raw_nonzero().get(), "stat").ok();
        let runs = || Some(Stat::parse(&stat()?)?.field(3) == "R");
        self.since.elapsed() >= STEP_TIME && !runs().unwrap_or(false)
    }
}
