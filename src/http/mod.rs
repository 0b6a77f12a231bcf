//! One request and its response over a host's connections. Knows nothing of files, batches or
//! who runs when.

mod line;
pub(crate) mod redirect;
mod resolve;
mod tls;
mod transport;
mod wire;

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use ureq::config::Config;
use url::Url;

use crate::error::{ErrorKind, Fault};
use crate::outcome::{Head, Timings};
use crate::schedule::Post;

/// The connections to one host. Dropping it closes those that idle.
pub(crate) type Host = ureq::Agent;

/// How requests are made, whatever the host.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    /// How many connections to a host are kept while idle, and for how long.
    pub(crate) idle_connections: usize,
    pub(crate) idle_age: Duration,
    /// Sent with every request that has none of the same name.
    pub(crate) headers: HeaderMap,
    pub(crate) extra_roots_pem: Vec<Vec<u8>>,
}

/// Makes requests. Shared by all hosts.
pub(crate) struct Client {
    config: Config,
    dialer: transport::Dialer,
    headers: HeaderMap,
}

/// A response whose body is still on the wire.
pub(crate) struct Response {
    pub(crate) head: Head,
    pub(crate) body: Reader,
}

/// The body of a response: ends with `Ok(0)` only where the framing says that it is whole.
pub(crate) struct Reader {
    body: ureq::BodyReader<'static>,
    ended: bool,
}

/// What remains of a body that nobody reads is read to its end if it is no more than this, so
/// that the connection can be used again; otherwise a new connection is cheaper.
const DRAIN: usize = 64 * 1024;
/// Nor is a body worth more time that comes in drips.
const DRAIN_TIME: Duration = Duration::from_secs(1);

impl Client {
    pub(crate) fn new(settings: Settings) -> Result<Self, Fault> {
        let Settings {
            connect_timeout,
            idle_timeout,
            idle_connections,
            idle_age,
            mut headers,
            extra_roots_pem,
        } = settings;
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!(
                "fetchpool/",
                env!("CARGO_PKG_VERSION")
            )));
        let config = ureq::Agent::config_builder()
            // Else it would come from the environment, and plain requests go through CONNECT.
            .proxy(None)
            // Redirects are ours to follow, under the new host's budget.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(connect_timeout))
            .timeout_per_read(Some(idle_timeout))
            .timeout_per_write(Some(idle_timeout))
            .max_response_header_size(transport::MAX_HEADER)
            .max_idle_connections(idle_connections)
            .max_idle_connections_per_host(idle_connections)
            .max_idle_age(idle_age)
            // Bytes as they are. Another crate of the program may have compiled decoders in.
            .accept_encoding("identity")
            .build();
        let tls = tls::config(&extra_roots_pem)?;
        Ok(Self {
            config,
            dialer: transport::Dialer { tls },
            headers,
        })
    }

    pub(crate) fn host(&self) -> Host {
        ureq::Agent::with_parts(
            self.config.clone(),
            self.dialer.clone(),
            resolve::SystemResolver,
        )
    }

    /// Sends a GET and reads the response's header. `post` is where the job can be interrupted.
    pub(crate) fn get(
        &self,
        host: &Host,
        url: &Url,
        headers: &HeaderMap,
        post: &Arc<Post>,
        timings: &mut Timings,
    ) -> Result<Response, Fault> {
        let uri: Uri = url.as_str().parse().map_err(|error| {
            let doing = "the URL cannot be put into a request";
            Fault::with_source(ErrorKind::InvalidUrl, doing, error)
        })?;
        let (response, stale) = self.exchange(host, &uri, headers, post, timings, false);
        if stale {
            // The server closed an idle connection in the moment in which we used it (RFC
            // 9112, section 9.3.1). It has not seen the request, so this is no second attempt.
            return self.exchange(host, &uri, headers, post, timings, true).0;
        }
        response
    }

    /// Also whether it failed only because a reused connection was no longer there.
    fn exchange(
        &self,
        host: &Host,
        uri: &Uri,
        headers: &HeaderMap,
        post: &Arc<Post>,
        timings: &mut Timings,
        fresh: bool,
    ) -> (Result<Response, Fault>, bool) {
        let mut request = http::Request::new(());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = self.headers.clone();
        replace_all(request.headers_mut(), headers);

        wire::begin(post, fresh);
        let result = host.run(request);
        let wire = wire::end_of_header();
        timings.resolve += wire.resolve;
        timings.connect += wire.connect;
        timings.tls += wire.tls;
        if let (Some(sent), Some(answered)) = (wire.sent, wire.answered) {
            timings.first_byte += answered - sent;
        }
        let result = result.map_err(fault_of).map(Response::new);
        let broke = matches!(&result, Err(fault) if fault.kind == ErrorKind::Truncated);
        (result, broke && wire.reused && wire.answered.is_none())
    }
}

/// Headers of the request take the place of the downloader's of the same name.
fn replace_all(into: &mut HeaderMap, from: &HeaderMap) {
    for name in from.keys() {
        into.remove(name);
    }
    for (name, value) in from {
        into.append(name, value.clone());
    }
}

impl Response {
    fn new(response: http::Response<ureq::Body>) -> Self {
        let (parts, body) = response.into_parts();
        // RFC 9112, section 6.3: without either the connection's end is the body's. (ureq
        // removes the length where it decodes the body.)
        let length_known = parts.headers.contains_key(CONTENT_LENGTH)
            || parts.headers.contains_key(TRANSFER_ENCODING)
            || matches!(
                parts.status,
                StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
            );
        Self {
            head: Head {
                status: parts.status,
                headers: parts.headers,
                length_known,
            },
            body: Reader {
                body: body.into_reader(),
                ended: false,
            },
        }
    }
}

impl Reader {
    /// Reads what is left, if that is little, so that the connection can be used again.
    pub(crate) fn drain(&mut self) {
        let begun = Instant::now();
        let mut drained = 0;
        let mut piece = [0; 4096];
        while !self.ended && drained < DRAIN && begun.elapsed() < DRAIN_TIME {
            match self.read(&mut piece) {
                Ok(amount) => drained += amount,
                // The connection is closed then, which is what would be done otherwise.
                Err(_) => return,
            }
        }
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let amount = self
            .body
            .read(buffer)
            .map_err(|error| fault_of(ureq::Error::from(error)).into_io())?;
        self.ended |= amount == 0;
        Ok(amount)
    }
}

fn fault_of(error: ureq::Error) -> Fault {
    use ureq::Error as E;
    match error {
        E::Other(inner) => match inner.downcast::<Fault>() {
            Ok(fault) => *fault,
            Err(other) => Fault::with_source(ErrorKind::Protocol, "the exchange failed", other),
        },
        E::Io(error) => Fault::with_source(
            ErrorKind::Truncated,
            "the connection was closed before the response was whole",
            error,
        ),
        E::HostNotFound => Fault::new(ErrorKind::Dns, "the host's name has no address"),
        E::BadUri(why) => Fault::new(ErrorKind::InvalidUrl, why),
        E::Timeout(which) => {
            Fault::new(ErrorKind::Timeout, format!("the time for {which} is over"))
        }
        E::LargeResponseHeader(..) => Fault::new(
            ErrorKind::Protocol,
            format!(
                "the response's header is larger than {} bytes",
                transport::MAX_HEADER
            ),
        ),
        other => Fault::with_source(ErrorKind::Protocol, "the response is not valid HTTP", other),
    }
}
