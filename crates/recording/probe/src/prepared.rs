//! The request for an area that a recorder has prepared, before the program makes its own.
//!
//! The file comes from the recorder that started the program, or from root's: the maker of a file can write to it for
//! ever, and these two could write to the program's area in any case.

use crate::connection::{self, Address, Reached, is_readable, peer_user, send, uninterrupted};
use crate::discovery;
use crate::register::Recorders;
use crate::system;
use sordino_registration::trust::uses_prepared_area;
use sordino_registration::{AreaSizes, PREPARED_AREA, PREPARED_AREA_TIME, PreparedAreaRequest, Token};
use sordino_ring::area::AreaRequest;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

impl Recorders {
    /// Returns the file of a [prepared area](PreparedAreaRequest) like the one that `request` describes. Waits [a
    /// moment](PREPARED_AREA_TIME) at most.
    pub(crate) fn prepared_area(&self, request: &AreaRequest) -> Option<OwnedFd> {
        let until = Instant::now() + PREPARED_AREA_TIME;
        let sizes = AreaSizes {
            cpus: request.cpus,
            points: request.points,
            catalogue: request.catalogue as u64,
            reserve: request.reserve as u64,
        };
        let mut prepared = None;
        system::keep_errno(|| {
            prepared =
                self.starter().and_then(|(address, token)| request_area(address, sizes, *token, until));
            if prepared.is_none() {
                discovery::each_session(self.runtime_dir(), |session| {
                    if prepared.is_none() && Instant::now() < until {
                        prepared = request_area(session, sizes, None, until);
                    }
                });
            }
        });
        prepared
    }
}

/// Requests an area from the recorder at this address; one with a token has started the program.
fn request_area(
    address: &Address,
    sizes: AreaSizes,
    token: Option<Token>,
    until: Instant,
) -> Option<OwnedFd> {
    let Reached::Recorder(recorder) = address.connect(until) else { return None };
    if !uses_prepared_area(peer_user(&recorder)?, system::effective_user(), token.is_some()) {
        return None;
    }
    let packet = PreparedAreaRequest { sizes, token }.encode();
    let sent = uninterrupted(until, || send(recorder.as_raw_fd(), packet.as_bytes(), None)) >= 0;
    if !sent || !is_readable(&recorder, until) {
        return None;
    }
    let (byte, file) = connection::receive_file(&recorder)?;
    ([byte] == PREPARED_AREA).then_some(file)
}
