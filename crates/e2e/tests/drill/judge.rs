//! Whether the first line is true, by what callers and the handler saw and by what was done.

use std::collections::BTreeMap;

use super::{
    clients::{Flow, Truth},
    stories::{Deed, Settings},
};

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Judged {
    Right,
    Partly,
    Wrong,
}

/// All that is known of a moment, without the server's help.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) flows: &'a [Flow],
    pub(crate) truth: &'a Truth,
    /// Slots that the requests of a caller hold, by the handler's count.
    pub(crate) held: &'a BTreeMap<&'static str, f64>,
    pub(crate) done: &'a [Deed],
}

/// Whether a name is in a text as a word.
fn has(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| word == name)
}

/// The names in a text that cover a caller, and the callers that each covers; none names all of them.
impl Known<'_> {
    fn partition(&self, flow: &Flow) -> &'static str {
        let is_known = flow.key == "x-tenant" && self.settings.partitions.iter().any(|(name, _)| *name == flow.value);
        if is_known { flow.value } else { "default" }
    }

    fn is_of(&self, flow: &Flow, name: &str) -> bool {
        flow.value == name || self.partition(flow) == name
    }

    /// The callers that a text is about: those that it names, or all.
    fn about(&self, text: &str) -> Vec<&Flow> {
        let words: Vec<_> = text.split(|c: char| !c.is_alphanumeric()).collect();
        let named: Vec<_> = self.flows.iter().filter(|flow| words.iter().any(|it| self.is_of(flow, it))).collect();
        if named.is_empty() { self.flows.iter().collect() } else { named }
    }

    fn flow(&self, name: &str) -> &Flow {
        self.flows.iter().find(|it| it.name == name).expect("a caller")
    }

    fn is_hurt(&self, flow: &Flow) -> bool {
        self.truth.0.get(flow.name).is_some_and(|it| it.is_hurt())
    }

    fn harmed(&self, flow: &Flow) -> usize {
        self.truth.0.get(flow.name).map_or(0, |it| it.harmed())
    }

    pub(crate) fn worst(&self) -> Option<&Flow> {
        self.flows.iter().filter(|it| self.is_hurt(it)).max_by_key(|it| self.harmed(it))
    }

    /// Whose requests hold most of all slots, where that hurts; or what a drain waits for.
    pub(crate) fn holder(&self) -> Option<&Flow> {
        let all: f64 = self.held.values().sum();
        let (name, slots) = self.held.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let is_scarce = *slots >= self.settings.limit as f64 * 0.6 && *slots >= all * 0.6 && self.worst().is_some();
        let is_last = self.done.iter().any(|it| matches!(it, Deed::Drain)) && *slots >= 1.0;
        (is_scarce || is_last).then(|| self.flow(name))
    }

    /// Which requests are hurt.
    pub(crate) fn hurt(&self, line: &str) -> Judged {
        let harm = ["refused", "leave before", "wait", "most of them", "no request"];
        let parts = line.split([',', ';', ':']).filter(|it| harm.iter().any(|harm| it.contains(harm)));
        let parts: Vec<_> = parts.filter(|it| !it.contains("none refused") && !it.contains("0 waiting")).collect();
        let all: usize = self.flows.iter().map(|it| self.harmed(it)).sum();
        let Some(worst) = self.worst() else {
            let is_alarm = ["overloaded", "throttled", "abandoned"].iter().any(|it| line.starts_with(it));
            return match is_alarm && all == 0 {
                true if line.contains("none refused any more") => Judged::Partly,
                true => Judged::Wrong,
                false => Judged::Right,
            };
        };
        let accuses =
            |it: &&str| it.contains("most of them of") && self.about(it).iter().all(|it| self.harmed(it) * 4 < all);
        if parts.iter().any(accuses) {
            return Judged::Wrong;
        }
        let judged =
            parts.iter().map(|it| self.about(it)).filter(|it| it.iter().any(|it| it.name == worst.name)).map(|about| {
                let is_exact = about.iter().all(|it| self.is_hurt(it) || !self.truth.0.contains_key(it.name));
                if is_exact { Judged::Right } else { Judged::Partly }
            });
        let told = judged.min().unwrap_or(Judged::Wrong);
        // The first word counts, too.
        if line.starts_with("fine") { told.max(Judged::Partly) } else { told }
    }

    /// What holds the slots.
    pub(crate) fn holds(&self, line: &str) -> Judged {
        let told: Vec<_> = line.split([',', ';', ':']).filter(|it| has(it, "holds") || has(it, "hold")).collect();
        let about = |name: &str| told.iter().map(|it| self.about(it)).find(|it| it.iter().any(|it| it.name == name));
        match self.holder() {
            Some(top) => match about(top.name) {
                Some(about) if about.len() == 1 => Judged::Right,
                Some(_) => Judged::Partly,
                None if line.starts_with("draining") && line.contains(" run") => Judged::Partly,
                None => Judged::Wrong,
            },
            None => {
                let all: f64 = self.held.values().sum();
                let slots = |it: &str| self.about(it).iter().filter_map(|it| self.held.get(it.name)).sum::<f64>();
                let is_true = told.iter().all(|it| slots(it) >= all * 0.4);
                if is_true { Judged::Right } else { Judged::Wrong }
            }
        }
    }

    /// What has changed, and nothing that has not.
    pub(crate) fn changed(&self, line: &str, changed: &[String]) -> Judged {
        let is_hurt = self.worst().is_some();
        let told = self.done.iter().map(|deed| {
            let is = |name: &str, verb: &str| line.contains(&format!("{} {verb} ", self.flow(name).value));
            let names = |name: &str| has(line, self.flow(name).value);
            let (right, partly) = match deed {
                Deed::Takes(name, _) => {
                    (is(name, "takes") || is(name, "holds"), line.contains(" takes ") || has(line, "hold"))
                }
                Deed::Comes(name, factor) if *factor < 0.1 => (is(name, "sends nothing,"), names(name)),
                Deed::Fails(name) | Deed::Bursts(name, _) | Deed::Comes(name, _) => (is(name, "sends"), names(name)),
                Deed::Impatient(name, _) => {
                    let leave = line.contains("leave before the answer");
                    (leave && names(name), leave)
                }
                Deed::Sends(name, _) => {
                    let stops = line.contains(&format!("{name} sends nothing,"));
                    (names(name) || stops && line.contains("default sends"), stops)
                }
                Deed::Limit(_) | Deed::Caps(_) => (line.contains("reloaded"), line.contains("the limit is")),
                Deed::RestartStore => (line.contains("store "), false),
                Deed::KillStore => {
                    let is_contradiction = line.contains("admit all") && line.contains("(store unavailable)");
                    (line.contains("store gone") && !is_contradiction, line.contains("store gone"))
                }
                Deed::Freeze => {
                    let stood = ["9", "10", "11"].iter().any(|it| line.contains(&format!("stood still for {it}")));
                    (stood, line.contains("stood still"))
                }
                Deed::Throttle => (has(line, "processor"), line.contains(" takes ")),
                Deed::Drain => (line.starts_with("draining"), line.contains("drain")),
            };
            match (deed.is_worth_a_word() || is_hurt, right, partly) {
                (_, true, _) | (false, ..) => Judged::Right,
                (true, false, true) => Judged::Partly,
                (true, false, false) => Judged::Wrong,
            }
        });
        let told = told.max().unwrap_or(Judged::Right);
        if changed.iter().all(|it| self.is_true(it)) { told } else { told.max(Judged::Partly) }
    }

    /// Whether a change in the line is of callers, of requests or of settings to which something was done.
    fn is_true(&self, change: &str) -> bool {
        let about = |name: &str| {
            let of = |flow: &Flow| has(change, flow.value) || has(change, self.partition(flow));
            of(self.flow(name)) || self.about(change).len() == self.flows.len()
        };
        let is_any = |is: &dyn Fn(&Deed) -> bool| self.done.iter().any(is);
        if change.contains(" sends nothing,") {
            is_any(&|it| {
                matches!(it, Deed::Sends(..) | Deed::Freeze) || matches!(it, Deed::Comes(name, ..) if about(name))
            })
        } else if change.contains(" sends ") {
            is_any(&|it| match it {
                Deed::Comes(name, _) | Deed::Fails(name) | Deed::Bursts(name, _) | Deed::Sends(name, _) => about(name),
                // What callers sent meanwhile comes at once.
                Deed::Freeze => true,
                _ => false,
            })
        } else if change.contains("reloaded") || change.contains("the limit is") {
            is_any(&|it| matches!(it, Deed::Limit(_) | Deed::Caps(_)))
        } else if change.contains(" takes ") {
            is_any(&|it| matches!(it, Deed::Takes(name, _) if about(name)) || matches!(it, Deed::Throttle))
        } else {
            !self.done.is_empty()
        }
    }
}
