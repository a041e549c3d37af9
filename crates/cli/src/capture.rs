//! `admission capture`: the last minutes of a server, to be replayed.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use http::Method;

use crate::{
    args::CaptureArgs,
    client::{Client, block_on},
    failure::{End, Failure},
};

pub(crate) fn run(args: &CaptureArgs) -> Result<End, Failure> {
    let client = Client::new(&args.server)?;
    let path = path(args.last, args.max_bytes);
    let method = match (args.start, args.stop) {
        (true, _) => Method::POST,
        (_, true) => Method::DELETE,
        _ => Method::GET,
    };
    let ask = |out: &mut dyn Write| block_on(client.fetch(&method, &path, out));
    match &args.output {
        Some(file) => to_file(file, ask),
        None => ask(&mut io::stdout().lock()).map(|()| End::Well),
    }
}

/// Where the capture is. A part of a second is a whole one.
pub(crate) fn path(last: Option<Duration>, max_bytes: Option<usize>) -> String {
    let seconds = last.map(|last| last.as_secs() + u64::from(last.subsec_nanos() > 0));
    let parameters = [("last", seconds), ("max_bytes", max_bytes.map(|bytes| bytes as u64))];
    let parameters = parameters.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    let query = parameters.collect::<Vec<_>>().join("&");
    if query.is_empty() { "/capture".to_owned() } else { format!("/capture?{query}") }
}

/// A file that is there only if all of it came.
fn to_file(path: &Path, ask: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<End, Failure> {
    let trouble = |error: io::Error| Failure::Missing(format!("{}: {error}", path.display()));
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let mut out = io::BufWriter::new(File::create(part).map_err(trouble)?);
    let fetched = ask(&mut out).and_then(|()| out.flush().map_err(trouble));
    let done = fetched.and_then(|()| std::fs::rename(part, path).map_err(trouble));
    if done.is_err() {
        let _ = std::fs::remove_file(part);
    }
    done.map(|()| End::Well)
}
