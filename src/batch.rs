//! One call's work: requests go in as they are needed, outcomes come out as they are ready.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::body::Body;
use crate::downloader::Downloader;
use crate::error::{Error, Fault};
use crate::http::{Client, Response};
use crate::inbox::{Inbox, Taken};
use crate::job::{Job, panicked};
use crate::outcome::Report;
use crate::request::Request;
use crate::schedule::{Feed, Ticket, Turn};
use crate::sink::Sink;

/// What a job knows of its batch.
pub(crate) trait Course: Send + Sync {
    fn client(&self) -> &Arc<Client>;

    fn is_cancelled(&self) -> bool;

    fn status_is_error(&self) -> bool;

    /// Gives the body to the sink, the tokens back, and the outcome to the consumer.
    fn finish(&self, turn: &mut Turn<'_, Job>, response: Response, report: Report);

    /// `has_run`: the outcome holds a token of the batch's unread ones.
    fn fail(&self, report: Report, fault: Fault, has_run: bool);
}

/// The part of a batch that its jobs share.
struct Shared<S: Sink> {
    sink: Arc<S>,
    client: Arc<Client>,
    status_is_error: bool,
    cancelled: AtomicBool,
    /// Bounded by the scheduler: a job that runs holds a token of the batch's unread outcomes,
    /// which the consumer gives back.
    outcomes: Arc<Inbox<Message<S::Item>>>,
}

/// What wakes the consumer.
enum Message<T> {
    Outcome {
        index: u64,
        has_run: bool,
        item: Result<T, Error>,
    },
    /// Look again: workers idle, or the last `Jobs` is gone.
    Look,
}

impl<S: Sink> Shared<S> {
    fn deliver(&self, index: u64, has_run: bool, item: Result<S::Item, Error>) {
        self.outcomes.send(Message::Outcome {
            index,
            has_run,
            item,
        });
    }
}

impl<S: Sink> Course for Shared<S> {
    fn client(&self) -> &Arc<Client> {
        &self.client
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    fn status_is_error(&self) -> bool {
        self.status_is_error
    }

    fn finish(&self, turn: &mut Turn<'_, Job>, response: Response, mut report: Report) {
        let Response { head, mut body } = response;
        let start = Instant::now();
        let part = catch_unwind(AssertUnwindSafe(|| {
            let part =
                self.sink
                    .receive(Body::new(&head, &report, &mut body, self.sink.limit()))?;
            body.drain();
            Ok(part)
        }));
        // What is left of the body, and with it the connection, goes before the token.
        drop(body);
        report.timings.body += start.elapsed();
        turn.finish();
        let part = part.unwrap_or_else(|panic| Err(panicked(panic)));
        let index = report.index;
        let item = match part {
            // What the item has no place for is dropped in there: a tag of the caller's, which
            // may panic.
            Ok(part) => catch_unwind(AssertUnwindSafe(|| S::item(part, head, report)))
                .map_err(|panic| Error::bare(panicked(panic), None)),
            Err(fault) => Err(Error::new(fault, report)),
        };
        self.deliver(index, true, item);
    }

    fn fail(&self, report: Report, fault: Fault, has_run: bool) {
        self.deliver(report.index, has_run, Err(Error::new(fault, report)));
    }
}

impl<S: Sink> Feed for Shared<S> {
    fn more(&self) {
        self.outcomes.send(Message::Look);
    }
}

/// Where requests are let in.
pub(crate) struct Intake {
    course: Arc<dyn Course>,
    feed: Arc<dyn Feed>,
    cancel: Box<dyn Fn() + Send + Sync>,
    ticket: Ticket<Job>,
    submitted: AtomicU64,
    /// How many `Jobs` there are.
    jobs: AtomicUsize,
    /// Keeps the workers.
    downloader: Downloader,
}

impl Intake {
    /// Its index, and whether another request would be of use now.
    fn submit(&self, request: Request) -> (u64, bool) {
        let index = self.submitted.fetch_add(1, Ordering::SeqCst);
        let hungry = match Job::new(Arc::clone(&self.course), request, index) {
            Some(job) => self.ticket.submit(job),
            // Its outcome is to be read first.
            None => false,
        };
        (index, hungry)
    }

    fn cancel(&self) {
        (self.cancel)();
        self.ticket.cancel();
    }
}

/// Makes a batch of this downloader's.
pub(crate) fn open<S: Sink>(downloader: &Downloader, sink: Arc<S>) -> Outcomes<S::Item> {
    let inner = downloader.inner();
    // Half of what may be unread: the workers go on with the other half meanwhile.
    let inbox = Arc::new(Inbox::new(inner.unread.get().div_ceil(2)));
    let shared = Arc::new(Shared {
        sink,
        client: Arc::clone(&inner.client),
        status_is_error: inner.status_is_error,
        cancelled: AtomicBool::new(false),
        outcomes: Arc::clone(&inbox),
    });
    let feed = Arc::clone(&shared) as Arc<dyn Feed>;
    let cancelled = Arc::clone(&shared);
    Outcomes {
        inbox,
        taken: Taken::default(),
        received: 0,
        owed: 0,
        intake: Arc::new(Intake {
            ticket: inner.scheduler.open(Arc::clone(&feed), inner.unread),
            course: shared,
            feed,
            cancel: Box::new(move || cancelled.cancelled.store(true, Ordering::SeqCst)),
            submitted: AtomicU64::new(0),
            jobs: AtomicUsize::new(0),
            downloader: downloader.clone(),
        }),
    }
}

/// Requests that are fetched, as an iterator of their outcomes.
///
/// Made by [`Downloader::fetch_all`] and its siblings. An item is a `Result` for each request,
/// in the order in which they finish, or in the input's after [`in_order`](Self::in_order): as
/// many come out as go in.
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
/// [`Downloader::open_with`], or use another downloader.
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
    order: Option<Order<T>>,
}

/// How long input is read while an outcome waits to be returned. Long enough to fill a window
/// from a list in memory; where the input is slow, a line of it is all that an outcome waits for.
const READ_FOR: Duration = Duration::from_millis(1);

impl<I, T> Batch<I, T> {
    pub(crate) fn new(input: I, outcomes: Outcomes<T>) -> Self {
        let inner = outcomes.intake.downloader.inner();
        Self {
            window: inner.window,
            window_when_idle: inner.window_when_idle,
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
        if self.outcomes.intake.course.is_cancelled() {
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

/// Outcomes that wait for those before them.
struct Order<T> {
    /// The index of the front.
    first: u64,
    waiting: VecDeque<Option<Result<T, Error>>>,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self {
            first: 0,
            waiting: VecDeque::new(),
        }
    }
}

impl<T> Order<T> {
    fn insert(&mut self, index: u64, item: Result<T, Error>) {
        let at = (index - self.first) as usize;
        while self.waiting.len() <= at {
            self.waiting.push_back(None);
        }
        self.waiting[at] = Some(item);
    }

    fn next(&mut self) -> Option<Result<T, Error>> {
        let item = self.waiting.front_mut()?.take()?;
        self.waiting.pop_front();
        self.first += 1;
        Some(item)
    }
}

/// The outcomes of requests that are pushed, as an iterator in the order in which they finish.
///
/// Made by [`Downloader::open`] and [`Downloader::open_with`]. It ends when every [`Jobs`] is
/// gone and everything pushed has come out.
///
/// Dropping it cancels what is left.
pub struct Outcomes<T> {
    inbox: Arc<Inbox<Message<T>>>,
    taken: Taken<Message<T>>,
    received: u64,
    /// Tokens of outcomes that have been handed out, to be given back.
    owed: usize,
    intake: Arc<Intake>,
}

impl<T> Outcomes<T> {
    /// Lets a request in, and returns its index. Never blocks.
    ///
    /// Unlike a [`Jobs`] the outcomes do not keep themselves open: a crawler that pushes the
    /// links of each page before it asks for the next outcome ends by itself.
    pub fn push(&self, request: impl Into<Request>) -> u64 {
        self.intake.submit(request.into()).0
    }

    /// A handle with which another thread can cancel what is left.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller {
            intake: Arc::downgrade(&self.intake),
        }
    }

    pub(crate) fn intake(&self) -> &Arc<Intake> {
        &self.intake
    }

    fn submitted(&self) -> u64 {
        self.intake.submitted.load(Ordering::SeqCst)
    }

    /// An outcome can be had without waiting.
    fn is_one_ready(&self) -> bool {
        !self.taken.is_empty() || !self.inbox.is_empty()
    }

    /// The next outcome; `None` where something else is to be looked at. Blocks.
    fn receive(&mut self) -> Option<(u64, Result<T, Error>)> {
        if self.taken.is_empty() {
            self.inbox.try_take(&mut self.taken);
        }
        if self.taken.is_empty() {
            self.intake.ticket.may_wait();
            self.inbox.take(&mut self.taken);
        }
        let message = self.taken.pop().expect("it waits until there is one");
        let Message::Outcome {
            index,
            has_run,
            item,
        } = message
        else {
            return None;
        };
        self.received += 1;
        self.owed += usize::from(has_run);
        self.pay_back();
        Some((index, item))
    }

    /// Tokens go back some at a time while there is more to hand out: each time costs the
    /// scheduler's lock.
    fn pay_back(&mut self) {
        if self.owed >= PAID_AT_ONCE || self.taken.is_empty() {
            self.intake.ticket.read(std::mem::take(&mut self.owed));
        }
    }
}

/// How many outcomes that have been handed out still count as unread, at most, less one.
const PAID_AT_ONCE: usize = 8;

impl<T> Iterator for Outcomes<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // In this order: who pushes holds a `Jobs` while he does.
            let open = self.intake.jobs.load(Ordering::SeqCst) > 0;
            if !open && self.received == self.submitted() {
                return None;
            }
            if let Some((_, item)) = self.receive() {
                return Some(item);
            }
        }
    }
}

impl<T> Drop for Outcomes<T> {
    fn drop(&mut self) {
        self.intake.cancel();
    }
}

impl<T> fmt::Debug for Outcomes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcomes")
            .field("received", &self.received)
            .field("submitted", &self.submitted())
            .finish_non_exhaustive()
    }
}

/// Pushes requests, from any thread or from a closure that runs on a worker.
///
/// Cheap to clone. As long as there is one, the [`Outcomes`] stay open.
pub struct Jobs {
    intake: Arc<Intake>,
}

impl Jobs {
    pub(crate) fn new(intake: Arc<Intake>) -> Self {
        intake.jobs.fetch_add(1, Ordering::SeqCst);
        Self { intake }
    }

    /// Lets a request in, and returns its index. Never blocks: what is pushed faster than it
    /// is fetched waits in memory.
    ///
    /// Once the outcomes have been dropped or cancelled it is cancelled at once.
    pub fn push(&self, request: impl Into<Request>) -> u64 {
        self.intake.submit(request.into()).0
    }
}

impl Clone for Jobs {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.intake))
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        if self.intake.jobs.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.intake.feed.more();
        }
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}

/// Cancels a batch from another thread.
///
/// Cheap to clone; does not keep the batch.
#[derive(Clone)]
pub struct Canceller {
    intake: Weak<Intake>,
}

impl Canceller {
    /// Ends what the batch has left: the rest of its input is not read, and what has been read
    /// and is not done comes out as [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    ///
    /// Does nothing where the batch is gone.
    pub fn cancel(&self) {
        if let Some(intake) = self.intake.upgrade() {
            intake.cancel();
        }
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").finish_non_exhaustive()
    }
}
