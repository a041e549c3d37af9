//! A handle that drains.

use tower_admission::{Admission, DrainMode, Mode, Reason, Ticket, limit::Fixed};

use super::poll_once;

#[test]
fn no_mode_reopens_a_handle_that_drains() {
    for mode in [Mode::Off, Mode::Observe, Mode::Enforce] {
        for leave in [DrainMode::RejectWaiting, DrainMode::ServeWaiting] {
            for drains_first in [true, false] {
                let admission = Admission::builder().limit(Fixed::new(2)).build().unwrap();
                if drains_first {
                    admission.drain(leave);
                    admission.set_mode(mode);
                } else {
                    admission.set_mode(mode);
                    admission.drain(leave);
                }
                let refused = admission.try_admit(Ticket::new()).map(drop).unwrap_err();
                assert_eq!(refused.reason(), Reason::Draining, "{mode:?}, {leave:?}, {drains_first}");
                let refused = poll_once(&mut admission.admit(Ticket::new())).unwrap().map(drop).unwrap_err();
                assert_eq!(refused.reason(), Reason::Draining, "{mode:?}, {leave:?}, {drains_first}");
                assert!(!admission.is_ready());
                assert_eq!(admission.snapshot().rejected(), 2, "a request that is turned away is counted");
            }
        }
    }
}
