//! Settings as users write them, and what is wrong with them.

mod check;
#[cfg(feature = "introspect")]
mod describe;
#[cfg(feature = "config")]
mod load;
#[cfg(feature = "config")]
mod schema;
mod settings;

pub use self::settings::{Cap, ClassLimits, Labels, Rate, Rules, Share, percent};
#[cfg(feature = "config")]
pub(crate) use self::settings::{ForAll, StoreSettings};
pub(crate) use self::settings::{Hints, Partitions, Settings, Waiting};
#[cfg(feature = "config")]
pub use self::{
    load::{ConfigError, ConfigProblem, Effective, Loaded, Origin, Sources},
    schema::{
        AdmissionConfig, AimdConfig, FixedConfig, Gradient2Config, GradientConfig, LabelConfig, LabelOverride,
        LabelsConfig, LimitConfig, OnStoreFailureConfig, StoreConfig, TwoPointConfig, VegasConfig, WindowedAimdConfig,
        parse_time, write_time,
    },
    settings::StoreUrl,
};
