//! One call's work: requests go in as they are needed, outcomes come out as they are ready.

mod inbox;
mod intake;
mod order;
mod outcomes;
mod shared;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

pub use intake::{Canceller, Jobs};
pub use outcomes::Outcomes;

use inbox::{Inbox, Taken};
use intake::Intake;
use order::Order;
use shared::Shared;

use crate::body::Body;
use crate::engine::Engine;
use crate::error::Error;
use crate::fault::Fault;
use crate::request::Request;
use crate::schedule::Feed;
use crate::sink::{Closure, Sink};

/// Makes a batch of this engine's.
pub(crate) fn open<S: Sink>(engine: &Arc<Engine>, sink: S) -> Outcomes<S::Item> {
    // Of what may be unread: the workers go on with the other half meanwhile.
    let half = engine.unread.get().div_ceil(2);
    let inbox = Arc::new(Inbox::new(half));
    let shared = Arc::new(Shared {
        sink,
        rules: Arc::clone(&engine.rules),
        deadline: OnceLock::new(),
        cancelled: AtomicBool::new(false),
        outcomes: Arc::clone(&inbox),
    });
    let feed = Arc::clone(&shared) as Arc<dyn Feed>;
    Outcomes {
        inbox,
        taken: Taken::default(),
        received: 0,
        owed: 0,
        paid_at_once: half,
        intake: Arc::new(Intake {
            ticket: engine.scheduler.open(Arc::clone(&feed), engine.unread),
            course: shared,
            feed,
            submitted: AtomicU64::new(0),
            jobs: AtomicUsize::new(0),
            engine: Arc::clone(engine),
        }),
    }
}

/// The same for a closure that may push further requests.
pub(crate) fn open_pushing<T, F>(engine: &Arc<Engine>, closure: F, limit: u64) -> Outcomes<T>
where
    T: Send + 'static,
    F: Fn(Body<'_>, &Jobs) -> io::Result<T> + Send + Sync + 'static,
{
    // Weak, as the intake owns the closure. It is there as long as a consumer or a `Jobs` is.
    let door: Arc<OnceLock<Weak<Intake>>> = Arc::default();
    let behind = Arc::clone(&door);
    let run = move |body: Body<'_>| match behind.get().and_then(Weak::upgrade) {
        Some(intake) => closure(body, &Jobs::new(intake)),
        None => Err(Fault::cancelled().into_io()),
    };
    let outcomes = open(engine, Closure { run, limit });
    // Set once, before any request is in.
    let _ = door.set(Arc::downgrade(&outcomes.intake));
    outcomes
}

/// Requests that are fetched, as an iterator of their outcomes.
///
/// Made by [`Downloader::fetch_all`](crate::Downloader::fetch_all) and its siblings. An item is
/// a `Result` for each request, in the order in which they finish, or in the input's after
/// [`in_order`](Self::in_order): as many come out as go in.
///
/// The input is read as outcomes are asked for, at most a window of requests ahead of them
/// ([`Builder::window`](crate::Builder::window)), further where workers would idle otherwise.
/// Where outcomes are not read, the batch pauses after a bounded number; the downloader's other
/// batches go on.
///
/// Dropping a batch cancels what it has left, the requests that are being fetched as well.
///
/// # Panics
/// `next` panics where it would wait on a worker of the same downloader, in a closure: when all
/// workers waited for outcomes, nobody would be left to fetch. Push such requests instead, see
/// [`Downloader::open_with`](crate::Downloader::open_with), or use another downloader.
#[must_use = "a batch fetches as its outcomes are asked for; dropped, it fetches nothing"]
pub struct Batch<I, T> {
    /// `None` once it has ended. It is not asked again, as not every iterator is fused.
    input: Option<I>,
    outcomes: Outcomes<T>,
    returned: u64,
    window: u64,
    window_when_idle: u64,
    /// Workers idled when a request was last let in.
    hungry: bool,
    order: Option<Order<Result<T, Error>>>,
}

/// How long input is read while an outcome waits to be returned. Long enough to fill a window
/// from a list in memory; where the input is slow, a line of it is all that an outcome waits for.
const READ_FOR: Duration = Duration::from_millis(1);

impl<I, T> Batch<I, T> {
    pub(crate) fn new(input: I, outcomes: Outcomes<T>) -> Self {
        let engine = Arc::clone(&outcomes.intake.engine);
        Self {
            window: engine.window,
            window_when_idle: engine.window_when_idle,
            input: Some(input),
            outcomes,
            returned: 0,
            hungry: false,
            order: None,
        }
    }

    /// Has the outcomes come in the order of the input.
    ///
    /// Those that are ready before their turn are held back, at most a window of them; so this
    /// costs memory where one of the first requests takes long.
    pub fn in_order(mut self) -> Self {
        self.order.get_or_insert_default();
        self
    }

    /// Ends the batch by then, from now: what it has left comes out as
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout), and the rest of its input is not read.
    /// A second call does nothing.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// # let urls = ["http://127.0.0.1/"];
    ///
    /// let downloader = fetchpool::Downloader::new();
    /// for page in downloader.fetch_all(urls).timeout(Duration::from_secs(60)) {
    ///     println!("{:?}", page);
    /// }
    /// ```
    pub fn timeout(self, limit: Duration) -> Self {
        self.outcomes.end_after(limit);
        self
    }

    /// A handle with which another thread can cancel the batch.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        self.outcomes.canceller()
    }
}

impl<I, T> Batch<I, T>
where
    I: Iterator,
    I::Item: Into<Request>,
{
    fn read_input(&mut self) {
        let course = &self.outcomes.intake.course;
        if course.is_cancelled() || course.deadline().is_some_and(|end| end.has_passed()) {
            self.input = None;
        }
        let mut begun = None;
        while self.input.is_some() && self.has_room() {
            if begun.is_some_and(|begun: Instant| begun.elapsed() > READ_FOR)
                && self.outcomes.is_one_ready()
            {
                return;
            }
            begun.get_or_insert_with(Instant::now);
            let Some(request) = self.input.as_mut().and_then(Iterator::next) else {
                self.input = None;
                return;
            };
            self.hungry = self.outcomes.intake.submit(request.into()).1;
        }
    }

    /// Up to the window; beyond it as long as workers idle, who tell us when they do.
    fn has_room(&mut self) -> bool {
        let ahead = self.outcomes.submitted() - self.returned;
        if ahead < self.window {
            return true;
        }
        if ahead >= self.window_when_idle {
            return false;
        }
        if !self.hungry {
            self.hungry = self.outcomes.intake.ticket.wants_more();
        }
        self.hungry
    }

    fn is_through(&self) -> bool {
        self.input.is_none() && self.outcomes.received == self.outcomes.submitted()
    }
}

impl<I, T> Iterator for Batch<I, T>
where
    I: Iterator,
    I::Item: Into<Request>,
{
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.order.as_mut().and_then(Order::next) {
                self.returned += 1;
                return Some(item);
            }
            self.read_input();
            if self.is_through() {
                self.outcomes.intake.course.close();
                return None;
            }
            let Some((index, item)) = self.outcomes.receive() else {
                self.hungry = false;
                continue;
            };
            match &mut self.order {
                Some(order) => order.insert(index, item),
                None => {
                    self.returned += 1;
                    return Some(item);
                }
            }
        }
    }
}

impl<I, T> fmt::Debug for Batch<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("returned", &self.returned)
            .field("submitted", &self.outcomes.submitted())
            .finish_non_exhaustive()
    }
}
