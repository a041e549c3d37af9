//! Tokens: what the engine is given, what it hands out, and what rooms tell each other.

mod ask;
mod dry_run;
mod exhausted_rule;
mod flow_tag;
mod holder;
mod lent;
mod marks;
mod request;
mod shared_rules;
mod slot;
mod store_state;
mod waiter;

pub use self::{
    ask::{Ask, Subject},
    dry_run::DryRunOutcome,
    lent::{Borrower, RequestSample, Settled},
    shared_rules::{Counted, SharedBound, SharedRules},
    slot::{Arrival, Place, Refusal, Slot},
    store_state::{StoreChange, StoreState},
};
pub(crate) use self::{
    exhausted_rule::{ExhaustedRule, InForce, Need},
    flow_tag::{FlowTag, NEVER_SERVED, STRIDE, one_turn},
    holder::Holder,
    marks::Marks,
    request::RequestRef,
    shared_rules::SharedRule,
    waiter::{Claim, Spot, Stage, Waiter},
};
