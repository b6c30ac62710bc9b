//! The loop with interrupts disabled, which a kernel module runs.

use crate::{results_of, text};
use serde_json::Value;

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn the_module_measures_with_interrupts_disabled_and_without_it_that_is_refused() {
    let results = results_of("npt");
    for refused in ["before", "after"] {
        let text = text(&results.join(refused));
        assert!(
            text.contains("insmod") && text.contains("/dev/sordino_npt") && text.ends_with("\n2\n"),
            "{text}"
        );
    }
    let value: Value = serde_json::from_str(&text(&results.join("measured"))).unwrap();
    let cpu = &value["cpus"][0];
    let loops = cpu["statistics"]["loops"].as_u64().unwrap();
    let buckets = cpu["histogram_cycles"].as_array().unwrap();
    let counted: u64 = buckets.iter().map(|bucket| bucket[2].as_u64().unwrap()).sum();
    assert!(loops > 1000 && counted == loops, "{loops} loops, {counted} counted");
    // A window is a millisecond, and between two of them interrupts come.
    let seconds = cpu["seconds"].as_f64().unwrap();
    assert!(seconds > 0.0 && seconds <= 0.6, "{seconds}");
    assert!(text(&results.join("text")).lines().any(|line| line.trim_start().starts_with("all ")));
    let bad = text(&results.join("bad"));
    assert!(!bad.contains("took"), "{bad}");
    let kernel = text(&results.join("kernel"));
    assert!(
        kernel.contains("sordino_npt") && !kernel.contains("WARNING:") && !kernel.contains("BUG:"),
        "{kernel}"
    );
}
