//! Servers and their clients, each of which asks something else of a law.

/// How latency grows with concurrency.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// So many workers; what is beyond them waits.
    Pool(u64),
    /// Latency grows by the square, and has doubled here.
    Knee(u64),
}

/// How much single requests differ.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spread {
    None,
    /// By 30 % to both sides.
    Some,
    /// A request in twenty takes twelve times as long.
    Tail,
}

/// Times are in milliseconds since the start where they are asked by, and in microseconds where they are answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct World {
    pub(super) name: &'static str,
    pub(super) seconds: u64,
    /// Milliseconds between two lines of the path.
    pub(super) step: u64,
    pub(super) shape: Shape,
    pub(super) spread: Spread,
    /// Time of a request that runs alone, and delay that each answer takes however few there are.
    pub(super) service: fn(u64) -> u64,
    pub(super) delay: fn(u64) -> u64,
    /// Requests per second.
    pub(super) load: fn(u64) -> u64,
    /// Time after which a client leaves.
    pub(super) deadline_in: u64,
    /// Percentage of requests that the service refuses, and of those that are left early.
    pub(super) refuses: fn(u64) -> u64,
    pub(super) leaves: u64,
    /// Requests of a thousand that never end.
    pub(super) hangs: u64,
    /// Percentage of the limit that may be used.
    pub(super) share: usize,
}

const PLAIN: World = World {
    name: "",
    seconds: 24,
    step: 1_000,
    shape: Shape::Pool(16),
    spread: Spread::Some,
    service: |_| 10_000,
    delay: |_| 0,
    load: |_| 3_000,
    deadline_in: 1_000_000,
    refuses: |_| 0,
    leaves: 0,
    hangs: 0,
    share: 100,
};

pub(super) const ALL: &[World] = &[
    World { name: "the first seconds of a pool under a standing overload", seconds: 2, step: 50, ..PLAIN },
    World { name: "a pool under a standing overload", seconds: 60, step: 2_000, ..PLAIN },
    World {
        name: "a server that congests, without any scatter",
        shape: Shape::Knee(40),
        spread: Spread::None,
        load: |_| 5_000,
        ..PLAIN
    },
    World {
        name: "a load that rises, falls and rises again",
        load: |at| if at % 12_000 < 6_000 { 200 + at % 12_000 / 3 } else { 2_200 - at % 6_000 / 3 },
        ..PLAIN
    },
    World {
        name: "bursts with idle times between them",
        load: |at| {
            if at % 8_000 < 3_000 {
                2_500
            } else if at % 8_000 < 4_000 {
                60
            } else {
                0
            }
        },
        ..PLAIN
    },
    World {
        name: "a light load that meets the limit by chance",
        service: |_| 25_000,
        shape: Shape::Knee(60),
        load: |at| if at < 8_000 { 500 } else { 900 },
        ..PLAIN
    },
    World {
        name: "a server that loses most of its capacity for 8 s",
        seconds: 30,
        service: |at| if (8_000..16_000).contains(&at) { 80_000 } else { 10_000 },
        ..PLAIN
    },
    World {
        name: "a server that stalls, with clients that leave after 150 ms",
        seconds: 30,
        service: |at| if (8_000..14_000).contains(&at) { 400_000 } else { 10_000 },
        deadline_in: 150_000,
        ..PLAIN
    },
    World {
        name: "a server that becomes twice as fast, and slower by a half again",
        service: |at| if (6_000..14_000).contains(&at) { 5_000 } else { 9_000 },
        ..PLAIN
    },
    World {
        name: "a delay behind the server that comes and goes",
        seconds: 40,
        step: 1_500,
        shape: Shape::Knee(50),
        delay: |at| if (10_000..28_000).contains(&at) { 90_000 } else { 0 },
        ..PLAIN
    },
    World { name: "a long tail", seconds: 40, step: 2_000, spread: Spread::Tail, load: |_| 2_000, ..PLAIN },
    World {
        name: "a service that refuses some of its requests for a while",
        refuses: |at| if (5_000..12_000).contains(&at) { 4 + at / 1_000 % 4 * 3 } else { 0 },
        ..PLAIN
    },
    World { name: "clients that leave early, one in six", leaves: 16, shape: Shape::Knee(30), ..PLAIN },
    World { name: "requests that never end, one in two thousand", hangs: 1, load: |_| 1_500, ..PLAIN },
    World { name: "shares that keep slots from requests", share: 60, shape: Shape::Knee(40), ..PLAIN },
    World {
        name: "shares that keep slots from few requests that scatter",
        share: 70,
        spread: Spread::Tail,
        load: |at| 600 + at % 5_000 / 10,
        ..PLAIN
    },
    World { name: "a single worker", seconds: 30, shape: Shape::Pool(1), load: |_| 300, ..PLAIN },
    World {
        name: "slow requests on a large pool",
        seconds: 50,
        step: 2_000,
        shape: Shape::Pool(80),
        service: |at| if at < 25_000 { 300_000 } else { 500_000 },
        load: |_| 700,
        ..PLAIN
    },
    World {
        name: "quick requests with a pause of the whole process",
        service: |at| if (7_000..7_060).contains(&at) { 900_000 } else { 80 },
        spread: Spread::None,
        load: |_| 6_000,
        seconds: 14,
        ..PLAIN
    },
];
