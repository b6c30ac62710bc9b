//! One ring and its output: a file, or copies.

use crate::output::{Output, UnwrittenData};
use sordino_dirfd::lacks_descriptors;
use sordino_event::{Cpu, Ticks};
use sordino_ring::layout::Geometry;
use sordino_ring::offset::Head;
use sordino_ring::read::{Content, Corrupt, Fill, Lost, MOST_IN_A_WRITE, Packet, Reader, SubBuffer};
use std::io;
use std::time::{Duration, Instant};

/// Returns the present timestamp in the recording's clock.
pub type Now = fn() -> Ticks;

/// A ring, and the file that it is written to.
#[derive(Debug)]
pub(crate) struct RingStream {
    reader: Reader,
    /// The file; `None` where rings are copied only.
    output: Option<Output>,
    state: StreamState,
    /// Copies of written packets for live readers.
    retained: LiveCopies,
    /// The ring's head at the last check.
    head: Option<Head>,
    /// The first time at which a full sub-buffer was waiting.
    first_waited: Option<Instant>,
}

/// Copies of packets that wait for live readers.
#[derive(Debug, Default)]
struct LiveCopies {
    packets: Vec<Packet>,
    /// The number of later sub-buffers for which there was no room.
    left_out: u64,
}

impl RingStream {
    /// Creates the stream of a ring that is written to `output`, if there is one.
    pub(crate) fn new(reader: Reader, output: Option<Output>, state: StreamState) -> Self {
        let head = reader.head().ok();
        Self { reader, output, state, retained: LiveCopies::default(), head, first_waited: None }
    }

    /// Returns true if the ring's pager is to be called.
    pub(super) fn calls_pager(&self) -> bool {
        self.reader.calls_pager()
    }

    /// Returns the ring's CPU; `None` for the shared ring.
    pub(super) fn cpu(&self) -> Option<Cpu> {
        self.reader.cpu()
    }

    /// Returns true if the last attempt to write to the file failed, and there will be no other.
    pub(super) fn has_failed(&self) -> bool {
        self.state.failure.is_some() && self.state.retry.is_none()
    }

    /// Drops all copies: there is no live reader.
    pub(super) fn forget_retained(&mut self) {
        self.retained = LiveCopies::default();
    }
}

impl LiveCopies {
    /// Keeps a copy if there is room. After the first one left out, no later one is kept, so that the gap is in one
    /// place.
    fn keep(&mut self, content: Content, copy: impl FnOnce() -> Vec<u8>, room: &mut usize) {
        let size = content.end as usize;
        if self.left_out > 0 || size > *room {
            self.left_out += 1;
            return;
        }
        *room -= size;
        self.packets.push(Packet { bytes: copy(), content });
    }
}

/// Errors of a stream, and its retries.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    /// Invalid contents written by the program; the ring is not read any further.
    corrupt: Option<Corrupt>,
    /// The present error of the file, if it cannot be written to.
    failure: Option<io::Error>,
    /// A description of the file's first error.
    problem: Option<String>,
    /// The time of the next attempt to write, if there is one.
    retry: Option<Instant>,
    /// True if failed files are to be retried.
    persistent: bool,
}

impl StreamState {
    /// Creates the state of a stream; with `persistent`, a file that fails is retried until it works.
    pub(crate) fn new(persistent: bool) -> Self {
        Self { persistent, ..Self::default() }
    }
}

/// The state of a stream after its last packet.
#[derive(Debug)]
pub struct StreamEnd {
    /// The ring's CPU; `None` for the shared ring.
    pub cpu: Option<Cpu>,
    /// Lost records since the ring was created.
    pub lost: Lost,
    /// The number of sub-buffers that were overwritten.
    pub overwritten: u64,
    /// Records in the shared ring that writers reserved but did not commit.
    pub unfinished: u64,
    /// The damage that ended the ring, if any.
    pub corrupt: Option<Corrupt>,
    /// A description of the file's first error, if it ever failed.
    pub failure: Option<String>,
    /// The file, if the stream has one.
    pub output: Option<Output>,
}

impl StreamEnd {
    /// Returns the number of bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.output.as_ref().map_or(0, Output::bytes)
    }

    /// Returns the packets and bytes that were read from the ring but are not on disk.
    pub fn unwritten(&self) -> UnwrittenData {
        self.output.as_ref().map_or(UnwrittenData::default(), Output::unwritten)
    }
}

/// Copies of the newest packets of a ring.
#[derive(Debug)]
pub struct StreamCopy {
    /// The ring's CPU; `None` for the shared ring.
    pub cpu: Option<Cpu>,
    /// The packets, in order of time.
    pub packets: Vec<Packet>,
    /// Lost records up to the end of the packets.
    pub lost: Lost,
    /// The number of sub-buffers for which there was no room.
    pub left_out: u64,
    /// The index of the packet before which they are missing.
    pub gap: usize,
    /// Sub-buffers that were overwritten since the session began.
    pub overwritten: u64,
    /// The damage that ended the ring, if any.
    pub corrupt: Option<Corrupt>,
}

impl StreamCopy {
    /// Returns the first timestamp of the packets that end at `since` or later.
    pub fn first_since(&self, since: Ticks) -> Option<Ticks> {
        let contents = self.packets.iter().map(|packet| &packet.content);
        contents
            .filter(|content| content.last_timestamp >= since)
            .map(|content| content.first_timestamp)
            .min()
    }
}

/// The fill level of a ring, and its losses and errors.
#[derive(Debug)]
pub struct StreamFill {
    /// The ring's CPU; `None` for the shared ring.
    pub cpu: Option<Cpu>,
    /// The use of the ring's sub-buffers.
    pub fill: Fill,
    /// The number of bytes on disk.
    pub bytes: u64,
    /// Lost records since the ring was created.
    pub lost: Lost,
    /// Data that was read but is not on disk.
    pub unwritten: UnwrittenData,
    /// A description of the problem with the ring or its file, if any.
    pub problem: Option<String>,
}

/// Size of the sub-buffers that one system call writes, in bytes. Past the page cache, each call waits for the disk.
const RUN: u64 = 1 << 20;
/// Longest time needed to supply a new ring of 32 MiB with pages while its writers run at full speed.
const FIRST_LAP: Duration = Duration::from_millis(30);
/// Time between two attempts to write to a file that fails.
const RETRY: Duration = Duration::from_secs(1);

impl RingStream {
    /// Writes the waiting sub-buffers, at most one lap of the ring however fast they are filled. Keeps copies for live
    /// readers as far as there is `room`. Returns true if there were any.
    pub(super) fn drain(&mut self, room: &mut Option<usize>) -> bool {
        let geometry = self.reader.geometry();
        let most = most_at_once(geometry);
        let mut taken = 0;
        while taken < geometry.count && self.state.corrupt.is_none() && !self.can_wait() {
            let count = match self.reader.get_run(most.min(geometry.count - taken)) {
                Ok(mut run) => {
                    if let Some(room) = room {
                        run.iter().for_each(|taken| self.retained.keep(taken.content, || taken.copy(), room));
                    }
                    self.state.write_run(self.output.as_mut(), &mut run);
                    run.len() as u32
                }
                Err(corrupt) => {
                    self.state.corrupt = Some(corrupt);
                    0
                }
            };
            if count == 0 {
                break;
            }
            self.reader.put_run(count);
            taken += count;
        }
        taken > 0
    }

    /// Returns true if the file cannot be written to at present and the ring still has room. The ring then keeps its
    /// sub-buffers; when it is nearly full, the oldest are dropped.
    fn can_wait(&self) -> bool {
        let waits = self.state.retry.is_some_and(|retry| Instant::now() < retry);
        let room = self.reader.geometry().count / 4 + 1;
        let is_full = |waiting: u32| waiting + room > self.reader.geometry().count;
        waits && !self.reader.waiting().is_ok_and(is_full)
    }

    /// Notes when a sub-buffer first waited. Returns true if the ring is to be skipped: it is new and still receives
    /// pages. Emptying it now would take the CPU from the thread that supplies them, without a benefit to writers.
    /// Bounded by [`FIRST_LAP`].
    pub(super) fn is_left_alone(&mut self) -> bool {
        // An impossible head is detected when the ring is read.
        let waits = || self.reader.waiting().map_or(true, |waiting| waiting > 0);
        if self.first_waited.is_none() && waits() {
            self.first_waited = Some(Instant::now());
        }
        self.reader.lacks_pages() && self.first_waited.is_none_or(|first| first.elapsed() < FIRST_LAP)
    }

    /// Returns the ring's CPU if there were records since the last call.
    pub(super) fn moved(&mut self) -> Option<Cpu> {
        let head = self.reader.head().ok();
        let before = std::mem::replace(&mut self.head, head);
        self.cpu().filter(|_| head != before)
    }

    /// Skips the sub-buffers that the ring has overwritten.
    pub(super) fn keep_up(&mut self) {
        if self.state.corrupt.is_none() {
            self.state.corrupt = self.reader.keep_up().err();
        }
    }

    /// Writes all published records and continues in another file. Returns the end of the previous file.
    pub(super) fn rotate(&mut self, next: Output, now: Now, room: &mut Option<usize>) -> StreamEnd {
        self.state.retry_now();
        self.drain(room);
        let before = self.flush(now, room);
        let next = next.after(before);
        let (output, state) = (self.output.replace(next), self.state.renew());
        end(&self.reader, output, state, before, 0)
    }

    /// Writes the records published so far in the current sub-buffer. Returns the losses up to there.
    fn flush(&mut self, now: Now, room: &mut Option<usize>) -> Lost {
        if self.state.corrupt.is_some() {
            return self.reader.lost();
        }
        match self.reader.part(now) {
            Ok(Some(mut part)) => {
                let lost = part.content.lost;
                if let Some(room) = room {
                    self.retained.keep(part.content, || part.bytes.clone(), room);
                }
                self.write_packet(&mut part);
                lost
            }
            Ok(None) => self.reader.lost(),
            Err(corrupt) => {
                self.state.corrupt = Some(corrupt);
                self.reader.lost()
            }
        }
    }

    fn write_packet(&mut self, packet: &mut Packet) {
        if let Some(output) = self.output.as_mut().filter(|output| output.is_news(&packet.content)) {
            self.state.write_packet(output, packet);
        }
    }

    /// Writes everything that the ring still holds.
    pub(super) fn finish(mut self, now: Now) -> StreamEnd {
        self.state.retry_now();
        // Twice, because writers in progress may have switched to the next sub-buffer. Live readers have these records
        // already.
        self.drain(&mut None);
        self.drain(&mut None);
        let mut unfinished = 0;
        if self.state.corrupt.is_none() {
            let mut packets = Vec::new();
            match self.reader.salvage(now(), |packet| packets.push(packet)) {
                Ok(places) => unfinished = places,
                Err(corrupt) => self.state.corrupt = Some(corrupt),
            }
            packets.iter_mut().for_each(|packet| self.write_packet(packet));
        }
        let lost = self.reader.lost();
        end(&self.reader, self.output, self.state, lost, unfinished)
    }

    /// Copies the newest packets of the ring, back to this timestamp.
    pub(super) fn copy(&self, since: Ticks, now: Now) -> StreamCopy {
        let (packets, corrupt) = match self.reader.newest(since, usize::MAX, now) {
            Ok(newest) => (newest.packets, None),
            Err(corrupt) => (Vec::new(), Some(corrupt)),
        };
        let lost = packets.last().map_or_else(|| self.reader.lost(), |last| last.content.lost);
        let (cpu, overwritten) = (self.cpu(), self.reader.overwritten());
        StreamCopy { cpu, packets, lost, left_out: 0, gap: 0, overwritten, corrupt }
    }

    /// Returns the kept copies, and copies of the ring's records from this timestamp on.
    pub(super) fn live(&mut self, since: Ticks, now: Now) -> StreamCopy {
        let retained = std::mem::take(&mut self.retained);
        let mut copy = self.copy(since, now);
        copy.gap = retained.packets.len();
        copy.packets.splice(0..0, retained.packets);
        copy.left_out = retained.left_out;
        copy
    }

    pub(super) fn fill(&self) -> StreamFill {
        let corrupt = self.state.corrupt.map(|corrupt| corrupt.to_string());
        StreamFill {
            cpu: self.cpu(),
            fill: self.reader.fill().unwrap_or(Fill { used: 0, capacity: 0 }),
            bytes: self.output.as_ref().map_or(0, Output::bytes),
            lost: self.reader.lost(),
            unwritten: self.output.as_ref().map_or(UnwrittenData::default(), Output::unwritten),
            problem: corrupt.or_else(|| self.state.problem.clone()),
        }
    }
}

/// Returns the number of sub-buffers that one system call writes. They are put back only after it ends: hence at most a
/// quarter of the ring.
fn most_at_once(geometry: Geometry) -> u32 {
    let most = (RUN >> geometry.bits).min(MOST_IN_A_WRITE as u64) as u32;
    most.min(geometry.count / 4).max(1)
}

/// Returns the end of a stream that was written to `output`; `lost` are the ring's losses.
fn end(
    reader: &Reader,
    output: Option<Output>,
    state: StreamState,
    lost: Lost,
    unfinished: u64,
) -> StreamEnd {
    StreamEnd {
        cpu: reader.cpu(),
        lost: output.as_ref().map_or(lost, |output| output.since(lost)),
        overwritten: reader.overwritten(),
        unfinished,
        corrupt: state.corrupt,
        failure: state.problem,
        output,
    }
}

impl StreamState {
    /// Continues with another file without errors so far, and returns the state of the previous one.
    fn renew(&mut self) -> Self {
        let next = Self { corrupt: self.corrupt, ..Self::new(self.persistent) };
        std::mem::replace(self, next)
    }

    /// Makes a failed file be retried with the next packet: there may be no later one.
    fn retry_now(&mut self) {
        self.retry = self.retry.map(|_| Instant::now());
    }

    /// Writes sub-buffers, unless an earlier attempt failed and the next one is not due.
    fn write_run(&mut self, output: Option<&mut Output>, run: &mut [SubBuffer<'_>]) {
        let Some(output) = output else { return };
        let mut written = 0;
        if self.is_time() {
            let result;
            (written, result) = output.write(run);
            self.tried(result);
        }
        run[written..].iter().for_each(|left| self.leave_out(output, &left.content));
    }

    /// Writes a copied packet, under the same condition.
    fn write_packet(&mut self, output: &mut Output, packet: &mut Packet) {
        if self.is_time() {
            let result = output.write_packet(packet);
            self.tried(result);
        }
        self.leave_out(output, &packet.content);
    }

    fn is_time(&self) -> bool {
        self.failure.is_none() || self.retry.is_some_and(|retry| Instant::now() >= retry)
    }

    fn tried(&mut self, result: io::Result<()>) {
        self.failure = result.err();
        let again = self.failure.as_ref().filter(|failure| self.persistent || lacks_descriptors(failure));
        self.retry = again.map(|_| Instant::now() + RETRY);
    }

    /// Records the gap in the file if a packet could not be written.
    fn leave_out(&mut self, output: &mut Output, content: &Content) {
        if let Some(failure) = &self.failure {
            self.problem.get_or_insert_with(|| unwritable(output, failure));
            output.skip(content);
        }
    }
}

/// Describes a file's error for the summary.
pub fn unwritable(output: &Output, failure: &io::Error) -> String {
    format!("{} could not be written: {failure}", output.path().display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_ring::number::Seqno;

    #[test]
    fn a_write_holds_no_more_than_a_quarter_of_a_small_ring() {
        let of = |size, count| most_at_once(Geometry::new(size, count).unwrap());
        assert_eq!((of(128 << 10, 256), of(1 << 20, 32), of(16 << 10, 1024)), (8, 1, 64));
        assert_eq!((of(16 << 10, 32), of(16 << 10, 4), of(16 << 10, 2)), (8, 1, 1));
    }

    /// A full disk ends a recording, and a session waits for room. Descriptors come back by themselves.
    #[test]
    fn a_file_is_tried_again_where_only_a_descriptor_was_missing() {
        let again = |persistent, failure: io::Error| {
            let mut state = StreamState::new(persistent);
            state.tried(Err(failure));
            state.retry.is_some()
        };
        let full = || io::ErrorKind::StorageFull.into();
        let [few, none] = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(io::Error::from);
        assert_eq!([again(false, full()), again(true, full())], [false, true]);
        assert_eq!([again(false, few), again(false, none)], [true, true]);
    }

    #[test]
    fn what_a_session_does_about_a_full_disk_it_does_in_every_chunk() {
        let corrupt = Some(Corrupt { head: Head(1), seqno: Seqno(2) });
        let failure = Some(io::ErrorKind::StorageFull.into());
        let problem = Some("full".to_owned());
        let mut state = StreamState { corrupt, failure, problem, ..StreamState::new(true) };
        let before = state.renew();
        assert_eq!((before.problem.as_deref(), before.failure.is_some()), (Some("full"), true));
        assert_eq!((state.corrupt, state.problem, state.persistent), (corrupt, None, true));
        assert!(state.failure.is_none());
    }
}
