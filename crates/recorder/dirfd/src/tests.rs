//! Tests of both methods of resolving names, with obstacles that an attacker could place.

use super::make::distrust;
use super::*;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

/// Runs a test in a new directory, once for each method of resolving names.
fn both_ways(test: impl Fn(&Path, Dir)) {
    for way in [Way::Kernel, Way::Steps] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("held");
        fs::create_dir(&path).unwrap();
        fs::write(place.path().join("outside"), "precious").unwrap();
        test(&path, Dir { way, ..Dir::open(&path).unwrap() });
        assert_eq!(fs::read_to_string(place.path().join("outside")).unwrap(), "precious");
    }
}

/// Returns true if files can be given to other users. If not, prints so to standard error itself, because the test
/// harness swallows the output of tests that pass.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        let _ = writeln!(io::stderr(), "not measured here: it needs root");
    }
    is_root
}

#[test]
fn files_are_their_owners_alone_and_made_once() {
    both_ways(|path, dir| {
        let inside = dir.make_new("inside").unwrap();
        inside.create("file").unwrap().write_all(b"text").unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(path.join("inside")), mode(path.join("inside/file"))), (0o700, 0o600));
        assert_eq!(dir.read_text("inside/file", 4).unwrap(), "text");
        assert_eq!(dir.read_text("inside/file", 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(dir.create("inside/file").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(dir.make_new("inside").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        dir.edit("inside/file").unwrap().set_len(2).unwrap();
        assert_eq!((dir.read_text("inside/file", 9).unwrap().as_str(), dir.bytes()), ("te", 2));
        inside.replace("file", b"other").unwrap();
        assert_eq!(
            (inside.read_text("file", 9).unwrap().as_str(), inside.names().unwrap().len()),
            ("other", 1)
        );
    });
}

#[test]
fn no_link_is_followed_and_no_name_leads_out() {
    both_ways(|path, dir| {
        symlink("../outside", path.join("link")).unwrap();
        symlink("..", path.join("up")).unwrap();
        symlink("/nowhere", path.join("dead")).unwrap();
        for name in ["link", "up/outside", "../outside", "/etc/passwd", "", ".", "up", "dead"] {
            assert!(dir.read(name).is_err(), "{name}");
            assert!(dir.edit(name).is_err(), "{name}");
            assert!(dir.create(name).is_err(), "{name}");
            assert!(dir.dir(name).is_err(), "{name}");
            assert!(dir.make_new(name).is_err(), "{name}");
        }
        assert!(dir.has("dead") && !dir.has("none"));
        // `replace` replaces the link itself.
        dir.replace("link", b"new").unwrap();
        assert_eq!(dir.read_text("link", 9).unwrap(), "new");
        // It also replaces a link at the temporary name.
        symlink("../outside", path.join(".link.new")).unwrap();
        dir.replace("link", b"newer").unwrap();
        assert_eq!(dir.read_text("link", 9).unwrap(), "newer");
        dir.remove_all("up").unwrap();
        assert!(!dir.has("up"));
    });
}

#[test]
fn a_directory_that_was_renamed_away_is_still_the_one_that_is_written_to() {
    both_ways(|path, dir| {
        let away = path.with_file_name("away");
        fs::rename(path, &away).unwrap();
        symlink(path.parent().unwrap(), path).unwrap();
        dir.replace("outside", b"harmless").unwrap();
        assert_eq!(fs::read_to_string(away.join("outside")).unwrap(), "harmless");
        assert_eq!(fs::read_to_string(dir.proc_path().join("outside")).unwrap(), "harmless");
        assert!(dir.is_at(&away) && !dir.is_at(path));
        assert!(Dir::make(path).is_err(), "a link is no directory");
    });
}

#[test]
fn what_would_wait_is_not_waited_for() {
    both_ways(|path, dir| {
        let socket = UnixListener::bind(path.join("socket")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path.join("fifo"), FileType::Fifo, FILE_MODE, 0).unwrap();
        assert!(fs::metadata(path.join("fifo")).unwrap().file_type().is_fifo());
        for name in ["fifo", "socket"] {
            assert!(dir.read(name).is_err() && dir.edit(name).is_err(), "{name}");
            assert!(read_regular(&path.join(name), 9).is_err(), "{name}");
        }
        assert_eq!(dir.vet().unwrap_err().0, dir.path().join("fifo"));
        drop(socket);
    });
}

#[test]
fn a_tree_is_vetted_and_removed() {
    both_ways(|path, dir| {
        let deep = dir.make_new("a").unwrap().make_new("b").unwrap();
        deep.replace("file", b"x").unwrap();
        dir.vet().unwrap();
        fs::set_permissions(path.join("a/b/file"), fs::Permissions::from_mode(0o622)).unwrap();
        let (place, error) = dir.vet().unwrap_err();
        assert!(place.ends_with("a/b/file") && error.to_string().contains("mode 622"), "{error}");
        fs::set_permissions(path.join("a/b/file"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(path.join("a/b/file"), path.join("a/second")).unwrap();
        assert!(dir.edit("a/second").unwrap_err().to_string().contains("2 names"));
        assert!(dir.vet().is_err());
        symlink("../../outside", path.join("a/b/link")).unwrap();
        dir.remove_all("a").unwrap();
        assert!(dir.is_empty().unwrap());
        assert!(dir.remove_all("..").is_err() && dir.remove_all("a/b").is_err());
    });
}

#[test]
fn a_tree_that_is_too_deep_is_left() {
    both_ways(|path, dir| {
        fs::create_dir_all(path.join(["d"; 40].join("/"))).unwrap();
        assert!(dir.remove_all("d").is_err() && dir.vet().is_err());
    });
}

#[test]
fn directories_are_made_with_those_above_them() {
    let place = tempfile::tempdir().unwrap();
    let made = Dir::make(&place.path().join("a/b/c")).unwrap();
    assert!(made.is_new && made.dir.is_at(&place.path().join("a/b/c")));
    let again = Dir::make(&place.path().join("a/b/c")).unwrap();
    assert!(!again.is_new && again.dir.identity().unwrap() == made.dir.identity().unwrap());
    assert_eq!(again.dir.distrust().unwrap(), None);
    assert!(Dir::open_own(&place.path().join("a/b/c")).is_ok());
    fs::set_permissions(place.path().join("a/b/c"), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(again.dir.distrust().unwrap().unwrap().contains("chmod go-w"));
    assert!(Dir::open_own(&place.path().join("a/b/c")).unwrap_err().to_string().contains("mode 777"));
    made.remove().unwrap();
    assert!(!place.path().join("a/b/c").exists() && Dir::make(Path::new("/")).is_err());
}

#[test]
fn owners_and_modes_that_are_not_relied_on_are_refused_with_the_reason() {
    assert_eq!(distrust(1000, 0o40700, 1000), None);
    assert_eq!(distrust(0, 0o40755, 0), None);
    assert_eq!(distrust(0, 0o40755, 1000).unwrap(), "it belongs to user 0, not to user 1000");
    assert_eq!(distrust(1001, 0o40700, 1000).unwrap(), "it belongs to user 1001, not to user 1000");
    assert_eq!(distrust(1000, 0o40755, 0).unwrap(), "it belongs to user 1000, not to user 0");
    assert_eq!(distrust(0, 0o41777, 0).unwrap(), "its mode 1777 lets others write there: chmod go-w");
    assert!(distrust(1000, 0o40770, 1000).is_some());
}

#[test]
fn a_directory_is_removed_by_its_path_and_what_is_none_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let (kept, gone) = (place.path().join("kept"), place.path().join("gone"));
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join("file"), "").unwrap();
    fs::create_dir_all(gone.join("a/b")).unwrap();
    symlink(&kept, gone.join("a/link")).unwrap();
    symlink(&gone, place.path().join("link")).unwrap();
    for name in ["link", "kept/file"] {
        let error = Dir::remove(&place.path().join(name)).unwrap_err();
        assert_eq!(error.to_string(), "it is no directory: left alone");
    }
    Dir::remove(&gone).unwrap();
    assert!(!gone.exists() && kept.join("file").exists());
    assert_eq!(Dir::remove(&gone).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(Dir::remove(Path::new("/")).is_err());
}

#[test]
fn the_kernel_resolves_names_where_it_can() {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let can =
        rustix::fs::openat2(rustix::fs::CWD, ".", flags, Mode::empty(), rustix::fs::ResolveFlags::BENEATH);
    assert_eq!(Way::best() == Way::Kernel, can.is_ok());
}

#[test]
fn only_what_is_ours_alone_is_given() {
    if !is_root() {
        return;
    }
    both_ways(|path, dir| {
        dir.make_new("a").unwrap().replace("file", b"x").unwrap();
        fs::write(path.join("one"), "").unwrap();
        fs::hard_link(path.join("one"), path.join("other")).unwrap();
        symlink("../outside", path.join("link")).unwrap();
        dir.give(1000, 1000);
        let owner = |name: &str| fs::symlink_metadata(path.join(name)).unwrap().uid();
        assert_eq!(["", "a", "a/file"].map(owner), [1000; 3]);
        assert_eq!(["one", "other", "link", "../outside"].map(owner), [0; 4]);
    });
}

#[test]
fn a_directory_of_another_user_goes_with_what_that_user_could_remove() {
    if !is_root() {
        return;
    }
    both_ways(|path, dir| {
        for name in ["theirs/own/deep", "theirs/roots"] {
            fs::create_dir_all(path.join(name)).unwrap();
            fs::write(path.join(name).join("file"), "").unwrap();
        }
        for name in ["theirs", "theirs/own", "theirs/own/deep"] {
            std::os::unix::fs::chown(path.join(name), Some(1000), None).unwrap();
        }
        let error = dir.remove_all("theirs").unwrap_err();
        assert!(error.to_string().contains("roots: it belongs to user 0"), "{error}");
        assert!(!path.join("theirs/own").exists() && path.join("theirs/roots/file").exists());
        fs::remove_dir_all(path.join("theirs/roots")).unwrap();
        dir.remove_all("theirs").unwrap();
    });
}
