//! Attacks on what root keeps in `/run`, `/tmp` and the kernel's tracer: `attack_machine KIND ARGUMENTS`.
//!
//! | kind | effect |
//! |---|---|
//! | `lock FILE...` | opens each file, prints `opened FILE` where that is granted, waits for a lock on it, and holds it |
//! | `hold FILE` | opens a file for reading, prints `holding`, and keeps it open |
//! | `guess DIR TARGET` | takes the names in a directory that `npt` of any process could use, with links to a target among them |
//! | `recreate DIR` | makes a directory again as often as it is removed, for 20 seconds |
//! | `guarded SORDINO DIR [taken]` | no attack: has root's guardian remove a directory, which is made first unless it is `taken` |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["lock", ref files @ ..] => lock(files),
        ["hold", file] => hold(file),
        ["guess", directory, target] => guess(Path::new(directory), Path::new(target)),
        ["recreate", directory] => recreate(Path::new(directory)),
        ["guarded", sordino, directory] => guarded(sordino, Path::new(directory), false),
        ["guarded", sordino, directory, "taken"] => guarded(sordino, Path::new(directory), true),
        _ => panic!("no attack: {words:?}"),
    }
}

fn open(file: &str) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file)
}

fn say(text: &str) {
    println!("{text}");
    io::stdout().flush().expect("standard output");
}

fn lock(files: &[&str]) {
    for name in files {
        let Ok(file) = open(name) else { continue };
        say(&format!("opened {name}"));
        // The present owner of the lock releases it eventually.
        std::thread::spawn(move || {
            let _ = rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive);
            std::thread::sleep(Duration::from_secs(1000));
        });
    }
    std::thread::sleep(Duration::from_millis(200));
    say("waiting");
    File::create("waiting").expect("a file in the user's own directory");
    std::thread::sleep(Duration::from_secs(1000));
}

fn hold(file: &str) {
    let _file = open(file).expect("a file that is granted");
    say("holding");
    File::create("waiting").expect("a file in the user's own directory");
    std::thread::sleep(Duration::from_secs(1000));
}

fn guess(directory: &Path, target: &Path) {
    for pid in 1..4000 {
        let path = directory.join(format!("sordino-npt-{pid}"));
        let taken = if pid % 2 == 0 { fs::create_dir(path) } else { symlink(target, path) };
        taken.expect("a name in a directory for everybody");
    }
}

fn recreate(directory: &Path) {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if fs::create_dir(directory).is_ok() {
            let _ = File::create(directory.join("mine"));
        }
    }
}

fn guarded(sordino: &str, directory: &Path, is_taken: bool) {
    let mut guardian =
        sordino_undo::Guardian::start(Command::new(sordino).arg("undo-guard")).expect("a guardian");
    let step = sordino_undo::UndoStep::RemoveDirectory { directory: directory.to_owned() };
    guardian.add(step).expect("a step");
    if !is_taken {
        fs::create_dir(directory).expect("a directory");
        fs::create_dir(directory.join("below")).expect("a directory");
        fs::write(directory.join("below/file"), "x").expect("a file");
    }
    for failure in guardian.undo().expect("the guardian's report") {
        say(&failure.to_string());
    }
    say("undone");
}
