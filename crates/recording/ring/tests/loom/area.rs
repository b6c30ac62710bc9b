//! A program that starts, and a collector that discovers it.

use crate::support::*;
use loom::thread;
use sordino_percpu::model;
use sordino_ring::area::Area;
use sordino_ring::area::control::{Program, Refusal};
use sordino_ring::area::map::create_file;

#[test]
fn who_finds_an_area_finds_all_of_it() {
    check(|| {
        // Every file of a model is the same memory. This file stands for the program's, which exists before it is
        // written to; making it once makes its words known to loom.
        let file = create_file(60 << 10).unwrap();
        drop(Area::create(&REQUEST).unwrap());
        model::clear(0, 60 << 10);
        let program = thread::spawn(|| drop(Area::create(&REQUEST).unwrap()));
        let opened = Program::open(&file);
        assert!(matches!(opened, Ok(_) | Err(Refusal::NoArea)), "{opened:?}");
        program.join().unwrap();
    });
}

#[test]
fn who_sees_the_catalogue_s_length_sees_its_text() {
    check(|| {
        let (area, program) = area();
        assert!(program.catalogue(0).is_empty());
        let writer = thread::spawn(move || {
            // SAFETY: this thread is the only caller, and the first tracepoint's count is not less than before.
            assert!(unsafe { area.append(b"abcdefgh", 1) });
        });
        let text = program.catalogue(0);
        assert!([&b""[..], b"abcdefgh"].contains(&&text[..]));
        writer.join().unwrap();
    });
}
