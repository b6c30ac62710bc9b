//! Functions with guards, which return early, panic, call themselves and return.
#![allow(missing_docs, reason = "a program of the tests")]

use std::panic::{catch_unwind, set_hook};

fn early(number: u32) -> Option<u32> {
    let _function = sordino_function::function!();
    let half = number.is_multiple_of(2).then_some(number / 2)?;
    Some(half + 1)
}

fn panics(number: u32) -> u32 {
    let _function = sordino_function::function!();
    assert!(!number.is_multiple_of(5), "every fifth");
    number
}

fn sum(number: u32) -> u32 {
    let _function = sordino_function::function!();
    if number == 0 { 0 } else { number + sum(number - 1) }
}

fn main() {
    set_hook(Box::new(|_| {}));
    let all = (0..100).map(|number| {
        early(number).unwrap_or_default() + catch_unwind(|| panics(number)).unwrap_or_default() + sum(3)
    });
    println!("{}", all.sum::<u32>());
}
