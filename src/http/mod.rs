//! One request and its response over a host's connections. Knows nothing of files, batches or
//! who runs when.

pub(crate) mod address;
mod agent;
mod buffers;
mod circuit;
mod content_range;
mod dial;
mod faults;
pub(crate) mod framing;
mod host;
mod line;
mod pace;
mod reader;
pub(crate) mod redirect;
pub(crate) mod resolve;
mod rest;
pub(crate) mod tls;
mod transport;
mod wire;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use parking_lot::Mutex;
use ureq::config::{AutoHeaderValue, Config};
use url::Url;

use crate::deadline::{Deadline, LONGEST_TIME};
use crate::fault::{ErrorKind, Fault};
use crate::outcome::{Head, Timings};
use crate::redact::Secrets;
use crate::request::without_credentials;
use crate::schedule::Post;

pub use circuit::HostBreaker;
use faults::fault_of;
use framing::Framing;
pub(crate) use host::Host;
pub(crate) use reader::Reader;
use reader::keeps_alive;
use redirect::Chain;
pub(crate) use rest::{Beginning, Stretch, ask_for_first, length_with_first, strong_validator};
use transport::Connection;

/// How requests are made, whatever the host.
pub(crate) struct Settings {
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    /// How long a response's header may take.
    pub(crate) header_timeout: Duration,
    pub(crate) low_speed: Option<LowSpeed>,
    /// How long a connection is kept while idle.
    pub(crate) idle_age: Duration,
    pub(crate) local_address: Option<IpAddr>,
    pub(crate) names: resolve::Settings,
    /// Sent with every request that has none of the same name.
    pub(crate) headers: HeaderMap,
    pub(crate) tls: tls::Settings,
    pub(crate) addresses: address::Policy,
    pub(crate) redirects: redirect::Policy,
    pub(crate) secrets: Secrets,
}

/// How many bytes of a body have to come in a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LowSpeed {
    pub(crate) bytes: u64,
    pub(crate) window: Duration,
}

/// Makes requests. Shared by all hosts.
pub(crate) struct Client {
    config: Config,
    idle_age: Duration,
    low_speed: Option<LowSpeed>,
    dialer: transport::Dialer,
    headers: HeaderMap,
    /// They leave the connection's end to the server.
    keeps: bool,
    /// The same for jobs that a redirect has led to another origin.
    headers_elsewhere: HeaderMap,
    redirects: redirect::Policy,
    secrets: Secrets,
    /// When all hosts' idle connections were last closed for want of handles.
    shed: Mutex<Option<Instant>>,
}

/// How often that is done at most. Each job that finds no handle asks for it, and it takes a time
/// for each host: thousands of jobs to thousands of hosts would do nothing else.
const SHED_EVERY: Duration = Duration::from_millis(20);

/// A response whose body is still on the wire.
pub(crate) struct Response {
    pub(crate) head: Head,
    pub(crate) body: Reader,
}

/// It has to fit into the output buffer, together with the rest of its line.
const LONGEST_URL: usize = 60 * 1024;

/// What a request without a body does not have.
const OF_A_BODY: [HeaderName; 3] = [CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT];

impl Client {
    pub(crate) fn new(settings: Settings) -> Result<Self, Fault> {
        let Settings {
            connect_timeout,
            idle_timeout,
            header_timeout,
            low_speed,
            idle_age,
            local_address,
            mut names,
            mut headers,
            tls,
            addresses,
            redirects,
            secrets,
        } = settings;
        for (name, value) in [
            (USER_AGENT, concat!("fetchpool/", env!("CARGO_PKG_VERSION"))),
            (ACCEPT, "*/*"),
            // Bytes as they are. Another crate of the program may have compiled decoders in.
            (ACCEPT_ENCODING, "identity"),
        ] {
            let ours = HeaderValue::from_static(value);
            headers.entry(name).or_insert(ours);
        }
        for name in OF_A_BODY {
            headers.remove(name);
        }
        let config = ureq::Agent::config_builder()
            // Else it would come from the environment, and plain requests go through CONNECT.
            .proxy(None)
            // Redirects are ours to follow, under the new host's budget.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_response_header_size(buffers::MAX_HEADER)
            // The hosts keep them.
            .max_idle_connections(0)
            .max_idle_connections_per_host(0)
            // Ours are in the request already.
            .user_agent(AutoHeaderValue::None)
            .accept(AutoHeaderValue::None)
            .accept_encoding(AutoHeaderValue::None)
            .build();
        names.limit = names.limit.min(LONGEST_TIME);
        names.ttl = names.ttl.min(LONGEST_TIME);
        let tls = tls::config(&tls)?;
        let mut headers_elsewhere = headers.clone();
        redirect::strip_credentials(&mut headers_elsewhere);
        Ok(Self {
            config,
            idle_age,
            dialer: transport::Dialer {
                dial: dial::Dial {
                    local: local_address,
                },
                names: resolve::Names::new(names),
                addresses,
                tls,
                limits: transport::Limits {
                    connect: connect_timeout.min(LONGEST_TIME),
                    idle: idle_timeout.min(LONGEST_TIME),
                    header: header_timeout.min(LONGEST_TIME),
                },
            },
            // That nothing comes is as fast as that.
            low_speed: low_speed.filter(|least| least.bytes > 0),
            keeps: keeps_alive(&headers),
            headers,
            headers_elsewhere,
            redirects,
            secrets,
            shed: Mutex::default(),
        })
    }

    /// Whether somebody who finds no file handle is to close the hosts' idle connections, as
    /// nobody has just now.
    pub(crate) fn may_shed(&self) -> bool {
        let mut shed = self.shed.lock();
        let now = Instant::now();
        let is_due = shed.is_none_or(|shed| now.duration_since(shed) >= SHED_EVERY);
        if is_due {
            *shed = Some(now);
        }
        is_due
    }

    /// One for one connection.
    fn agent(&self) -> ureq::Agent {
        ureq::Agent::with_parts(
            self.config.clone(),
            self.dialer.clone(),
            self.dialer.names.clone(),
        )
    }

    /// Forgets the addresses of all hosts.
    pub(crate) fn flush_names(&self) {
        self.dialer.names.flush();
    }

    /// Which parameters of URLs are not to be shown.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Where the response redirects to, if it does.
    pub(crate) fn redirect(&self, head: &Head, chain: Chain<'_>) -> Result<Option<Url>, Fault> {
        self.redirects
            .target(head.status, &head.headers, chain, &self.secrets)
    }

    /// Sends a GET and reads the response's header.
    pub(crate) fn get(
        &self,
        host: &Arc<Host>,
        ask: &Ask<'_>,
        timings: &mut Timings,
    ) -> Result<Response, Fault> {
        let bare = without_credentials(ask.url);
        let uri = uri_of(bare.as_ref().unwrap_or(ask.url))?;
        let (lease, idle) = host.lease(self);
        let request = || {
            let mut request = self.request(uri.clone(), ask.headers, ask.has_left);
            redirect::add_credentials(request.headers_mut(), ask.url);
            request
        };
        let (response, stale) = self.exchange(lease.agent(), idle, request(), ask, timings);
        let mut response = if stale {
            // The server closed an idle connection in the moment in which we used it (RFC
            // 9112, section 9.3.1). Nothing of an answer came, and a GET may be sent again.
            self.exchange(lease.agent(), None, request(), ask, timings)
                .0
        } else {
            response
        }?;
        response.head.bare_url = bare.map(Box::new);
        response.body.belongs_to(lease, self.low_speed);
        Ok(response)
    }

    /// One request on the wire, on that connection or on a new one. Also whether it failed only because
    /// a reused connection was no longer there.
    fn exchange(
        &self,
        agent: &ureq::Agent,
        idle: Option<Box<Connection>>,
        request: http::Request<()>,
        ask: &Ask<'_>,
        timings: &mut Timings,
    ) -> (Result<Response, Fault>, bool) {
        wire::begin(ask.post, ask.deadline);
        agent::offer(idle);
        let result = agent.run(request);
        let wire = wire::end_of_header();
        timings.resolve += wire.resolve;
        timings.connect += wire.connect;
        timings.tls += wire.tls;
        if let Some(sent) = wire.sent {
            // Also the wait for one that never came.
            timings.first_byte += wire.answered.unwrap_or_else(Instant::now) - sent;
        }
        let result = result.map_err(|error| match fault_of(error) {
            // It may be the tail of the response before, that came after the look at the connection.
            fault if fault.kind == ErrorKind::Protocol && wire.reused => fault.passing(),
            fault => fault,
        });
        let keeps = || self.keeps && keeps_alive(ask.headers);
        let result = result.and_then(|response| Response::new(response, keeps));
        let broke = matches!(&result, Err(fault) if fault.kind == ErrorKind::Truncated);
        (result, broke && wire.reused && wire.answered.is_none())
    }

    /// The request's own headers take the place of ours of the same name.
    fn request(&self, uri: Uri, headers: &HeaderMap, has_left: bool) -> http::Request<()> {
        let mut request = http::Request::new(());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = uri;
        let all = request.headers_mut();
        *all = if has_left {
            self.headers_elsewhere.clone()
        } else {
            self.headers.clone()
        };
        for name in headers.keys() {
            all.remove(name);
        }
        for (name, value) in headers {
            if !OF_A_BODY.contains(name) {
                all.append(name, value.clone());
            }
        }
        request
    }
}

/// What is asked for.
pub(crate) struct Ask<'a> {
    pub(crate) url: &'a Url,
    pub(crate) headers: &'a HeaderMap,
    /// A redirect has led away from the origin that was asked first.
    pub(crate) has_left: bool,
    /// Where the job can be interrupted.
    pub(crate) post: &'a Arc<Post>,
    pub(crate) deadline: Option<Deadline>,
}

/// Of a URL whose user name and password, if it has some, are in a header.
fn uri_of(bare: &Url) -> Result<Uri, Fault> {
    if bare.as_str().len() > LONGEST_URL {
        let detail = format!("the URL is longer than {LONGEST_URL} bytes");
        return Err(Fault::new(ErrorKind::InvalidUrl, detail));
    }
    bare.as_str().parse().map_err(|error| {
        let doing = "the URL cannot be put into a request";
        Fault::with_source(ErrorKind::InvalidUrl, doing, error)
    })
}

impl Response {
    /// `keeps`: whether the request leaves the connection's end to the server.
    fn new(
        response: http::Response<ureq::Body>,
        keeps: impl FnOnce() -> bool,
    ) -> Result<Self, Fault> {
        let (parts, body) = response.into_parts();
        let framing = Framing::of(&parts)?;
        let body = Reader::new(body, framing, &parts, keeps);
        Ok(Self {
            head: Head {
                bare_url: None,
                status: parts.status,
                headers: parts.headers,
                framing,
            },
            body,
        })
    }
}
