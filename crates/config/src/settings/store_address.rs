//! Whether an address names a store. Judged from its text, so that a configuration can be checked where there is no client.
//!
//! The grammar is that of the client, for all of its features; a test compares the two.

use std::{
    net::{IpAddr, Ipv6Addr},
    str,
};

const EXAMPLE: &str = "allowed is one such as redis://10.0.0.5:6379/, rediss://… or unix:///run/redis.sock";

/// What is wrong with an address. Repeats nothing of it, for it may hold a password.
pub(crate) fn problem(url: &str) -> Option<String> {
    let wrong = judge(url).err()?;
    Some(format!("{wrong}, {EXAMPLE}"))
}

fn judge(url: &str) -> Result<(), &'static str> {
    let url: String =
        url.trim_matches(|c: char| c <= ' ').chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
    let (scheme, rest) = url.split_once(':').ok_or("found no address")?;
    let (rest, fragment) = split(rest, '#');
    let (rest, query) = split(rest, '?');
    let query = query.unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "redis" | "valkey" => server(rest)?,
        "rediss" | "valkeys" => {
            server(rest)?;
            if fragment.is_some_and(|fragment| fragment != "insecure") {
                return Err("found an unknown fragment at its end");
            }
        }
        "unix" | "redis+unix" | "valkey+unix" => {
            socket(rest)?;
            if last(query, "db").is_some_and(|database| database.parse::<i64>().is_err()) {
                return Err("found a database that is not a number");
            }
        }
        _ => return Err("found an unknown scheme"),
    }
    match last(query, "protocol").as_deref() {
        None | Some("2" | "resp2" | "3" | "resp3") => Ok(()),
        Some(_) => Err("found an unknown protocol"),
    }
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

/// `//user:password@host:port/database`.
fn server(rest: &str) -> Result<(), &'static str> {
    let rest = rest.strip_prefix("//").ok_or("found no host")?;
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (user, host) = parts(authority)?;
    if str::from_utf8(&decoded(user)).is_err() {
        return Err("found a user or a password that is not UTF-8");
    }
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if address.parse().is_ok_and(|address: IpAddr| address.is_unspecified()) {
        return Err("found 0.0.0.0 or ::, which is no host to connect to");
    }
    let database = path.trim_matches('/');
    if database.is_empty() || database.parse::<i64>().is_ok() {
        Ok(())
    } else {
        Err("found a database that is not a number")
    }
}

/// `///path/of/a/socket`.
fn socket(rest: &str) -> Result<(), &'static str> {
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => {
            let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
            if !authority.is_empty() && parts(authority)?.1 != "localhost" {
                return Err("found a host before the path of a socket");
            }
            path
        }
    };
    if path.starts_with('/') { Ok(()) } else { Err("found no path to a socket") }
}

/// The user with the password, and the host. A port has to be one, and is left out.
fn parts(authority: &str) -> Result<(&str, &str), &'static str> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let end = if host.starts_with('[') { host.find(']').map(|at| at + 1) } else { host.find(':') };
    let (host, port) = host.split_at(end.unwrap_or(host.len()));
    let port = if port.is_empty() { "" } else { port.strip_prefix(':').ok_or("found an invalid port")? };
    let is_port = port.is_empty() || port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if host.is_empty() {
        return Err("found no host");
    }
    let is_host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => !host.contains(|c: char| c <= ' ' || "<>[]\\^|\u{7f}".contains(c)),
    };
    match (is_host, is_port) {
        (false, _) => Err("found an invalid host"),
        (true, false) => Err("found an invalid port"),
        (true, true) => Ok((user, host)),
    }
}

/// What a query says last of a name.
fn last(query: &str, name: &str) -> Option<String> {
    let plain = |text: &str| String::from_utf8_lossy(&decoded(&text.replace('+', " "))).into_owned();
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.rev().find(|(key, _)| plain(key) == name).map(|(_, value)| plain(value))
}

/// Bytes for what is percent-encoded.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let hex = |byte: u8| char::from(byte).to_digit(16);
        let encoded = match others {
            [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        let byte = encoded.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &others[2..] } else { others };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_not_repeated() {
        for url in ["redis://h", "rediss://u:p%40@h:1/2#insecure", "valkey://[::1]/", "unix:///s?db=1", " REDIS://h:/ "]
        {
            assert_eq!(problem(url), None, "{url}");
        }
        for (url, said) in [
            ("", "no address"),
            ("planted", "no address"),
            ("http://planted", "unknown scheme"),
            ("redis:planted", "no host"),
            ("redis://planted@", "no host"),
            ("redis://planted@0.0.0.0", "0.0.0.0"),
            ("redis://planted@[::]:1", "::"),
            ("redis://planted:65536", "a port"),
            ("redis://h/planted", "a database"),
            ("redis://%ff:planted@h", "not UTF-8"),
            ("rediss://h#planted", "a fragment"),
            ("redis://h?protocol=planted", "unknown protocol"),
            ("unix://planted/s", "a host before"),
        ] {
            let problem = problem(url).unwrap_or_default();
            let said = said.trim_start_matches("a ");
            assert!(problem.contains(said) && problem.contains("redis://10"), "{url}: {problem}");
            assert!(!problem.contains("planted"), "{problem}");
        }
    }

    /// The client is the oracle: of all combinations of these parts, both take the same.
    #[cfg(feature = "redis-tls")]
    #[test]
    fn what_is_accepted_is_what_the_client_accepts() {
        use tower_admission_store::{Keys, RedisStore};
        let schemes =
            ["redis:", "rediss:", "valkey:", "VALKEYS:", "unix:", "redis+unix:", "http:", "r:", "", "1redis:"];
        let users = ["", "u@", "u:p@", ":p@ss@", "%40:%f0%9f%92%a9@", "%ff@", "u:%c3@", "u:ü@", "@", "a:b:c@", "%zz@"];
        let hosts = [
            "h",
            "10.0.0.5",
            "0.0.0.0",
            "[::1]",
            "[::]",
            "[zz]",
            "[::1",
            "",
            "localhost",
            "h_1",
            "h h",
            "h|",
            "ü.de",
            "a%20b",
            "h<",
        ];
        let ports = ["", ":", ":6379", ":65535", ":65536", ":x", ":-1", ":+1", ":007"];
        let paths = ["", "/", "/0", "/15/", "//3", "/x", "/-1", "/1.5", "/run/redis.sock"];
        let ends = [
            "",
            "?protocol=resp3",
            "?protocol=4",
            "?db=2&protocol=2",
            "?db=x",
            "?protocol=9&protocol=3",
            "#insecure",
            "#other",
            "?x#y",
        ];
        let keys = Keys::new("a").unwrap();
        let (mut accepted, mut refused, mut differing) = (0, 0, Vec::new());
        let mut compare = |url: String| {
            let client = RedisStore::builder(&url, keys.clone()).build().is_ok();
            if problem(&url).is_none() != client {
                differing.push(url);
            }
            *(if client { &mut accepted } else { &mut refused }) += 1;
        };
        for scheme in schemes {
            for user in users {
                for host in hosts {
                    for port in ports {
                        compare(format!("{scheme}//{user}{host}{port}/0"));
                    }
                    for path in paths {
                        for end in ends {
                            compare(format!("{scheme}//{user}{host}{path}{end}"));
                        }
                    }
                }
            }
            for rest in
                ["", "h", "/h", "///", "///run/s?db=1", "/run/s?db=x", " ", "//h\n/0", "//localhost/run/s", "////h"]
            {
                compare(format!("{scheme}{rest}"));
                compare(format!(" {scheme}{rest} \t"));
            }
        }
        let some = &differing[..differing.len().min(30)];
        assert!(differing.is_empty(), "{} differ: {some:#?}", differing.len());
        assert!(accepted > 5_000 && refused > 50_000, "{accepted} accepted, {refused} refused");
    }
}
