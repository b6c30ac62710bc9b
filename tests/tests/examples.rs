//! The examples, built as their first lines say, recorded, and counted three ways.

use sordino_tests::install::{installed, root, succeed};
use sordino_tests::{COMPILERS, NativeCompiler, Scene};
use std::process::Command;

/// "A C program with tracepoints, pkg-config, record": the periods, a command every hundredth period, and the mark.
#[test]
fn the_c_example_is_recorded_whole() {
    let scene = Scene::new();
    let source = root().join("examples/c/motor.c");
    for compiler in [NativeCompiler::Gcc, NativeCompiler::Clang] {
        let motor = scene.compile(compiler, source.to_str().unwrap(), &[]);
        let recording = scene.record(&[], &[motor.to_str().unwrap(), "250"]);
        recording.assert_count(250 + 3 + 1);
        let counts = recording.counts();
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        assert_eq!([count("motor:period"), count("motor:command"), count("sordino:mark")], [250, 3, 1]);
        let lines = recording.babeltrace();
        let running = lines.iter().filter(|line| line.contains(r#"( "running" : "#)).count();
        assert_eq!(running, 249, "{}", lines[1]);
        assert!(lines[0].contains(r#"text = "motor starts: 250 periods""#), "{}", lines[0]);
    }
}

/// Returns the block of README in this language.
fn readme(language: &str) -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, behind) = readme.split_once(&format!("```{language}\n")).expect("a block");
    behind.split_once("```").expect("its end").0.to_owned()
}

/// README's C program compiles as it stands there, and is as late as README's trigger and `--where` assume.
#[test]
fn the_c_program_of_the_readme_is_recorded_with_how_late_it_wakes() {
    let scene = Scene::new();
    let source = scene.path("motor.c");
    std::fs::write(&source, readme("c")).unwrap();
    let motor = scene.compile(NativeCompiler::Gcc, source.to_str().unwrap(), &[]);
    let recording = scene.record(&[], &[motor.to_str().unwrap()]);
    recording.assert_count(5000);
    let all = recording.events();
    let late = |limit: i64| all.iter().filter(|event| event.numbers[1] > limit).count();
    assert!(all.iter().all(|event| event.numbers[1] >= 0), "a loop woke too early");
    for limit in [0, 50_000] {
        let condition = format!("late > {limit}");
        let listed = scene.sordino(&["events", "--where", &condition, recording.name()]);
        assert_eq!(listed.succeeded().lines().count(), late(limit));
    }
    let periods = scene.sordino(&["explain", "--event", "motor:period", "--over", "1s", recording.name()]);
    assert!(periods.succeeded().starts_with("motor:period: 4999 intervals"), "{}", periods.output);
}

/// README's Rust program is the example, which is built with the others.
#[test]
fn the_rust_program_of_the_readme_is_the_example() {
    let example = std::fs::read_to_string(root().join("examples/rust/src/motor.rs")).unwrap();
    assert_eq!(example.split_once("\n\n").expect("a first line").1, readme("rust"));
}

/// "C++17": two threads, with each compiler.
#[test]
fn the_cpp_example_is_recorded_whole() {
    let scene = Scene::new();
    let source = root().join("examples/cpp/queue.cpp");
    for compiler in COMPILERS
        .into_iter()
        .filter(|compiler| matches!(compiler, NativeCompiler::Gxx | NativeCompiler::Clangxx))
    {
        let queue = scene.compile(compiler, source.to_str().unwrap(), &[]);
        let recording = scene.record(&[], &[queue.to_str().unwrap(), "500"]);
        recording.assert_count(1000);
        let events = recording.events();
        let tids: std::collections::BTreeSet<i32> = events.iter().map(|event| event.tid).collect();
        assert_eq!(tids.len(), 2);
        for (name, field) in [("queue:put", 500), ("queue:get", 500)] {
            let mut items: Vec<i64> =
                events.iter().filter(|event| event.name == name).map(|event| event.numbers[0]).collect();
            items.sort_unstable();
            assert_eq!(items, (0..field).collect::<Vec<_>>());
        }
    }
}

/// "Rust": `cargo build -p sordino-example`.
#[test]
fn the_rust_example_is_recorded_whole() {
    let scene = Scene::new();
    let pipeline = installed().join("bin/pipeline");
    let recording = scene.record(&[], &[pipeline.to_str().unwrap(), "2000"]);
    recording.assert_count(2000 + 2000 + 1);
    let dropped = recording.babeltrace().iter().filter(|line| line.contains(r#"( "Drop" : "#)).count();
    assert_eq!(dropped, 667);
}

/// "find_package(sordino)", shared and static.
#[test]
fn cmake_finds_sordino() {
    let scene = Scene::new();
    let (build, prefix) = (scene.path("build"), installed());
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/cmake")).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    configure.arg(format!("-DSOURCE={}", root().join("examples/cpp/queue.cpp").display()));
    succeed(&mut configure);
    succeed(Command::new("cmake").arg("--build").arg(&build));
    for program in ["shared", "static"] {
        let program = build.join(program);
        scene.record(&[], &[program.to_str().unwrap(), "100"]).assert_count(200);
    }
}
