//! Two points of the curve: is the server faster with half as many requests?
//!
//! # Derivation
//!
//! A server that runs `n` requests at once, each for `R(n)` on average, finishes `X(n) = n / R(n)` per second (Little's law). What a limit
//! is for is throughput, so the question about a limit `L` is what halving it would cost:
//!
//! ```text
//! X(L) / X(L/2) = 2 R(L/2) / R(L) = 2 / g        with g = R(L) / R(L/2)
//! ```
//!
//! With `g = 1` latency doesn't depend on the limit yet and half of the throughput would be lost: the limit is too low. With `g = 2`
//! nothing would be lost: the upper half of the requests only waits inside the server, and the limit is too high. In between lies the knee.
//! The law moves the limit until `g = 1.5`:
//!
//! ```text
//! L = L * (1.5 / g)^0.7
//! ```
//!
//! On a pool of `c` workers, where `R(n) = S max(1, n/c)`, that is `L = 1.5 c`: every worker is busy and half as many requests stand behind
//! them. On a server that congests, where `R(n) = S (1 + (n/k)^2)`, it is 0.89 of the knee `k`, at 99.4 % of the highest throughput it has.
//!
//! No threshold has to be configured, for `g` has no unit. And nothing can drift: both points are recent. That is what distinguishes it
//! from laws that compare with a minimum (which is a lucky sample, so that ordinary scatter looks like a queue) or with a long average
//! (which follows the overload, so that after some minutes the overload looks normal).
//!
//! # Which mean
//!
//! The `R` of Little's law is the *arithmetic* mean. A median or a geometric mean scatters less, but is about another quantity: where one
//! request in five takes ten times as long as the others, waiting adds the same time to each, which multiplies the quick ones and hardly
//! touches the slow ones. A geometric mean then sees a queue that costs no throughput, and the limit falls too low. For the same reason
//! requests that have not finished yet can't be left out: see [`cohort`].
//!
//! The `n` that belongs to it is the mean of what a request met when it came and what it left behind. While a limit moves, these differ,
//! and most of its time a request spends in between.
//!
//! Requests whose samples were taken before and that go on, as bodies do where samples are taken at heads, are no part of `n`. They came
//! with the requests of some time ago: to correct `R` by their number, as the law of Little does for a steady state, takes streams that
//! pile up for a crowd: where one call in ten was an idle stream of ten seconds, a server at half of its capacity answered 8 % of it.
//!
//! # Latency that callers don't notice
//!
//! Below the knee a cut costs nothing, and so does a limit that is a few slots too high: the requests wait inside rather than in line. What
//! a cut is for there is latency. Where an answer takes less than a tenth of the time for which callers wait, they hardly notice, and a
//! limit of one or two slots is dear: the backend is idle between two requests, and one long request holds half of the limit. So there only
//! a throughput that falls is a reason to cut, which is a `g` above 2, by two standard errors. And a limit below four slots that requests
//! meet grows as long as that is so, and throughput does not fall.
//!
//! # How sure the law is
//!
//! The arithmetic mean of a long tail takes many samples. How many is learned: the relative variance of single requests, the largest of
//! late, for a few samples without a slow one say nothing about slow ones. It is remembered as a variance as well: where all take longer by
//! the same time, the relative one is less. From it follow the size of a cohort and the error of `g`. The limit moves where `g` is off by
//! 0.6 standard errors: a step that was not due is found out by the next comparison. Where requests scatter much the law would find that
//! out late, and where shares of the limit refuse requests a cut shrinks the shares at once: there a cut takes two standard errors.
//!
//! Where no request was answered the law begins anew, and forgets the scatter: it was that of the fall. Cohorts that wait for more samples
//! because of it would keep a limit of one or two slots for seconds, each of which a single long request can hold.
//!
//! # Delay that is not the server's
//!
//! Where answers take longer downstream, for few requests as for many, `g` is about that delay and not about the server. What is known of
//! the server without the delay is subtracted from both points: see [`space`].
//!
//! A limit that has room for what is under way has room for a burst as well, which floods the server behind the delay; a delay later the
//! law hears of it. So there requests start one after the other, half again as fast as the limit brings answers, and beyond a limit that
//! was too high the steps are small.
//!
//! # Where the points come from
//!
//! The upper one is measured all the time, in [cohorts](cohort). The lower one is free where load fluctuates: whenever about half as many
//! requests ran. Under a standing overload there are no such lulls, and a [*probe*](probe) makes one. A steady overload has few of them,
//! and a changing one pays: see the table and the plots in [`docs::tuning`][docs::tuning].
//!
//! *No cut without a recent lower point.* If the environment becomes slower, a downstream service say, both points rise and `g` stays: a
//! limit that falls then would throw away throughput that is there. Only a fresh lower point tells a slow environment from a crowd. A
//! service that says itself that it rejects is a cut, too.
//!
//! No lower point is measured where the limit hardly matters. Where few requests meet the limit, they do so by chance. A probe would reject
//! more requests than it tells, and the limit grows by half instead, up to twice what runs on average.
//!
//! # Shares of the limit
//!
//! Partitions with caps, and slots that are kept for others, refuse requests while fewer run than the limit allows. A cohort that met such
//! refusals is no lull. It is compared as any other, so the limit falls where there is a crowd, and grows where there is none: a partition
//! that comes alone gets what the server has, also where it may use a tenth of the limit. When others join it the limit is too high for
//! some cohorts.
//!
//! # What counts is answers
//!
//! Where clients give up at a deadline, all round-trip times come to that deadline, at the limit and at half of it, and `g` is 1 on a
//! server that drowns. So `R` is the time of a slot that one *answer* takes. Where most slots are taken for nothing, an eighth of the limit
//! is left, at once and as often as it takes: what brings nothing can't be lost. Only where the limit has just grown, it first goes back to
//! where there were answers; and behind a delay, to what brought the most answers of late. A server that fell silent says so before a
//! cohort does: while two of three requests leave late, the slot of one that does is not given again. So no more is started than there was
//! when the server fell, whatever small requests still get through. An answer that comes after the deadline of its request is none, where
//! the deadline is known.
//!
//! Once there are answers again the limit doubles as at the start. But a cohort takes some dozens of requests, and at a limit of one slot a
//! single long request holds all of it meanwhile. So an answer that takes hardly longer than the server alone opens a slot, up to as many as
//! there were before the fall: there is no crowd yet. Slow answers outweigh quick ones one by one.
//!
//! Where the work of callers that left goes on, both points wait behind it and `g` is 1, although a good part of the answers comes too
//! late. So a fifth of late requests is a reason to cut, where answers take much longer than the server alone: else it was the wait in line
//! that took their time. A caller that left before three quarters of the patience were over is not late.
//!
//! # When the law can't wait
//!
//! A server that lost most of its capacity needs minutes for a hundred samples. A cohort that is plainly slower than usual, by two standard
//! errors, asks for no more of them, and none lasts much longer than two seconds or two round-trip times. If a step up made the server
//! plainly slower, the limit goes back to where it was: the requests that tell are those that have finished, without what is guessed of the
//! others. For 40 s the limit then goes only halfway to what was too high, so that slow start doesn't run into the same wall again and
//! again. A `g` that crowding alone can't explain asks for a fresh lower point.
//!
//! # When nothing happens
//!
//! Where no request meets the limit, the law rests between cohorts, and few requests are timed: see [`rest`].
//!
//! # What else keeps the law honest
//!
//! - *The limit grows only on demand*: at least one request in fifty must have met it, and one in four for it to
//!   double.
//! - *Slow start*: while `g < 1.15`, the limit doubles. The point before the doubling is the lower point after it, so
//!   this needs no probes. Cohorts are in a hurry then: as many as run are enough, so a doubling takes about one
//!   round-trip time.
//! - *A probe that is slower than the limit was* is no reason to grow: the server became slower in between, and the
//!   upper point is measured anew.
//!
//! [docs::tuning]: https://docs.rs/tower-admission/latest/tower_admission/docs/tuning/index.html

mod cohort;
mod curve;
mod law;
mod point;
mod probe;
mod rest;
mod rules;
mod silence;
mod space;
#[cfg(test)]
mod tests;

use self::{cohort::Cohort, curve::Curve, rest::Rest, silence::Silence};
use super::LimitInputs;
use crate::Timestamp;

/// Learns the limit without a threshold: compares latency at the limit with latency at half of it.
///
/// Where latency is the same at half of the limit, the limit grows; where latency at the limit is twice as long,
/// requests only wait for each other and the limit falls. Under a standing overload the limit is halved for a few
/// round-trip times now and then, to measure that. The law judges by mean latency, so some dozens of requests have to
/// finish before the limit moves, more where some take much longer than others.
///
/// Starts at 20, within 1 and 10,000, unless told otherwise.
#[derive(Clone, Debug)]
pub struct TwoPoint {
    min: usize,
    max: usize,
    limit: f64,
    curve: Curve,
    silence: Silence,
    /// When the present probe began; and when the next one may: the last one has to pay off first.
    probing_since: Option<Timestamp>,
    next_probe: Timestamp,
    cohort: Option<Cohort>,
    rest: Rest,
    /// Requests that ran on when the last sample was taken.
    running: u32,
    /// A limit that was too high, and when that was seen.
    ceiling: Option<(f64, Timestamp)>,
    /// Whether the limit grew since it was too high last.
    grew: bool,
    /// Limit from which the law grew last, if nothing was measured since.
    grown_from: Option<f64>,
    /// Whether the limit is doubling.
    slow_start: bool,
    /// Whether no request of the last cohort met the limit, or there was no cohort so far.
    is_idle: bool,
    /// Numbers that moved the limit last.
    basis: LimitInputs,
}
