//! The scripts, and how they are sent.

use std::{fmt, sync::LazyLock};

use redis::Cmd;

use crate::PendingRelease;

/// A script and the name under which the server keeps it.
#[derive(Debug)]
pub(super) struct Script {
    text: &'static str,
    sha: String,
}

macro_rules! scripts {
    ($($name:ident = $file:literal),+ $(,)?) => {
        $(pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!(include_str!("scripts/prelude.lua"), include_str!(concat!("scripts/", $file)))));)+
    };
}

scripts! {
    ACQUIRE = "acquire.lua",
    DRAW = "draw.lua",
    EXTEND = "extend.lua",
    HOLD = "hold.lua",
    LOCK = "lock.lua",
    RELEASE = "release.lua",
    RENEW = "renew.lua",
    UNLOCK = "unlock.lua",
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, sha: sha1_smol::Sha1::from(text).digest().to_string() }
    }
}

/// Writes one key, as decisions do. A replica or a full server answers a `PING`, too, and what stands before a server may
/// answer anything.
pub(super) static PROBE: LazyLock<Script> =
    LazyLock::new(|| Script::new("redis.call('SET', KEYS[1], 1, 'PX', 1000) return {1, 'served'}"));

/// One run of a script.
#[derive(Debug)]
pub(super) struct Call {
    script: &'static Script,
    keys: Vec<String>,
    args: Vec<String>,
    pub(super) upkeep: bool,
    /// What is owed to the server if no answer says what became of the call.
    pub(super) left: Option<PendingRelease>,
}

impl Call {
    pub(super) fn new(script: &'static Script) -> Self {
        Self { script, keys: Vec::with_capacity(8), args: Vec::with_capacity(16), upkeep: false, left: None }
    }

    pub(super) fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Returns the name of another key in the slot of the first one, whose hash tag may be all of it.
    pub(super) fn beside(&self, prefix: &str, name: &str) -> String {
        let first = self.keys.first().map_or("", String::as_str);
        let tag = first.split(['{', '}']).nth(1).unwrap_or(first);
        format!("{prefix}:{{{tag}}}:{name}")
    }

    pub(super) fn arg(mut self, arg: impl fmt::Display) -> Self {
        self.args.push(arg.to_string());
        self
    }

    /// Marks a call that renews or gives back leases: worth sending to a server that grants nothing.
    pub(super) const fn upkeep(mut self, upkeep: bool) -> Self {
        self.upkeep = upkeep;
        self
    }

    pub(super) fn leaving(mut self, left: PendingRelease) -> Self {
        self.left = Some(left);
        self
    }

    /// Returns the command by name, which is sent first, to the server of this `run`.
    pub(super) fn by_name(&self, run: &str) -> Cmd {
        self.command("EVALSHA", &self.script.sha, run)
    }

    /// Returns the command with its text: for a server that doesn't know the script, which it then does. One command
    /// rather than two, so no other client can make the server forget it in between.
    pub(super) fn in_full(&self, run: &str) -> Cmd {
        self.command("EVAL", self.script.text, run)
    }

    /// Returns the command with its text and only the first key declared: for a node of a cluster that takes over their
    /// slot, which refuses scripts that declare several keys unless it has all of them.
    #[cfg(feature = "redis-cluster")]
    pub(super) fn in_full_for_one_key(&self, run: &str) -> Cmd {
        let mut command = redis::cmd("EVAL");
        let (first, more) = self.keys.split_at(self.keys.len().min(1));
        command.arg(self.script.text).arg(first.len()).arg(first);
        command.arg("keys").arg(more.len()).arg(more).arg(&self.args).arg(run);
        command
    }

    fn command(&self, name: &str, script: &str, run: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys).arg(&self.args).arg(run);
        command
    }
}
