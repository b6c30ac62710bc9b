//! What the shared library says of itself to the dynamic linker.

fn main() {
    // The version of the C interface, not of the package.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsordino.so.0");
    // Plug-ins come and go; the program's area, and what its threads remember of it, stays.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
