//! What protects the server: a handle of the crate, built as its users build it.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use toml::Table;
use tower_admission::{Admission, AdmissionBuilder, Clock, Mode, PartitionMode, percent};

use super::{
    law,
    node::{Node, Problems, with},
    queue,
};

/// The time of a simulation. Nobody but the simulation moves it.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    pub fn set(&self, nanos: u64) {
        self.0.store(nanos, Ordering::Relaxed);
    }

    pub fn pass(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A `[policy]` table that was found to be good.
#[derive(Clone, Debug)]
pub struct Policy(Table);

impl Policy {
    /// Reads the policy once, to find what is wrong with it.
    pub fn read(node: &Node<'_>, key: &str) -> Self {
        let policy = Self(node.table(key));
        policy.try_build(&node.path(key), node.problems(), &VirtualClock::default());
        policy
    }

    /// Reads the text of a policy: TOML, the fields of `[policy]` as such or in that table.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table = text.parse::<Table>().map_err(|error| error.to_string())?;
        Self::checked(match table.get("policy") {
            Some(toml::Value::Table(policy)) => policy.clone(),
            _ => table,
        })
    }

    /// Reads the policy of a capture.
    pub fn from_json(policy: &serde_json::Value) -> Result<Self, String> {
        Self::checked(Table::try_from(policy).map_err(|error| format!("policy: {error}"))?)
    }

    pub(crate) fn checked(table: Table) -> Result<Self, String> {
        let (policy, problems) = (Self(table), Problems::default());
        policy.try_build("policy", &problems, &VirtualClock::default());
        problems.check(policy)
    }

    pub(crate) const fn table(&self) -> &Table {
        &self.0
    }

    /// The settings of a handle that has no clock of its own.
    pub fn settings(&self) -> AdmissionBuilder {
        self.read_into("policy", &Problems::default(), Admission::builder()).0
    }

    /// A limit that never moves, and nobody waits.
    pub fn fixed(limit: usize) -> Self {
        let mut law = Table::new();
        law.insert("kind".to_owned(), "fixed".into());
        law.insert("limit".to_owned(), i64::try_from(limit).unwrap_or(i64::MAX).into());
        let mut policy = Table::new();
        policy.insert("law".to_owned(), law.into());
        policy.insert("shed".to_owned(), true.into());
        Self(policy)
    }

    /// A new handle for one run.
    pub fn build(&self, clock: &VirtualClock) -> Admission {
        self.try_build("policy", &Problems::default(), clock).expect("the policy was found to be good when it was read")
    }

    /// Whether there is any limit.
    pub fn has_limit(&self) -> bool {
        self.law() != "none"
    }

    /// Its `[policy.law]`, as `--law` takes it.
    pub fn law(&self) -> String {
        let law = self.0.get("law").and_then(toml::Value::as_table);
        let unset = if self.0.contains_key("patience") { "two-point" } else { "fixed" };
        let Some(law) = law else { return unset.to_owned() };
        let kind = law.get("kind").and_then(toml::Value::as_str).unwrap_or("fixed");
        let field = |(key, value): (&String, &toml::Value)| match value.as_str() {
            Some(text) => format!("{key}={text}"),
            None => format!("{key}={value}"),
        };
        let rest: Vec<_> = law.iter().filter(|(key, _)| *key != "kind").map(field).collect();
        if rest.is_empty() { kind.to_owned() } else { format!("{kind}:{}", rest.join(",")) }
    }

    fn try_build(&self, path: &str, problems: &Problems, clock: &VirtualClock) -> Option<Admission> {
        let empty = Admission::builder().name("simulation").clock(clock.clone());
        let (builder, protects) = self.read_into(path, problems, empty);
        match builder.build() {
            Ok(admission) => {
                if !protects {
                    admission.set_mode(Mode::Off);
                }
                Some(admission)
            }
            Err(error) => {
                for problem in error.problems() {
                    problems.add(&format!("{path}.{}", problem.path()), problem.message());
                }
                None
            }
        }
    }

    /// Answers whether there is any limit, too.
    fn read_into(&self, path: &str, problems: &Problems, mut builder: AdmissionBuilder) -> (AdmissionBuilder, bool) {
        let node = Node::new(path, &self.0, problems);
        let protects = self.has_limit();
        // Without a law, the handle takes the one that it would take anywhere.
        if self.0.contains_key("law") {
            builder = with(builder, law::limit(node.child("law")), AdmissionBuilder::limit);
        }
        builder = queue::read(&node, builder);
        let modes = [
            ("burst", PartitionMode::Burst),
            ("hard_cap", PartitionMode::HardCap),
            ("overcommit", PartitionMode::Overcommit),
        ];
        for partition in node.children("partitions") {
            let name = partition.required("name", partition.text("name")).to_owned();
            let share = percent(partition.required("percent", partition.number("percent", 0.0..=100.0)));
            let mode = partition.one_of("mode", &modes).unwrap_or_default();
            let share = share.with_mode(mode);
            let share = share.lend(partition.number("lend", 0.0..=100.0).unwrap_or(100.0));
            let observes = partition.flag("observe").unwrap_or(false);
            builder = builder.partition(name, if observes { share.observe() } else { share });
            partition.finish();
        }
        let time_one_in = node.count("time_one_in", 1..=64).and_then(|it| NonZeroU32::new(u32::try_from(it).ok()?));
        builder = with(builder, time_one_in, AdmissionBuilder::time_one_in);
        let mode = node.one_of("default_partition_mode", &modes);
        builder = with(builder, mode, AdmissionBuilder::default_partition_mode);
        let observe = node.flag("default_partition_observe");
        builder = with(builder, observe, AdmissionBuilder::default_partition_observe);
        node.finish();
        (builder, protects)
    }
}
