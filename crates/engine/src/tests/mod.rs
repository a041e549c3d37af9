//! What the rooms do together.

mod check_tests;
mod conformance_tests;
mod edge_tests;
mod fairness_tests;
mod incident_tests;
mod model_tests;
mod rule_tests;
mod sample_tests;
mod shadow_tests;
mod share_tests;
mod story_tests;
