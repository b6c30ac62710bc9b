//! The memory of an export does not grow with the trace.

#[path = "../../../../testdata/allocations.rs"]
mod allocations;
#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use allocations::peak_of;
use sordino_event::{Event, Step};
use sordino_export::{
    Chrome, Csv, Ctf, CtfVersion, DirectoryExporter, Exporter, Files, Json, Paje, Perfetto, TraceDat,
};
use sordino_timeline::Item;
use std::convert::Infallible;
use support::{Kinds, each, origin};

/// Returns the number of exported bytes, and the most bytes that were allocated at once, for a trace of this source.
fn peak<S: FnMut(&mut Event) -> Result<Step, Infallible>>(
    make: ExporterConstructor,
    source: impl Fn(&Kinds) -> S,
) -> (usize, isize) {
    let kinds = Kinds::new();
    peak_of(|| {
        let mut exporter = make(&kinds);
        let (mut out, mut bytes) = (Vec::new(), 0);
        exporter.begin(&mut out);
        each(&kinds.classes, [source(&kinds)], |item| {
            exporter.take(item, &mut out);
            if out.len() >= 1 << 16 {
                bytes += out.len();
                out.clear();
            }
        });
        exporter.end(&mut out);
        bytes + out.len()
    })
}

/// A format of several files, written one behind the other.
struct AllFiles(Box<dyn DirectoryExporter>, Files);

impl AllFiles {
    fn drain(&mut self, out: &mut Vec<u8>) {
        self.1.drain().for_each(|(_, bytes)| out.extend(bytes));
    }
}

impl Exporter for AllFiles {
    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn take(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        if self.0.can_take(item) {
            self.0.take(item, &mut self.1);
        }
        self.drain(out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.0.end(&mut self.1);
        self.drain(out);
    }
}

fn all_files(exporter: impl DirectoryExporter + 'static) -> Box<dyn Exporter> {
    Box::new(AllFiles(Box::new(exporter), Files::default()))
}

/// A function that makes a format's writer.
type ExporterConstructor = fn(&Kinds) -> Box<dyn Exporter>;

/// The formats, each with its writer.
const FORMATS: [(&str, ExporterConstructor); 7] = [
    ("perfetto", |kinds| Box::new(Perfetto::new(&kinds.classes, origin()))),
    ("chrome", |kinds| Box::new(Chrome::new(&kinds.classes, origin()))),
    ("paje", |kinds| Box::new(Paje::new(&kinds.classes, &origin()))),
    ("ctf", |kinds| all_files(Ctf::new(CtfVersion::V1, &kinds.classes, origin()))),
    ("trace-dat", |kinds| all_files(TraceDat::new(&kinds.classes, &origin()))),
    ("csv", |kinds| Box::new(Csv::new(&kinds.classes))),
    ("json", |kinds| Box::new(Json::new(&kinds.classes))),
];

#[test]
fn ten_times_the_trace_takes_the_same_memory() {
    for (format, make) in FORMATS {
        let peak = |count| peak(make, |kinds| kinds.rounds(count));
        let (short, long) = (peak(2_000), peak(20_000));
        assert!(long.0 > 9 * short.0, "{format}: {} and {} bytes", short.0, long.0);
        assert!(long.1 < 1 << 20 && long.1 <= short.1 + 1000, "{format}: {} and {} bytes", short.1, long.1);
    }
}

/// None of these formats keeps the names of threads or texts, so any number of them takes the same memory.
#[test]
fn twice_as_many_names_take_the_same_memory() {
    for (format, make) in FORMATS {
        let peak = |count| peak(make, |kinds| kinds.names(count));
        let (few, many) = (peak(10_000), peak(20_000));
        assert!(many.0 > 3 * few.0 / 2, "{format}: {} and {} bytes", few.0, many.0);
        assert!(many.1 < 1 << 20 && many.1 <= few.1 + few.1 / 10, "{format}: {} and {} bytes", few.1, many.1);
    }
}
