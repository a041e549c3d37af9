//! Who sends requests, and how each of them introduces itself.

use std::path::Path;

use tower_admission::{Criticality, Ticket};

use super::{
    arrivals::Arrivals,
    node::{Node, with},
};

#[derive(Clone, Debug)]
pub struct Tenant {
    pub name: String,
    /// The name that the file gives it: that of all tenants that were declared at once.
    pub group: String,
    partition: String,
    label: Option<String>,
    namespace: Option<String>,
    run: Option<String>,
    criticality: Criticality,
    pub arrivals: Arrivals,
}

impl Tenant {
    /// What each of its requests brings along.
    pub fn ticket(&self) -> Ticket<'_> {
        let ticket = Ticket::new().partition(self.partition.as_str()).criticality(self.criticality);
        let ticket = with(ticket, self.label.as_deref(), Ticket::label);
        let ticket = with(ticket, self.namespace.as_deref(), Ticket::namespace);
        with(ticket, self.run.as_deref(), Ticket::run)
    }

    pub fn go_anonymous(&mut self) {
        (self.label, self.criticality) = (None, Criticality::default());
    }
}

/// Reads `[arrivals]`, or `[[tenants]]` with arrivals of their own.
pub fn read(node: &Node<'_>, folder: &Path) -> Vec<Tenant> {
    let tenants: Vec<_> = node.children("tenants");
    if node.has("arrivals") != tenants.is_empty() {
        node.problem("arrivals", "allowed is either [arrivals] or [[tenants]] with arrivals of their own");
    }
    if tenants.is_empty() {
        let arrivals = Arrivals::read(node.child("arrivals"), folder);
        let (name, group, partition) = ("all".to_owned(), "all".to_owned(), "all".to_owned());
        let criticality = Criticality::default();
        return vec![Tenant { name, group, partition, label: None, namespace: None, run: None, criticality, arrivals }];
    }
    tenants.into_iter().flat_map(|tenant| read_alike(tenant, folder)).collect()
}

/// One tenant, or as many alike as it says.
fn read_alike(node: Node<'_>, folder: &Path) -> Vec<Tenant> {
    let name = node.required("name", node.text("name")).to_owned();
    let own = |key| node.text(key).map(str::to_owned);
    let words = Criticality::ALL.map(|it| (it.as_str(), it));
    let tenant = Tenant {
        group: name.clone(),
        partition: own("partition").unwrap_or_else(|| name.clone()),
        label: own("label"),
        namespace: own("namespace"),
        run: own("run"),
        criticality: node.one_of("criticality", &words).unwrap_or_default(),
        arrivals: Arrivals::read(node.child("arrivals"), folder),
        name,
    };
    let count = node.count("count", 1..=100_000);
    node.finish();
    let Some(count) = count else { return vec![tenant] };
    let numbered = |number| Tenant {
        name: format!("{}-{number}", tenant.name),
        label: tenant.label.as_ref().map(|label| format!("{label}-{number}")),
        ..tenant.clone()
    };
    (0..count).map(numbered).collect()
}
