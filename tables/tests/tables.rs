//! Tables of recordings: read by pyarrow, DuckDB and Spark, and by SQL, they agree with sordino's own listing.
//!
//! `SORDINO` is the path of `sordino`; `PYTHONPATH` has pyarrow, DuckDB and pyspark. `make test-export` sets both.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::record::RowAccessor;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_sordino-sql");

/// A directory with `sordino` and `sordino-sql` side by side, in which commands run.
struct Place {
    dir: TempDir,
}

/// The end of a command.
struct Ended {
    status: i32,
    output: String,
    errors: String,
}

impl Place {
    fn new() -> Self {
        let place = Self::without_program();
        std::os::unix::fs::symlink(PROGRAM, place.dir.path().join("sordino-sql")).unwrap();
        place
    }

    fn without_program() -> Self {
        let dir = TempDir::new().unwrap();
        let sordino = std::env::var_os("SORDINO").expect("SORDINO names the program; run 'make test-export'");
        // By another process: a command that this one starts meanwhile would have the copy open for writing, and nobody
        // can run it.
        let copied = Command::new("cp").arg(sordino).arg(dir.path().join("sordino")).status().unwrap();
        assert!(copied.success());
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.path("sordino"));
        command.args(words).current_dir(self.dir.path()).env("TZ", "UTC").env("LC_ALL", "C.UTF-8");
        command
    }

    fn run(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }

    /// Records a program with the kernel's scheduler, if this user may; otherwise the program alone.
    fn record(&self) -> Recorded<'_> {
        self.record_to("trace");
        Recorded { place: self, names: &["trace"] }
    }

    fn record_to(&self, name: &str) {
        let npt = ["--", "./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", "3000"];
        let kernel = [&["record", "-o", name, "--kernel", "sched,irq"][..], &npt].concat();
        let mut ended = self.run(&kernel);
        if ended.status != 0 {
            fs::remove_dir_all(self.path(name)).ok();
            ended = self.run(&[&["record", "-o", name][..], &npt].concat());
        }
        ended.succeeded();
    }

    fn sql(&self, directory: &str, query: &str) -> Vec<Value> {
        let ended = self.run(&["sql", directory, query, "--format", "json"]);
        ended.succeeded().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Ended {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            status: output.status.code().unwrap_or(-1),
            output: text(output.stdout),
            errors: text(output.stderr),
        }
    }

    fn succeeded(&self) -> &str {
        assert_eq!(self.status, 0, "{}", self.errors);
        &self.output
    }

    /// Returns the message of a command that refused.
    fn refused(&self) -> &str {
        assert_eq!((self.status, self.output.as_str()), (2, ""), "{}", self.errors);
        &self.errors
    }
}

/// A recording, or several that are read as one, as in sordino's own listing.
struct Recorded<'a> {
    place: &'a Place,
    names: &'a [&'a str],
}

impl Recorded<'_> {
    fn listed(&self) -> Vec<Value> {
        let ended = self.place.run(&[&["events", "--json"][..], self.names].concat());
        let items = ended.succeeded().lines().map(|line| serde_json::from_str(line).unwrap());
        items.filter(|item: &Value| item["type"] == "event").collect()
    }

    fn export(&self, words: &[&str]) -> Value {
        let parquet = ["--to", "parquet", "-o", "out", "--json"];
        let all = [&["export"][..], self.names, &parquet, words].concat();
        serde_json::from_str(self.place.run(&all).succeeded()).unwrap()
    }

    /// Returns the count and the sum of the times of a measure's rows, by thread.
    fn query(&self, measure: &str) -> BTreeMap<String, (i64, i64)> {
        let ended =
            self.place.run(&[&["query"], self.names, &[measure, "--per", "thread", "--json"]].concat());
        let found: Value = serde_json::from_str(ended.succeeded()).unwrap();
        let rows = found["tables"][0]["rows"].as_array().cloned().unwrap_or_default();
        let row = |row: &Value| {
            let (_, tid) = row["labels"][0].as_str().unwrap().rsplit_once('/').unwrap();
            let number = |name: &str| row["summary"][name].as_i64().unwrap();
            (tid.to_owned(), (number("count"), number("total_ns")))
        };
        rows.iter().map(row).collect()
    }
}

fn counts<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name.to_owned()).or_default() += 1);
    counts
}

/// Reads an export with a Python library, and so many of its first events whole.
fn read(library: &str, directory: &Path, events: usize) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(library)
        .arg(directory)
        .arg(events.to_string())
        .output()
        .unwrap();
    let ended = Ended::of(output);
    serde_json::from_str(ended.succeeded()).unwrap()
}

/// Says what this machine does not allow to test.
fn not_measured(what: &str) {
    let _ = writeln!(std::io::stderr(), "not measured here: {what}");
}

/// Returns two times with many events of the program in between, as texts for options.
fn middle(listed: &[Value]) -> (String, String) {
    let loops: Vec<i64> = listed.iter().filter(|event| event["name"] == "npt:loop").map(time_of).collect();
    let text = |time: i64| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
    (text(loops[500]), text(loops[2500]))
}

fn time_of(event: &Value) -> i64 {
    event["time_ns"].as_i64().unwrap()
}

fn by_name(table: &Value) -> BTreeMap<String, i64> {
    let entries = table.as_object().unwrap().iter();
    entries.map(|(name, count)| (name.clone(), count.as_i64().unwrap())).collect()
}

#[test]
fn readers_of_parquet_find_the_events_and_the_durations_of_the_listing() {
    let place = Place::new();
    let recorded = place.record();
    let listed = recorded.listed();
    let summary = recorded.export(&[]);
    assert_eq!(summary["events"], listed.len());
    let names = counts(listed.iter().map(|event| event["name"].as_str().unwrap()));
    let runs: BTreeMap<String, i64> =
        recorded.query("slices").into_iter().map(|(tid, (_, sum))| (tid, sum)).collect();
    let latencies = recorded.query("latency");
    let sum = latencies.values().fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    for library in ["pyarrow", "duckdb", "spark"] {
        let found = read(library, &place.path("out"), 100);
        assert_eq!(by_name(&found["names"]), names, "{library}");
        assert_eq!(by_name(&found["running"]), runs, "{library}");
        assert_eq!(found["latencies"], json!([sum.0, sum.1]), "{library}");
        assert_eq!(found.get("workers"), (library == "spark").then_some(&json!(2)), "{library}");
        assert_eq!(found["events"].as_array().unwrap().len(), 100.min(listed.len()), "{library}");
        compare_events(&found, &listed, library);
    }
}

#[test]
fn several_recordings_of_one_host_are_one_export() {
    let place = Place::new();
    let recorded = Recorded { place: &place, names: &["first", "second"] };
    recorded.names.iter().for_each(|name| place.record_to(name));
    let listed = recorded.listed();
    let loops = listed.iter().filter(|event| event["name"] == "npt:loop").count();
    assert_eq!((loops, recorded.export(&[])["events"].as_u64()), (6000, Some(listed.len() as u64)));
    let found = place.sql("out", "SELECT time_ns, name FROM events ORDER BY time_ns");
    assert!(found.iter().map(time_of).eq(listed.iter().map(time_of)));
    let runs = "SELECT tid, count(*) AS n, sum(length_ns) AS sum FROM intervals WHERE state = 'running' GROUP BY tid";
    let runs = place.sql("out", runs).into_iter();
    let runs =
        runs.map(|row| (row["tid"].to_string(), (row["n"].as_i64().unwrap(), row["sum"].as_i64().unwrap())));
    assert_eq!(runs.collect::<BTreeMap<_, _>>(), recorded.query("slices"));

    let export = ["export", "first", "second", "--to", "parquet", "-o", "other"];
    let ended = place.run(&[&export[..], &["--align", "npt:loop=npt:loop"]].concat());
    assert_eq!(ended.errors.matches("they have one clock").count(), 1, "{}", ended.errors);
    assert!(ended.succeeded().starts_with("exported "), "{}", ended.output);
    // A recording of another boot is one of another host.
    for file in files(&place.path("second")).iter().filter(|file| file.ends_with("metadata")) {
        let metadata = fs::read_to_string(file).unwrap();
        fs::write(file, metadata.replace("boot_id = \"", "boot_id = \"another ")).unwrap();
    }
    let ended = place.run(&[&export[..5], &["-o", "hosts"]].concat());
    assert!(ended.refused().contains("recordings of several"), "{}", ended.errors);
}

/// Compares rows with events of the listing, field by field.
fn compare_events(found: &Value, listed: &[Value], whose: &str) {
    for (row, event) in found["events"].as_array().unwrap().iter().zip(listed) {
        assert_eq!([&row[0], &row[1]], [&event["time_ns"], &event["name"]], "{whose}");
        for (name, value) in event["fields"].as_object().unwrap() {
            let [integer, text, real] = [2, 3, 4].map(|kind| &row[kind][name]);
            match value {
                Value::Number(number) if number.is_i64() => assert_eq!(integer, value, "{whose}: {event}"),
                Value::Number(number) if number.is_u64() => {
                    assert_eq!(*text, number.to_string(), "{whose}: {event}")
                }
                Value::Number(_) => assert_eq!(real.as_f64(), value.as_f64(), "{whose}: {event}"),
                Value::String(_) => assert_eq!(text, value, "{whose}: {event}"),
                // An enumeration.
                Value::Object(members) if members.contains_key("label") => {
                    assert_eq!((integer, text), (&value["value"], &value["label"]), "{whose}: {event}")
                }
                Value::Array(_) | Value::Object(_) => {
                    let written: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
                    assert_eq!(written, *value, "{whose}: {event}");
                }
                Value::Null | Value::Bool(_) => panic!("{whose}: {event}"),
            }
        }
    }
}

/// Most bytes of a trace of another tracer that is compared: more take long.
const LARGEST: u64 = 1 << 20;

#[test]
fn parquet_has_each_event_of_other_tracers() {
    let data = std::env::var_os("SORDINO_CTF_TRACES").map(PathBuf::from).filter(|data| data.is_dir());
    let Some(data) = data else {
        not_measured("traces of other tracers: set SORDINO_CTF_TRACES to a directory of them");
        return;
    };
    let mut compared = 0;
    for directory in
        ["valid", "lttng"].iter().flat_map(|part| fs::read_dir(data.join(part)).unwrap().flatten())
    {
        let place = Place::new();
        let (path, is_large) = (directory.path(), bytes(&directory.path()) > LARGEST);
        let name = path.to_str().unwrap();
        // This directory has several recordings.
        if is_large || name.ends_with("session-rotation") {
            continue;
        }
        let listed = Recorded { place: &place, names: &[name] }.listed();
        place.run(&["export", name, "--to", "parquet", "-o", "out"]).succeeded();
        let found = read("pyarrow", &place.path("out"), usize::MAX >> 1);
        assert_eq!(found["events"].as_array().unwrap().len(), listed.len(), "{name}");
        compare_events(&found, &listed, name);
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}

/// Returns the files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn bytes(directory: &Path) -> u64 {
    files(directory).iter().map(|file| file.metadata().unwrap().len()).sum()
}

#[test]
fn the_same_query_has_the_same_result_on_a_recording_and_on_its_export() {
    let place = Place::new();
    let recorded = place.record();
    let listed = recorded.listed();
    recorded.export(&[]);
    for query in [
        "SELECT name, count(*) AS n FROM events GROUP BY name ORDER BY name",
        "SELECT * FROM events ORDER BY time_ns, name, tid LIMIT 50",
        "SELECT count(*) AS n FROM events WHERE name = 'npt:loop'",
        "SELECT count(*) AS n FROM events WHERE name IN ('npt:loop', 'sched_switch') AND cpu = 0",
        "SELECT max(integers['duration']) AS gap FROM events",
        "SELECT state, count(*) AS n, sum(length_ns) AS sum FROM intervals GROUP BY state ORDER BY state",
        "SELECT tid, max(length_ns) AS max, sum(threads_ns) AS t FROM latencies GROUP BY tid ORDER BY tid",
        "SELECT count(*) AS n FROM latencies WHERE interrupts_ns + threads_ns + idle_ns + unknown_ns <> length_ns",
        "SELECT count(*) AS n FROM losses",
        "SELECT duration(in_us(us(3))::BIGINT) AS d, ms(2) AS ms, clock(0) AS c",
    ] {
        let found = place.sql("trace", query);
        assert_eq!(found, place.sql("out", query), "{query}");
        assert!(!found.is_empty(), "{query}");
    }
    let number = |query: &str| place.sql("trace", query)[0]["n"].as_i64().unwrap();
    assert_eq!(number("SELECT count(*) AS n FROM events"), listed.len() as i64);
    assert_eq!(number("SELECT count(comm) AS n FROM events WHERE name = 'npt:loop'"), 3000);
    let (from, until) = middle(&listed);
    let within = format!(
        "SELECT count(*) AS n FROM events WHERE time_ns >= at('{from}') AND time_ns <= at('{until}')"
    );
    let found = place.sql("trace", &within);
    assert_eq!(found, place.sql("out", &within));
    let listed = place.run(&["events", "trace", "--from", &from, "--until", &until, "--json"]);
    let items = listed.succeeded().lines().filter(|line| line.contains("\"type\":\"event\"")).count();
    assert_eq!((found[0]["n"].as_u64(), items > 1000), (Some(items as u64), true));
}

#[test]
fn the_table_of_losses_has_those_of_the_listing() {
    let place = Place::new();
    // Rings that are too small for a loop at full speed.
    let rings = ["--subbuf-size", "16K", "--num-subbuf", "2", "--read-timer", "20ms"];
    let npt = ["--", "./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", "2000000"];
    place.run(&[&["record", "-o", "trace"][..], &rings, &npt].concat()).succeeded();
    let mut streams = files(&place.path("trace/user"));
    streams.retain(|file| !file.ends_with("metadata"));
    let stream = streams.into_iter().max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let mut spoiled = fs::read(&stream).unwrap();
    spoiled[16384..16384 + 64].fill(0xff);
    fs::write(&stream, spoiled).unwrap();
    let recorded = Recorded { place: &place, names: &["trace"] };
    let listed = place.run(&["events", "trace", "--json"]);
    let items = listed.succeeded().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let listed: Vec<Value> = items.filter(|item| item["type"] == "loss").collect();
    let spoiled: Vec<_> = listed.iter().filter_map(|loss| loss["place"].as_str()).collect();
    assert!(spoiled.len() == 1 && spoiled[0].ends_with("packet 1, byte 16384"), "{spoiled:?}");
    assert!(listed.len() > 1);
    recorded.export(&[]);
    let columns = ["from_ns", "to_ns", "cpu", "pid", "count", "cause", "place"];
    let sorted = |losses: &[Value]| {
        let mut rows: Vec<_> = losses.iter().map(|loss| columns.map(|name| loss[name].to_string())).collect();
        rows.sort();
        rows
    };
    for directory in ["trace", "out"] {
        let found = place.sql(directory, "SELECT * FROM losses");
        assert_eq!(sorted(&found), sorted(&listed), "{directory}");
    }
}

/// By them, readers skip the rows of other times.
#[test]
fn the_files_of_events_say_which_times_they_have() {
    let place = Place::new();
    let recorded = place.record();
    recorded.export(&[]);
    let groups: Vec<_> = files(&place.path("out/events")).iter().flat_map(|file| groups(file)).collect();
    let listed: Vec<i64> = recorded.listed().iter().map(time_of).collect();
    assert_eq!(groups.iter().map(|group| &group.span.0).min(), listed.first());
    assert_eq!(groups.iter().map(|group| &group.span.1).max(), listed.last());
}

/// A row group of a file of events.
struct EventGroup {
    /// The first and the last time by its statistics.
    span: (i64, i64),
    /// The times of its rows.
    times: Vec<i64>,
}

fn groups(file: &Path) -> Vec<EventGroup> {
    let reader = SerializedFileReader::new(fs::File::open(file).unwrap()).unwrap();
    let groups = 0..reader.num_row_groups();
    let group = |index| {
        let group = reader.get_row_group(index).unwrap();
        let column =
            group.metadata().columns().iter().find(|column| column.column_path().string() == "time_ns");
        let Some(Statistics::Int64(found)) = column.unwrap().statistics() else {
            panic!("none of its times")
        };
        let span = (*found.min_opt().unwrap(), *found.max_opt().unwrap());
        let schema = parse_message_type("message arrow_schema { required int64 time_ns; }").unwrap();
        let rows = group.get_row_iter(Some(schema)).unwrap();
        EventGroup { span, times: rows.map(|row| row.unwrap().get_long(0).unwrap()).collect() }
    };
    groups.map(group).collect()
}

const HOUR: i64 = 3_600_000_000_000;

#[test]
fn an_export_is_divided_by_host_and_hour_and_each_part_is_in_order() {
    let place = Place::new();
    let npt = |loops| format!("./sordino npt --prio 0 --warm-up 0 --loops {loops}");
    let both = format!("{} & {}; wait", npt(400_000), npt(20_000));
    let rings = ["--subbuf-size", "1M", "--num-subbuf", "32"];
    place.run(&[&["record", "-o", "trace"], &rings[..], &["--", "sh", "-c", &both]].concat()).succeeded();
    // One program was on another host, and an hour ended meanwhile.
    let within = place.sql("trace", "SELECT time_ns FROM events ORDER BY time_ns LIMIT 1 OFFSET 350000");
    let shift = HOUR - time_of(&within[0]) % HOUR;
    let mut traces = files(&place.path("trace/user"));
    traces.retain(|file| file.ends_with("metadata"));
    assert_eq!(traces.len(), 2);
    for file in &traces {
        let metadata = fs::read_to_string(file).unwrap();
        let frequency = setting(&metadata, "freq").1;
        let (seconds, ticks) =
            (shift / 1_000_000_000, shift % 1_000_000_000 * (frequency / 1000) / 1_000_000);
        let metadata = with_added(&with_added(&metadata, "offset_s", seconds), "offset", ticks);
        let (before, host) = metadata.split_once("hostname = \"").unwrap();
        let host = if *file == traces[0] { host } else { &format!("other/{host}") };
        fs::write(file, format!("{before}hostname = \"{host}")).unwrap();
    }
    Recorded { place: &place, names: &["trace"] }.export(&[]);
    let query = "SELECT host, hour, count(*) AS n, min(time_ns) AS first, max(time_ns) AS last FROM events \
         GROUP BY host, hour ORDER BY host, hour";
    let parts = place.sql("trace", query);
    assert_eq!(parts, place.sql("out", query));
    let distinct = |column: &str| counts(parts.iter().map(|part| part[column].as_str().unwrap())).len();
    assert_eq!((distinct("host"), distinct("hour")), (2, 2), "{parts:?}");
    let mut most = 0;
    for part in &parts {
        let [host, hour] = ["host", "hour"].map(|name| part[name].as_str().unwrap());
        let directory = format!("out/events/host={}/hour={hour}", host.replace('/', "%2F"));
        let groups: Vec<_> = files(&place.path(&directory)).iter().flat_map(|file| groups(file)).collect();
        let times: Vec<i64> = groups.iter().flat_map(|group| group.times.iter().copied()).collect();
        assert!(times.is_sorted(), "{part}");
        let bounds = (times.first().copied(), times.last().copied());
        assert_eq!(
            (part["n"].as_u64(), (part["first"].as_i64(), part["last"].as_i64())),
            (Some(times.len() as u64), bounds)
        );
        assert_eq!(times[0] / HOUR, times[times.len() - 1] / HOUR, "{part}");
        for group in &groups {
            assert_eq!(
                (group.times.first(), group.times.last()),
                (Some(&group.span.0), Some(&group.span.1)),
                "{part}"
            );
        }
        most = most.max(groups.len());
    }
    assert!(most > 1, "no part has several row groups: {parts:?}");
}

/// Returns the offset of a setting's number in metadata, and the number.
fn setting(metadata: &str, name: &str) -> (usize, i64) {
    let begin = metadata.find(&format!("{name} = ")).unwrap() + name.len() + 3;
    let length = metadata[begin..].find(';').unwrap();
    (begin, metadata[begin..begin + length].parse().unwrap())
}

/// Returns the metadata with a number added to that of a setting.
fn with_added(metadata: &str, name: &str, added: i64) -> String {
    let (begin, number) = setting(metadata, name);
    let (before, after) = metadata.split_at(begin);
    let (_, after) = after.split_once(';').unwrap();
    format!("{before}{};{after}", number + added)
}

#[test]
fn an_export_has_the_selected_events_and_the_intervals_of_the_selected_time() {
    let place = Place::new();
    let recorded = place.record();
    let whole = recorded.export(&[]);
    fs::rename(place.path("out"), place.path("whole")).unwrap();
    let (from, until) = middle(&recorded.listed());
    let some = recorded.export(&["--event", "npt:loop", "--from", &from, "--until", &until]);
    let events = place.sql("out", "SELECT name, count(*) AS n FROM events GROUP BY name");
    assert_eq!((events.len(), &events[0]["name"]), (1, &json!("npt:loop")));
    assert_eq!(events[0]["n"], some["events"]);
    let query = format!(
        "SELECT count(*) AS n, sum(length_ns) AS sum FROM intervals \
         WHERE state = 'running' AND to_ns >= at('{from}') AND to_ns <= at('{until}')"
    );
    assert_eq!(place.sql("out", &query), place.sql("whole", &query));
    let ended = place.run(&["sql", "out", "SELECT 1", "--from", "10ms"]);
    assert!(ended.refused().contains("after WHERE"), "{}", ended.errors);
    assert!(some["intervals"].as_i64() <= whole["intervals"].as_i64());
}

#[test]
fn what_the_recorder_adds_is_in_the_table_where_it_is_asked_for() {
    let place = Place::new();
    place.record();
    let names = |command: &[&str], words: &[&str]| {
        let ended = place.run(&[command, words].concat());
        let rows = ended.succeeded().lines().map(|line| serde_json::from_str(line).unwrap());
        let names = rows.filter_map(|row: Value| row["name"].as_str().map(str::to_owned));
        names.fold(BTreeMap::new(), |mut counts, name| {
            *counts.entry(name).or_insert(0) += 1;
            counts
        })
    };
    let added = ["--event", "lttng_statedump_*"];
    if !names(&["events", "trace", "--json"], &["--statedump"])
        .keys()
        .any(|name| name.starts_with("lttng_statedump_"))
    {
        not_measured("the state dump in tables: only root records the kernel's");
        return;
    }
    let query = ["sql", "trace", "SELECT name FROM events", "--format", "json"];
    for words in [&[][..], &["--statedump"], &added] {
        let listed = names(&["events", "trace", "--json"], words);
        assert_eq!(names(&query, words), listed, "{words:?}");
        assert_eq!(listed.keys().any(|name| name.starts_with("lttng_statedump_")), !words.is_empty());
    }
}

#[test]
fn no_file_of_an_export_has_its_name_before_all_are_whole() {
    let place = Place::new();
    place.record();
    let ended = place.run(&["export", "trace", "--to", "parquet", "-o", "nowhere/out"]);
    assert!(ended.refused().starts_with("sordino: can't write nowhere/out: "), "{}", ended.errors);
    fs::create_dir(place.path("taken")).unwrap();
    fs::write(place.path("taken/file"), "mine").unwrap();
    for force in [&[][..], &["--force"]] {
        let ended = place.run(&[&["export", "trace", "--to", "parquet", "-o", "taken"], force].concat());
        assert!(ended.refused().starts_with("sordino: taken: it exists"), "{}", ended.errors);
        assert_eq!(files(&place.path("taken")), [place.path("taken/file")]);
        assert_eq!(fs::read_to_string(place.path("taken/file")).unwrap(), "mine");
    }
    // A limit on the size of files is like a full disk.
    let limited = "ulimit -f 8; exec ./sordino export trace --to parquet -o out";
    let output = Command::new("sh").args(["-c", limited]).current_dir(place.dir.path()).output().unwrap();
    let ended = Ended::of(output);
    assert!(ended.refused().contains("can't write out: "), "{}", ended.errors);
    let left = fs::read_dir(place.dir.path()).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name.as_bytes().windows(3).any(|part| part == b"out")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn mistakes_in_sql_are_refused_with_their_place_or_the_known_names() {
    let place = Place::new();
    place.record();
    for (query, words) in [
        ("SELEC 1", "Line: 1, Column: 1"),
        ("SELECT count(* FROM events", "Line: 1, Column: "),
        ("SELECT nme FROM events", "nme"),
        ("SELECT name FROM event", "event"),
        ("SELECT at('yesterday')", "'yesterday'"),
        ("SELECT us('x')", "us"),
        ("SELECT nothing(1)", "nothing"),
        ("COPY (SELECT 1) TO 'out.csv'", "DML"),
    ] {
        let ended = place.run(&["sql", "trace", query]);
        assert!(
            ended.refused().starts_with("sordino: SQL: ") && ended.errors.contains(words),
            "{}",
            ended.errors
        );
        assert!(!ended.errors.contains("panicked"), "{}", ended.errors);
    }
    let ended = place.run(&["sql", "nowhere", "SELECT 1"]);
    assert!(ended.refused().contains("nowhere"), "{}", ended.errors);
}

#[test]
fn a_join_that_needs_more_memory_than_there_is_says_what_to_do() {
    let place = Place::new();
    place.record();
    let some = "(SELECT unnest(range(0, 4000)) AS number)";
    let many =
        format!("(SELECT 4000 * a.number + b.number AS number FROM {some} AS a CROSS JOIN {some} AS b)");
    let query = format!("SELECT count(*) FROM {many} AS large JOIN {many} AS other USING (number)");
    let ended = place.run(&["sql", "trace", &query]);
    assert!(ended.refused().contains("name the smaller table first in the join"), "{}", ended.errors);
}

#[test]
fn hostile_names_stay_what_they_are_and_reach_no_terminal() {
    let place = Place::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let sordino = PathBuf::from(std::env::var_os("SORDINO").unwrap());
    let built = Command::new("cc")
        .arg(format!("{root}/tests/programs/hostile.c"))
        .arg(format!("-I{root}/crates/recording/probe-c/include"))
        .arg(sordino.with_file_name("libsordino_c.so"))
        .arg(format!("-Wl,-rpath,{}", place.dir.path().display()))
        .args(["-o", "hostile"])
        .current_dir(place.dir.path())
        .status();
    assert!(built.unwrap().success());
    // Programs name the library by the version of its memory's layout.
    let header =
        fs::read_to_string(format!("{root}/crates/recording/probe-c/include/sordino/tracepoint.h")).unwrap();
    let (_, version) = header.split_once("define SORDINO_LAYOUT_VERSION ").unwrap();
    let name = format!("libsordino.so.{}", version.lines().next().unwrap());
    std::os::unix::fs::symlink(sordino.with_file_name("libsordino_c.so"), place.path(&name)).unwrap();
    place.run(&["record", "-o", "trace", "--", "./hostile"]).succeeded();
    let recorded = Recorded { place: &place, names: &["trace"] };
    recorded.export(&[]);
    let listed = recorded.listed();
    let expected =
        |key: &str| -> Vec<Value> { listed.iter().map(|event| event["fields"][key].clone()).collect() };
    for directory in ["trace", "out"] {
        let rows = place.sql(directory, "SELECT comm, integers, reals, texts FROM events ORDER BY time_ns");
        let texts: Vec<Value> = rows.iter().map(|row| row["texts"]["text"].clone()).collect();
        assert_eq!(texts, expected("text"), "{directory}");
        // Too large for an integer of SQL.
        let large: Vec<String> = listed.iter().map(|event| event["fields"]["large"].to_string()).collect();
        let found: Vec<&str> = rows.iter().map(|row| row["texts"]["large"].as_str().unwrap()).collect();
        assert_eq!(found, large, "{directory}");
        assert!(rows.iter().all(|row| row["integers"].get("large").is_none()));
        for format in ["table", "csv"] {
            let ended = place.run(&["sql", directory, "SELECT comm, texts FROM events", "--format", format]);
            let text = ended.succeeded();
            let is_raw = |c: char| c.is_control() && !(c == '\n' || format == "csv");
            assert!(!text.chars().any(is_raw), "{directory} {format}: {text}");
        }
    }
    for library in ["pyarrow", "duckdb", "spark"] {
        let found = read(library, &place.path("out"), 100);
        let events = found["events"].as_array().unwrap();
        let texts: Vec<Value> = events.iter().map(|event| event[3]["text"].clone()).collect();
        assert_eq!(texts, expected("text"), "{library}");
    }
}

#[test]
fn results_are_written_in_each_format_and_a_closed_pipe_is_no_failure() {
    let place = Place::new();
    place.record();
    let query = "SELECT 'a,b' AS text, 7 AS number, NULL AS none";
    let output = |format: &str| place.run(&["sql", "trace", query, "--format", format]);
    assert_eq!(output("csv").succeeded(), "text,number,none\n\"a,b\",7,\n");
    assert_eq!(output("json").succeeded(), "{\"text\":\"a,b\",\"number\":7,\"none\":null}\n");
    let table = "text  number  none\n----  ------  ----\na,b        7\n(1 row)\n";
    assert_eq!(output("table").succeeded(), table);
    let words = ["sql", "trace", "SELECT name FROM events", "--format", "parquet", "-o", "names.parquet"];
    assert_eq!(place.run(&words).succeeded(), "");
    let ended = place.run(&words);
    assert!(ended.refused().contains("names.parquet: it exists"), "{}", ended.errors);
    let piped = "./sordino sql trace 'SELECT * FROM events' --format json | head -n 1 >one; exit \"${PIPESTATUS:-0}\"";
    let status = Command::new("bash").args(["-c", piped]).current_dir(place.dir.path()).status().unwrap();
    assert!(status.success());
    let queried = "echo 'SELECT 7 AS number' | ./sordino sql trace --format csv";
    let output = Command::new("sh").args(["-c", queried]).current_dir(place.dir.path()).output().unwrap();
    assert_eq!(Ended::of(output).succeeded(), "number\n7\n");
}

#[test]
fn progress_is_shown_on_a_terminal_alone_and_leaves_nothing() {
    let place = Place::new();
    place.record();
    // A product of many rows takes longer than half a second.
    let query = "SELECT count(*) AS n FROM events a, events b, (SELECT * FROM events LIMIT 10) c \
         WHERE a.time_ns + b.time_ns < c.time_ns";
    let piped = place.run(&["sql", "trace", query]);
    assert!(piped.succeeded().starts_with("n"), "{}", piped.output);
    assert_eq!(piped.errors, "");
    let mut script = Command::new("script");
    script.args(["-qefc", &format!("./sordino sql trace '{query}'"), "/dev/null"]);
    script.current_dir(place.dir.path()).env("LC_ALL", "C.UTF-8").env("TERM", "xterm");
    let shown = Ended::of(script.output().unwrap());
    let (progress, result) = shown.succeeded().rsplit_once("\x1b[2K").expect("a line that is removed");
    assert!(progress.contains("reading ") && progress.contains('%'), "{progress}");
    assert!(result.starts_with("n") && result.contains("(1 row)") && !result.contains('%'), "{result}");
}

#[test]
fn without_the_program_the_message_says_how_to_get_it() {
    let place = Place::without_program();
    for words in [&["sql", "trace", "SELECT 1"][..], &["sql"]] {
        let output = place.command(words).env("PATH", "/nonexistent").output().unwrap();
        let ended = Ended::of(output);
        assert!(ended.refused().contains("make build-tables"), "{}", ended.errors);
    }
}

/// Types each line when the prompt waits for it on a terminal; returns all that the terminal shows.
fn prompted(place: &Place, lines: &[&str]) -> String {
    // The editor sends it when it begins to read a line; it forgets what was typed before.
    const READS: &[u8] = b"\x1b[?2004h";
    let mut command = Command::new("timeout");
    command.args(["60", "script", "-qefc", "./sordino sql trace", "/dev/null"]).current_dir(place.dir.path());
    command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm").env("XDG_STATE_HOME", place.path("state"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keyboard, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = Vec::new();
    for line in lines {
        let mut byte = [0];
        let begin = shown.len();
        while !shown[begin..].ends_with(READS) {
            assert_eq!(screen.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&shown));
            shown.push(byte[0]);
        }
        keyboard.write_all(line.as_bytes()).unwrap();
    }
    screen.read_to_end(&mut shown).unwrap();
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(child.wait().unwrap().success(), "{shown}");
    shown
}

#[test]
fn the_prompt_remembers_the_queries_of_earlier_sessions() {
    let place = Place::new();
    place.record();
    let first = prompted(&place, &["select 40 +\r", "2 as answer;\r", "quit\r"]);
    assert!(first.contains("42"), "{first}");
    let history = fs::read_to_string(place.path("state/sordino/sql_history")).unwrap();
    assert!(history.contains("as answer"), "{history}");
    // The key for the line before.
    let second = prompted(&place, &["\x1b[A\r", "quit\r"]);
    assert!(second.contains("42"), "{second}");
}
