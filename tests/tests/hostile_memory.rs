//! A ring's reader over memory that a hostile program changes: findings of the fuzzer `ring_reader`, and inputs derived
//! from them.

use sordino_tests::verified::mixed;
use std::fs;
use std::path::PathBuf;

#[path = "../../fuzz/ring_reader/attack.rs"]
mod attack;

fn corpus() -> Vec<Vec<u8>> {
    let directory = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/ring_reader/corpus"));
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn what_the_fuzzer_found_does_no_harm() {
    let corpus = corpus();
    assert!(corpus.len() >= 8);
    let seen: Vec<_> = corpus.iter().map(|input| attack::attack(input)).collect();
    let inputs_with =
        |what: fn(&attack::AttackCounts) -> u64| seen.iter().filter(|seen| what(seen) > 0).count();
    let all = [
        inputs_with(|seen| seen.taken),
        inputs_with(|seen| seen.refused),
        inputs_with(|seen| seen.unfinished),
    ];
    assert!(all.iter().all(|&inputs| inputs > 0), "the attacks miss the ring: {seen:?}");
}

#[test]
#[allow(clippy::print_stderr, reason = "the input that failed")]
fn neither_do_three_thousand_inputs_made_from_it() {
    struct Failed(Vec<u8>);
    impl Drop for Failed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("the input: {:x?}", self.0);
            }
        }
    }
    let corpus = corpus();
    let mut random = 1;
    for _ in 0..3000 {
        random = mixed(random);
        let mut input = corpus[random as usize % corpus.len()].clone();
        for _ in 0..random >> 32 & 7 {
            random = mixed(random);
            let place = (random >> 8) as usize % input.len();
            input[place] = random as u8;
        }
        let input = Failed(input);
        attack::attack(&input.0);
    }
}
