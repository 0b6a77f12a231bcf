//! TLS: one configuration for all connections, and the bytes of one connection.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::line::Line;
use crate::fault::{ErrorKind, Fault};

/// The configuration: the roots of the Mozilla programme, and those of the caller's.
pub(super) fn config(extra_roots_pem: &[Vec<u8>]) -> Result<Arc<ClientConfig>, Fault> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for pem in extra_roots_pem {
        add_roots(&mut roots, pem)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Fault::with_source(ErrorKind::Tls, "no TLS version is available", e))?;
    Ok(Arc::new(
        builder.with_root_certificates(roots).with_no_client_auth(),
    ))
}

fn add_roots(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), Fault> {
    let unusable = "a root certificate cannot be used";
    let mut found = false;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|e| Fault::with_source(ErrorKind::Tls, unusable, e))?;
        roots
            .add(certificate)
            .map_err(|e| Fault::with_source(ErrorKind::Tls, unusable, e))?;
        found = true;
    }
    if found {
        Ok(())
    } else {
        let nothing = "there is no certificate in what was given as roots; PEM is expected";
        Err(Fault::new(ErrorKind::Tls, nothing))
    }
}

/// The TLS side of a connection.
pub(super) struct Tls(Box<ClientConnection>);

impl Tls {
    /// Shakes hands, within the limits that are set on the line.
    pub(super) fn connect(
        config: &Arc<ClientConfig>,
        host: &str,
        line: &mut Line,
    ) -> Result<Self, Fault> {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| {
            Fault::with_source(ErrorKind::Tls, "no certificate can be for this host", e)
        })?;
        let connection = ClientConnection::new(Arc::clone(config), name)
            .map_err(|e| Fault::with_source(ErrorKind::Tls, "cannot begin the TLS handshake", e))?;
        let mut tls = Self(Box::new(connection));
        while tls.0.is_handshaking() {
            tls.0.complete_io(line).map_err(handshake_fault)?;
        }
        Ok(tls)
    }

    pub(super) fn write_all(&mut self, line: &mut Line, bytes: &[u8]) -> io::Result<()> {
        self.0.writer().write_all(bytes)?;
        self.flush(line)
    }

    /// `Ok(0)` is a clean end. An end without `close_notify` is an error: it may be a cut.
    pub(super) fn read(&mut self, line: &mut Line, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            self.0.read_tls(line)?;
            self.0
                .process_new_packets()
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            // An answer to the peer's: a key update, an alert.
            self.flush(line)?;
        }
    }

    fn flush(&mut self, line: &mut Line) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(line)?;
        }
        Ok(())
    }
}

fn handshake_fault(error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::TimedOut => Fault::new(
            ErrorKind::Timeout,
            "the TLS handshake was not over within the connect time limit",
        ),
        _ => Fault::with_source(ErrorKind::Tls, "the TLS handshake failed", error),
    }
}
