//! Settings as users write them, and what is wrong with them.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod check;
mod declare;
#[cfg(feature = "capture")]
mod describe;
#[cfg(feature = "files")]
mod load;
#[cfg(feature = "files")]
mod schema;
mod settings;

pub use self::settings::{
    Cap, ClassLimits, ForAll, LabelConfig, Labels, Rate, Rules, Settings, Share,
    auto::Derived,
    layer::{AdmissionConfig, CAPTURE_BYTES},
    percent,
};
#[cfg(feature = "files")]
pub use self::{
    load::{ConfigError, ConfigProblem, Effective, Loaded, Origin, Sources},
    schema::{
        AimdConfig, FixedConfig, Gradient2Config, GradientConfig, LabelOverride, LimitConfig, TwoPointConfig,
        VegasConfig, parse_time, write_time,
    },
    settings::{OnStoreFailureConfig, StoreConfig, StoreUrl},
};
