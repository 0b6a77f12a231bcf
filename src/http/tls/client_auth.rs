//! Servers that ask for a client certificate.
//!
//! Under TLS 1.3 the client's handshake is over before the server has looked at the certificate
//! (RFC 8446, section 4.4.2): a refusal comes with the first read, or instead of it, as a reset
//! that overtakes the alert.

use std::cell::Cell;
use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, SignatureScheme};

/// What the server got when it asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClientAuth {
    /// It has not asked.
    Unasked,
    /// There is none.
    Nothing,
    /// There is one, but its key is of a kind that the server does not take.
    Unfit,
    Certificate,
}

thread_local! {
    /// Of the handshake that this thread is at: rustls asks on it, and does not say for whom.
    static GIVEN: Cell<ClientAuth> = const { Cell::new(ClientAuth::Unasked) };
}

/// Gives whoever asks the one certificate, if there is one, and notes that it did.
#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) client_cert: Option<Arc<CertifiedKey>>,
}

impl ResolvesClientCert for Resolver {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let fits = |cert: &CertifiedKey| cert.key.choose_scheme(schemes).is_some();
        let given = match &self.client_cert {
            None => ClientAuth::Nothing,
            Some(cert) if fits(cert) => ClientAuth::Certificate,
            Some(_) => ClientAuth::Unfit,
        };
        GIVEN.set(given);
        self.client_cert.clone()
    }

    fn has_certs(&self) -> bool {
        self.client_cert.is_some()
    }
}

impl ClientAuth {
    /// A handshake begins on this thread.
    pub(super) fn begin() {
        GIVEN.set(Self::Unasked);
    }

    /// What there is of it in the handshake so far.
    pub(super) fn so_far() -> Self {
        GIVEN.get()
    }

    /// What is to be done about this alert, if it is about the client certificate.
    pub(super) fn refusal(self, alert: AlertDescription) -> Option<&'static str> {
        use AlertDescription as A;
        match (self, alert) {
            // What servers say who have got none (RFC 8446, section 6.2; OpenSSL and Go before
            // there was `certificate_required`).
            (
                Self::Nothing | Self::Unfit,
                A::CertificateRequired
                | A::NoCertificate
                | A::BadCertificate
                | A::CertificateUnknown
                | A::HandshakeFailure
                | A::AccessDenied,
            ) => Some(match self {
                Self::Nothing => {
                    "the server demands a client certificate: set one with \
                     `Builder::client_cert_pem`"
                }
                _ => {
                    "the server takes no client certificate with a key of the kind that was set \
                     with `Builder::client_cert_pem`: use one with another kind of key"
                }
            }),
            (Self::Certificate, A::CertificateExpired) => {
                Some("the server refuses the client certificate as expired: renew it")
            }
            (Self::Certificate, A::CertificateRevoked) => {
                Some("the server refuses the client certificate as revoked: get another")
            }
            (Self::Certificate, A::UnknownCA) => Some(
                "the server does not know who vouches for the client certificate: give the whole \
                 chain, of an authority that the server trusts",
            ),
            (
                Self::Certificate,
                A::BadCertificate
                | A::UnsupportedCertificate
                | A::CertificateUnknown
                | A::AccessDenied
                | A::DecryptError,
            ) => Some(
                "the server refuses the client certificate: see whether it is valid and meant for \
                 this server",
            ),
            _ => None,
        }
    }

    /// What an end without an alert means, where the server has said nothing since it asked.
    pub(super) fn silent_refusal(self) -> Option<&'static str> {
        match self {
            Self::Unasked => None,
            Self::Nothing | Self::Unfit => Some(
                "the server asked for a client certificate and ended the connection when it got \
                 none: set one that it takes with `Builder::client_cert_pem`",
            ),
            Self::Certificate => Some(
                "the server ended the connection when it had got the client certificate, and did \
                 not say why: it may have refused it",
            ),
        }
    }
}
