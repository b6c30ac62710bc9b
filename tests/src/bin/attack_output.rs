//! Attack on the names around a recorder's output: `attack_output exchange A B SECONDS` exchanges two names as fast as
//! it can.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::time::{Duration, Instant};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["exchange", one, other, seconds] => {
            let end = Instant::now() + Duration::from_secs_f64(seconds.parse().expect("seconds"));
            let mut done = 0u64;
            while Instant::now() < end {
                done += u64::from(renameat_with(CWD, *one, CWD, *other, RenameFlags::EXCHANGE).is_ok());
            }
            println!("exchanged {done}");
        }
        other => panic!("no attack {other:?}"),
    }
}
