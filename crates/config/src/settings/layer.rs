//! The settings of a layer.

#[cfg(feature = "files")]
use std::collections::BTreeMap;
use std::{num::NonZeroU32, time::Duration};

#[cfg(feature = "files")]
use super::{ClassLimits, share::Share, store::StoreConfig};
use super::{auto::Derived, labels::Labels};
use crate::declare::settings;
#[cfg(feature = "files")]
use crate::schema::{LabelOverride, LimitConfig};
use tower_admission_engine::plan::{Discipline, JOURNAL, Mode, PartitionMode};

/// Memory that the rows of a rolling capture may take, unless set.
pub const CAPTURE_BYTES: usize = 32 << 20;

/// Declares the settings of a layer to a macro: [`settings`] makes a struct of them, and [`setters`] the methods of the
/// builder. A setting without a setter has another shape in code than in files: the builder has methods of its own for
/// it.
///
/// It is a macro because the builder stands above this module, and has to be told from here.
#[doc(hidden)]
#[macro_export]
macro_rules! layer_settings {
    ($macro:ident! { $($head:tt)+ }) => {
        $macro! {
            $($head)+ {
                /// The name of the handle in metrics and snapshots; a number unless set.
                ///
                /// It is `admission`, `admission-2` and so on then. Handles that share a name overwrite each other's
                /// metrics.
                pub name: String = String::new() => |name: impl Into<String>| name.into(),
                /// Whether decisions are enforced.
                ///
                /// [`Mode::Enforce`](tower_admission_engine::plan::Mode::Enforce) unless set. This is how the handle begins: it can be
                /// [changed](https://docs.rs/tower-admission/latest/tower_admission/struct.Admission.html#method.set_mode) later.
                pub mode: Mode = Mode::default() => |mode: Mode| mode,
                /// How long callers wait for an answer, if known: the one setting to begin with.
                ///
                /// What is not set follows from it. Requests without a deadline have this one, and answers after it count as
                /// waste. A [queue](Self::queue) of 10,000 is
                /// bounded by time: a request waits for at most four fifths of the patience ([`max_wait`](Self::max_wait)),
                /// and in an [overload that lasts](tower_admission_engine::plan::Discipline::BurstCredit) for a fortieth. A gate before that queue
                /// would add nothing, so its [timeout](Self::admission_timeout) is 0. In files, the threshold of a law
                /// `aimd` is half of the patience.
                ///
                /// Unless set, nothing is known of the callers, and waits are short.
                pub patience: Option<Duration> = None => |patience: Duration| Some(patience),
                /// How many requests may run at once: a number, or a law that learns it; `two_point` unless set.
                #[cfg(feature = "files")]
                pub limit: LimitConfig = LimitConfig::default(),
                /// A law that only observes (dry run), beside the law that decides.
                #[cfg(feature = "files")]
                pub shadow_law: Option<LimitConfig> = None,
                /// How many requests may wait in line for a slot.
                ///
                /// 0 unless set, or 10,000 where the [patience](Self::patience) is known. With a queue, admission has two
                /// phases. A gate lets `limit + queue` requests in;
                /// requests that find it full wait there for at most the [admission timeout](Self::admission_timeout).
                /// A request inside waits for a slot, first come first served, for as long as the caller's deadline
                /// and [`max_wait`](Self::max_wait) allow.
                ///
                /// Without a queue, a request that finds no slot waits for at most the
                /// [wait timeout](Self::wait_timeout).
                pub queue: Derived<usize> = Derived::Auto => |places: usize| Derived::Set(places),
                /// The maximum wait at the full gate. Only with a queue.
                ///
                /// 5 s unless set; 0 where the [patience](Self::patience) or [`max_wait`](Self::max_wait) is set, unless
                /// [`max_waiting`](Self::max_waiting) asks for a gate. 0 rejects at once. Keep it short. Where every slot and
                /// every place is taken for minutes, waiting longer only delays the answer.
                pub admission_timeout: Derived<Duration> = Derived::Auto => |timeout: Duration| Derived::Set(timeout),
                /// The maximum wait for a slot, at the gate and in line together; no bound unless set. Only with a queue.
                ///
                /// Four fifths of the [patience](Self::patience) where that is known. `queue(n).max_wait(t)` is n places
                /// and t.
                ///
                /// Set it wherever callers don't send a deadline and don't wait for ever. A queue that holds more work
                /// than its callers have patience for serves no caller after a spike, because each slot goes to a
                /// caller that has just left. Less than the callers' patience minus the time that a request takes is a
                /// good value. It also bounds how long a vanished HTTP/1 client can hold a place; see the guarantees
                /// page.
                pub max_wait: Derived<Option<Duration>> = Derived::Auto => |wait: Duration| Derived::Set(Some(wait)),
                /// The maximum wait for a slot where there is no queue; half a second unless set.
                ///
                /// Four fifths of the [patience](Self::patience) where that is known. 0 rejects at once.
                pub wait_timeout: Derived<Duration> = Derived::Auto => |timeout: Duration| Derived::Set(timeout),
                /// How many requests may wait at the full gate or, without a queue, for a slot.
                ///
                /// Unless set, as many as the current limit; beside a law that learns it at least 1,000, or as many as the law may
                /// let run where that is less. All further requests are rejected at once.
                pub max_waiting: Option<usize> = None => |requests: usize| Some(requests),
                /// The percentage of the limit that is guaranteed to a group of callers, by the name of the group.
                #[cfg(feature = "files")]
                pub partitions: BTreeMap<String, Share> = BTreeMap::new(),
                /// What the default partition may do beyond its share.
                ///
                /// [`PartitionMode::Burst`](tower_admission_engine::plan::PartitionMode::Burst) unless set.
                pub default_partition_mode: PartitionMode = PartitionMode::default() => |mode: PartitionMode| mode,
                /// Whether the default partition only observes (dry run): its decisions are counted, not enforced.
                ///
                /// Not so unless set; [`Share::observe`](crate::Share::observe) is the same for other partitions. So
                /// known callers may be held to their shares while the other callers are not known yet, or the other
                /// way round.
                pub default_partition_observe: bool = false => |observe: bool| observe,
                /// Which waiter goes first.
                ///
                /// [`Discipline::Fair`](tower_admission_engine::plan::Discipline::Fair) unless set. Where the [patience](Self::patience) is known it is
                /// [`Discipline::BurstCredit`](tower_admission_engine::plan::Discipline::BurstCredit).
                pub discipline: Derived<Discipline> = Derived::Auto
                    => |discipline: Discipline| Derived::Set(discipline),
                /// How often less important requests are passed over before it is their turn; `"none"` is no bound.
                ///
                /// 16 times unless set. In code, `None` lets less [important](tower_admission_engine::Criticality) requests wait for as
                /// long as more important ones come.
                pub aging: Option<NonZeroU32> = NonZeroU32::new(16)
                    => |turns: impl Into<Option<NonZeroU32>>| turns.into(),
                /// The time after which a permit gives its slot back; no bound unless set.
                ///
                /// When its time is over, its slot is taken back and other requests may run, whether its holder has
                /// noticed or not. The holder [is told](https://docs.rs/tower-admission/latest/tower_admission/struct.Permit.html#method.expired), and counted (`Snapshot::expired_slots`). This is a
                /// remedy for holders that hang: the work itself goes on, so the server may then do more at once than
                /// the limit says.
                pub permit_time_to_live: Option<Duration> = None => |time: Duration| Some(time),
                /// The settings of labels.
                ///
                /// What holds for requests with a label: bounds, caps, weights.
                pub labels: Labels = Labels::new() => |labels: Labels| labels,
                /// Caps, rates and budgets by class of work; `*` is for requests whose class has no rules.
                #[cfg(feature = "files")]
                pub classes: BTreeMap<String, ClassLimits> = BTreeMap::new(),
                /// The same for some labels, by key (`namespace:label`, `namespace:*`, `label`, `*`) and class.
                #[cfg(feature = "files")]
                pub overrides: BTreeMap<String, BTreeMap<String, ClassLimits>> = BTreeMap::new(),
                /// The same for labels whose name has a colon.
                #[cfg(feature = "files")]
                pub label_overrides: Vec<LabelOverride> = Vec::new(),
                /// Where caps, rates and budgets are counted for all instances.
                #[cfg(feature = "files")]
                pub store: StoreConfig = StoreConfig::default(),
                /// How long the handle admits requests after it was told to leave.
                ///
                /// 0 unless set: [`leave`](https://docs.rs/tower-admission/latest/tower_admission/struct.Admission.html#method.leave) then drains at once. Behind a load balancer, as long as that
                /// takes to notice that an instance is not ready, and as long again: see
                /// [Kubernetes](https://docs.rs/tower-admission/latest/tower_admission/docs/kubernetes/index.html).
                pub drain_after: Duration = Duration::ZERO => |time: Duration| time,
                /// How many streams, or requests, the server accepts at once, if known. Used for warnings only.
                ///
                /// That is the streams of an HTTP/2 connection, or the calls of a gRPC server. A server that admits
                /// less than the limit and the queue hold gets a warning.
                pub max_concurrent_streams: Option<usize> = None => |streams: usize| Some(streams),
                /// One in how many requests is timed while no request waits and the limit does not bind, rounded up to a
                /// power of two.
                ///
                /// To read the clock twice costs more than all else that a request needs then. Unless set, the law says how
                /// many it needs. A limit that is fixed needs one in eight, and so does a law behind a window once the window
                /// has 128 samples and no overload, and `TwoPoint` for half a second after a lull of a thousand requests per
                /// second or more. Other laws need each request. `1` times each request; a larger number is one that `Aimd` and
                /// a fixed limit do with, and other laws as far as they need no more. A timed request stands for the others in the mean of
                /// the window and in all distributions of round-trip times. As soon as the limit binds, each request is timed.
                pub time_one_in: Option<NonZeroU32> = None => |requests: NonZeroU32| Some(requests),
                /// How many decisions about requests, and how many changes of the handle, the journal keeps; 0 for
                /// none.
                ///
                /// 512 unless set. [`Admission::journal`](https://docs.rs/tower-admission/latest/tower_admission/struct.Admission.html#method.journal) shows them. Each takes 48 bytes,
                /// which are taken at once.
                pub journal: usize = JOURNAL => |entries: usize| entries,
                /// For how long back a capture of all requests is kept in memory; 0 for none. Unless set, the first minute in
                /// which the handle is not `fine` is kept, of ten minutes.
                ///
                /// `admission capture --last 5m` fetches it after the fact, and `admission simulate --replay` says what
                /// would have become of the requests under other settings: see
                /// [introspection](https://docs.rs/tower-admission/latest/tower_admission/docs/introspection/index.html#rolling-captures). While it runs, each request takes a
                /// turn: none takes the quiet path. Needs the feature `capture`.
                pub capture_last: Option<Duration> = None => |time: Duration| Some(time),
                /// How much memory that capture may take, in bytes.
                ///
                /// 32 MiB unless set: about four million rejections, or 1.5 million requests that run. With more, it
                /// remembers less than [`capture_last`](Self::capture_last).
                pub capture_max_bytes: usize = CAPTURE_BYTES => |bytes: usize| bytes,
            }
        }
    };
}

layer_settings! {
    settings! {
        /// All settings of a handle, as data.
        ///
        /// Fields have the same names in files; the page [configuration](https://docs.rs/tower-admission/latest/tower_admission/docs/configuration/index.html) shows them all.
        /// Types alone don't make the values valid: [`check`](Self::check) finds what else is wrong, and so does
        /// building a handle.
        ///
        /// ```
        /// use tower_admission::{AdmissionBuilder, configuration::AdmissionConfig};
        ///
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// let config = AdmissionConfig::from_toml(r#"
        ///     limit = 200
        ///     queue = 3600
        ///     [partitions]
        ///     checkout = "60%"
        /// "#)?;
        /// let admission = AdmissionBuilder::from(config).build()?;
        /// # Ok(())
        /// # }
        /// ```
        pub struct AdmissionConfig
    }
}
