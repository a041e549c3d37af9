//! What clients do in a run: ask, wait, get an answer, give up, come back.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tower_admission::{Outcome, Permit, Rejection};

use super::{
    random::Stream,
    record::{Answer, Record},
    server::Abandoned,
    world::{Attempt, Call, Event, Stage, WokenList, World},
};

#[derive(Debug)]
struct Woken {
    id: u32,
    serial: u64,
    list: WokenList,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push((self.id, self.serial));
    }
}

impl World<'_> {
    /// A request that was sent at this time arrives.
    pub(super) fn arrive(&mut self, sent: u64, call: Call) {
        self.record.note(self.now, 4 + call.number * 8);
        self.count(call, |record, now| record.attempted(now, call.tenant));
        let clients = &self.scenario.clients;
        let mut ticket = self.scenario.tenants[call.tenant].ticket();
        if let Some(class) = self.scenario.service.class(f64::from_bits(call.work)) {
            ticket.set_class(class);
        }
        if clients.sends_deadline && clients.deadline < u64::MAX {
            ticket.limit_timeout(Duration::from_nanos(clients.deadline));
        }
        let stage = Stage::Waiting(self.admission.admit(ticket));
        self.serial += 1;
        let attempt = Attempt { call, arrived: self.now, serial: self.serial, stage, left: false };
        let id =
            self.free.pop().unwrap_or_else(|| u32::try_from(self.attempts.len()).expect("fewer than 2^32 attempts"));
        match self.attempts.get_mut(id as usize) {
            Some(entry) => *entry = attempt,
            None => self.attempts.push(attempt),
        }
        self.waiting += 1;
        let patience = call.leaves.map_or(clients.deadline, |early| early.min(clients.deadline));
        if patience < u64::MAX {
            let leaves = sent.saturating_add(patience);
            self.plan(leaves, Event::Leave(id, self.serial));
        }
        self.poll(id);
    }

    pub(super) fn poll_woken(&mut self) {
        loop {
            let woken = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
            if woken.is_empty() {
                break;
            }
            for (id, serial) in woken {
                let attempt = &self.attempts[id as usize];
                if attempt.serial == serial && matches!(attempt.stage, Stage::Waiting(_)) {
                    self.poll(id);
                }
            }
        }
    }

    fn poll(&mut self, id: u32) {
        let attempt = &mut self.attempts[id as usize];
        let Stage::Waiting(admit) = &mut attempt.stage else { return };
        let waker = Waker::from(Arc::new(Woken { id, serial: attempt.serial, list: Arc::clone(&self.woken) }));
        let Poll::Ready(answer) = Pin::new(admit).poll(&mut Context::from_waker(&waker)) else { return };
        self.waiting -= 1;
        let call = attempt.call;
        match answer {
            Ok(permit) => {
                let arrived = attempt.arrived;
                self.count(call, |record, now| record.admitted(now, call.tenant, now - arrived));
                let job = self.server.start(self.now, id, f64::from_bits(call.work));
                self.in_flight += 1;
                self.attempts[id as usize].stage = Stage::Running(Some(permit), Some(job));
            }
            Err(rejection) => {
                self.record.note(self.now, 5 + (rejection.reason() as u64) * 8);
                self.count(call, |record, now| record.rejected(now, call.tenant));
                self.release(id);
                self.retry(call, Some(&rejection));
            }
        }
    }

    fn release(&mut self, id: u32) {
        let attempt = &mut self.attempts[id as usize];
        attempt.stage = Stage::Free;
        attempt.serial = 0;
        self.free.push(id);
    }

    /// Counts what becomes of a request whose client does not leave early.
    pub(super) fn count(&mut self, call: Call, note: impl FnOnce(&mut Record, u64)) {
        if call.leaves.is_none() {
            note(&mut self.record, self.now);
        }
    }

    fn answered(&mut self, call: Call, arrived: u64, in_time: bool) {
        let Call { tenant, first, work, .. } = call;
        let answer = Answer { tenant, first, arrived, in_time, work: f64::from_bits(work) };
        self.count(call, |record, now| record.answered(now, answer));
    }

    /// The server is done with a request.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of less than a hundred days")]
    pub(super) fn served(&mut self, id: u32) {
        match self.moment.delay as u64 {
            0 => self.deliver(id),
            delay => {
                let attempt = &mut self.attempts[id as usize];
                if let Stage::Running(_, job) = &mut attempt.stage {
                    *job = None;
                }
                let serial = attempt.serial;
                self.plan(self.now + delay, Event::Deliver(id, serial));
            }
        }
    }

    pub(super) fn deliver(&mut self, id: u32) {
        let attempt = &mut self.attempts[id as usize];
        let Stage::Running(permit, _) = std::mem::replace(&mut attempt.stage, Stage::Free) else { return };
        let (call, arrived, in_time) = (attempt.call, attempt.arrived, !attempt.left);
        self.answered(call, arrived, in_time);
        self.release(id);
        if let Some(permit) = permit {
            self.in_flight -= 1;
            permit.finish(Outcome::Success);
        }
    }

    /// The client gives up, if it is still there.
    pub(super) fn leave(&mut self, id: u32, serial: u64) {
        let attempt = &mut self.attempts[id as usize];
        if attempt.serial != serial {
            return;
        }
        self.record.note(self.now, 6 + u64::from(id) * 8);
        let call = attempt.call;
        attempt.left = true;
        match &mut attempt.stage {
            Stage::Waiting(_) => {
                self.waiting -= 1;
                // Whoever gives up a place may let others in: they are polled after this event.
                self.release(id);
            }
            Stage::Running(permit, job) => {
                let job = *job;
                match self.abandoned {
                    Abandoned::Held => {}
                    Abandoned::RunsOn => {
                        self.in_flight -= usize::from(permit.is_some());
                        drop(permit.take());
                    }
                    Abandoned::GoesOn => {
                        self.in_flight -= usize::from(permit.is_some());
                        permit.take().into_iter().for_each(Permit::abandon);
                    }
                    Abandoned::Stops => {
                        self.in_flight -= usize::from(permit.is_some());
                        drop(permit.take());
                        let arrived = attempt.arrived;
                        self.answered(call, arrived, false);
                        if let Some(job) = job {
                            self.server.stop(self.now, job);
                        }
                        self.release(id);
                    }
                }
            }
            Stage::Free => return,
        }
        self.retry(call, None);
    }

    /// Plans the next attempt of a client that was rejected or gave up, if it makes one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "times of less than a hundred days"
    )]
    fn retry(&mut self, call: Call, rejection: Option<&Rejection>) {
        let clients = &self.scenario.clients;
        if call.attempt >= clients.retries || call.leaves.is_some() {
            return;
        }
        let mut pause = clients.pause(call.attempt);
        if clients.jitter {
            let index = call.number.wrapping_mul(128) + u64::from(call.attempt);
            pause = (Stream::new(self.seed, 3 + call.tenant as u64, index).uniform() * pause as f64) as u64;
        }
        if let Some(rejection) = rejection.filter(|_| clients.heeds_retry_after) {
            pause = pause.saturating_add(u64::try_from(rejection.retry_after().as_nanos()).unwrap_or(u64::MAX));
        }
        self.plan(self.now.saturating_add(pause), Event::Retry(Call { attempt: call.attempt + 1, ..call }));
    }
}
