//! Programs, plug-ins and preloaded libraries that were compiled with the header of another layout: none of them uses
//! today's library.

use sordino_ring::layout::VERSION;
use sordino_tests::install::{compile, compiling, library, succeed};
use sordino_tests::{COMPILERS, EndedProcess, NativeCompiler, Scene, installed};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The layout before today's.
const OLD: u32 = VERSION - 1;

/// An installation of the layout before today's, made from today's: the names of everything are that layout's.
struct Older {
    header: String,
    archive: String,
    /// The directory of the shared library.
    libraries: PathBuf,
    /// A directory where the shared library's name leads to today's library.
    misled: PathBuf,
}

impl Older {
    fn install(scene: &Scene) -> Self {
        let (libraries, misled) = (scene.path("older"), scene.path("misled"));
        [&libraries, &misled].iter().for_each(|path| fs::create_dir(path).unwrap());

        let header = fs::read_to_string(installed().join("include/sordino/tracepoint.h")).unwrap();
        let versions = [VERSION, OLD].map(|version| format!("#define SORDINO_LAYOUT_VERSION {version}\n"));
        assert!(header.contains(&versions[0]));
        let older = libraries.join("tracepoint.h");
        fs::write(&older, header.replace(&versions[0], &versions[1])).unwrap();

        let (renamed, archive) = (libraries.join("renamed"), libraries.join("libsordino.a"));
        let renaming = exported().into_iter().filter_map(|name| {
            let older = name.strip_suffix(&suffix(VERSION))?.to_owned() + &suffix(OLD);
            Some(format!("{name} {older}\n"))
        });
        fs::write(&renamed, renaming.collect::<String>()).unwrap();
        let mut objcopy = Command::new("objcopy");
        objcopy.arg("--redefine-syms").arg(renamed).arg(installed().join("lib/libsordino.a")).arg(&archive);
        succeed(&mut objcopy);
        let name = format!("libsordino.so.{OLD}");
        let mut link = Command::new("gcc");
        link.args(["-shared", "-Wl,-z,nodelete", "-Wl,--gc-sections", "-Wl,--whole-archive"]).arg(&archive);
        link.args(["-Wl,--no-whole-archive", &format!("-Wl,-soname,{name}"), "-o"]);
        succeed(link.arg(libraries.join(&name)).args(["-lpthread", "-ldl", "-lm"]));
        symlink(library(), misled.join(&name)).unwrap();

        let [header, archive] = [older, archive].map(|path| path.to_str().unwrap().to_owned());
        Self { header, archive, libraries, misled }
    }

    /// Compiles with the older header, and links with the older library instead of today's.
    fn compile(&self, scene: &Scene, source: &str, flags: &[&str]) -> PathBuf {
        let library = self.libraries.join(format!("libsordino.so.{OLD}"));
        let own = ["-include", &self.header, "-Wl,--as-needed", library.to_str().unwrap()];
        scene.compile(NativeCompiler::Gcc, source, &[&own, flags].concat())
    }
}

/// The ending of names that are of this layout.
fn suffix(version: u32) -> String {
    format!("_layout_{version}")
}

/// The names that today's library exports.
fn exported() -> BTreeSet<String> {
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--defined-only", "--format=just-symbols"]).arg(library());
    succeed(&mut nm).lines().map(str::to_owned).collect()
}

/// Runs a command that finds its libraries in `directory` first.
fn run(scene: &Scene, directory: &Path, command: &mut Command) -> EndedProcess {
    scene.run(command.env("LD_LIBRARY_PATH", directory))
}

/// The dynamic linker has refused a file of the older layout: its library was not there, or, if `misled`, another
/// library had its name.
#[track_caller]
fn assert_refused(text: &str, misled: bool) {
    let (name, suffix) = (format!("libsordino.so.{OLD}: cannot open shared object file"), suffix(OLD));
    let words = if misled { ["undefined symbol: sordino_", &suffix] } else { [&*name; 2] };
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn the_librarys_name_and_all_that_it_exports_are_of_the_layout() {
    let _scene = Scene::new();
    let dynamic = succeed(Command::new("readelf").arg("--dynamic").arg(library()));
    assert!(dynamic.contains(&format!("soname: [libsordino.so.{VERSION}]")), "{dynamic}");
    let linked = fs::read_link(installed().join("lib/libsordino.so")).unwrap();
    assert_eq!(linked.to_str(), Some(&*format!("libsordino.so.{VERSION}")));
    let mut names = exported();
    // In the place of the C library's.
    assert!(names.remove("vfork"));
    assert!(names.len() > 5 && names.iter().all(|name| name.ends_with(&suffix(VERSION))), "{names:?}");
}

#[test]
fn what_was_compiled_with_another_layouts_header_does_not_link() {
    let scene = Scene::new();
    let older = Older::install(&scene);
    for compiler in COMPILERS {
        // A program has tracepoints, or marks alone.
        for (source, name) in [("once.c", "sordino_nobody"), ("marks.c", "sordino_mark_point")] {
            let missing = name.to_owned() + &suffix(OLD);
            let included = ["-include", &older.header];
            for how in [&[][..], &["-static"]] {
                let flags = [&included, how].concat();
                let ended = scene.run(&mut compiling(compiler, source, &scene.fresh("program"), &flags));
                ended.failed(1, &["undefined reference to", &missing]);
            }
            // With the library of its header, it links.
            let flags = [&included[..], &["-Wl,--as-needed", &older.archive]].concat();
            compile(compiler, source, &scene.fresh("program"), &flags);
        }
    }
}

#[test]
fn a_program_of_another_layout_starts_with_its_own_library_alone() {
    let scene = Scene::new();
    let older = Older::install(&scene);
    let program = older.compile(&scene, "once.c", &[]);
    let run = |directory: &Path| run(&scene, directory, &mut Command::new(&program));
    for (directory, misled) in [(Path::new("/nonexistent"), false), (&older.misled, true)] {
        let ended = run(directory);
        assert_eq!(ended.status, 127);
        assert_refused(&ended.errors, misled);
    }
    run(&older.libraries).succeeded();
}

#[test]
fn a_plug_in_of_another_layout_is_loaded_with_its_own_library_alone() {
    let scene = Scene::new();
    let older = Older::install(&scene);
    let host = scene.program("host.c");
    let shared = ["-shared", "-fPIC"];
    let plugin = older.compile(&scene, "plugin.c", &shared);
    let mut load = Command::new(&host);
    load.arg(&plugin).arg("1");
    for (directory, misled) in [(Path::new("/nonexistent"), false), (&older.misled, true)] {
        let ended = run(&scene, directory, &mut load);
        assert_eq!(ended.status, 3);
        assert_refused(&ended.output, misled);
    }
    // One that relies on the library of the program which loads it.
    let relying = scene.fresh("relying");
    let mut link = Command::new("gcc");
    link.args(shared).args(["-include", &older.header, "-I"]).arg(installed().join("include"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/plugin.c");
    succeed(link.arg("-o").arg(&relying).arg(source));
    let ended = scene.run(Command::new(&host).arg(relying).arg("1"));
    assert_eq!(ended.status, 3);
    assert_refused(&ended.output, true);

    // With its own library, shared or inside, it is a program of its own to the recorder.
    let inside = scene.fresh("inside");
    let flags = ["-include", &older.header, &older.archive, "-Wl,-z,nodelete", "-Wl,--as-needed"];
    compile(NativeCompiler::Gcc, "plugin.c", &inside, &[&flags[..], &shared].concat());
    for plugin in [&plugin, &inside] {
        let command = [&host, plugin].map(|path| path.to_str().unwrap());
        let recording = scene.record_with(&[], &[command[0], command[1], "1"], |recorder| {
            recorder.env("LD_LIBRARY_PATH", &older.libraries);
        });
        assert_eq!(recording.ended.status, 0, "{}", recording.ended.errors);
        let counts = recording.counts();
        let seen = ["host:loads", "plugin:loaded", "plugin:hit"].map(|name| counts.get(name));
        assert_eq!((seen, recording.programs().len()), ([Some(&1); 3], 2), "{}", recording.summary);
    }
}

#[test]
fn a_preloaded_library_of_another_layout_needs_its_own() {
    let scene = Scene::new();
    let older = Older::install(&scene);
    let (program, preloaded) =
        (scene.program("once.c"), older.compile(&scene, "plugin.c", &["-shared", "-fPIC"]));
    let run = |directory: &Path| run(&scene, directory, Command::new(&program).env("LD_PRELOAD", &preloaded));
    for (directory, misled) in [(Path::new("/nonexistent"), false), (&older.misled, true)] {
        let ended = run(directory);
        assert_eq!(ended.status, 127);
        assert_refused(&ended.errors, misled);
    }
    run(&older.libraries).succeeded();
}
