//! The server that is protected: a pool of workers with a queue, or one that all requests share.
//!
//! All are one thing: a clock of *virtual work* that all requests in service see alike, and a heap of the readings at
//! which they are done. In a pool the clock runs at the speed of a worker, and a request that finds none waits in a queue. The
//! others take each request. On a shared server the clock runs at `speed / (1 + (n / knee)²)` with `n` in service, which is
//! greatest in total at `n = knee`; one that shares its processors among all has `speed / (n / workers)` once there are more
//! requests than workers, and loses nothing by more. A change of `n` or of the speed changes how fast the clock runs and touches no
//! request, so nothing here costs more than the logarithm of `n`.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashSet, VecDeque},
};

use super::{node::Node, timeline::Moment};

#[derive(Clone, Debug)]
pub struct ServerSpec {
    model: Model,
    /// Workers, or the knee of a shared server.
    slots: f64,
    pub abandoned: Abandoned,
}

/// What requests in service do to each other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Model {
    #[default]
    Pool,
    Shared,
    ProcessorSharing,
}

impl Model {
    /// By how much each of the requests in service is slowed down.
    fn slowdown(self, running: f64, slots: f64) -> f64 {
        match self {
            Self::Pool => 1.0,
            Self::Shared => 1.0 + (running / slots).powi(2),
            Self::ProcessorSharing => (running / slots).max(1.0),
        }
    }
}

/// What becomes of a request that runs when its client leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Abandoned {
    /// The server doesn't notice: the work goes on, and keeps its slot.
    Held,
    /// The work goes on behind the back of the handle, which gets the slot back.
    RunsOn,
    /// The same, and the handle is told so: it keeps the slot for as long as such work is likely to need.
    GoesOn,
    /// The work stops.
    Stops,
}

pub const ABANDONED: [(&str, Abandoned); 4] = [
    ("held", Abandoned::Held),
    ("runs-on", Abandoned::RunsOn),
    ("goes-on", Abandoned::GoesOn),
    ("stops", Abandoned::Stops),
];

impl ServerSpec {
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    pub fn read(node: Node<'_>) -> Self {
        let models = [("pool", Model::Pool), ("shared", Model::Shared), ("processor-sharing", Model::ProcessorSharing)];
        let model = node.required("model", node.one_of("model", &models));
        let slots = if model == Model::Shared {
            node.required("knee", node.number("knee", 1.0..=1e6))
        } else {
            node.required("workers", node.count("workers", 1..=1_000_000)).max(1) as f64
        };
        let abandoned = node.one_of("abandoned", &ABANDONED).unwrap_or(Abandoned::RunsOn);
        node.finish();
        Self { model, slots, abandoned }
    }

    /// How many requests it can finish in a nanosecond at best, when each is `work` on average.
    pub fn capacity(&self, work: f64, moment: &Moment) -> f64 {
        let slots = self.slots(moment);
        let at_best = if self.model == Model::Shared { slots / 2.0 } else { slots };
        at_best * moment.capacity / work
    }

    /// By how much one request alone is slowed down.
    pub fn alone(&self, moment: &Moment) -> f64 {
        self.model.slowdown(1.0, self.slots(moment)) / moment.capacity
    }

    fn slots(&self, moment: &Moment) -> f64 {
        let slots = self.slots * moment.workers;
        if self.model == Model::Shared { slots } else { slots.round().max(1.0) }
    }
}

/// Numbers the requests in the order in which they came, never twice.
pub type Job = u64;

/// A reading of the virtual clock at which a request is done; the number breaks ties.
#[derive(Debug)]
struct Due(f64, Job, u32);

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

#[derive(Debug)]
pub struct Server {
    spec: ServerSpec,
    speed: f64,
    slots: f64,
    /// The virtual clock, when it was last read, and how fast it runs.
    virtual_now: f64,
    real_now: u64,
    rate: f64,
    in_service: BinaryHeap<Reverse<Due>>,
    queue: VecDeque<(Job, u32, f64)>,
    /// Requests that were stopped and are still in the heap or in the queue.
    stopped: HashSet<Job>,
    stopped_in_service: usize,
    jobs: Job,
}

impl Server {
    pub fn new(spec: ServerSpec, moment: &Moment) -> Self {
        let mut server = Self {
            spec,
            speed: 1.0,
            slots: 1.0,
            virtual_now: 0.0,
            real_now: 0,
            rate: 1.0,
            in_service: BinaryHeap::new(),
            queue: VecDeque::new(),
            stopped: HashSet::new(),
            stopped_in_service: 0,
            jobs: 0,
        };
        server.change(0, moment);
        server
    }

    /// How many are in it, those in its queue included.
    pub fn len(&self) -> usize {
        self.in_service.len() + self.queue.len() - self.stopped.len()
    }

    #[expect(clippy::cast_precision_loss, reason = "pieces of less than a hundred days")]
    fn advance(&mut self, now: u64) {
        self.virtual_now += (now - self.real_now) as f64 * self.rate;
        self.real_now = now;
    }

    /// Sets the pace anew after the number of those in service, or the moment, has changed.
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn pace(&mut self) {
        let running = (self.in_service.len() - self.stopped_in_service) as f64;
        self.rate = self.speed / self.spec.model.slowdown(running, self.slots);
        if self.in_service.is_empty() {
            self.virtual_now = 0.0;
        }
    }

    pub fn change(&mut self, now: u64, moment: &Moment) {
        self.advance(now);
        self.speed = moment.capacity;
        self.slots = self.spec.slots(moment);
        self.fill();
    }

    pub fn start(&mut self, now: u64, id: u32, work: f64) -> Job {
        self.advance(now);
        self.jobs += 1;
        self.queue.push_back((self.jobs, id, work));
        self.fill();
        self.jobs
    }

    /// Starts the work of requests in the queue as long as there are workers.
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn fill(&mut self) {
        while let Some(&(job, id, work)) = self.queue.front() {
            let busy = (self.in_service.len() - self.stopped_in_service) as f64;
            if self.spec.model == Model::Pool && busy >= self.slots {
                break;
            }
            self.queue.pop_front();
            if !self.stopped.remove(&job) {
                self.in_service.push(Reverse(Due(self.virtual_now + work, job, id)));
            }
        }
        self.pace();
    }

    /// When the next request is done, if nothing changes before.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded up, and saturates")]
    pub fn next_done(&mut self) -> Option<u64> {
        while let Some(Reverse(Due(_, job, _))) = self.in_service.peek()
            && !self.stopped.is_empty()
            && self.stopped.remove(job)
        {
            self.in_service.pop();
            self.stopped_in_service -= 1;
        }
        let Reverse(Due(due, ..)) = self.in_service.peek()?;
        let left = (due - self.virtual_now).max(0.0) / self.rate;
        Some(self.real_now.saturating_add(left.ceil() as u64))
    }

    /// Takes out the request that [`next_done`](Self::next_done) spoke of.
    pub fn finish(&mut self, now: u64) -> Option<u32> {
        self.advance(now);
        let Reverse(Due(due, _, id)) = self.in_service.pop()?;
        self.virtual_now = self.virtual_now.max(due);
        self.fill();
        Some(id)
    }

    /// Stops a request that is in service or in the queue.
    pub fn stop(&mut self, now: u64, job: Job) {
        self.advance(now);
        self.stopped.insert(job);
        // They enter service in the order of their numbers.
        if self.queue.front().is_none_or(|&(first, ..)| job < first) {
            self.stopped_in_service += 1;
        }
        self.fill();
    }
}
