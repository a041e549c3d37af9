//! Answers and failures that reach the breaker in any order.

use std::sync::Arc;

use ::tokio::time::Instant;

use super::{bounds, of};
use crate::{
    breaker::{Breaker, FAILURES},
    explore::{Mutex, explore, thread},
};

/// Six requests are on their way when one of them is answered: their failures open the breaker only if enough of them
/// were told before that, once, and a probe that is served closes it.
pub fn a_server_that_answers_is_not_gone() {
    let (threads, each) = (3, of(2, 4));
    explore("a_server_that_answers_is_not_gone", bounds(4, 500), move || {
        // The breaker; failures told before the answer, and how often it opened.
        let state = Arc::new(Mutex::new((Breaker::new(), 0, 0, false)));
        let sent: Vec<_> = (0..threads * each)
            .map(|_| state.lock().expect("no panic").0.admits(false).expect("the breaker is closed"))
            .collect();
        let answered = state.lock().expect("no panic").0.admits(false);
        let fail: Vec<_> = sent
            .chunks(each)
            .map(|sent| {
                let (state, sent) = (Arc::clone(&state), sent.to_vec());
                thread::spawn(move || {
                    for answers in sent {
                        let mut state = state.lock().expect("no panic");
                        let opened = state.0.failed(Instant::now(), answers);
                        state.1 += u32::from(!state.3);
                        state.2 += u32::from(opened);
                    }
                })
            })
            .collect();
        {
            let mut state = state.lock().expect("no panic");
            assert_eq!(answered, Some(0));
            state.0.served(false);
            state.3 = true;
        }
        fail.into_iter().for_each(|it| it.join().expect("it ends"));
        let mut state = state.lock().expect("no panic");
        let (is_open, failures, opened) = (state.0.is_open(), state.1, state.2);
        assert_eq!(is_open, failures >= FAILURES, "{failures} failures came before the answer");
        assert_eq!(opened, u32::from(is_open), "it opens once");
        assert_eq!(state.0.admits(false).is_some(), !is_open, "an open breaker lets no request pass");
        state.0.recovered();
        assert!(state.0.admits(false).is_some(), "a probe that is served closes it");
    });
}
