//! What the collector's side costs.

use crate::Bench;
use crate::peers::{self, Lttng, PROGRAM_CPU};
use crate::programs::Tracer;
use crate::table::{Bar, Samples, Table};

/// Events a second, and for how many seconds: both collectors keep up with that on any disk.
const RATE: &str = "2000000";
const SECONDS: &str = "5";
const MILLIONS: f64 = 10.0;

pub(crate) fn measure(bench: &Bench, table: &mut Table) -> Result<(), String> {
    let mut daemon = Lttng::start()?;
    // To a disk: the current directory's.
    let place = tempfile::tempdir_in(".").map_err(|error| error.to_string())?;
    let [mut sordino, mut lttng] = [Samples::default(), Samples::default()];
    let cpu = PROGRAM_CPU.to_string();
    let program = |tracer| bench.programs.path("rate", tracer).to_string_lossy().into_owned();
    for round in 0..bench.rounds {
        let path = |name: &str| place.path().join(format!("{name}{round}"));
        let arguments = [&program(Tracer::Sordino), cpu.as_str(), RATE, SECONDS];
        let recorded = peers::sordino(&bench.programs.sordino, &path("s"), &arguments)?;
        sordino.push(recorded.collector_seconds * 1e3 / MILLIONS);
        let session = daemon.session(&path("l"))?;
        let before = session.consumer_seconds();
        session.run(&[&program(Tracer::Lttng), &cpu, RATE, SECONDS])?;
        std::thread::sleep(std::time::Duration::from_millis(300));
        lttng.push((session.consumer_seconds() - before) * 1e3 / MILLIONS);
        let lost = (recorded.lost, session.stop()?);
        if lost != (0, 0) {
            return Err(format!("events were lost: sordino {}, LTTng-UST {}", lost.0, lost.1));
        }
    }
    table.heading("CPU time of the collector for 10^6 events of two u64, to a disk");
    table.figure("sordino", &sordino, "ms");
    table.figure("lttng-consumerd", &lttng, "ms");
    table.ratio("sordino / lttng-consumerd", sordino.median() / lttng.median(), Some((0.5, Bar::AtMost)));
    Ok(())
}
