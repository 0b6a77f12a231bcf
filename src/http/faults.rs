//! Our faults through ureq's hands, and ureq's errors as ours.

use super::buffers;
use crate::fault::{ErrorKind, Fault};

pub(super) fn into_ureq(fault: Fault) -> ureq::Error {
    ureq::Error::Other(Box::new(fault))
}

/// An end that comes too early.
pub(super) const CUT: &str = "the connection was closed before the response was whole";

pub(super) fn fault_of(error: ureq::Error) -> Fault {
    use ureq::Error as E;
    match error {
        E::Other(inner) => match inner.downcast::<Fault>() {
            Ok(fault) => *fault,
            Err(other) => Fault::with_source(ErrorKind::Protocol, "the exchange failed", other),
        },
        E::Io(error) => Fault::with_source(ErrorKind::Truncated, CUT, error),
        // It had bytes that make no sense without those to come: a chunk's size, or its end.
        E::BodyStalled => Fault::new(
            ErrorKind::Truncated,
            "the connection was closed within the framing of a chunk",
        ),
        E::HostNotFound => Fault::new(ErrorKind::Dns, "the host's name has no address"),
        // Not what it says: that is the URL, with its secrets.
        E::BadUri(_) => Fault::new(
            ErrorKind::InvalidUrl,
            "the URL cannot be put into a request",
        ),
        E::Timeout(which) => {
            Fault::new(ErrorKind::Timeout, format!("the time for {which} is over"))
        }
        E::LargeResponseHeader(..) => Fault::new(
            ErrorKind::Protocol,
            format!(
                "the response's header is larger than {} bytes",
                buffers::MAX_HEADER
            ),
        ),
        other => Fault::with_source(ErrorKind::Protocol, "the response is not valid HTTP", other),
    }
}
