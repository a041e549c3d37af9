//! Deliberate mistakes: small changes of the shipped files, and what has to be exchanged besides paths.

/// A mistake, in the copy that all models run; made while a model asks for it.
pub struct Mistake {
    pub name: &'static str,
    pub file: &'static str,
    /// What stands in the shipped file, once each, and what stands there instead. `MADE` asks whether it is made.
    pub edits: &'static [(&'static str, &'static str)],
}

pub const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "registers_its_waker_in_a_second_turn",
        file: "runtime/admit/entry.rs",
        edits: &[
            ("if let Arrival::Wait(place) = &arrival\n", "if !MADE && let Arrival::Wait(place) = &arrival\n"),
            (
                "            Arrived::Wait(place) => Self::Wait(",
                "            Arrived::Wait(place) if MADE && cx.is_some() => {
                    let waker = cx.map(|cx| cx.waker().clone());
                    discard(waker.and_then(|it| shared.with_engine(|state, _| state.wakers.waiters.register(place.key().index, it))));
                    Self::Wait(Waiting::new(handle.clone(), place, ticket.remaining(), true))
                }
            Arrived::Wait(place) => Self::Wait(",
            ),
        ],
    },
    Mistake {
        name: "leaves_its_place_behind",
        file: "runtime/admit/waiting.rs",
        edits: &[("state.cancel(time.now(), &place);", "if !MADE { state.cancel(time.now(), &place); }")],
    },
    Mistake {
        name: "keeps_a_waker_that_is_old",
        file: "runtime/core/wakers.rs",
        edits: &[(
            "Some(known) if known.will_wake(&waker) => Some(waker),",
            "Some(known) if MADE || known.will_wake(&waker) => Some(waker),",
        )],
    },
    Mistake {
        name: "decides_without_a_look_at_the_lanes",
        file: "runtime/core/turn.rs",
        edits: &[(
            "        state.recall(self.lanes);\n        state.open_row();",
            "        if !MADE { state.recall(self.lanes); }\n        state.open_row();",
        )],
    },
    Mistake {
        name: "tells_no_request_to_drain",
        file: "runtime/core/turn.rs",
        edits: &[(
            "let is_more = state.engine.has_notices() || state.engine.is_drained();",
            "let is_more = state.engine.has_notices() || (!MADE && state.engine.is_drained());",
        )],
    },
    Mistake {
        name: "gives_a_slot_back_twice",
        file: "runtime/admit/guard.rs",
        edits: &[(
            "std::mem::forget(std::mem::replace(&mut self.source, SlotSource::Nothing));\n            }",
            "if !MADE { std::mem::forget(std::mem::replace(&mut self.source, SlotSource::Nothing)); }\n            }",
        )],
    },
    Mistake {
        name: "leaves_its_slot_on_no_shelf",
        file: "runtime/admit/guard.rs",
        edits: &[(
            ".filter(|shelf| Arc::strong_count(shelf) > 1)",
            ".filter(|shelf| !MADE && Arc::strong_count(shelf) > 1)",
        )],
    },
    Mistake {
        name: "rings_for_drivers_that_listen_only",
        file: "runtime/core/drivers.rs",
        edits: &[(
            "                seat.look.notify_one();\n                has_notified = true;",
            "                if MADE { seat.look.notify_waiters() } else { seat.look.notify_one() }\n                has_notified = true;",
        )],
    },
    Mistake {
        name: "ends_and_wakes_no_waiter",
        file: "runtime/background/driver.rs",
        edits: &[(
            "wakers.into_iter().for_each(wake);",
            "wakers.into_iter().for_each(|it| if MADE { drop(it) } else { wake(it) });",
        )],
    },
    Mistake {
        name: "lets_a_driver_lead_that_has_ended",
        file: "runtime/background/driver.rs",
        edits: &[("state.schedule.forget(number);", "if !MADE { state.schedule.forget(number); }")],
    },
    Mistake {
        name: "moves_in_while_a_request_is_there",
        file: "runtime/shared/lane_arena.rs",
        edits: &[("&& arena.lanes.are_idle();", "&& (MADE || arena.lanes.are_idle());")],
    },
    Mistake {
        name: "uses_what_it_returns",
        file: "store/leases/allotment.rs",
        edits: &[("self.units = self.units.min(want);", "if !MADE { self.units = self.units.min(want); }")],
    },
    Mistake {
        name: "takes_an_older_answer",
        file: "store/leases/allotment.rs",
        edits: &[("if share.sequence != request.sequence {", "if !MADE && share.sequence != request.sequence {")],
    },
    Mistake {
        name: "looks_and_takes_in_two_steps",
        file: "store/leases/taking.rs",
        edits: &[(
            "let (mut shares, now) = (self.0.shares(), Instant::now());\n                match",
            "if MADE && self.0.shares().missing(claims.as_slice(), Instant::now()).is_empty() {
                    let units = self.0.shares().take_unseen(claims.as_slice());
                    return Ok(LeaseGuard::new(&self.0, What::Units(units)));
                }
                let (mut shares, now) = (self.0.shares(), Instant::now());\n                match",
        )],
    },
    Mistake {
        name: "blames_the_server_for_old_failures",
        file: "store/redis/breaker.rs",
        edits: &[("if answers != self.answers {", "if !MADE && answers != self.answers {")],
    },
];

/// File, what stands there after the exchange of paths, and what is put there.
///
/// Statics are exchanged: the locks of an explorer live as long as one execution. Numbers that tell handles apart, and
/// that decide nothing, stay with the atomics of `std`.
pub const EXCHANGES: &[(&str, &str, &str)] = &[
    (
        "runtime/shared/lane_arena.rs",
        "/// Arenas without a handle. Requests may still be on their way out of them.
static VACANT: Mutex<Vec<&'static LaneArena>> = Mutex::new(Vec::new());",
        "crate::explore::lazy_static! { static ref VACANT: Mutex<Vec<&'static LaneArena>> = Mutex::new(Vec::new()); }",
    ),
    (
        "runtime/core/turn.rs",
        "static HANDLES: AtomicU64 = AtomicU64::new(0);",
        "static HANDLES: ::std::sync::atomic::AtomicU64 = ::std::sync::atomic::AtomicU64::new(0);",
    ),
    (
        "runtime/operate/builder.rs",
        "static HANDLES: AtomicU32 = AtomicU32::new(1);",
        "static HANDLES: ::std::sync::atomic::AtomicU32 = ::std::sync::atomic::AtomicU32::new(1);",
    ),
    (
        "runtime/operate/drain.rs",
        "static MADE: AtomicU64 = AtomicU64::new(0);",
        "static MADE: ::std::sync::atomic::AtomicU64 = ::std::sync::atomic::AtomicU64::new(0);",
    ),
    (
        "runtime/core/quiet/lanes_per_partition.rs",
        "static THREADS: AtomicUsize = AtomicUsize::new(0);",
        "crate::explore::lazy_static! { static ref THREADS: AtomicUsize = AtomicUsize::new(0); }",
    ),
    (
        "runtime/core/quiet/lanes_per_partition.rs",
        "thread_local! {
    /// The number of this thread, plus 1; 0 as long as it has none.
    static NUMBER: Cell<usize> = const { Cell::new(0) };",
        "crate::explore::thread_local! { static NUMBER: Cell<usize> = Cell::new(0); }\nthread_local! {",
    ),
    // A step of the mistake `looks_and_takes_in_two_steps`.
    (
        "store/leases/allotment.rs",
        "    /// Takes one unit for each claim, or none.\n",
        "    pub(crate) fn take_unseen(&mut self, claims: &[Claim]) -> Vec<Unit> {
        let mut taken = Vec::new();
        for claim in claims {
            let Some(share) = self.caps.get_mut(&claim.key) else { continue };
            share.used += 1;
            taken.push(Unit { key: claim.key.clone(), block: share.token, loss: Arc::clone(&share.loss) });
        }
        taken
    }

    /// Takes one unit for each claim, or none.\n",
    ),
    // No model of loom fills a ring (the crowd of shuttle does), and each execution makes all atomics anew: at the shipped sizes, more than half of its time.
    ("runtime/core/quiet/ring.rs", "const RING: u32 = 256;", "const RING: u32 = 32;"),
    ("runtime/core/quiet/mod.rs", "const BATCH: u32 = 64;", "const BATCH: u32 = 8;"),
];
