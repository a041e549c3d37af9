use tower_admission::configuration::{AdmissionConfig, Sources};

/// What was accepted is the same after it was written and read again.
pub fn survives(config: &AdmissionConfig) {
    assert_eq!(&AdmissionConfig::from_toml(&config.to_toml()).unwrap(), config);
    assert_eq!(&AdmissionConfig::from_json(&config.to_json()).unwrap(), config);
    assert_eq!(Sources::new().variables(config.to_environment()).load().unwrap().config(), config);
}
