//! What the journal of a server says, and what it says next.

use serde_json::Value;
use tower_admission::{introspection::JournalPage, journal::JournalEntry};

use crate::{
    args::JournalArgs,
    client::{Client, encode},
    failure::Failure,
};

/// As many as the server gives at once.
const PAGE: usize = 1_000;

/// A page, and its entries as they were answered.
type Page = JournalPage<Value>;

/// Some entries, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) capacity: usize,
    pub(super) newest: u64,
    /// How long ago the handle was made, in seconds, when they were read.
    pub(super) now: f64,
    pub(super) entries: Vec<JournalEntry>,
    /// The same, as they were answered.
    pub(super) json: Vec<Value>,
    /// How many were pushed out before they could be read, as far as can be said.
    pub(super) lost: u64,
    /// Whether the server was restarted, so that all entries are of another journal.
    pub(super) started_anew: bool,
}

impl Batch {
    fn add(&mut self, client: &Client, page: Page, now: f64) -> Result<(), Failure> {
        (self.capacity, self.newest, self.now) = (page.capacity, page.newest, now);
        for json in page.entries {
            self.entries.push(client.read(json.clone())?);
            self.json.push(json);
        }
        Ok(())
    }

    /// Leaves the newest ones.
    fn keep(&mut self, count: usize) {
        self.entries.drain(..self.entries.len().saturating_sub(count));
        self.json.drain(..self.json.len().saturating_sub(count));
    }
}

/// Reads on where it stopped.
#[derive(Debug)]
pub(super) struct Feed<'a> {
    client: &'a Client,
    /// What is asked for besides, as a part of the query.
    filter: String,
    /// The number of the last entry that was read.
    since: u64,
    /// The age of the handle at that time.
    now: f64,
}

impl<'a> Feed<'a> {
    /// The newest entries, so many, and what comes after them.
    pub(super) async fn open(client: &'a Client, args: &JournalArgs) -> Result<(Self, Batch), Failure> {
        let filters = [
            ("kind", &args.kind),
            ("partition", &args.partition),
            ("namespace", &args.namespace),
            ("label", &args.label),
            ("rule", &args.rule),
            ("reason", &args.reason),
            ("decision", &args.decision),
        ];
        let filters = filters.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let filter = filters.map(|(name, value)| format!("&{name}={}", encode(value))).collect();
        let mut feed = Self { client, filter, since: 0, now: 0.0 };
        let mut batch = Batch::default();
        if args.limit <= PAGE {
            let next = feed.page(None, args.limit.max(1), &mut batch).await?;
            (feed.since, feed.now) = (next.unwrap_or(batch.newest), batch.now);
        } else {
            batch = feed.read_on().await?;
        }
        batch.keep(args.limit);
        Ok((feed, batch))
    }

    /// What is new since the last time.
    pub(super) async fn next(&mut self) -> Result<Batch, Failure> {
        let (since, now) = (self.since, self.now);
        let mut batch = self.read_on().await?;
        if batch.newest < since || batch.now < now {
            self.since = 0;
            batch = Batch { started_anew: true, ..self.read_on().await? };
        } else if self.filter.is_empty() {
            batch.lost = (batch.newest - since).saturating_sub(batch.entries.len() as u64);
        }
        Ok(batch)
    }

    /// All pages from where it stopped.
    async fn read_on(&mut self) -> Result<Batch, Failure> {
        let mut batch = Batch::default();
        let mut since = self.since;
        while let Some(next) = self.page(Some(since), PAGE, &mut batch).await? {
            // A server that goes round in circles is none of ours.
            if next <= since {
                break;
            }
            since = next;
        }
        (self.since, self.now) = (batch.newest, batch.now);
        Ok(batch)
    }

    async fn page(&self, since: Option<u64>, limit: usize, batch: &mut Batch) -> Result<Option<u64>, Failure> {
        let since = since.map(|number| format!("&since={number}")).unwrap_or_default();
        let path = format!("/journal?limit={limit}{since}{}", self.filter);
        let (json, now) = self.client.get_dated(&path).await?;
        let page: Page = self.client.read(json)?;
        let next = page.next_since;
        batch.add(self.client, page, now)?;
        Ok(next)
    }
}
