//! A store of one's own: rows in a file of a folder, which all processes of a machine share.
//!
//! A table does as well, read by `SELECT … FOR UPDATE` and written in the same transaction. What is counted, and what a store
//! promises, is the library's: `RowStore` passes its contract on these rows, in the test below.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs::{self, File},
    io::{self, ErrorKind},
    path::PathBuf,
    process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::SystemTime,
};

use fd_lock::RwLock;
use tower_admission::store::{Key, RowStore, Rows, Step, Store, StoreError, StoreFuture, contract};

/// A folder. Its clock is that of the machine, which must not be set back.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn change(&self, keys: &[Key], step: Step<'_>) -> io::Result<()> {
        // Freed when it is closed, also where its process is killed. Steps are short, so a thread waits for the lock, and no time
        // limit ends that.
        let mut lock = RwLock::new(File::create(self.0.join("lock"))?);
        let _locked = lock.write()?;
        let mut all: BTreeMap<String, String> = match fs::read(self.0.join("rows.json")) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        let mut rows: Vec<_> = keys.iter().map(|key| all.remove(key.as_str()).unwrap_or_default()).collect();
        step(SystemTime::UNIX_EPOCH.elapsed().map_err(io::Error::other)?, &mut rows);
        all.extend(keys.iter().map(|key| key.as_str().to_owned()).zip(rows).filter(|(_, row)| !row.is_empty()));
        // A file that is written halfway does not take the place of a whole one.
        fs::write(self.0.join("next.json"), serde_json::to_vec(&all)?)?;
        fs::rename(self.0.join("next.json"), self.0.join("rows.json"))
    }
}

impl Rows for Folder {
    fn change<'a>(&'a self, keys: &'a [Key], step: Step<'a>) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.change(keys, step).map_err(|_| StoreError::Unavailable) })
    }
}

/// A folder for each call, empty.
fn fresh() -> io::Result<Folder> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("own-store-{}-{}", process::id(), NUMBER.fetch_add(1, Relaxed));
    let folder = env::temp_dir().join(name);
    fs::create_dir_all(&folder)?;
    Ok(Folder(folder))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = fresh()?;
    contract::check(async || {
        // Each check begins without rows; where there were none, there is nothing to remove.
        let _ = fs::remove_file(folder.0.join("rows.json"));
        Arc::new(RowStore::new(Folder(folder.0.clone()))) as Arc<dyn Store>
    })
    .await?;
    fs::remove_dir_all(folder.0)?;
    println!("the store keeps what a store promises");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, time::Duration};

    use tower_admission::store::{Acquired, Claim, Claims, Keys, Request, Token};

    use super::*;

    #[test]
    fn it_keeps_what_a_store_promises() {
        main().unwrap();
    }

    /// What two processes do.
    #[tokio::test]
    async fn two_stores_share_what_is_in_the_folder() {
        let folder = fresh().unwrap();
        let stores = [0, 1].map(|_| RowStore::new(Folder(folder.0.clone())));
        let claims = Claims::new(vec![Claim::cap(Keys::new("own").unwrap().cap("a", "label", "x"), NonZeroU32::MIN)]);
        let request = || Request::new(Token::random().unwrap(), claims.clone().unwrap(), Duration::from_secs(60));
        assert!(matches!(stores[0].acquire(&request()).await, Ok(Acquired::Granted(_))));
        assert!(matches!(stores[1].acquire(&request()).await, Ok(Acquired::Full(_))));
        let rows = fs::read_to_string(folder.0.join("rows.json")).unwrap();
        fs::write(folder.0.join("rows.json"), rows.replace("holders", "what")).unwrap();
        assert!(
            matches!(stores[1].acquire(&request()).await, Err(StoreError::Refused(_))),
            "no row is taken for another"
        );
        fs::remove_dir_all(folder.0).unwrap();
    }
}
