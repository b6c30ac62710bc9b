//! The reason that a program gives when it requests a snapshot.

use crate::program::ProgramTrace;
use sordino_ctf::read::Trace;
use sordino_event::{Classes, Event, Step, Time};

/// The tracepoint by which programs request a snapshot.
pub const SNAPSHOT_REQUEST: &str = "sordino:snapshot";

/// Returns the time and the reason of a program's last request in its trace. An invalid trace has none.
pub(crate) fn last_reason(trace: &ProgramTrace) -> Option<(Time, String)> {
    let mut classes = Classes::default();
    let trace = Trace::open(trace.path()?, &mut classes).ok()?;
    let (id, class) = classes.iter().find(|(_, class)| class.name == SNAPSHOT_REQUEST)?;
    let why = class.field("why")?;
    let (mut last, mut event) = (None, Event::default());
    for stream in trace.streams() {
        let mut events = stream.events();
        loop {
            match events.next(&mut event).ok()? {
                Step::Event if event.class == id => {
                    let text = String::from_utf8_lossy(event.text(why)?).into_owned();
                    last = last.max(Some((event.time, text)));
                }
                Step::End => break,
                _ => {}
            }
        }
    }
    last
}
