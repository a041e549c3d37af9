//! Settings as users write them, and what is wrong with them.

mod check;
mod declare;
#[cfg(feature = "capture")]
mod describe;
#[cfg(feature = "config")]
mod load;
#[cfg(feature = "config")]
mod schema;
mod settings;

#[cfg(feature = "config")]
pub(crate) use self::settings::ForAll;
pub use self::settings::derived::Derived;
#[cfg(feature = "capture")]
pub(crate) use self::settings::layer::CAPTURE_BYTES;
pub use self::settings::{Cap, ClassLimits, LabelConfig, Labels, Rate, Rules, Share, percent};
pub(crate) use self::{
    declare::setters,
    settings::{Settings, layer::layer_settings},
};
#[cfg(feature = "config")]
pub use self::{
    load::{ConfigError, ConfigProblem, Effective, Loaded, Origin, Sources},
    schema::{
        AimdConfig, FixedConfig, Gradient2Config, GradientConfig, LabelOverride, LimitConfig, TwoPointConfig,
        VegasConfig, WindowedAimdConfig, parse_time, write_time,
    },
    settings::{OnStoreFailureConfig, StoreConfig, StoreUrl, layer::AdmissionConfig},
};
