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
    text::escaped,
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
        None => ask(&mut Shown::default()).map(|()| End::Well),
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

/// Standard output, line by line: what could harm a terminal is written as JSON can write it.
#[derive(Debug, Default)]
struct Shown {
    begun: Vec<u8>,
}

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        if bytes.contains(&b'\n') {
            let end = self.begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            let lines: Vec<_> = self.begun.drain(..end).collect();
            io::stdout().write_all(escaped(&String::from_utf8_lossy(&lines)).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut out = io::stdout();
        out.write_all(escaped(&String::from_utf8_lossy(&std::mem::take(&mut self.begun))).as_bytes())?;
        out.flush()
    }
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
