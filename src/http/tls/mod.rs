//! TLS: the bytes of one connection, and what its errors mean.

mod client_auth;
mod config;

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ClientConnection, InvalidMessage, ProtocolVersion};

use super::buffers::Sealed;
use super::line::Line;
use crate::fault::{ErrorKind, Fault};
use client_auth::ClientAuth;
pub(super) use config::config;
pub(crate) use config::{ClientCertPem, Settings};

/// The TLS side of a connection.
pub(super) struct Tls {
    connection: Box<ClientConnection>,
    sealed: Sealed,
    client_auth: ClientAuth,
    /// The server has not said yet whether what it got suffices.
    unanswered: bool,
}

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
        let mut tls = Self {
            connection: Box::new(connection),
            sealed: Sealed::default(),
            client_auth: ClientAuth::Unasked,
            unanswered: false,
        };
        ClientAuth::begin();
        let shaken = tls.shake_hands(line);
        tls.client_auth = ClientAuth::so_far();
        if let Err(error) = shaken {
            let error = tls.alert_or(line, error);
            return Err(tls.handshake_fault(error));
        }
        // Before, the server's `Finished` comes last, and it is not sent to who is refused.
        tls.unanswered = tls.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        Ok(tls)
    }

    fn shake_hands(&mut self, line: &mut Line) -> io::Result<()> {
        while self.connection.is_handshaking() {
            self.flush(line)?;
            let taken = self.take_in(line);
            if let Ok(0) = taken {
                let detail = "the server closed the connection";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, detail));
            }
            // What is wrong the server is told, if it still hears.
            taken.inspect_err(|_| drop(self.flush(line)))?;
        }
        self.flush(line)
    }

    pub(super) fn write_all(&mut self, line: &mut Line, bytes: &[u8]) -> io::Result<()> {
        self.connection.writer().write_all(bytes)?;
        self.flush(line).map_err(|error| self.alert_or(line, error))
    }

    /// `Ok(0)` is a clean end. An end without `close_notify` is an error: it may be a cut.
    pub(super) fn read(&mut self, line: &mut Line, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            match self.take_in(line) {
                // What came before what is wrong is read first.
                Err(_) if !self.has_nothing_open() => {}
                Err(error) => return Err(error),
                // An answer to the peer's: a key update, an alert.
                Ok(_) => self.flush(line)?,
            }
        }
    }

    /// Nothing that has come waits to be read, nor has the server said that it ends.
    pub(super) fn is_silent(&mut self) -> bool {
        // What is left may be a ticket, which is for nobody to read.
        while self.has_nothing_open() && !self.sealed.is_empty() {
            if !matches!(self.open(), Ok(1..)) {
                return false;
            }
        }
        self.sealed.give_back();
        self.has_nothing_open() && self.sealed.ends_with_a_record() && self.unseal().is_ok()
    }

    fn has_nothing_open(&mut self) -> bool {
        let waiting = self.connection.reader().fill_buf().map(drop);
        waiting.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    fn take_in(&mut self, line: &mut Line) -> io::Result<usize> {
        if self.sealed.is_empty() {
            // What was wrong stays so.
            self.unseal()?;
            self.sealed.fill(line)?;
        }
        self.open()
    }

    /// Some of what has come; of nothing, the end.
    fn open(&mut self) -> io::Result<usize> {
        let amount = self.connection.read_tls(&mut self.sealed)?;
        self.unseal()?;
        self.unanswered &= amount == 0;
        Ok(amount)
    }

    fn unseal(&mut self) -> io::Result<()> {
        let state = self.connection.process_new_packets();
        state
            .map(drop)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }

    fn flush(&mut self, line: &mut Line) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(line)?;
        }
        Ok(())
    }

    /// Why a write failed: the peer may have said so before it closed. Its last words are here
    /// by then, and a read of what is broken does not wait.
    fn alert_or(&mut self, line: &mut Line, error: io::Error) -> io::Error {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        if !matches!(
            error.kind(),
            BrokenPipe | ConnectionAborted | ConnectionReset
        ) {
            return error;
        }
        loop {
            match self.take_in(line) {
                Ok(0) => return error,
                Ok(_) => {}
                Err(alert) if is_of_rustls(&alert) => return alert,
                Err(_) => return error,
            }
        }
    }

    /// What this error of an established connection is, if it is one of TLS.
    pub(super) fn fault_of(&self, error: io::Error) -> Result<Fault, io::Error> {
        if is_of_rustls(&error) {
            let detail = self.meaning(&error).unwrap_or("the TLS connection failed");
            return Ok(Fault::with_source(ErrorKind::Tls, detail, error));
        }
        match self.client_auth.silent_refusal() {
            Some(detail) if self.unanswered && error.kind() != io::ErrorKind::TimedOut => {
                Ok(Fault::with_source(ErrorKind::Tls, detail, error))
            }
            _ => Err(error),
        }
    }

    fn handshake_fault(&self, error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::TimedOut => Fault::new(
                ErrorKind::Timeout,
                "the TLS handshake was not over within the connect time limit",
            ),
            _ => {
                let detail = self.meaning(&error).unwrap_or("the TLS handshake failed");
                Fault::with_source(ErrorKind::Tls, detail, error)
            }
        }
    }

    /// What there is to be done about an error, where that is known.
    fn meaning(&self, error: &io::Error) -> Option<&'static str> {
        match error.get_ref()?.downcast_ref()? {
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)
                if self.connection.is_handshaking() =>
            {
                Some("what answers at this port does not speak TLS (it may be http:)")
            }
            rustls::Error::AlertReceived(alert) => self.client_auth.refusal(*alert),
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => Some(
                "nobody who is trusted vouches for the server's certificate: if it is right, add \
                 its root with `Builder::add_root_pem`",
            ),
            _ => None,
        }
    }
}

fn is_of_rustls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|e| e.is::<rustls::Error>())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::Duration;

    use rustls::crypto::ring;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::server::WebPkiClientVerifier;
    use rustls::{RootCertStore, ServerConfig, ServerConnection};
    use socket2::{Domain, SockRef, Socket, Type};

    use super::super::line::Shared;
    use super::*;

    /// A server that lets in only the clients of a root, which is its own certificate.
    fn server(certificate: &CertificateDer<'static>, key: PrivateKeyDer<'static>) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let provider_too = Arc::clone(&provider);
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider_too);
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap()
    }

    fn line_to(listener: &TcpListener) -> Line {
        let peer = listener.local_addr().unwrap();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.connect(&peer.into()).unwrap();
        Line::new(Arc::new(Shared(socket)), peer).unwrap()
    }

    #[test]
    fn an_alert_is_heard_where_it_is_the_write_that_fails() {
        // Where nothing is built in. Another test may have done the same.
        let _ = ring::default_provider().install_default();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config_of_server = Arc::new(server(made.cert.der(), key));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut line = line_to(&listener);
        let refusing = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut server = ServerConnection::new(config_of_server).unwrap();
            while server.complete_io(&mut socket).is_ok() {}
            // Closes with a reset, at once.
            SockRef::from(&socket)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
        });
        let client = config(&Settings {
            extra_roots_pem: vec![made.cert.pem().into_bytes()],
            ..Settings::default()
        });
        let mut tls = Tls::connect(&client.unwrap(), "localhost", &mut line).unwrap();
        refusing.join().unwrap();

        let error = tls.write_all(&mut line, b"GET / HTTP/1.1\r\n\r\n");
        let fault = tls.fault_of(error.unwrap_err()).unwrap();
        assert_eq!(fault.kind, ErrorKind::Tls);
        assert!(fault.detail.contains("demands a client certificate"));
        assert!(fault.to_string().contains("CertificateRequired"), "{fault}");
    }
}
