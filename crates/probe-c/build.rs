//! What the shared library says of itself to the dynamic linker, and the layout's version for the names that it exports.

/// The header, which compiles parts of the layout into programs.
const HEADER: &str = "include/sordino/tracepoint.h";

fn main() {
    let header = std::fs::read_to_string(HEADER).expect(HEADER);
    let version = header.lines().find_map(|line| line.strip_prefix("#define SORDINO_LAYOUT_VERSION "));
    let version = version.expect("the header says which layout it is for");
    println!("cargo::rustc-env=SORDINO_LAYOUT_VERSION={version}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsordino.so.{version}");
    // Plug-ins come and go; the program's area, and what its threads remember of it, stays.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={HEADER}");
}
