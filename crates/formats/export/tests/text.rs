//! Formats of text, read back by parsers of JSON and CSV.

#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use serde_json::Value;
use sordino_export::{Chrome, Csv, Json, Paje};
use support::{HOSTILE, Kinds, PLACE, exported, origin};

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Parses CSV whose texts are in quotes.
fn rows(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut rest = csv.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '"' if quoted && rest.peek() == Some(&'"') => cell.push(rest.next().unwrap()),
            '"' => quoted = !quoted,
            ',' | '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                if character == '\n' {
                    rows.push(std::mem::take(&mut row));
                }
            }
            other => cell.push(other),
        }
    }
    assert!(row.is_empty() && cell.is_empty() && !quoted);
    rows
}

#[test]
fn csv_has_a_row_for_each_item_and_hostile_names_as_they_are() {
    let kinds = Kinds::new();
    let csv = exported(Csv::new(&kinds.classes), &kinds.classes, kinds.hostile());
    let rows = rows(std::str::from_utf8(&csv).unwrap());
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{rows:?}");
    let column = |name: &str| rows[0].iter().position(|column| column == name).unwrap();
    let of = |kind: &str| rows.iter().filter(|row| row[column("type")] == kind).collect::<Vec<_>>();
    assert_eq!((of("event").len(), of("loss").len(), of("disorder").len()), (17, 2, 1));
    for (row, name) in of("event").iter().zip(HOSTILE) {
        assert_eq!(row[column("name")], lossy(HOSTILE[0]));
        let fields: Value = serde_json::from_str(&row[column("fields")]).unwrap();
        assert_eq!(fields["text"], lossy(name));
        assert_eq!((&fields[&*lossy(HOSTILE[1])], &fields["nan"]), (&u64::MAX.into(), &"NaN".into()));
    }
    let fields: Value = serde_json::from_str(&of("loss")[1][column("fields")]).unwrap();
    assert_eq!(fields["place"], PLACE);
    let json = exported(Json::new(&kinds.classes), &kinds.classes, kinds.hostile());
    let lines = std::str::from_utf8(&json).unwrap().lines();
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["schema"]), (21, &"sordino-events".into()));
}

fn chrome(bytes: &[u8]) -> Vec<Value> {
    let trace: Value = serde_json::from_slice(bytes).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

#[test]
fn chrome_has_each_event_once_and_runs_and_interrupts_with_their_durations() {
    let kinds = Kinds::new();
    let bytes = exported(Chrome::new(&kinds.classes, origin()), &kinds.classes, kinds.rounds(500));
    let events = chrome(&bytes);
    let of = |name: &str, value: &str| events.iter().filter(|event| event[name] == value).collect::<Vec<_>>();
    assert_eq!((of("cat", "user").len(), of("cat", "kernel").len()), (2000, 6000));
    let sum = |events: &[&Value]| events.iter().map(|event| event["dur"].as_f64().unwrap()).sum::<f64>();
    assert_eq!((of("cat", "sched").len(), sum(&of("cat", "sched"))), (1000, 300_000.0));
    assert_eq!((of("cat", "irq").len(), sum(&of("cat", "irq"))), (1000, 100_000.0));
    assert_eq!(of("cat", "irq")[0]["name"], "softirq TIMER");
    let first = of("name", "motor:period")[0];
    assert_eq!((&first["ts"], &first["args"]["late"]), (&400.0.into(), &0.5.into()));
}

#[test]
fn chrome_has_hostile_names_and_losses() {
    let kinds = Kinds::new();
    let bytes = exported(Chrome::new(&kinds.classes, origin()), &kinds.classes, kinds.hostile());
    let events = chrome(&bytes);
    let hostile = events.iter().filter(|event| event["name"] == lossy(HOSTILE[0]));
    for (event, name) in hostile.zip(HOSTILE) {
        assert_eq!(event["args"]["text"], lossy(name));
    }
    let losses: Vec<&Value> = events.iter().filter(|event| event["cat"] == "loss").collect();
    assert_eq!(losses.len(), 3);
    assert!(losses.iter().any(|loss| loss["args"]["count"] == u64::MAX), "{losses:?}");
    assert!(losses.iter().any(|loss| loss["args"]["place"] == PLACE), "{losses:?}");
}

/// Returns the fields of each line of Pajé's text that is no definition, without the quotes.
fn paje(text: &[u8]) -> Vec<Vec<String>> {
    let lines = std::str::from_utf8(text).unwrap().lines().filter(|line| !line.starts_with('%'));
    let fields = |line: &str| {
        let quoted = line.split('"').enumerate();
        let parts = quoted.flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().map(ToOwned::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        parts.collect::<Vec<_>>()
    };
    lines.map(fields).collect()
}

#[test]
fn paje_has_each_event_once_and_runs_interrupts_and_links() {
    let kinds = Kinds::new();
    let bytes = exported(Paje::new(&kinds.classes, &origin()), &kinds.classes, kinds.rounds(500));
    let lines = paje(&bytes);
    let of = |first: &str, kind: &str| {
        lines.iter().filter(|line| line[0] == first && line.iter().any(|field| field == kind)).count()
    };
    assert_eq!((of("9", "ET"), of("9", "EC")), (2000, 6000));
    assert_eq!((of("6", "SR"), of("7", "SI"), of("8", "SI")), (2000, 1000, 1000));
    // The first thread sleeps when it is woken for the second time.
    assert_eq!((of("10", "LC"), of("11", "LC")), (1000, 1000));
    let sleeping = lines.iter().filter(|line| line[0] == "6" && line[4] == "sleeping").count();
    assert_eq!(sleeping, 1000);
}

#[test]
fn paje_has_hostile_names_in_lines_of_equal_length_and_losses() {
    let kinds = Kinds::new();
    let bytes = exported(Paje::new(&kinds.classes, &origin()), &kinds.classes, kinds.hostile());
    let lines = paje(&bytes);
    let events: Vec<_> = lines.iter().filter(|line| line[0] == "9").collect();
    assert!(events.iter().all(|line| line.len() == 7), "{events:?}");
    let of = |kind: &str| events.iter().filter(|line| line[2] == kind).collect::<Vec<_>>();
    assert_eq!((of("ET").len(), of("EC").len(), of("EM").len()), (8, 8, 1));
    assert_eq!((of("EL").len(), of("ED").len()), (2, 1));
    assert!(of("EL")[0][6].contains("18446744073709551615"));
    assert_eq!(of("ET")[0][4], "'quoted' 'so' `too`");
    let times: Vec<f64> = events.iter().map(|line| line[1].parse().unwrap()).collect();
    assert!(times.is_sorted() && bytes.iter().all(|byte| *byte == b'\n' || *byte >= b' '));
}
