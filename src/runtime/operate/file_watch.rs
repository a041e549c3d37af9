//! Settings that follow their files.

use std::{sync::Arc, time::Duration};

use tokio::task::{JoinHandle, spawn_blocking};

use crate::config::{ConfigError, Sources};
use crate::runtime::{
    Admission, AdmissionBuilder,
    core::{lock, shielded},
};

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
    /// mounted directories. What is no regular file, such as a named pipe, is a mistake.
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
            let sources = Arc::new(sources.watched());
            let report = move |outcome| _ = shielded(|| report(outcome));
            // A text that can't be read, and why the settings that were read last can't be taken.
            let (mut mistake, mut refused) = (None, None);
            loop {
                let reader = Arc::clone(&sources);
                // A closure among the sources may panic, and may not the next time.
                let found = spawn_blocking(move || shielded(|| reader.load())).await;
                let (Ok(found), Some(shared)) = (found, shared.upgrade()) else { return };
                let admission = Self { shared };
                match found {
                    Some(Ok(loaded)) => {
                        if mistake.take().is_some() {
                            admission.note_failed_reload(refused.as_deref());
                        }
                        let config = loaded.into_config();
                        if known.as_ref() != Some(&config) {
                            // The settings are valid as such, and some can't be changed while the handle is at work.
                            let taken = admission.reload(AdmissionBuilder::from(config.clone()));
                            refused = taken.as_ref().err().map(ToString::to_string);
                            report(taken.map_err(ConfigError::from));
                            known = Some(config);
                        }
                    }
                    Some(Err(error)) => {
                        let text = error.to_string();
                        if mistake.as_ref() != Some(&text) {
                            admission.note_failed_reload(Some(&text));
                            report(Err(error));
                            mistake = Some(text);
                        }
                    }
                    None => {
                        mistake = Some("a source of settings panicked".to_owned());
                        admission.note_failed_reload(mistake.as_deref());
                    }
                }
                drop(admission);
                tokio::time::sleep(interval).await;
            }
        }))
    }
}
