//! The counts and gauges of a moment, for a history.

use std::sync::Arc;

use crate::{Engine, Histogram, Timestamp, telemetry::SampledCounts};

/// Counts since the handle was made, and gauges, of one moment.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct HistorySample {
    pub at: Timestamp,
    pub limit: usize,
    pub in_flight: usize,
    pub waiting: usize,
    /// Reloads of the settings.
    pub reloads: u64,
    /// All partitions, also those that are gone, in the order of their numbers.
    pub partitions: Vec<Sampled>,
    /// The labels that are followed.
    pub labels: Vec<Sampled>,
    /// The classes of work that are told apart: only what was timed of them.
    pub classes: Vec<Sampled>,
}

/// A partition or a label.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    pub name: SampledName,
    /// Tells its counts from those of another label.
    pub serial: u64,
    /// Slots that it is guaranteed.
    pub share: usize,
    pub in_flight: usize,
    pub waiting: usize,
    pub counts: SampledCounts,
}

/// The name of a partition or of a label.
#[doc(hidden)]
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SampledName {
    /// Class of work; empty for a partition, and for all classes that have no rules of their own.
    pub class: String,
    pub namespace: String,
    pub name: String,
    /// Whether this is the entry that labels share for which there is no room.
    pub overflow: bool,
}

impl Engine {
    /// Returns what a history notes of this moment.
    pub fn sample(&self) -> HistorySample {
        let partitions = self.capacity.partitions().map(|(number, it)| Sampled {
            name: SampledName { name: it.plan.name.to_string(), ..SampledName::default() },
            serial: number.number().into(),
            share: it.share,
            in_flight: it.running,
            waiting: self.queue.lengths_of(number).all(),
            counts: self.telemetry.sample_partition(number),
        });
        let labels = self.telemetry.followed().map(|(followed, counts)| {
            let label = self.quotas.label(followed.it.label);
            Sampled {
                name: SampledName {
                    class: label.class_name.to_owned(),
                    namespace: label.namespace.to_owned(),
                    name: label.name.to_owned(),
                    overflow: label.is_overflow,
                },
                serial: followed.serial,
                share: 0,
                in_flight: label.running,
                waiting: label.waiting,
                counts,
            }
        });
        let classes = self.controller.times_by_class().map(|(name, class, times)| Sampled {
            name: SampledName { class: name.to_owned(), ..SampledName::default() },
            serial: class.index() as u64,
            counts: SampledCounts {
                admitted: times.count(),
                times: Arc::new([times, Histogram::default()]),
                ..SampledCounts::default()
            },
            ..Sampled::default()
        });
        HistorySample {
            at: self.now,
            limit: self.capacity.limit(),
            in_flight: self.capacity.running(),
            waiting: self.queue.lengths().all(),
            reloads: self.telemetry.reloads(),
            partitions: partitions.collect(),
            labels: labels.collect(),
            classes: classes.collect(),
        }
    }
}
