//! Settings of a Redis store.

use std::time::Duration;

use redis::{Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

#[cfg(feature = "redis-cluster")]
use super::moving::Newcomers;
use super::{RedisStore, connection::Target};
use crate::{Keys, StoreError};

/// What happens after the server was started anew, without its data or with older data, or was never used before.
///
/// A restart of the server is known by the identifier of its run, and a loss of its data by a missing key. Where `INFO`
/// is not permitted, a server that comes back with older data is not noticed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AfterRestart {
    /// Fail closed: nothing is granted for this long, in which the holders of leases come back and register them again.
    /// No request is admitted above a cap. Where leases or locks live longer than this, the quiet lasts as long as they
    /// do.
    ///
    /// A server that is used for the first time looks the same, so the first grant is made that much later.
    Quiet(Duration),
    /// Fail open: grants at once. Until the holders of leases have renewed them, up to the cap may run above it.
    Grant,
}

/// Settings of a [`RedisStore`].
#[derive(Clone, Debug)]
#[must_use]
pub struct RedisBuilder {
    target: Result<Target, StoreError>,
    keys: Keys,
    settings: Settings,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) timeout: Duration,
    pub(super) after_restart: AfterRestart,
    pub(super) seed: Option<u64>,
}

impl Settings {
    /// Returns how long nothing is granted after a restart.
    pub(super) const fn quiet(&self) -> Duration {
        match self.after_restart {
            AfterRestart::Quiet(quiet) => quiet,
            AfterRestart::Grant => Duration::ZERO,
        }
    }
}

impl RedisBuilder {
    pub(super) fn server(url: &str, keys: Keys) -> Self {
        let target = address(url).and_then(|info| Client::open(info).map_err(|_| unreadable()));
        Self::new(target.map(|client| Target::Server(Box::new(client))), keys)
    }

    #[cfg(feature = "redis-cluster")]
    pub(super) fn cluster<'a>(urls: impl IntoIterator<Item = &'a str>, keys: Keys) -> Self {
        let nodes: Result<Vec<_>, _> = urls.into_iter().map(address).collect();
        let target = nodes.and_then(|nodes| {
            let like = nodes.first().cloned().ok_or_else(unreadable)?;
            let client = redis::cluster::ClusterClient::builder(nodes)
                // Replaying is up to us, and so are the time limits.
                .retries(0)
                .use_protocol(ProtocolVersion::RESP3)
                .tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true))
                .build()
                .map_err(|_| unreadable())?;
            Ok(Target::Cluster(Box::new(client), Newcomers::new(like)))
        });
        Self::new(target, keys)
    }

    fn new(target: Result<Target, StoreError>, keys: Keys) -> Self {
        let settings = Settings {
            timeout: Duration::from_millis(50),
            after_restart: AfterRestart::Quiet(Duration::from_secs(10)),
            seed: None,
        };
        Self { target, keys, settings }
    }

    /// How long a request waits for its answer, making the connection included; 50 ms unless set, 1 ms at least.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// What happens after the server was started anew; ten seconds of quiet unless set.
    pub fn after_restart(mut self, after_restart: AfterRestart) -> Self {
        self.settings.after_restart = after_restart;
        self
    }

    /// Makes the jitter of probes repeatable, for tests.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// Returns the store. It connects when it is first asked, so a server that is down is no error here.
    ///
    /// # Errors
    ///
    /// [`StoreError::Configuration`] if an address can't be read. It does not repeat the address, which may hold a
    /// password.
    pub fn build(self) -> Result<RedisStore, StoreError> {
        Ok(RedisStore::new(self.target?, &self.keys, self.settings))
    }
}

/// Chooses a provider of cryptography, unless there is one. Without it the first connection would panic: the program
/// may have chosen none, and other crates may have enabled several.
#[cfg(feature = "redis-tls")]
fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // If this is lost to another thread, there is a provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

fn address(url: &str) -> Result<ConnectionInfo, StoreError> {
    let info = url.into_connection_info().map_err(|_| unreadable())?;
    #[cfg(feature = "redis-tls")]
    if matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. }) {
        choose_cryptography();
    }
    // Notices come over the same connection, which takes the newer protocol. Small messages are sent at once.
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    Ok(info.set_redis_settings(redis).set_tcp_settings(tcp))
}

fn unreadable() -> StoreError {
    StoreError::Configuration(
        "the address of the store can't be read; rediss:// needs the feature redis-tls".to_owned(),
    )
}
