//! The tools that send requests.

use std::{net::SocketAddr, process::Command};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tool {
    /// HTTP/1.1.
    Wrk,
    /// HTTP/2 without TLS.
    H2load,
}

/// What a tool saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) per_second: f64,
    pub(crate) requests: u64,
    pub(crate) refused: u64,
}

impl Tool {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "wrk" => Some(Self::Wrk),
            "h2load" => Some(Self::H2load),
            _ => None,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::H2load => "h2load",
        }
    }

    /// Sends requests for so many seconds.
    pub(crate) fn send(self, to: SocketAddr, connections: usize, seconds: u64) -> Seen {
        let (url, connections) = (format!("http://{to}/"), format!("-c{connections}"));
        let mut command = Command::new(self.name());
        match self {
            Self::Wrk => command.args(["-t1", &connections, &format!("-d{seconds}s")]),
            Self::H2load => command.args(["-t1", &connections, "-m1", &format!("--duration={seconds}")]),
        };
        let output = command.args(["-H", "x-tenant: checkout", &url]).output();
        let output = output.unwrap_or_else(|error| panic!("{} doesn't run: {error}", self.name()));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        self.read(&text).unwrap_or_else(|| panic!("{} says {text}", self.name()))
    }

    /// Reads the report of a tool.
    fn read(self, text: &str) -> Option<Seen> {
        let word_after = |start: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(start))?;
            line.split_whitespace().next()
        };
        match self {
            Self::Wrk => {
                let total = text.lines().find_map(|line| line.trim().split_once(" requests in "))?.0;
                let per_second = word_after("Requests/sec:")?.parse().ok()?;
                // The line is missing where there were none.
                let refused = word_after("Non-2xx or 3xx responses:").map_or(Some(0), |count| count.parse().ok())?;
                Some(Seen { per_second, requests: total.parse().ok()?, refused })
            }
            Self::H2load => {
                let rate = text.lines().find_map(|line| line.strip_prefix("finished in "))?.split(", ").nth(1)?;
                let codes = text.lines().find_map(|line| line.strip_prefix("status codes: "))?;
                let code = |name: &str| -> Option<u64> {
                    codes.split(", ").find_map(|part| part.strip_suffix(name))?.trim().parse().ok()
                };
                let refused = code("5xx")?;
                Some(Seen {
                    per_second: rate.strip_suffix(" req/s")?.parse().ok()?,
                    requests: code("2xx")? + refused,
                    refused,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_wrk_are_read() {
        let accepted = "  81563 requests in 1.10s, 10.03MB read\nRequests/sec:  74144.71\nTransfer/sec:      9.12MB\n";
        let seen = Seen { per_second: 74_144.71, requests: 81_563, refused: 0 };
        assert_eq!(Tool::Wrk.read(accepted), Some(seen));
        let refused = "  10 requests in 1.10s, 1MB read\n  Non-2xx or 3xx responses: 10\nRequests/sec:  9.5\n";
        assert_eq!(Tool::Wrk.read(refused), Some(Seen { per_second: 9.5, requests: 10, refused: 10 }));
        assert_eq!(Tool::Wrk.read("unable to connect"), None);
    }

    #[test]
    fn reports_of_h2load_are_read() {
        let text = "finished in 1.00s, 31337.00 req/s, 1.2MB/s\nrequests: 31337 total, 31337 started\n\
                    status codes: 31330 2xx, 0 3xx, 0 4xx, 7 5xx\n";
        let seen = Seen { per_second: 31_337.0, requests: 31_337, refused: 7 };
        assert_eq!(Tool::H2load.read(text), Some(seen));
        assert_eq!(Tool::H2load.read(""), None);
    }
}
