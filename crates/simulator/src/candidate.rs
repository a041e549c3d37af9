//! A policy that a capture is run again under: the configuration of a server, or the policy of a scenario.

use tower_admission::{
    Admission, AdmissionBuilder,
    configuration::{AdmissionConfig, LimitConfig, StoreConfig},
};

use super::policy::{Policy, VirtualClock};

/// What decides instead of the policy that a capture was made with.
#[derive(Clone, Debug)]
pub enum Candidate {
    /// `[policy]` of a scenario, or the policy that a capture was made with.
    Scenario(Policy),
    /// The file that a server is configured with.
    Server(Box<AdmissionConfig>),
}

impl Candidate {
    /// Reads the text of a file: a server's configuration, or a scenario's policy.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config = AdmissionConfig::from_toml(text).map_err(|error| error.to_string());
        match config.and_then(Self::server) {
            Ok(server) => Ok(server),
            Err(problem) => match Policy::parse(text) {
                Ok(policy) => Ok(Self::Scenario(policy)),
                Err(other) if is_of_a_scenario(text) => Err(other),
                Err(_) => Err(problem),
            },
        }
    }

    /// Shared rules are counted as if the process were alone: there is no store here.
    fn server(mut config: AdmissionConfig) -> Result<Self, String> {
        config.store = StoreConfig::default();
        config.capture_last = None;
        let this = Self::Server(Box::new(config));
        this.builder(1).build().map_err(|error| error.to_string())?;
        Ok(this)
    }

    fn builder(&self, limit: usize) -> AdmissionBuilder {
        match self {
            Self::Scenario(policy) => policy.settings(),
            Self::Server(config) => {
                let mut config = AdmissionConfig::clone(config);
                begin_with(&mut config, limit);
                AdmissionBuilder::from(config)
            }
        }
    }

    /// A new handle for one run. A law of a server's configuration begins with this limit.
    pub(crate) fn build(&self, clock: &VirtualClock, limit: usize) -> Admission {
        match self {
            Self::Scenario(policy) => policy.build(clock),
            Self::Server(_) => {
                let builder = self.builder(limit).name("simulation").clock(clock.clone());
                builder.build().expect("the configuration was found to be good when it was read")
            }
        }
    }

    /// Whether the mode of the recorded handle holds: a server's configuration has a mode of its own.
    pub(crate) fn takes_mode(&self) -> bool {
        matches!(self, Self::Scenario(policy) if policy.has_limit())
    }
}

fn is_of_a_scenario(text: &str) -> bool {
    let table = text.parse::<toml::Table>().unwrap_or_default();
    ["policy", "law", "shed"].iter().any(|key| table.contains_key(*key))
}

/// Has a law begin with this limit, within its bounds.
fn begin_with(config: &mut AdmissionConfig, limit: usize) {
    match &mut config.limit {
        LimitConfig::Aimd(law) => law.initial = limit.max(law.min).min(law.max),
        LimitConfig::Gradient2(law) => law.initial = limit.max(law.min).min(law.max),
        LimitConfig::TwoPoint(law) => law.initial = limit.max(law.min).min(law.max),
        LimitConfig::Vegas(law) => law.initial = limit.max(1).min(law.max),
        // A fixed limit is what it is; `gradient` begins with the limit that it measures at.
        _ => {}
    }
}
