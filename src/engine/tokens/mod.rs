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

pub(crate) use self::{
    ask::{Ask, Subject},
    dry_run::DryRunOutcome,
    exhausted_rule::{ExhaustedRule, InForce, Need},
    flow_tag::{FlowTag, STRIDE, one_turn},
    holder::Holder,
    lent::{RequestSample, Settled},
    marks::Marks,
    request::RequestRef,
    shared_rules::{Counted, SharedBound, SharedRule, SharedRules},
    slot::*,
    store_state::{StoreChange, StoreState},
    waiter::{Claim, Spot, Stage, Waiter},
};
