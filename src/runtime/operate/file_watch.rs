//! Settings that follow their files.

use std::{sync::Arc, time::Duration};

use tokio::task::{JoinHandle, spawn_blocking};

use crate::config::{ConfigError, Sources};
use crate::runtime::{Admission, AdmissionBuilder, core::lock};

/// Follows the files of a configuration until it is dropped. Made by [`Admission::watch`].
#[must_use = "the files are followed until this is dropped"]
#[derive(Debug)]
pub struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Admission {
    /// Takes the settings of `sources` whenever these change: looks each `interval`, and tells `report` the result.
    ///
    /// Settings that the handle was made from, or last reloaded with, are no change: what was set by hand since then
    /// stays until the sources say something else. A handle with settings from elsewhere takes the settings of the
    /// sources at once.
    ///
    /// A configuration with a mistake changes nothing; its problems are reported once, and stand in the
    /// [warnings](Self::warnings) until it is mended. Files are read whole, so a file
    /// should be replaced rather than written in place. Polling finds any change, including changes of links and
    /// mounted directories.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn run(admission: tower_admission::Admission) {
    /// use tower_admission::configuration::Sources;
    ///
    /// let sources = Sources::new().file("admission.toml").environment();
    /// let _watch = admission.watch(sources, Duration::from_secs(2), |outcome| match outcome {
    ///     Ok(()) => eprintln!("new settings"),
    ///     Err(error) => eprintln!("the settings stay what they were: {error}"),
    /// });
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn watch(
        &self,
        sources: Sources,
        interval: Duration,
        report: impl Fn(Result<(), ConfigError>) + Send + 'static,
    ) -> Watch {
        let shared = Arc::downgrade(&self.shared);
        let mut known = lock(&self.shared.origin).as_deref().cloned();
        Watch(tokio::spawn(async move {
            let sources = Arc::new(sources);
            let mut mistake = None;
            loop {
                let reader = Arc::clone(&sources);
                let Ok(found) = spawn_blocking(move || reader.load()).await else { return };
                let Some(shared) = shared.upgrade() else { return };
                let admission = Self { shared };
                match found {
                    Ok(loaded) => {
                        if mistake.take().is_some() {
                            admission.note_failed_reload(None);
                        }
                        let config = loaded.into_config();
                        if known.as_ref() != Some(&config) {
                            let mode = config.mode;
                            // The loaded settings are valid: the sources have checked them.
                            match admission.reload(AdmissionBuilder::from(config.clone())) {
                                Ok(()) => {
                                    admission.set_mode(mode);
                                    report(Ok(()));
                                }
                                // The settings are valid as such, and can't be changed while the handle is at work.
                                Err(error) => report(Err(ConfigError::from(error))),
                            }
                            known = Some(config);
                        }
                    }
                    Err(error) => {
                        let text = error.to_string();
                        if mistake.as_ref() != Some(&text) {
                            admission.note_failed_reload(Some(&text));
                            report(Err(error));
                            mistake = Some(text);
                        }
                    }
                }
                drop(admission);
                tokio::time::sleep(interval).await;
            }
        }))
    }
}
