//! What a downloader's handles and batches share.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::job::Job;
use crate::rules::Rules;
use crate::schedule::Scheduler;

/// Lives as long as a downloader or a batch of it does.
pub(crate) struct Engine {
    pub(crate) scheduler: Scheduler<Job>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) unread: NonZeroUsize,
    pub(crate) window: u64,
    pub(crate) window_when_idle: u64,
    pub(crate) max_body: u64,
    pub(crate) max_file: u64,
}
