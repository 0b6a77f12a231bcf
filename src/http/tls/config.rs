//! The TLS configuration: who encrypts, whom we trust, and who we are.

use std::fmt;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ConfigBuilder, InconsistentKeys, RootCertStore, WantsVerifier};

use super::client_auth::Resolver;
use crate::fault::{ErrorKind, Fault};

/// Whom to trust, and who we are.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) extra_roots_pem: Vec<Vec<u8>>,
    pub(crate) client_cert: Option<ClientCertPem>,
    /// The system judges certificates, not the roots of the Mozilla programme.
    #[cfg(feature = "platform-verifier")]
    pub(crate) platform_verifier: bool,
}

pub(crate) struct ClientCertPem {
    pub(crate) chain: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// Without the key.
impl fmt::Debug for ClientCertPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertPem").finish_non_exhaustive()
    }
}

/// One configuration for all connections.
pub(in crate::http) fn config(settings: &Settings) -> Result<Arc<ClientConfig>, Fault> {
    let provider = provider()?;
    let client_cert = match &settings.client_cert {
        Some(pem) => Some(Arc::new(certified_key(pem, &provider)?)),
        None => None,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Fault::with_source(ErrorKind::Tls, "no TLS version is available", e))?;
    let resolver = Resolver { client_cert };
    Ok(Arc::new(
        with_trust(builder, settings)?.with_client_cert_resolver(Arc::new(resolver)),
    ))
}

/// The program's own choice goes first: a feature that some crate turns on must not overrule it.
fn provider() -> Result<Arc<CryptoProvider>, Fault> {
    if let Some(installed) = CryptoProvider::get_default() {
        return Ok(Arc::clone(installed));
    }
    built_in().map(Arc::new).ok_or_else(|| {
        let nothing = "nothing is there to encrypt with: turn on fetchpool's feature `ring` or \
                       `aws-lc-rs`, or have the program call \
                       `rustls::crypto::CryptoProvider::install_default` before this";
        Fault::new(ErrorKind::Tls, nothing)
    })
}

/// `ring` is on unless somebody turns it off, this only if somebody wants it.
#[cfg(feature = "aws-lc-rs")]
fn built_in() -> Option<CryptoProvider> {
    Some(rustls::crypto::aws_lc_rs::default_provider())
}

#[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
fn built_in() -> Option<CryptoProvider> {
    Some(rustls::crypto::ring::default_provider())
}

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
fn built_in() -> Option<CryptoProvider> {
    None
}

fn with_trust(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    settings: &Settings,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Fault> {
    let mut roots = RootCertStore::empty();
    let mut extra = Vec::new();
    for pem in &settings.extra_roots_pem {
        let certificates = certificates(pem, "a root certificate cannot be used")?;
        if certificates.is_empty() {
            let nothing = "there is no certificate in what was given as roots; PEM is expected";
            return Err(Fault::new(ErrorKind::Tls, nothing));
        }
        extra.extend(certificates);
    }
    for certificate in &extra {
        roots.add(certificate.clone()).map_err(|e| {
            Fault::with_source(ErrorKind::Tls, "a root certificate cannot be used", e)
        })?;
    }
    #[cfg(feature = "platform-verifier")]
    if settings.platform_verifier {
        let verifier = platform_verifier(extra, Arc::clone(builder.crypto_provider()))?;
        return Ok(builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier)));
    }
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    Ok(builder.with_root_certificates(roots))
}

#[cfg(feature = "platform-verifier")]
fn platform_verifier(
    extra: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<rustls_platform_verifier::Verifier, Fault> {
    use rustls_platform_verifier::Verifier;

    #[cfg(not(target_os = "android"))]
    let made = Verifier::new_with_extra_roots(extra, provider);
    #[cfg(target_os = "android")]
    let made = if extra.is_empty() {
        Verifier::new(provider)
    } else {
        let cannot = "Android's verifier takes no further roots: name them in the app's network \
                      security configuration instead of `add_root_pem`";
        return Err(Fault::new(ErrorKind::Tls, cannot));
    };
    made.map_err(|e| {
        let cannot = "the platform cannot verify certificates: install its roots (on most Linux \
                      systems the package `ca-certificates`), or leave `platform_verifier` off";
        Fault::with_source(ErrorKind::Tls, cannot, e)
    })
}

fn certified_key(pem: &ClientCertPem, provider: &CryptoProvider) -> Result<CertifiedKey, Fault> {
    let chain = certificates(&pem.chain, "the client certificate cannot be used")?;
    if chain.is_empty() {
        let nothing = "there is no certificate in what was given as the client's; PEM is expected, \
                       the client's own first";
        return Err(Fault::new(ErrorKind::Tls, nothing));
    }
    let key = private_key(&pem.key)?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        let why = match &error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                "the private key is not that of the first client certificate; the client's own \
                 comes first, those that vouch for it after it"
            }
            rustls::Error::InvalidCertificate(_) => "the client certificate cannot be used",
            _ => "the private key of the client certificate cannot be used",
        };
        Fault::with_source(ErrorKind::Tls, why, error)
    })
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Fault> {
    // PKCS #8 says it in the section's name, the older formats in a header (RFC 1421).
    for mark in ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"] {
        if pem.windows(mark.len()).any(|part| part == mark.as_bytes()) {
            let encrypted = "the private key of the client certificate is encrypted: decrypt it, \
                             for example with `openssl pkey -in key.pem`, and give the result";
            return Err(Fault::new(ErrorKind::Tls, encrypted));
        }
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => Fault::new(
            ErrorKind::Tls,
            "there is no private key in what was given as the client certificate's; PEM is \
             expected, in PKCS #8, PKCS #1 or SEC 1",
        ),
        error => Fault::with_source(
            ErrorKind::Tls,
            "the private key of the client certificate cannot be read",
            error,
        ),
    })
}

/// Those of the PEM's sections that are certificates.
fn certificates(pem: &[u8], unusable: &'static str) -> Result<Vec<CertificateDer<'static>>, Fault> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| match error {
            // It would show the mark that it misses as a list of numbers.
            pem::Error::MissingSectionEnd { .. } => Fault::new(
                ErrorKind::Tls,
                format!("{unusable}: a section of the PEM has no end"),
            ),
            error => Fault::with_source(ErrorKind::Tls, unusable, error),
        })
}
