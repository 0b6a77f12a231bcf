//! A file that comes in pieces is divided, found so, and put together.

use std::io;
use std::sync::Arc;

use super::pieces::{self, Divided};
use super::placing::Target;
use super::resource::resource;
use super::{Files, Landed, Part};
use crate::body::Body;
use crate::digest::Check;
use crate::fault::{ErrorKind, Fault};
use crate::http::strong_validator;
use crate::outcome::{Head, Report};
use crate::request::Request;
use crate::sink::Stock;

impl Files {
    /// A part for a body that comes in pieces, with the first of them.
    pub(super) fn divide(&self, body: &mut Body<'_>, target: Target) -> Result<Divided, Fault> {
        let length = body.content_length().expect("its part has told it");
        let etag = strong_validator(body.headers()).expect("its part has one");
        let spans = pieces::spans(length, body.report().request.its_segments());
        let from = resource(body.report());
        let mut part = self.new_part(body)?;
        let stamp = self.stamp(body).map(|stamp| stamp.divided_into(&spans));
        part.begin(stamp, Some(length))?;
        let divided = Divided::new(part, etag.clone(), from, &spans, Arc::clone(&self.full))?;
        let divided = divided.to(target);
        match divided.take(0, body) {
            Ok(true) => Ok(divided),
            Ok(false) => {
                divided.discard();
                let detail = "the part that came is longer than what was asked for";
                Err(Fault::new(ErrorKind::Protocol, detail))
            }
            Err(fault) => {
                divided.leave();
                Err(fault)
            }
        }
    }

    /// Whether what has come in pieces may still be wanted. If not, the server has another by now
    /// perhaps, and is asked: the part stays until there is a body to take its place.
    pub(super) fn is_wanted(&self, part: &Part, request: &Request) -> bool {
        let length = part.beginning().length.expect("it is divided");
        length <= self.limit && Check::length_of(request, length).is_ok()
    }

    pub(super) fn found_divided(&self, part: Part) -> Result<Stock, Fault> {
        let divided = Divided::found(part, Arc::clone(&self.full))?;
        Ok(Stock::Divided(Box::new(divided)))
    }

    /// The pieces turned out to be all there.
    pub(super) fn settle_divided(
        &self,
        divided: Divided,
        head: &Head,
        report: &Report,
        check: Option<Check>,
    ) -> Result<Landed, Fault> {
        let (part, target) = divided.undivided();
        let target = match target {
            Some(target) => target,
            None => {
                let mut nothing = io::empty();
                let body = Body::new(head, report, &mut nothing, self.limit, 0, None);
                let body = body.of_length(Some(part.bytes()));
                let target = self.target(&body);
                if let Some(landed) = self.already(&target, &body)? {
                    part.discard();
                    return Ok(landed);
                }
                target
            }
        };
        let landed = self.settle_part(part, &target, head, report, check)?;
        self.forget_other_parts(report);
        Ok(landed)
    }
}
