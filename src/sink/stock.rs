//! What a sink has of a body before it is asked for, and what the answer makes of that.

use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};

use super::files::{Divided, FIRST, Part, Standing};
use crate::http::{Beginning, ask_for_first, length_with_first};
use crate::outcome::Head;

/// What a sink has before it asks.
#[derive(Debug)]
pub(crate) enum Stock {
    Nothing,
    /// The beginning of the body, if it is still the same.
    Begun(Box<Part>),
    /// Some of the pieces of a body, or all of them.
    Divided(Box<Divided>),
    /// A file that may be what would come.
    Standing(Standing),
    /// Nothing, or such a file; a large one is to come in pieces.
    First(Option<Standing>),
    /// A file that does, whatever the server has: it is not asked.
    Settled(Standing),
}

/// What the sink has of a body whose rest it is given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) bytes: u64,
    /// Of the whole, if a part that the sink has asked for has told it.
    pub(crate) length: Option<u64>,
}

/// What came, seen from there.
#[derive(Debug)]
pub(crate) enum Came {
    /// What the caller asked for: the whole, as a rule.
    Whole,
    /// What belongs behind what there is; behind nothing, the whole.
    Rest(Kept),
    /// The first part of a body of this length.
    First(u64),
    /// The news that what there is is all.
    NothingNew,
    /// Nothing that can be put to use, but another request would bring the whole.
    Useless,
}

impl Stock {
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self, Self::Settled(_))
    }

    /// How much it has of a body that is not whole.
    pub(crate) fn begun(&self) -> Option<u64> {
        match self {
            Self::Begun(part) => Some(part.beginning().bytes),
            Self::Divided(divided) => Some(divided.had()),
            _ => None,
        }
    }

    /// Has the request ask for no more than is missing.
    pub(crate) fn ask(&self, headers: &mut HeaderMap) {
        match self {
            // Each piece asks for itself.
            Self::Nothing | Self::Settled(_) | Self::Divided(_) => {}
            Self::Begun(part) => match part.beginning() {
                // Nothing is behind it; whether it is still the same is the question.
                beginning if is_all(&beginning) => {
                    headers.insert(IF_NONE_MATCH, beginning.etag.clone());
                }
                beginning => beginning.ask_for_rest(headers),
            },
            Self::Standing(file) => file.ask(headers),
            Self::First(file) => {
                if let Some(file) = file {
                    file.ask(headers);
                }
                ask_for_first(FIRST, headers);
            }
        }
    }

    /// Adds to the answer what it need not say again, as it brings the rest or the news that there is none.
    pub(crate) fn complete(&self, headers: &mut HeaderMap) {
        if let Self::Begun(part) = self {
            part.complete(headers);
        }
    }

    pub(crate) fn judge(&self, head: &Head) -> Came {
        match self {
            Self::Nothing | Self::Settled(_) | Self::Divided(_) => Came::Whole,
            Self::Begun(part) => judge_rest(&part.beginning(), head),
            Self::Standing(file) | Self::First(Some(file))
                if head.status == StatusCode::NOT_MODIFIED =>
            {
                match file.is_same_by(&head.headers) {
                    true => Came::NothingNew,
                    false => Came::Useless,
                }
            }
            Self::Standing(_) => Came::Whole,
            Self::First(_) => judge_first(head),
        }
    }
}

fn judge_first(head: &Head) -> Came {
    match head.status {
        StatusCode::PARTIAL_CONTENT => match length_with_first(FIRST, head) {
            Some(length) if length > FIRST => Came::First(length),
            Some(length) => Came::Rest(Kept {
                bytes: 0,
                length: Some(length),
            }),
            None => Came::Useless,
        },
        // Of an empty one there is no part.
        StatusCode::RANGE_NOT_SATISFIABLE => Came::Useless,
        status if may_mean_the_range(status) => Came::Useless,
        _ => Came::Whole,
    }
}

/// A server, or what stands before it, that takes no ranges may say it in one of these ways, and give the
/// whole to who asks for that.
fn may_mean_the_range(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::FORBIDDEN
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::PRECONDITION_FAILED
            | StatusCode::NOT_IMPLEMENTED
    )
}

/// As long as the whole is known to be.
fn is_all(beginning: &Beginning<'_>) -> bool {
    beginning.length == Some(beginning.bytes)
}

fn judge_rest(beginning: &Beginning<'_>, head: &Head) -> Came {
    match head.status {
        StatusCode::PARTIAL_CONTENT => match beginning.length_with(head) {
            Some(length) => Came::Rest(Kept {
                bytes: beginning.bytes,
                length: Some(length),
            }),
            None => Came::Useless,
        },
        StatusCode::NOT_MODIFIED if is_all(beginning) && beginning.is_named_by(&head.headers) => {
            Came::NothingNew
        }
        StatusCode::NOT_MODIFIED => Came::Useless,
        StatusCode::RANGE_NOT_SATISFIABLE if beginning.is_all_by(head) => Came::NothingNew,
        StatusCode::RANGE_NOT_SATISFIABLE => Came::Useless,
        status if may_mean_the_range(status) => Came::Useless,
        _ => Came::Whole,
    }
}

/// A request that says itself what part, or under what condition, gets what it asks for.
pub(super) fn has_conditions(headers: Option<&HeaderMap>) -> bool {
    use http::header::{IF_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
    let ours = [RANGE, IF_RANGE, IF_NONE_MATCH, IF_MODIFIED_SINCE];
    let theirs = [IF_MATCH, IF_UNMODIFIED_SINCE];
    headers.is_some_and(|headers| {
        let mut names = ours.iter().chain(&theirs);
        names.any(|name| headers.contains_key(name))
    })
}
