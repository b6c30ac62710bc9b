//! The shared library's properties for the dynamic linker, and the layout's version for the names that it exports.

/// The header, which compiles parts of the layout into programs.
const HEADER: &str = "include/sordino/tracepoint.h";

fn main() {
    let header = std::fs::read_to_string(HEADER).expect(HEADER);
    let version = header.lines().find_map(|line| line.strip_prefix("#define SORDINO_LAYOUT_VERSION "));
    let version = version.expect("the header says which layout it is for");
    println!("cargo::rustc-env=SORDINO_LAYOUT_VERSION={version}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsordino.so.{version}");
    // Plug-ins may be unloaded, but the program's area, and the threads' cached pointers into it, stay.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={HEADER}");
}
