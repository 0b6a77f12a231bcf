//! What an agent of ureq's works with: our names, and our connections.
//!
//! It is lent a connection for each exchange; whether that is kept, and for whom, is the host's affair.
//! ureq calls all of this on the thread that makes the request, and has no way to hand anything
//! through. So what is lent goes by way of the thread.

use std::cell::Cell;
use std::fmt;
use std::time::Instant;

use http::Uri;
use ureq::config::Config;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

use super::buffers::INPUT;
use super::faults::into_ureq;
use super::resolve::Names;
use super::transport::{Connection, Dialer};
use super::wire;
use crate::fault::{ErrorKind, Fault, Stage};

/// How many bytes may come without one of a final response's header or a body among them. One
/// read can bring more than the end of a header.
const MAX_FRUITLESS: usize = 4 * INPUT;

thread_local! {
    /// The connection to make the exchange on. Else a new one is.
    static OFFERED: Cell<Option<Box<Connection>>> = const { Cell::new(None) };
    /// The one that it was made on, as soon as ureq has let go of it.
    static RETURNED: Cell<Option<Box<Connection>>> = const { Cell::new(None) };
}

/// The next exchange on this thread is to be made on that connection if there is one.
pub(super) fn offer(idle: Option<Box<Connection>>) {
    RETURNED.set(None);
    OFFERED.set(idle);
}

/// The connection of the last exchange, if ureq has let go of it.
pub(super) fn take_back() -> Option<Box<Connection>> {
    RETURNED.take()
}

/// As ureq would.
pub(super) fn give_back(connection: Box<Connection>) {
    RETURNED.set(Some(connection));
}

/// More than ureq's array holds are left out.
const MAX_ADDRESSES: usize = 16;

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut found = self.empty();
        // ureq asks before it knows whether there is to be a new connection.
        let offered = OFFERED.take();
        if offered.is_none() {
            let addresses = self.addresses(uri).map_err(into_ureq)?;
            let addresses = addresses.into_iter().take(MAX_ADDRESSES);
            addresses.for_each(|address| found.push(address));
        }
        OFFERED.set(offered);
        Ok(found)
    }
}

impl Connector<()> for Dialer {
    type Out = Loan;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Loan>, ureq::Error> {
        if let Some(idle) = OFFERED.take() {
            return Ok(Some(Loan(Some(idle))));
        }
        let dialled = self
            .dial(details)
            .map_err(|fault| match wire::deadline_passed() {
                Some(deadline)
                    if matches!(fault.kind, ErrorKind::Timeout | ErrorKind::Cancelled) =>
                {
                    deadline.fault("before there was a connection")
                }
                _ => fault,
            });
        let dialled = dialled.map_err(|fault| fault.while_at(Stage::Connecting));
        let lent = dialled.map(|connection| Loan(Some(Box::new(connection))));
        lent.map(Some).map_err(into_ureq)
    }
}

/// A connection, lent to ureq for an exchange. ureq drops it where the exchange is over, and so gives
/// it back.
pub(super) struct Loan(Option<Box<Connection>>);

/// It is on the thread that has lent it.
impl Drop for Loan {
    fn drop(&mut self) {
        RETURNED.set(self.0.take());
    }
}

impl Loan {
    fn connection(&mut self) -> &mut Connection {
        self.0.as_mut().expect("there until it is dropped")
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loan").field(&self.0).finish()
    }
}

impl Transport for Loan {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.connection().buffers()
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        self.connection().send(amount).map_err(into_ureq)
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, ureq::Error> {
        let amount = self.connection().fill().map_err(into_ureq)?;
        let fruitless = wire::note(|wire| {
            if amount > 0 && wire.answered.is_none() {
                wire.answered = Some(Instant::now());
            }
            wire.fruitless += amount;
            wire.fruitless
        });
        if fruitless > MAX_FRUITLESS {
            return Err(into_ureq(Fault::new(
                ErrorKind::Protocol,
                format!("{fruitless} bytes came, and no end of the header or trailer"),
            )));
        }
        Ok(amount > 0)
    }

    /// ureq asks where a response has been read to its end and the connection may be used again. It
    /// is not ureq's to keep: what is said not to be open is dropped.
    fn is_open(&mut self) -> bool {
        self.connection().is_left_alone();
        false
    }

    fn is_tls(&self) -> bool {
        let connection = self.0.as_ref();
        connection.is_some_and(|connection| connection.is_tls())
    }
}
