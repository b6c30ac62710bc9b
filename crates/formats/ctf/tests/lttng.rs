//! A recording by LTTng's user-space tracer on this machine is read as babeltrace2 reads it.

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;
use support::{assert_same, babeltrace, not_measured, read};

/// The user of LTTng. The session daemon of root would be the machine's own; that of nobody lives in a directory of the
/// test.
const NOBODY: u32 = 65534;

const PROVIDER: &str = r#"
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER demo
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./provider.h"
#if !defined(PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PROVIDER_H
#include <lttng/tracepoint.h>
#include <stdint.h>
LTTNG_UST_TRACEPOINT_ENUM(demo, kind, LTTNG_UST_TP_ENUM_VALUES(
    lttng_ust_field_enum_value("none", 0) lttng_ust_field_enum_range("some", 1, 5)))
LTTNG_UST_TRACEPOINT_EVENT(demo, all, LTTNG_UST_TP_ARGS(int, n, const char *, text, const uint8_t *, bytes),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int8_t, small, -n)
        lttng_ust_field_integer_hex(uint64_t, address, 0xffff000000000000ul + n)
        lttng_ust_field_integer_network(uint16_t, port, n)
        lttng_ust_field_float(double, half, n / 2.0)
        lttng_ust_field_string(text, text)
        lttng_ust_field_array(uint8_t, array, bytes, 4)
        lttng_ust_field_array_text(char, array_text, bytes, 4)
        lttng_ust_field_sequence(uint8_t, sequence, bytes, uint16_t, n % 5)
        lttng_ust_field_sequence_text(char, sequence_text, text, size_t, n % 4)
        lttng_ust_field_enum(demo, kind, int, kind, n % 8)))
LTTNG_UST_TRACEPOINT_EVENT(demo, pair, LTTNG_UST_TP_ARGS(uint64_t, a, uint64_t, b),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, a) lttng_ust_field_integer(uint64_t, b, b)))
LTTNG_UST_TRACEPOINT_EVENT(demo, empty, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
#endif
#include <lttng/tracepoint-event.h>
"#;

const PROGRAM: &str = r#"
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "provider.h"
#include <pthread.h>
static void *thread(void *argument) {
    for (int n = 0; n < 3000; n++) {
        lttng_ust_tracepoint(demo, pair, n, (uint64_t)argument);
        if (n % 3 == 0) lttng_ust_tracepoint(demo, all, n % 100, n % 2 ? "text \"x\"\n" : "long enough", (const uint8_t *)"abcdefg");
        if (n % 100 == 0) lttng_ust_tracepoint(demo, empty);
    }
    return 0;
}
int main(void) {
    pthread_t threads[2];
    for (uint64_t i = 0; i < 2; i++) pthread_create(&threads[i], 0, thread, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}
"#;

/// Creates the command for a program whose LTTng lives in `home`.
fn command(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LTTNG_HOME", home).env("HOME", home).current_dir(home).uid(NOBODY).gid(NOBODY);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a program to its end; returns its error output if it fails.
fn run(program: &str, arguments: &[&str], home: &Path) -> Result<Output, String> {
    let output = command(program, home).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// The session daemon. When dropped, it is terminated, and its consumer with it.
struct Daemon {
    process: Child,
    /// The shared memory that did not exist before, which traced programs leave behind.
    leftovers: Vec<String>,
}

impl Daemon {
    fn start(home: &Path) -> Result<Self, String> {
        let names = ["/dev/shm/lttng-ust-wait-8".to_owned(), format!("/dev/shm/lttng-ust-wait-8-{NOBODY}")];
        let leftovers = names.into_iter().filter(|name| !Path::new(name).exists()).collect();
        let mut command = command("lttng-sessiond", home);
        let process = command.arg("--no-kernel").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self { process: process.map_err(|error| format!("lttng-sessiond: {error}"))?, leftovers })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
        for name in &self.leftovers {
            let _ = fs::remove_file(name);
        }
    }
}

fn record(home: &Path) -> Result<(), String> {
    fs::write(home.join("provider.h"), PROVIDER).map_err(|error| error.to_string())?;
    fs::write(home.join("program.c"), PROGRAM).map_err(|error| error.to_string())?;
    run("gcc", &["-I.", "-o", "program", "program.c", "-llttng-ust", "-ldl", "-lpthread"], home)?;
    let _daemon = Daemon::start(home)?;
    for attempt in 0.. {
        match run("lttng", &["list", "-u"], home) {
            Ok(_) => break,
            Err(error) if attempt == 100 => return Err(error),
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
    run("lttng", &["create", "demo", "--output=trace"], home)?;
    run("lttng", &["enable-channel", "-u", "demo", "--subbuf-size=65536", "--num-subbuf=16"], home)?;
    run("lttng", &["enable-event", "-u", "-a", "-c", "demo"], home)?;
    run("lttng", &["add-context", "-u", "-c", "demo", "-t", "vtid", "-t", "vpid", "-t", "procname"], home)?;
    run("lttng", &["start"], home)?;
    run("./program", &[], home)?;
    run("lttng", &["stop"], home)?;
    run("lttng", &["destroy"], home)?;
    Ok(())
}

#[test]
fn a_recording_of_lttng_is_read_as_babeltrace2_reads_it() {
    // The paths of sockets must be short.
    let home = tempfile::Builder::new().prefix("lttng").tempdir_in("/tmp").unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if let Err(error) = chown(home.path(), Some(NOBODY), Some(NOBODY)) {
        return not_measured(&format!("LTTng needs a user of its own: {error}"));
    }
    for program in ["gcc", "lttng", "lttng-sessiond"] {
        if let Err(error) = Command::new(program).arg("--version").output() {
            return not_measured(&format!("{program}: {error}"));
        }
    }
    let headers = ["-fsyntax-only", "-include", "lttng/tracepoint.h", "-xc", "/dev/null"];
    if let Err(error) = run("gcc", &headers, home.path()) {
        return not_measured(&error);
    }
    record(home.path()).unwrap();
    let ours = read(&home.path().join("trace"));
    let demo = |name: &str| ours.events.iter().filter(|(_, text)| text.starts_with(name)).count();
    assert_eq!((demo("demo:pair"), demo("demo:all"), demo("demo:empty")), (6000, 2000, 60));
    assert!(ours.losses.is_empty(), "{:?}", ours.losses);
    let Some(theirs) = babeltrace(&home.path().join("trace")) else { return };
    assert_same(&ours.events, &theirs.events);
}
