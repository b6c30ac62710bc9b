//! `sordino events`: its listings, and its reports on damaged recordings.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::listing::{babeltrace, counts, items, name_in, named};
use sordino_tests::recording::packet_files;
use sordino_tests::{Scene, wait_until};
use std::fs;
use std::process::Command;

fn is_event(line: &Value) -> bool {
    line["type"] == "event"
}

#[test]
fn text_json_and_babeltrace2_have_the_same_events() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let options = ["--kernel", "sched_switch,raw_syscalls"];
    let command = ["./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", "50000"];
    let recording = scene.record(&options, &command);
    assert_eq!((recording.lost(), recording.notes().as_str()), (0, ""));
    let events = scene.listed(&recording.path);
    assert!(events.iter().all(is_event));
    let (other, complaints) = babeltrace(&recording.path);
    assert_eq!(complaints, "");
    let count = counts(events.iter().map(|event| event["name"].as_str().unwrap()));
    assert_eq!(count, counts(other.iter().map(|line| name_in(line))));
    let of_user = events.iter().filter(|event| event["domain"] == "user").count();
    assert_eq!((count["npt:loop"], of_user as u64), (50_000, recording.user_events()));
    let text = scene.sordino(&["events", "--statedump", "--time", "seconds", recording.name()]);
    let text: Vec<&str> = text.succeeded().lines().collect();
    assert_eq!(text.len(), events.len());
    // In the order of time, and the same event in the same line.
    let times: Vec<i64> = events.iter().map(|event| event["time_ns"].as_i64().unwrap()).collect();
    assert!(times.is_sorted());
    for ((event, line), time) in events.iter().zip(&text).zip(&times) {
        let seconds = format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
        assert!(line.starts_with(&seconds), "{seconds}: {line}");
        assert!(line.contains(event["name"].as_str().unwrap()), "{event}: {line}");
    }
    // babeltrace2 has the same times, but for a nanosecond that it rounds away.
    let other = scene.run(Command::new("babeltrace2").arg("--clock-seconds").arg(&recording.path));
    let clock = |line: &str| line.split(['[', ']']).nth(1)?.replace('.', "").parse::<i64>().ok();
    let other: Vec<i64> = other.succeeded().lines().map(|line| clock(line).unwrap()).collect();
    assert!(times.iter().zip(&other).all(|(time, other)| (time - other).abs() <= 1));
}

#[test]
fn times_are_written_as_asked_for() {
    let scene = Scene::checked();
    let recording = scene.record(&[], &["./sordino", "npt", "--prio", "0", "--loops", "10"]);
    let first = |time: &str| {
        let events = ["events", "--statedump", "--time", time, recording.name()];
        let ended = scene.run(scene.command(&events).env("TZ", "Asia/Tokyo"));
        ended.succeeded().lines().next().unwrap().split("cpu").next().unwrap().trim().to_owned()
    };
    let begin_s = recording.summary["begin_ns"].as_u64().unwrap() / 1_000_000_000;
    let mut date = Command::new("date");
    let date = date.env("TZ", "Asia/Tokyo").args(["-d", &format!("@{begin_s}"), "+%Y-%m-%d %H:%M:%S"]);
    let date = scene.run(date).succeeded().trim().to_owned();
    // The state at the start is stamped with the begin, less a nanosecond of rounding.
    assert_eq!(first("since").trim_matches(['+', '0', '.']), "");
    assert!(first("seconds").starts_with(&begin_s.to_string()), "{}", first("seconds"));
    assert!(first("date").starts_with(&date), "{} {date}", first("date"));
    assert!(first("clock").starts_with(&date[11..]), "{} {date}", first("clock"));
    let refused = ["events", "--time", "yesterday", recording.name()];
    scene.refuses(2, &["--time", "yesterday", "since"], &refused);
}

#[test]
fn a_part_of_the_time_has_the_same_events_as_the_whole_there() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let options = ["--kernel", "sched_switch,raw_syscalls", "--subbuf-size", "16K"];
    let recording = scene.record(&options, &["./sordino", "npt", "--prio", "0", "--loops", "50000"]);
    let name = recording.name();
    let listed = |options: &[&str]| {
        let lines = scene.sordino(&[&["events", "--json", name], options].concat());
        let lines = lines.succeeded().lines().map(|line| serde_json::from_str(line).unwrap());
        lines.filter(is_event).collect::<Vec<Value>>()
    };
    let time = |event: &Value| event["time_ns"].as_i64().unwrap();
    let whole = listed(&[]);
    // The part begins and ends at kernel's events: some thousands of the program's may have none between them.
    let half = whole[whole.len() / 2..].iter();
    let mut kernels = half.filter(|event| event["domain"] == "kernel").map(time);
    let (first, last) = (kernels.next().unwrap(), kernels.nth(50).unwrap());
    let part = |from: i64, to: i64| {
        whole.iter().filter(|event| (from..=to).contains(&time(event))).cloned().collect::<Vec<_>>()
    };
    let seconds = |time: i64| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
    let (from, to) = (seconds(first), seconds(last));
    assert_eq!(listed(&["--from", &from, "--until", &to]), part(first, last));
    assert_eq!(listed(&["--from", &from, "--to", &to]), part(first, last));
    let file = scene.fresh("json");
    let exported = ["export", name, "--to", "json", "--from", &from, "--until", &to, "-o"];
    scene.run(scene.command(&exported).arg(&file)).succeeded();
    let exported = fs::read_to_string(&file).unwrap();
    let exported: Vec<Value> = items(&exported).into_iter().filter(is_event).collect();
    assert_eq!(exported, part(first, last));
    assert_eq!(listed(&["--around", &format!("{from}±50us")]), part(first - 50_000, first + 50_000));
    let kernel: Vec<_> = part(first, last).into_iter().filter(|event| event["domain"] == "kernel").collect();
    let begin = recording.summary["begin_ns"].as_i64().unwrap();
    let since = |time: i64| format!("{}ns", time - begin);
    // The trace's clock has its own zero, some nanoseconds from the summary's.
    let condition = format!("$time > {} && $domain == \"kernel\"", since(first + 1000));
    let found = listed(&["--where", &condition, "--to", &to]);
    let (before, after) = kernel.split_at(kernel.partition_point(|event| time(event) < first + 2000));
    assert!(!after.is_empty() && found.ends_with(after), "{condition}: {} of {}", found.len(), after.len());
    assert!(before.ends_with(&found[..found.len() - after.len()]), "{condition}: {found:?}");
    scene.refuses(2, &["--from", "the recording has events from"], &["events", name, "--from", "1h"]);
    scene.refuses(2, &["--around", "is no time"], &["events", name, "--around", "1s±5"]);
}

#[test]
fn lost_records_stand_in_their_place() {
    let scene = Scene::checked();
    let recording = scene.record_lossy(2_000_000);
    assert!(recording.lost() > 0);
    assert_eq!(recording.user_events() + recording.lost(), 2_000_002, "each hit is recorded or counted");
    let items = scene.listed(&recording.path);
    let losses: Vec<&Value> = items.iter().filter(|item| item["type"] == "loss").collect();
    let counted: u64 = losses.iter().map(|loss| loss["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, recording.lost());
    let user: Vec<&Value> =
        items.iter().filter(|item| item["domain"] == "user" || item["type"] == "loss").collect();
    let mut exact = 0;
    for trio in user.windows(3).filter(|trio| trio[1]["type"] == "loss") {
        let [before, loss, after] = trio else { unreachable!() };
        assert_eq!((&loss["cause"], &loss["pid"]), (&"ring full".into(), &before["pid"]));
        assert!(before["time_ns"].as_i64() <= loss["to_ns"].as_i64(), "{before} {loss}");
        assert!(loss["from_ns"].as_i64() <= after["time_ns"].as_i64(), "{loss} {after}");
        // The number of missing loops is the loss's count.
        if let (Some(before), Some(after)) =
            (before["fields"]["number"].as_u64(), after["fields"]["number"].as_u64())
        {
            exact += 1;
            assert_eq!(after - before - 1, loss["count"].as_u64().unwrap());
        }
    }
    assert!(exact > 0);
    let text = scene.sordino(&["events", recording.name()]);
    let markers = text.succeeded().lines().filter(|line| line.starts_with("-- ")).count();
    assert_eq!(markers, losses.len());
}

#[test]
fn nobody_reading_any_more_is_no_failure() {
    let scene = Scene::checked();
    let recording = scene.record(&[], &["./sordino", "npt", "--prio", "0", "--loops", "100000"]);
    for json in ["", "--json"] {
        let script = format!("set -o pipefail; ./sordino events {json} {} | head -n 1", recording.name());
        let mut command = Command::new("bash");
        let ended = scene.run(command.args(["-c", &script]).current_dir(scene.path("")));
        assert_eq!((ended.succeeded().lines().count(), ended.errors.as_str()), (1, ""));
    }
}

#[test]
fn an_unfinished_recording_is_listed_and_said_to_be_unfinished() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let mut running = scene.start(&mut Command::new(scene.program("steady.c")));
    running.says("ready");
    let small = ["--kernel", "sched_switch", "--subbuf-size", "16K", "--num-subbuf", "64"];
    let attached = scene.attach(running.pid(), &small);
    let (trace, user) = (attached.output.to_str().unwrap(), attached.output.join("user"));
    wait_until("a packet is on disk", || {
        packet_files(&user).into_iter().any(|file| fs::metadata(file).unwrap().len() > 1 << 15)
    });
    let is_unfinished = || {
        let ended = scene.sordino(&["events", "--json", trace]);
        ended.failed(2, &["is not finished", "sordino recover"]);
        named(&items(&ended.output), "steady:step").len()
    };
    assert!(is_unfinished() > 0);
    attached.running.signal(Signal::KILL);
    assert_eq!(attached.running.end().status, 128 + 9);
    let count = is_unfinished();
    // An unfinished recording can be the reason why an event is missing.
    for command in ["events", "explain"] {
        scene.refuses(2, &["is not finished", "zzz"], &[command, "--event", "zzz", trace]);
    }
    let recovered = scene.sordino(&["recover", trace]);
    assert!(recovered.succeeded().contains("steady"), "{}", recovered.output);
    let listed = scene.listed(trace.as_ref());
    let after = named(&listed, "steady:step").len();
    assert!(after >= count, "{after} after recovery, {count} before");
    assert_eq!(scene.sordino(&["events", "--statedump", trace]).succeeded().lines().count(), listed.len());
    running.signal(Signal::TERM);
    running.end().succeeded();
}

#[test]
fn what_is_no_trace_is_named() {
    let scene = Scene::checked();
    fs::create_dir(scene.path("empty")).unwrap();
    fs::write(scene.path("file"), "text").unwrap();
    scene.refuses(2, &["empty holds no CTF trace", "metadata"], &["events", "empty"]);
    scene.refuses(2, &["nowhere", "No such file"], &["events", "nowhere"]);
    scene.refuses(2, &["file", "Not a directory"], &["events", "file"]);
    scene.refuses(2, &["is no recording of sordino", "name a directory"], &["events"]);
    // A session's directory holds recordings and is not one itself.
    fs::create_dir(scene.path("sordino-box")).unwrap();
    scene.refuses(2, &["no recording called sordino-", "such as sordino-box"], &["events"]);
}

#[test]
fn without_a_name_the_newest_recording_is_listed() {
    let scene = Scene::checked();
    let npt = |loops| ["record", "--", "./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", loops];
    scene.sordino(&npt("10")).succeeded();
    // The second recording has the later name, also if both begin in the same second.
    scene.sordino(&npt("20")).succeeded();
    let listed = scene.sordino(&["events"]);
    assert_eq!(listed.succeeded().lines().filter(|line| line.contains("npt:loop")).count(), 20);
}

#[test]
fn a_spoiled_trace_is_read_but_for_what_is_spoiled() {
    let scene = Scene::checked();
    let options = ["--subbuf-size", "16K", "--num-subbuf", "256"];
    let command = ["taskset", "1", "./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", "20000"];
    let recording = scene.record(&options, &command);
    let files = packet_files(&recording.path.join("user"));
    assert_eq!((recording.lost(), files.len()), (0, 1));
    let (file, whole) = (&files[0], fs::read(&files[0]).unwrap());
    let numbers = |items: &[Value]| -> Vec<u64> {
        let loops = named(items, "npt:loop").into_iter();
        loops.map(|item| item["fields"]["number"].as_u64().unwrap()).collect()
    };
    let all: Vec<u64> = (1..=20_000).collect();
    assert_eq!(numbers(&scene.listed(&recording.path)), all);
    // The remaining events, with a loss for the missing ones.
    let left = |status, (from, to): (usize, usize)| {
        let listed = scene.sordino(&["events", "--json", recording.name()]);
        assert_eq!(listed.status, status, "{}", listed.errors);
        let items = items(&listed.output);
        let is_spoiled = |item: &Value| item["cause"] == "bytes do not make sense" && item["count"].is_null();
        let spoiled: Vec<&Value> = items.iter().filter(|item| is_spoiled(item)).collect();
        assert_eq!(spoiled.len(), 1);
        let (place, byte) = spoiled[0]["place"].as_str().unwrap().rsplit_once(", byte ").unwrap();
        assert!(place.starts_with(&*file.to_string_lossy()), "{place}");
        assert!((from..=to).contains(&byte.parse().unwrap()), "{byte}: {from} to {to}");
        numbers(&items)
    };

    // Cut off in the middle of a packet.
    let end = whole.len() / 2 + 100;
    fs::write(file, &whole[..end]).unwrap();
    let begin = left(2, (end - 100, end));
    assert!(begin.len() > 5000 && all.starts_with(&begin), "{} are left", begin.len());

    // An invalid packet, and one with random bytes in the middle.
    let (magic, packet) = (&whole[..4], 16 << 10);
    assert_eq!(&whole[packet..packet + 4], magic, "the second packet begins where the first sub-buffer ends");
    for (offset, back) in [(packet, 0), (packet + (8 << 10), 100)] {
        let mut spoiled = whole.clone();
        spoiled[offset..offset + 64].fill(0xff);
        fs::write(file, spoiled).unwrap();
        let mut around = left(0, (offset - back, offset + back));
        // The values of a record that is spoiled from its middle on are as good as any.
        around.retain(|number| *number <= 20_000);
        let gap = around.iter().zip(&all).take_while(|(number, expected)| number == expected).count();
        assert!(gap > 100 && gap < 5000, "{gap}");
        assert!(all.ends_with(&around[gap..]) && around.len() > 18_000, "{} are left", around.len());
    }

    // Metadata of another kind.
    fs::write(file, &whole).unwrap();
    let metadata = file.with_file_name("metadata");
    let text = fs::read_to_string(&metadata).unwrap();
    fs::write(&metadata, text.replacen("event {", "event { nonsense", 1)).unwrap();
    scene.refuses(2, &["metadata"], &["events", recording.name()]);
}

/// Returns the names of the events that `sordino events` lists with these options, with their counts, which are the
/// same in text and in JSON.
fn selected(scene: &Scene, trace: &str, options: &[&str]) -> std::collections::BTreeMap<String, usize> {
    let json = scene.sordino(&[&["events", "--json", trace], options].concat());
    let items = items(json.succeeded());
    let names = counts(items.iter().map(|event| event["name"].as_str().unwrap()));
    let text = scene.sordino(&[&["events", trace], options].concat());
    assert_eq!(text.succeeded().lines().count(), items.len(), "{options:?}");
    names
}

#[test]
fn events_are_selected_by_rules_and_by_a_condition() {
    let scene = Scene::checked();
    let program = scene.program("pairs.c");
    let recording = scene.record(&[], &[program.to_str().unwrap()]);
    let trace = recording.name();
    for (options, expected) in [
        (&["--event", "net"][..], &[("net:answer", 20), ("net:request", 20)][..]),
        (&["--event", "net", "--event", "!net:answer"], &[("net:request", 20)]),
        (&["--event", "!net, !work:end"], &[("work:begin", 20)]),
        (&["--event", "*:end if id < 3, net:request if id == 7"], &[("net:request", 1), ("work:end", 3)]),
        (
            &["--where", "id == 7"],
            &[("net:answer", 1), ("net:request", 1), ("work:begin", 1), ("work:end", 1)],
        ),
        (&["--where", "id >= 18 && $provider == \"work\"", "--event", "*:begin"], &[("work:begin", 2)]),
        (&["--where", "$comm == \"nobody\""], &[]),
        (&["--where", "$pid == 0 || $cpu > 4095"], &[]),
        (&["--where", "$procname == \"pairs*\" && $tid > 0", "--event", "work:end"], &[("work:end", 20)]),
        (&["--event", "lttng_statedump_start"], &[("lttng_statedump_start", 1)]),
    ] {
        let expected = expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        assert_eq!(selected(&scene, trace, options), expected, "{options:?}");
    }
    let none = scene.sordino(&["events", trace, "--where", "id > 99"]);
    assert!(none.errors.contains("no event is listed: none meets --where\n"), "{}", none.errors);
    // The name without its provider's.
    scene.refuses(
        2,
        &["--event 'request'", "did you mean net:request?"],
        &["events", trace, "--event", "request"],
    );
}

#[test]
fn the_state_dump_is_listed_where_it_is_asked_for() {
    let scene = Scene::checked();
    let recording = scene.record(&[], &["./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", "9"]);
    let dumped = |options: &[&str]| {
        let names = selected(&scene, recording.name(), options);
        assert_eq!(names["npt:loop"], 9);
        names.keys().filter(|name| name.contains("_statedump_")).count()
    };
    assert_eq!(dumped(&[]), 0);
    assert!(dumped(&["--statedump"]) > 2);
    assert!(dumped(&["--event", "*"]) > 2);
    let listed = scene.sordino(&["events", scene.record(&[], &["true"]).name()]);
    assert_eq!(listed.succeeded(), "");
    assert!(
        listed.errors.contains("only what the recorder adds (--statedump lists it)"),
        "{}",
        listed.errors
    );
}

#[test]
fn the_last_events_are_those_at_the_end() {
    let scene = Scene::checked();
    let recording =
        scene.record(&[], &["./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", "5000"]);
    let trace = recording.name();
    let numbers = |options: &[&str]| -> Vec<u64> {
        let ended = scene.sordino(&[&["events", "--json", trace], options].concat());
        let items = items(ended.succeeded());
        items.iter().map(|event| event["fields"]["number"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&["--event", "npt:loop", "--last", "3"]), [4998, 4999, 5000]);
    let odd = ["--event", "npt:loop", "--where", "number % 2 == 1", "--last", "2"];
    assert_eq!(numbers(&odd), [4997, 4999]);
    assert_eq!(numbers(&["--event", "npt:loop", "--last", "1000000"]).len(), 5000);
    let all = scene.sordino(&["events", trace]);
    let last = scene.sordino(&["events", trace, "--last", "7"]);
    let (all, last): (Vec<_>, Vec<_>) =
        (all.succeeded().lines().collect(), last.succeeded().lines().collect());
    assert_eq!(all[all.len() - 7..], last);
    for bad in ["0", "1000001", "x"] {
        scene.refuses(2, &["--last"], &["events", trace, "--last", bad]);
    }
    for option in [&["--last", "1"][..], &["--statedump"]] {
        scene.refuses(2, &["--follow", option[0]], &[&["events", "--follow", "box"], option].concat());
    }
}

#[test]
fn a_name_or_a_field_that_no_event_has_is_said_with_what_there_is() {
    let scene = Scene::checked();
    let program = scene.program("pairs.c");
    let recording = scene.record(&[], &[program.to_str().unwrap()]);
    let refused = |options: &[&str], words: &[&str]| {
        scene.sordino(&[&["events", recording.name()], options].concat()).failed(2, words);
    };
    refused(&["--event", "net:reqest"], &["--event 'net:reqest'", "did you mean net:request?"]);
    refused(&["--event", "zzz"], &["no event of that name", "there are ", "net:answer"]);
    refused(&["--where", "idd == 7"], &["--where", "field 'idd'", "did you mean id?"]);
    refused(&["--event", "net:* if idd == 7"], &["--event 'net:* if idd == 7'", "did you mean id?"]);
    refused(&["--where", "id == "], &["--where", "is missing here", "^"]);
    refused(&["--event", "net:request if"], &["--event", "^"]);
    refused(&["--where", "id = 7"], &["equality is written =="]);
    let unfit = scene.sordino(&["events", recording.name(), "--event", "net", "--where", "id == \"x\""]);
    assert_eq!(unfit.succeeded(), "");
    assert!(unfit.errors.contains("40 events do not fit the condition: 'id' of net:"), "{}", unfit.errors);
}
