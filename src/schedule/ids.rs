//! What the entries of the tables are called.

use super::slab::Id;

pub(super) enum JobKind {}
pub(super) enum LaneKind {}
pub(super) enum BudgetKind {}
#[derive(Debug)]
pub(crate) enum BatchKind {}

pub(super) type JobId = Id<JobKind>;
pub(super) type LaneId = Id<LaneKind>;
pub(super) type BudgetId = Id<BudgetKind>;
pub(super) type BatchId = Id<BatchKind>;
