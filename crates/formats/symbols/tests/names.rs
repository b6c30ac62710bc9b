//! Names of addresses in files: a program that the test builds, and other files.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sordino_symbols::{MappedFile, SymbolFiles};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a program that prints its own mapping, and the addresses of a variable, a function and its stack.
fn built(directory: &Path) -> (MappedFile, [u64; 3]) {
    let (source, program) = (directory.join("lock.c"), directory.join("lock"));
    let text = r#"
        #include <stdio.h>
        long before[3] = {1};
        int contended_lock = 1;
        int main(void) {
            int local;
            printf("%p %p %p\n", (void *)&contended_lock, (void *)main, (void *)&local);
            FILE *maps = fopen("/proc/self/maps", "r");
            char line[4096];
            while (fgets(line, sizeof line, maps)) fputs(line, stdout);
        }"#;
    fs::write(&source, text).unwrap();
    let built = Command::new("cc").args(["-Wl,--build-id", "-o"]).args([&program, &source]).status().unwrap();
    assert!(built.success());
    let printed = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    let hexadecimal = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let mut lines = printed.lines();
    let addresses: Vec<u64> = lines.next().unwrap().split(' ').map(hexadecimal).collect();
    let line = lines.find(|line| line.contains("r-xp") && line.ends_with("/lock")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (start, end) = words[0].split_once('-').unwrap();
    let notes = Command::new("readelf").args(["-n".as_ref(), program.as_os_str()]).output().unwrap();
    let notes = String::from_utf8(notes.stdout).unwrap();
    let build_id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap().to_owned();
    let mapped = MappedFile {
        addresses: hexadecimal(start)..hexadecimal(end),
        offset: hexadecimal(words[2]),
        path: program,
        build_id,
    };
    (mapped, addresses.try_into().unwrap())
}

#[test]
fn variables_and_functions_have_names_and_nothing_else_has() {
    let directory = tempfile::tempdir().unwrap();
    let (mapped, [lock, main, local]) = built(directory.path());
    let mut files = SymbolFiles::default();
    assert_eq!(files.name(&mapped, lock), Some("contended_lock"));
    assert_eq!(files.name(&mapped, lock + 3), Some("contended_lock"));
    assert_ne!(files.name(&mapped, lock + 4), Some("contended_lock"));
    assert_eq!(files.name(&mapped, main), Some("main"));
    assert_eq!(files.name(&mapped, local), None);
    assert_eq!(files.name(&mapped, 0), None);
    // A file without its table of symbols.
    let stripped = Command::new("strip").arg(&mapped.path).status().unwrap();
    assert!(stripped.success());
    assert_eq!(SymbolFiles::default().name(&mapped, lock), None);
}

#[test]
fn a_file_with_another_build_id_or_without_one_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let (mapped, [lock, ..]) = built(directory.path());
    let other = MappedFile { build_id: "00".repeat(20), ..mapped.clone() };
    let none = MappedFile { build_id: String::new(), ..mapped };
    let mut files = SymbolFiles::default();
    assert_eq!(files.name(&other, lock), None);
    assert_eq!(files.name(&none, lock), None);
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in [fifo, "/dev/zero".into(), directory.path().to_owned(), "/nowhere".into(), PathBuf::new()] {
        let mapped = MappedFile { addresses: 0..4096, offset: 0, path, build_id: "00".into() };
        assert_eq!(SymbolFiles::default().name(&mapped, 1), None);
    }
}

#[test]
fn a_damaged_file_makes_no_panic() {
    let directory = tempfile::tempdir().unwrap();
    let (mapped, [lock, ..]) = built(directory.path());
    let (path, whole) = (directory.path().join("damaged"), fs::read(&mapped.path).unwrap());
    let changes = prop::collection::vec((0.0..1.0_f64, any::<u8>()), 1..20);
    let damage = |changes: Vec<(f64, u8)>| {
        let mut data = whole.clone();
        for (place, byte) in changes {
            // The headers lie at the begin.
            let place = (data.len() as f64 * place.powi(3)) as usize;
            data[place] = byte;
        }
        fs::write(&path, data).unwrap();
        SymbolFiles::default().name(&MappedFile { path: path.clone(), ..mapped.clone() }, lock);
        Ok(())
    };
    TestRunner::default().run(&changes, damage).unwrap();
}
