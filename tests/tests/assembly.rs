//! Golden assembly of the compiled hit. `SORDINO_ACCEPT=1 cargo test -p sordino-tests --test
//! assembly` writes the present assembly to `testdata/assembly/`, so that a commit shows each change of it.

use sordino_ring::layout::VERSION;
use sordino_tests::Scene;
use sordino_tests::assembly::Disassembly;
use sordino_tests::install::{compilers, library, release_program, root, succeed};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Compares functions of `program` with the golden `file`, if it was made by this `compiler`.
fn compare(scene: &Scene, file: &str, compiler: &str, program: &Path, functions: &[&str]) {
    let mut objdump = Command::new("objdump");
    objdump.args(["--disassemble", "--demangle", "--no-show-raw-insn", "-M", "intel"]).arg(program);
    let disassembly = Disassembly::parse(&succeed(&mut objdump));
    let mut text = format!("{compiler}\n");
    for name in functions {
        let function = disassembly.function(name);
        text += "\n";
        text += &function.unwrap_or_else(|| panic!("{} has no function {name}", program.display()));
    }
    let golden = root().join("testdata/assembly").join(file);
    if std::env::var_os("SORDINO_ACCEPT").is_some() {
        return fs::write(&golden, text).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let theirs = expected.lines().next().unwrap_or_default();
    if !theirs.is_empty() && theirs != compiler {
        return Scene::not_measured(&format!("{file} is of {theirs}, and this is {compiler}"));
    }
    if expected != text {
        let actual = scene.path(file);
        fs::write(&actual, &text).unwrap();
        let difference = scene.run(Command::new("diff").arg("--unified").arg(&golden).arg(&actual)).output;
        panic!("{file} is not what the compiler makes of it now; SORDINO_ACCEPT=1 accepts it\n{difference}");
    }
}

#[test]
fn a_hit_of_two_words_in_c_is_what_it_was() {
    let (scene, [gcc, _]) = (Scene::new(), compilers());
    compare(&scene, "c-hit.txt", &gcc, &scene.program("stepped.c"), &["two_words"]);
}

#[test]
fn the_short_way_of_the_library_is_what_it_was() {
    let (scene, [_, rustc]) = (Scene::new(), compilers());
    let names = ["sordino_emit_pair", "sordino_emit_scalars", "sordino_emit"];
    let names = names.map(|name| format!("{name}_layout_{VERSION}"));
    compare(&scene, "library.txt", &rustc, &library(), &names.each_ref().map(String::as_str));
}

#[test]
fn a_hit_of_two_words_in_rust_is_what_it_was() {
    let (scene, [_, rustc]) = (Scene::new(), compilers());
    let functions = ["two_words", "sordino::emit::emit_outlined"];
    compare(&scene, "rust-hit.txt", &rustc, &release_program("stepped"), &functions);
}

const BEFORE: &str = "
000000000000aa00 <before>:
    aa00:\tret

000000000000aa10 <short>:
    aa10:\tmov    rax,QWORD PTR [rip+0x1f]        # aa36 <word>
    aa17:\tlea    rbx,[rip+0x2f]        # aa4d <word+0x17>
    aa1e:\tjne    cc08 <other+0x8>
    aa24:\tje     aa2a <short+0x1a>
    aa26:\tcall   aa00 <before>
    aa29:\tnop
    aa2a:\tret
    aa2b:\tcs nop WORD PTR [rax+rax*1+0x0]

000000000000cc00 <other>:
    cc00:\tud1    eax,DWORD PTR [rip+0x53053053]
    cc08:\tmov    QWORD PTR fs:[rbx+0x8],0x0
    cc11:\tjmp    aa26 <short+0x16>
    cc16:\tret
";

#[test]
fn a_function_is_shown_with_labels_and_what_it_jumps_to() {
    let expected = "short:
    mov rax,QWORD PTR [rip] # word
    lea rbx,[rip]
    jne .3
    je .2
.1:
    call before
.2:
    ret
.3:
    mov QWORD PTR fs:[rbx+0x8],0x0
    jmp .1
";
    assert_eq!(Disassembly::parse(BEFORE).function("short").unwrap(), expected);
    assert_eq!(Disassembly::parse(BEFORE).function("none"), None);
}

#[test]
fn where_things_lie_does_not_matter() {
    let moved = BEFORE.replace("aa", "bb").replace("rip+0x1f", "rip+0x5f");
    let (before, moved) = (Disassembly::parse(BEFORE), Disassembly::parse(&moved));
    assert_eq!(before.function("short"), moved.function("short"));
}
