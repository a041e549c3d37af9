//! Fields of the lines of a capture.

use serde_json::Value;
use tower_admission::WorkerReport;

pub(crate) fn text(line: &Value, field: &str) -> Option<String> {
    line[field].as_str().map(str::to_owned)
}

/// What a worker says.
pub(crate) fn report(line: &Value) -> Result<WorkerReport, String> {
    let name = |field: &str| text(line, field).ok_or_else(|| format!("{field}: is missing"));
    let slots = usize::try_from(line["slots"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let valid_for = std::time::Duration::from_nanos(line["valid_for"].as_u64().unwrap_or(0));
    let mut report = WorkerReport::new(name("label")?, name("worker")?).max_concurrent(slots).valid_for(valid_for);
    if let Some(namespace) = text(line, "namespace") {
        report = report.namespace(namespace);
    }
    Ok(match text(line, "class") {
        Some(class) => report.class(class),
        None => report,
    })
}
