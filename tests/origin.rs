//! The scripted origin does exactly what it says, and counts exactly what it does. All by bare sockets: no downloader here.

mod support;

#[path = "support/tests/counts.rs"]
mod counts;
#[path = "support/tests/life.rs"]
mod life;
#[path = "support/tests/replies.rs"]
mod replies;
#[path = "support/tests/requests.rs"]
mod requests;
#[path = "support/tests/waits.rs"]
mod waits;
