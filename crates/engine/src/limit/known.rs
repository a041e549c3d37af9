//! Laws of this crate as they were set up, to be written into a capture.

use std::any::Any;

use super::{Aimd, Fixed, Number, TwoPoint, Windowed};

/// A law that can be written down, in the words of the simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub kind: &'static str,
    pub fields: Vec<(&'static str, Number)>,
}

impl Known {
    /// `None` for a law that this crate does not know, or a law with settings that there are no words for.
    pub(super) fn of(law: &dyn Any) -> Option<Self> {
        let (kind, fields) = if let Some(law) = law.downcast_ref::<Fixed>() {
            ("fixed", law.parameters())
        } else if let Some(law) = law.downcast_ref::<TwoPoint>() {
            ("two-point", law.parameters())
        } else if let Some(law) = law.downcast_ref::<Aimd>() {
            ("aimd", law.parameters()?)
        } else {
            let law = law.downcast_ref::<Windowed<Aimd>>()?;
            let mut fields = law.law().parameters()?;
            fields.extend(law.window_parameters());
            ("windowed-aimd", fields)
        };
        Some(Self { kind, fields })
    }
}
