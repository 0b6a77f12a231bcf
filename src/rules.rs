//! What holds for the jobs of all batches of a downloader.

use std::time::Duration;

use crate::http::{Client, HostBreaker};
use crate::retry::Retries;

pub(crate) struct Rules {
    pub(crate) client: Client,
    pub(crate) status_is_error: bool,
    /// What servers say of a body's digest counts.
    pub(crate) believes_digests: bool,
    pub(crate) retries: Retries,
    pub(crate) breaker: HostBreaker,
    /// How long a job may take, from when it is let in.
    pub(crate) timeout: Option<Duration>,
    /// How long it may wait for its first turn.
    pub(crate) queue_timeout: Option<Duration>,
    /// How long the token of a request that timed out stays out.
    pub(crate) timeout_grace: Duration,
}
