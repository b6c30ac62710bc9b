//! Perfetto's `trace_processor`, which answers SQL queries on a trace.

use crate::{RunningProcess, Scene};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Directory with the engine, which `scripts/lib/trace-processor` fetches.
const ENGINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/perfetto");
/// Program that loads the engine.
const QUERY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/perfetto/query.js");

/// Returns the rows of each query on the trace; `None`, reported as not measured, if the machine has no Node.js or no
/// engine.
///
/// # Panics
/// If the engine rejects the trace or a query.
#[track_caller]
pub fn query<const N: usize>(scene: &Scene, trace: &Path, queries: [&str; N]) -> Option<[Vec<Value>; N]> {
    if !Path::new(ENGINE).join("trace_processor.wasm").exists() {
        Scene::not_measured("Perfetto's trace_processor: fetch it with scripts/lib/trace-processor");
        return None;
    }
    if Command::new("node").arg("--version").output().is_err() {
        Scene::not_measured("Perfetto's trace_processor: it needs Node.js (Debian: nodejs)");
        return None;
    }
    let mut node = Command::new("node");
    node.arg(QUERY).arg(ENGINE).arg(trace).args(queries);
    let ended = RunningProcess::start(&mut node, &scene.fresh("query")).end();
    let rows = ended.succeeded().lines().map(|line| serde_json::from_str(line).expect("an array of rows"));
    Some(rows.collect::<Vec<_>>().try_into().expect("an answer to each query"))
}
