//! What to record, and how.

use crate::Contexts;
use sordino_event::Schema;
use sordino_event::condition::{Condition, Context};
use sordino_event::rule::{Ranking, Rule, Rules};
use sordino_ring::layout::Geometry;
use sordino_sched::CpuList;
use sordino_tracefs::Selection;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory to record into: made if it is not there, refused if it is not empty.
    pub output: PathBuf,
    /// Whether the calling thread gives up rights once it records; the recorder's own threads always do. See
    /// [`keep_needed_rights`](crate::keep_needed_rights).
    pub confine: bool,
    /// The user and the group to whom what was recorded is given at the end; `None`: whose we are.
    pub reader: Option<(u32, u32)>,
    /// What other recorders are told that this session is called.
    pub name: String,
    /// The kernel's events; none: the kernel is not recorded.
    pub kernel: Vec<Selection>,
    /// KiB of kernel buffer per CPU.
    pub kernel_buffer_kib: u64,
    /// The kernel's events of these threads and their children alone; empty: of all.
    pub kernel_threads: Vec<i32>,
    /// The programs' tracepoints.
    pub user: UserEvents,
    /// What is told of the programs' threads besides.
    pub contexts: Contexts,
    /// The programs' rings. Where they overwrite, so do the kernel's buffers: all keep the newest, and are written to disk when
    /// the recording ends.
    pub geometry: Geometry,
    /// True if rings have all of their pages from the start. Rings that overwrite, and those for which programs wait, always have; others get
    /// pages while they are used.
    pub whole_rings: bool,
    /// Bytes that the programs' rings may use together; a quarter of the memory, if not said.
    pub max_memory: Option<u64>,
    /// How long a program waits for room in a full ring that does not overwrite, if it allows that; else it loses the record.
    pub block: Option<Duration>,
    /// When the collector looks for full sub-buffers, in rings that do not overwrite.
    pub polling: Polling,
    /// The CPUs that get buffers.
    pub cpus: CpuList,
    /// Whether nothing is recorded on others. If not, the programs' events on CPUs that come online meanwhile are.
    pub cpus_only: bool,
    /// How long, at most.
    pub duration: Option<Duration>,
    /// The CPU that the collector stays on.
    pub collector_cpu: Option<u32>,
    /// The collector's `SCHED_FIFO` priority.
    pub collector_priority: Option<u8>,
    /// The CPUs that are shielded now, which the recorder's threads do not move to.
    pub shielded: fn() -> CpuList,
    /// Which programs.
    pub programs: Programs,
    /// Whether none of them is recorded: a command is only started and waited for.
    pub kernel_only: bool,
    /// What makes it a session, which outlives the shell that started it; then `output` is a directory of recordings.
    pub session: Option<SessionOptions>,
}

/// What a session is told besides.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Where programs and commands find it: a directory of its own, see [`session_dir`](crate::session_dir).
    pub runtime: PathBuf,
    /// When it goes on in another chunk, if its buffers do not overwrite.
    pub rotation: Rotation,
    /// When it takes snapshots, if they do.
    pub snapshots: Snapshots,
    /// Which of its recordings stay.
    pub keep: Keep,
}

/// When a session goes on in another chunk: whichever comes first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    /// When the chunk has so many bytes.
    pub size: Option<u64>,
    /// When so much time has passed.
    pub every: Option<Duration>,
}

/// How many recordings of a session stay; the newest always does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// So many at most.
    pub count: Option<usize>,
    /// So many bytes at most.
    pub bytes: Option<u64>,
}

/// When a flight recorder takes snapshots by itself.
#[derive(Clone, Debug)]
pub struct Snapshots {
    /// How much of the time before; all that is there, if not said.
    pub last: Option<Duration>,
    /// For so long after one that a program asked for, it only counts.
    pub hold_off: Duration,
    /// So many that programs asked for, then no more.
    pub most: Option<u64>,
    /// How a program's end is a reason.
    pub ends: Vec<End>,
    /// Which of those stay that events asked for; all, if not said.
    pub worst: Option<Worst>,
}

/// Which snapshots stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worst {
    /// So many.
    pub count: usize,
    /// What makes one worse than the other.
    pub ranking: Ranking,
}

/// A way for a program to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By a signal that dumps core, whether there is a core or not.
    Crash,
    /// With another status than 0, or by a signal.
    Failure,
    /// Any.
    Any,
}

/// Which programs are recorded.
#[derive(Clone, Debug)]
pub enum Programs {
    /// This command and all it starts.
    Command(CommandLine),
    /// These processes, and what they start as far as it says so itself.
    Pids(Vec<i32>),
    /// Every program that can be, also those that start later.
    All,
}

/// A command to start.
#[derive(Clone, Debug)]
pub struct CommandLine {
    /// The program, found in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What to run in front of it: a command that becomes it, as another user for instance.
    pub prefix: Vec<OsString>,
}

/// When the collector looks for full sub-buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// Each time so much has passed.
    Timer(Duration),
    /// All the time.
    Busy,
    /// When a writer says so, by a system call of its own at the end of each sub-buffer.
    Wakeup,
}

impl Polling {
    /// The longest timer that loses nothing whatever a program does: within it, a core that writes 16 GB/s, several times
    /// what one can, does not fill a ring of this size; from 200 us to 10 ms.
    ///
    /// Looking costs: each look wakes a thread. For 2 million events a second and the default sizes, a timer of 200 us took
    /// 46 ms of CPU time for a million events, one of 2 ms took 9.
    pub fn safe_timer(geometry: Geometry) -> Self {
        const BYTES_PER_MICROSECOND: u64 = 16_000;
        let ring = geometry.size() as u64 * u64::from(geometry.count);
        Self::Timer(Duration::from_micros((ring / BYTES_PER_MICROSECOND).clamp(200, 10_000)))
    }
}

/// Rules that nobody types: options stand for them.
pub(crate) const IMPLIED: [&str; 3] = ["sordino:context", "sordino:counters", "sordino:snapshot"];

/// Which tracepoints are wanted, and which of their hits ask for a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserEvents {
    rules: Rules,
    triggers: Rules,
}

/// What is wanted of one tracepoint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// Which hits are recorded.
    pub(crate) filter: Condition,
    /// Which ask for a snapshot.
    pub(crate) trigger: Condition,
    /// Rules that do not fit the tracepoint for another reason than a missing field, and why.
    pub(crate) notes: Vec<String>,
}

impl UserEvents {
    /// Those that these [rules](sordino_event::rule) choose.
    ///
    /// # Errors
    /// What is wrong, with a picture of the place.
    pub fn new(texts: impl IntoIterator<Item = String>) -> Result<Self, String> {
        Ok(Self { rules: rules(texts)?, triggers: Rules::default() })
    }

    /// The same, and those that these rules choose ask for a snapshot: they are recorded, too.
    ///
    /// # Errors
    /// What is wrong, with a picture of the place.
    pub fn with_triggers(self, texts: impl IntoIterator<Item = String>) -> Result<Self, String> {
        Ok(Self { triggers: rules(texts)?, ..self })
    }

    /// How the hits are ranked that ask for a snapshot: see [`Rules::ranking`]; `None` without triggers.
    ///
    /// # Errors
    /// What does not tell that, with a picture of the place.
    pub fn ranking(&self, by: Option<&str>) -> Result<Option<Ranking>, String> {
        self.triggers.ranking(by).map_err(|unfit| format!("{unfit}\n{}", unfit.picture()))
    }

    /// The same and more.
    pub(crate) fn and(&self, text: &str) -> Result<Self, String> {
        let (mut more, new) = (self.clone(), rules([text.to_owned()])?.0);
        // The later one of two that are the same says all.
        more.rules.0.retain(|rule| !new.contains(rule));
        more.rules.0.extend(new);
        Ok(more)
    }

    /// The rules, and then those of triggers, each with whether it is one of a trigger.
    pub(crate) fn rules_and_triggers(&self) -> impl Iterator<Item = (&Rule, bool)> {
        let rules = self.rules.0.iter().map(|rule| (rule, false));
        rules.chain(self.triggers.0.iter().map(|rule| (rule, true)))
    }

    /// Returns true if some tracepoints have a condition.
    pub(crate) fn has_conditions(&self) -> bool {
        self.rules_and_triggers().any(|(rule, is_trigger)| is_trigger || rule.is_conditional())
    }

    /// Whether there is a rule that includes something, besides those that options stand for.
    pub(crate) fn wants_any(&self) -> bool {
        self.rules_and_triggers()
            .any(|(rule, _)| !rule.excludes() && !IMPLIED.contains(&rule.to_string().as_str()))
    }

    /// The rules as they were given.
    pub fn patterns(&self) -> Vec<String> {
        self.rules.0.iter().map(ToString::to_string).collect()
    }

    /// What is wanted of a tracepoint. A rule that does not fit it counts for nothing.
    pub(crate) fn choose(&self, schema: &Schema, context: &Context<'_>) -> Choice {
        let mut notes = Vec::new();
        let mut choose = |rules: &Rules| {
            rules.choose(schema, context).unwrap_or_else(|unfit| {
                notes.push(unfit.to_string());
                Condition::Never
            })
        };
        let trigger = choose(&self.triggers);
        let recorded = Rules(self.rules.0.iter().chain(&self.triggers.0).cloned().collect());
        let filter = choose(&recorded);
        notes.dedup();
        Choice { filter, trigger, notes }
    }
}

/// Rules that exclude these names and globs.
pub(crate) fn excluded(text: &str) -> String {
    let excluded = |name: &str| format!("!{}", name.trim());
    text.split(',').map(excluded).collect::<Vec<_>>().join(",")
}

fn rules(texts: impl IntoIterator<Item = String>) -> Result<Rules, String> {
    let mut rules = Rules::default();
    for text in texts {
        rules
            .0
            .extend(Rule::list(&text).map_err(|invalid| format!("{invalid}\n{}", invalid.picture(&text)))?);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::{Field, Level, Pid};

    #[test]
    fn the_default_timer_follows_the_ring() {
        let timer = |size, count| Polling::safe_timer(Geometry::new(size, count).unwrap());
        assert_eq!(timer(1 << 20, 32), Polling::Timer(Duration::from_micros(2097)));
        assert_eq!(timer(16 << 10, 2), Polling::Timer(Duration::from_micros(200)));
        assert_eq!(timer(256 << 20, 8), Polling::Timer(Duration::from_millis(10)));
    }

    fn schema(name: &str, fields: &[&str]) -> Schema {
        let field = |name: &&str| Field { name: (*name).to_owned(), ty: "u32".parse().unwrap() };
        Schema {
            provider: "motor".to_owned(),
            name: name.to_owned(),
            level: Level::Info,
            location: None,
            fields: fields.iter().map(field).collect(),
        }
    }

    fn choice(events: &UserEvents, schema: &Schema) -> Choice {
        events.choose(schema, &Context { pid: Pid(1), procname: "motor" })
    }

    #[test]
    fn events_are_added_and_taken_away_while_recording() {
        let events = UserEvents::new(["motor".to_owned()]).unwrap();
        let (period, noise) = (schema("period", &[]), schema("noise", &[]));
        assert_eq!(choice(&events, &noise).filter, Condition::Always);
        let fewer = events.and(&excluded("motor:noise*, motor:x")).unwrap();
        assert_eq!(choice(&fewer, &noise).filter, Condition::Never);
        assert_eq!(choice(&fewer, &period).filter, Condition::Always);
        assert_eq!(choice(&fewer.and("motor:noise").unwrap(), &noise).filter, Condition::Always);
        assert_eq!(fewer.patterns(), ["motor", "!motor:noise*", "!motor:x"]);
        assert!(events.and(&excluded("motor:x if y > 3")).is_err());
        let again = fewer.and("motor:x").unwrap().and(&excluded("motor:x")).unwrap();
        assert_eq!(again.patterns(), ["motor", "!motor:noise*", "motor:x", "!motor:x"]);
        assert_eq!(again.and("motor:x").unwrap().and(&excluded("motor:x")).unwrap(), again);
    }

    #[test]
    fn what_asks_for_a_snapshot_is_recorded() {
        let events = UserEvents::new(["other".to_owned()]).unwrap();
        let events = events.with_triggers(["motor:period if late > 5".to_owned()]).unwrap();
        let late = choice(&events, &schema("period", &["late"]));
        assert!(matches!(late.trigger, Condition::Code(_)) && late.filter == late.trigger);
        let without = choice(&events, &schema("period", &[]));
        assert_eq!((without.filter, without.trigger), (Condition::Never, Condition::Never));
    }

    #[test]
    fn what_is_wrong_with_a_rule_is_shown_where_it_is() {
        let error = UserEvents::new(["motor:period if late >".to_owned()]).unwrap_err();
        assert!(error.lines().count() >= 3 && error.lines().last().unwrap().contains('^'), "{error}");
    }
}
