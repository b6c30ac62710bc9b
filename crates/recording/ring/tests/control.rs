//! Access to a program: the files that are accepted and refused, and that a detachment leaves nothing behind.
mod support;

use sordino_event::Ticks;
use sordino_ring::area::control::{EnableMode, FileId, Program, Refusal};
use sordino_ring::area::map;
use sordino_ring::layout::{ATTACH_LOCK, Geometry, PAGE, SLOTS};
use sordino_ring::number::{PointId, Seqno, SlotIndex};
use sordino_ring::offset::Head;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use support::*;

const SMALL: Geometry = Geometry { bits: 14, count: 2, overwrite: false };

#[test]
fn eight_sessions_have_a_slot_each_and_the_ninth_none() {
    let harness = Harness::new();
    let other = || Program::open(&harness.file).unwrap();
    let mut sessions: Vec<_> = (0..SLOTS)
        .map(|_| {
            let program = other();
            let attached = program.attach(&options(SMALL, 3)).unwrap();
            (program, attached)
        })
        .collect();
    let mut slots: Vec<_> = sessions.iter().map(|(_, attached)| attached.slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, SlotIndex::all().collect::<Vec<_>>());
    assert!(matches!(other().attach(&options(SMALL, 3)), Err(Refusal::NoSlot)));
    let owners = other().owners().unwrap();
    assert_eq!(owners.len(), SLOTS);
    assert_eq!((owners[0].name.as_str(), owners[0].pid), ("test", std::process::id()));
    // The collector was killed without detaching: the kernel releases its lock, and the slot is free.
    let (program, attached) = sessions.swap_remove(3);
    let slot = attached.slot;
    program.enable(slot, PointId(5), EnableMode::Always);
    drop((program, attached));
    assert_eq!(other().owners().unwrap().len(), SLOTS - 1);
    let next = other();
    assert_eq!(next.attach(&options(SMALL, 4)).unwrap().slot, slot);
    assert_eq!(harness.area.point(PointId(5)).load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[test]
fn sessions_do_not_see_each_others_records() {
    let harness = Harness::new();
    pin(0);
    let (one, two) = (Program::open(&harness.file).unwrap(), Program::open(&harness.file).unwrap());
    let mut first = one.attach(&options(SMALL, 3)).unwrap();
    let mut second = two.attach(&options(SMALL, 700)).unwrap();
    harness.write(first.slot, 1 << 32, &[1; 8]);
    harness.write(second.slot, 2 << 32, &[2; 8]);
    for (attached, tag) in [(&mut first, 1 << 32), (&mut second, 2 << 32)] {
        let taken = finish(attached);
        let read: Vec<_> = taken.iter().flat_map(|(.., bytes)| records(bytes, 8)).collect();
        assert_eq!(read.iter().map(|record| record.tag).collect::<Vec<_>>(), [tag]);
    }
}

#[test]
fn after_detaching_nothing_is_written_and_the_memory_is_given_back() {
    let harness = Harness::new();
    let pages = |harness: &Harness| {
        // SAFETY: a stat consists of integers, for which zeros are valid.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: fstat on an owned descriptor writes `stat`, which outlives the call.
        unsafe { libc::fstat(harness.file.as_raw_fd(), &mut stat) };
        stat.st_blocks / 8
    };
    let before = pages(&harness);
    let attached = harness.attach(SMALL, 3);
    assert!(pages(&harness) > before + 32);
    harness.program.detach(&attached).unwrap();
    let after = pages(&harness);
    // The enable words and the ring headers may have become resident; the rings have not.
    assert!(after <= before + 20, "{before} {after}");
    harness.write(attached.slot, 1 << 32, &[1; 8]);
    assert_eq!(pages(&harness), after);
    for round in 0..100 {
        let attached = harness.attach(SMALL, round);
        harness.program.detach(&attached).unwrap();
    }
    assert!(map::size(&harness.file).unwrap() < 8 << 20, "attaching again takes new room each time");
}

#[test]
fn rings_that_find_no_room_are_refused_with_the_room_there_is() {
    let harness = Harness::with_reserve(1 << 20);
    let Err(Refusal::NoRoom { needed, left }) =
        harness.program.attach(&options(Geometry { bits: 20, count: 2, overwrite: false }, 1))
    else {
        panic!("not refused")
    };
    assert!(needed > 4 << 20 && left < 1 << 20 && left > 512 << 10);
    assert!(harness.program.owners().unwrap().is_empty());
    harness.attach(SMALL, 1);
}

/// Makes a file of 1 MiB in memory without a seal.
fn memory_file() -> OwnedFd {
    // SAFETY: the name is a constant string with a zero byte, the flag is valid.
    let file = unsafe { libc::memfd_create(c"sordino".as_ptr(), libc::MFD_ALLOW_SEALING) };
    // SAFETY: the call has just returned this descriptor, and nothing else owns it.
    let file = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(file) };
    map::set_size(&file, 1 << 20).unwrap();
    file
}

#[test]
fn a_file_that_is_no_area_is_refused() {
    let empty = map::create_file(0).unwrap();
    assert!(matches!(Program::open(&empty), Err(Refusal::NoArea)));
    let zeros = map::create_file(1 << 20).unwrap();
    assert!(matches!(Program::open(&zeros), Err(Refusal::NoArea)));
    assert!(matches!(Program::open(&memory_file()), Err(Refusal::Unsealed)));
    let sealed = |seals: libc::c_int| {
        let file = memory_file();
        // SAFETY: fcntl on an owned descriptor accesses no memory.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
        file
    };
    // A program could keep the memory of pages that it no longer uses.
    let (whole, shrink) = (libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL, libc::F_SEAL_SHRINK);
    for seals in [shrink, libc::F_SEAL_SEAL, whole | libc::F_SEAL_FUTURE_WRITE, whole | libc::F_SEAL_WRITE] {
        assert!(matches!(Program::open(&sealed(seals)), Err(Refusal::Unsealed)), "{seals:#x}");
    }
    assert!(matches!(Program::open(&sealed(whole)), Err(Refusal::NoArea)));
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap().into();
    assert!(matches!(Program::open(&null), Err(Refusal::Unsealed)));
}

/// A descriptor with `O_PATH` for the same file, as a collector opens it in `/proc/PID/fd`.
fn path_only(file: &impl AsRawFd) -> OwnedFd {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let options = std::fs::File::options().read(true).custom_flags(libc::O_PATH).open(path);
    options.unwrap().into()
}

#[test]
fn an_area_is_opened_by_a_descriptor_that_can_do_nothing_else() {
    let harness = Harness::new();
    let file = path_only(&harness.file);
    let program = Program::open(&file).unwrap();
    assert_eq!(program.id(), FileId::of(&harness.file).unwrap());
    assert_ne!(program.id(), FileId::of(map::create_file(1).unwrap()).unwrap());
}

#[test]
fn what_acts_or_waits_when_it_is_opened_is_not_opened() {
    let directory = std::env::temp_dir().join(format!("sordino-ring-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let fifo = std::ffi::CString::new(directory.join("fifo").to_str().unwrap()).unwrap();
    // SAFETY: the path is a string with a zero byte, which outlives the call.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let open = |path: &str| {
        let file = std::fs::File::options().read(true).custom_flags(libc::O_PATH).open(path);
        OwnedFd::from(file.unwrap())
    };
    for path in [fifo.to_str().unwrap(), "/dev/ptmx", "/dev/null", "/"] {
        assert!(matches!(Program::open(&open(path)), Err(Refusal::Unsealed)), "{path}");
    }
    // A regular file of a file system other than tmpfs.
    assert!(matches!(Program::open(&open("/proc/self/status")), Err(Refusal::NoArea)));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_lease_is_a_refusal_and_no_wait() {
    let file = map::create_file(1 << 20).unwrap();
    // A lease counts openings; the creation is none.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    // SAFETY: fcntl on an owned descriptor accesses no memory.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) }, 0);
    // SAFETY: ignoring a signal runs no handler; the signal for a broken lease would end the test.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    assert!(matches!(Program::open(&path_only(&file)), Err(Refusal::Leased)));
}

#[test]
fn a_lock_that_is_kept_is_told_at_once_and_overridden_at_the_end() {
    let harness = Harness::new();
    let attached = harness.attach(SMALL, 3);
    let other = Program::open(&harness.file).unwrap();
    let path = format!("/proc/self/fd/{}", harness.file.as_raw_fd());
    let keeper = std::fs::File::options().read(true).write(true).open(path).unwrap().into();
    assert!(map::try_lock(&keeper, ATTACH_LOCK).unwrap());
    assert!(matches!(other.try_attach(&options(SMALL, 4)), Err(Refusal::Locked)));
    assert!(!harness.program.try_detach(attached.hold()).unwrap());
    let late = harness.program.detach(&attached).unwrap_err();
    assert!(
        late.kind() == std::io::ErrorKind::TimedOut && late.to_string().contains("keeps its area locked")
    );
    map::unlock(&keeper, ATTACH_LOCK).unwrap();
    assert_eq!(other.try_attach(&options(SMALL, 4)).unwrap().slot, attached.slot);
}

#[test]
fn every_word_of_the_header_that_matters_is_checked() {
    let harness = Harness::new();
    let mapping = map::Mapping::new(harness.file.as_fd(), 0, PAGE).unwrap();
    let word = |index: usize| mapping.at(8 * index).cast::<u64>();
    // version and cpus, reserve, the three offsets, the catalogue's room, the control size
    for index in [1, 3, 4, 5, 6, 7, 8] {
        // SAFETY: the word lies inside the mapped header; no other thread uses it.
        let good = unsafe { word(index).read() };
        for bad in [0, 1, good ^ 0x1000, good + 8, u64::MAX, 1 << 63, good.wrapping_mul(1 << 20)] {
            // SAFETY: the word lies inside the mapped header; no other thread uses it.
            unsafe { word(index).write(bad) };
            let opened = Program::open(&harness.file);
            // A larger reserve than there is only means rings that the program cannot reach: the program faults, the
            // collector does not.
            if !(index == 3 && bad > 1 << 20) {
                assert!(opened.is_err(), "word {index} = {bad:#x}");
            }
            if let Ok(program) = opened {
                let _ = program.attach(&options(SMALL, 1));
                let _ = program.catalogue(0);
            }
        }
        // SAFETY: the word lies inside the mapped header; no other thread uses it.
        unsafe { word(index).write(good) };
    }
    assert!(Program::open(&harness.file).is_ok());
}

#[test]
fn a_hostile_head_is_an_error_and_not_a_crash() {
    let harness = Harness::new();
    let mut attached = harness.attach(SMALL, 3);
    let first = harness.area.rings(attached.slot).first;
    for head in [0, 1, 79, u64::MAX, 3 << 32, (3 << 32) + (1 << 14) + 8, (9 << 32) + 80, (2 << 32) + 80] {
        // SAFETY: the ring's header is mapped as long as the area; all fields are atomics.
        unsafe { &*first }.head.store(head, std::sync::atomic::Ordering::SeqCst);
        let reader = &mut attached.readers[0];
        let error = reader.get().map(drop).unwrap_err();
        assert_eq!((error.head, error.seqno), (Head(head), Seqno(3)));
        assert!(
            reader.part(|| Ticks(0)).is_err()
                && reader.newest(Ticks::default(), usize::MAX, || Ticks(0)).is_err()
        );
        assert!(reader.waiting().is_err() && reader.fill().is_err());
        let _ = attached.readers.last().unwrap().salvage(Ticks(0), drop);
    }
}

#[test]
fn hostile_words_left_behind_stay_within_the_sub_buffer() {
    let harness = Harness::new();
    pin(0);
    let mut attached = harness.attach(SMALL, 0);
    while attached.readers[0].waiting().unwrap() == 0 {
        harness.write(attached.slot, 0, &[0; 100]);
    }
    let ring = harness.area.rings(attached.slot).first;
    // SAFETY: the ring's header is mapped as long as the area; all fields are atomics.
    let data = unsafe { &*ring }.data.load(std::sync::atomic::Ordering::SeqCst) as usize;
    let words = ring.cast::<u8>().wrapping_add(data + 32).cast_mut().cast::<[u64; 4]>();
    for bad in [0, 1, 79, 1 << 14, (1 << 14) + 1, u64::MAX] {
        // SAFETY: the words lie in the first sub-buffer's header room, which is mapped; nothing else writes there.
        unsafe { words.write([bad; 4]) };
        let sub_buffer = attached.readers[0].get().unwrap().unwrap();
        assert!((80..=1 << 14).contains(&sub_buffer.content.end));
        assert!(sub_buffer.content.first_timestamp <= sub_buffer.content.last_timestamp);
        assert_eq!(sub_buffer.copy().len(), sub_buffer.content.end as usize);
    }
}
