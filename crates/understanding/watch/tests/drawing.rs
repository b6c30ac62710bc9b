//! The figures as a terminal shows them, at every size and with hostile names.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use sordino_event::Nanos;
use sordino_event::text::is_printable;
use sordino_query::Bar;
use sordino_watch::{
    Action, Cost, CpuFigures, EventFigures, Figures, HandlerFigures, PeakFigures, PressedKey, SortKey, Tally,
    TerminalSupport, ThreadCost, ThreadFigures, WatchView, draw,
};

const PLAIN: TerminalSupport = TerminalSupport { has_colors: false, is_utf8: true };

/// Figures of a session with this thread's name.
fn figures(name: &str) -> Figures {
    let thread = |tid: i32, length_ns: i64| ThreadFigures {
        tid,
        label: format!("{name}/{tid}"),
        priority: Some("RT 95".to_owned()),
        per_s: 1000.0,
        count: 12_345,
        median_ns: 4200,
        p99_ns: 51_000,
        worst: Some(PeakFigures {
            length_ns,
            at_ns: 5_000_000_000,
            cpu: Some(1),
            cause: format!("{name}/7 and others 92%"),
            before: Some(format!("{name}/7")),
            parts_ns: [("other threads", length_ns)].into(),
        }),
    };
    let event = |event: &str| EventFigures { name: event.to_owned(), per_s: 9876.0, total: 1_234_567 };
    Figures {
        name: name.to_owned(),
        state: "running".to_owned(),
        duration_ns: 12_300_000_000,
        last_ns: Some(8_000_000_000),
        events_per_s: 10_012.0,
        events_total: 123_456,
        events: vec![event("sched_switch"), event(name), event("motor:period")],
        threads: (0..30).map(|index| thread(4711 + index, 3_080_000 - i64::from(index))).collect(),
        histogram: (10..24).map(|bits| Bar { below: Nanos(1 << bits), count: bits * 10 }).collect(),
        cpus: (0..2).map(|cpu| CpuFigures { cpu, busy_share: Some(0.37), events_per_s: 5000.0 }).collect(),
        interrupts: vec![HandlerFigures { name: name.to_owned(), per_s: 250.0, share: 0.002, max_ns: 7500 }],
        cost: Cost {
            recorder_share: Some(0.008),
            threads: vec![ThreadCost { name: name.to_owned(), share: 0.008 }],
            reader_share: Some(0.012),
        },
        ..Figures::of(&mut Tally::default(), SortKey::Worst)
    }
}

/// Returns the lines of the screen.
fn shown(
    figures: &Figures,
    view: &WatchView,
    support: TerminalSupport,
    (width, height): (u16, u16),
) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| {
            let area = frame.area();
            draw(figures, view, support, area, frame.buffer_mut());
        })
        .unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

#[test]
fn all_is_in_sight_at_80_columns_and_24_rows() {
    let lines = shown(&figures("motor"), &WatchView::default(), PLAIN, (80, 24));
    assert_eq!(lines[0], "motor: running  10.0k events/s  123k in 12.3 s  nothing lost");
    assert_eq!(lines[1], "this view 1.2%  recorder 0.8% of a CPU (motor 0.8%)");
    assert_eq!(lines[3], "THREAD              WAKE/S        P99     *WORST    AGO CAUSE");
    assert_eq!(lines[4], "motor/4711           1.00k    51.0 us    3.08 ms     3s motor/7 and others 92%");
    let text = lines.join("\n");
    for part in [
        "LATENCY below",
        "EVENT",
        "INTERRUPT",
        "CPU",
        "sched_switch",
        "motor:period",
        "8.39 ms",
        "37%",
        "q end",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

#[test]
fn a_wide_terminal_also_shows_the_priority_and_the_median() {
    let text = shown(&figures("motor"), &WatchView::default(), PLAIN, (140, 50)).join("\n");
    assert!(text.contains("PRIORITY") && text.contains("RT 95") && text.contains("4.20 us"), "{text}");
}

#[test]
fn no_size_and_no_name_leaves_the_screen_or_reaches_the_terminal_as_it_is() {
    let names = [
        "\x1b]52;c;Y2xpcA\x07",
        "a\u{202e}b\u{9b}2J\n\t",
        "\u{65e5}\u{672c}\u{8a9e}",
        "",
        "e\u{301}\u{1f468}\u{200d}\u{1f469}",
    ];
    let long = "x".repeat(5000);
    for name in names.into_iter().chain([&*long]) {
        let figures = figures(name);
        for size in [(1, 1), (39, 9), (40, 10), (41, 11), (80, 24), (79, 23), (132, 43), (300, 100)] {
            for support in [PLAIN, TerminalSupport { has_colors: true, is_utf8: false }] {
                for view in views(&figures, name) {
                    let text = shown(&figures, &view, support, size).concat();
                    let is_shown = |c: char| is_printable(c) && (support.is_utf8 || c.is_ascii());
                    assert!(text.chars().all(is_shown), "{size:?}: {text}");
                }
            }
        }
    }
}

/// Returns a view of each page.
fn views(figures: &Figures, text: &str) -> Vec<WatchView> {
    let mut views = vec![WatchView::default(); 4];
    views[1].press(PressedKey::Char('?'), figures);
    views[2].show_text(text, &format!("{text}\n{text}"));
    views[3].press(PressedKey::Char('w'), figures);
    text.chars().for_each(|character| _ = views[3].press(PressedKey::Char(character), figures));
    views
}

#[test]
fn leaving_out_and_losses_are_shown() {
    let mut figures = figures("motor");
    figures.notes.clear();
    figures.read_share = 0.37;
    figures.losses.count = 17;
    figures.losses.by_cause.insert("ring full".to_owned(), 17);
    let lines = shown(&figures, &WatchView::default(), PLAIN, (80, 24));
    assert!(lines[0].contains("LOST 17"), "{}", lines[0]);
    assert_eq!(lines[2], "SAMPLED: 37% of the time is read  LOST: ring full 17");
}

#[test]
fn the_selected_thread_stays_in_sight_and_is_the_one_that_is_explained() {
    let figures = figures("motor");
    let mut view = WatchView::default();
    (0..20).for_each(|_| _ = view.press(PressedKey::Down, &figures));
    let text = shown(&figures, &view, PLAIN, (80, 24)).join("\n");
    assert!(text.contains("motor/4731") && !text.contains("motor/4711"), "{text}");
    let action = view.press(PressedKey::Enter, &figures);
    let (at_ns, length_ns) = (5_000_000_000, 3_079_980);
    assert_eq!(action, Some(Action::Explain { tid: 4731, at_ns, length_ns }));
}

#[test]
fn keys_sort_filter_and_leave_pages() {
    let figures = figures("motor");
    let mut view = WatchView::default();
    view.press(PressedKey::Char('s'), &figures);
    assert_eq!(view.sort, SortKey::Count);
    view.press(PressedKey::Char('w'), &figures);
    // While a condition is typed, letters are no commands.
    "$cpu == 1q".chars().for_each(|c| assert_eq!(view.press(PressedKey::Char(c), &figures), None));
    view.press(PressedKey::Backspace, &figures);
    let lines = shown(&figures, &view, PLAIN, (80, 24));
    assert_eq!(lines[23], "where: $cpu == 1_");
    assert_eq!(view.press(PressedKey::Enter, &figures), Some(Action::Filter("$cpu == 1".to_owned())));
    view.press(PressedKey::Char('?'), &figures);
    assert!(shown(&figures, &view, PLAIN, (80, 24)).join("\n").contains("SAMPLED: there are more"));
    assert_eq!(view.press(PressedKey::Char('q'), &figures), None);
    assert_eq!(view.press(PressedKey::Char('q'), &figures), Some(Action::Quit));
}

#[test]
fn an_empty_state_says_what_is_missing() {
    let figures = Figures::of(&mut Tally::default(), SortKey::Worst);
    let text = shown(&figures, &WatchView::default(), PLAIN, (80, 24)).join("\n");
    assert!(text.contains("no wake-up so far") && text.contains("--kernel sched"), "{text}");
    assert_eq!(WatchView::default().press(PressedKey::Enter, &figures), None);
}

#[test]
fn the_json_has_the_names_as_they_are() {
    let json: serde_json::Value = serde_json::to_value(figures("a\x1b")).unwrap();
    assert_eq!((&json["schema"], &json["threads"][0]["label"]), (&1.into(), &"a\x1b/4711".into()));
    assert_eq!(json["threads"][0]["worst"]["parts_ns"]["other threads"], 3_080_000);
}
