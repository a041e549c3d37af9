//! Which requests are answered at all: by the host that they ask, and by the token that they bring.

use std::{fmt, hint::black_box, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request,
    header::{AUTHORIZATION, HOST},
    uri::Authority,
};

use super::reply::Problem;

/// What all routes ask for; nothing, unless told.
#[derive(Clone, Debug, Default)]
pub(super) struct Guard {
    /// No token fits where an empty one was asked for, as where a variable of the environment is missing.
    token: Option<Option<Token>>,
    hosts: Option<Arc<[String]>>,
}

impl Guard {
    pub(super) fn require_token(&mut self, token: &str) {
        self.token = Some(Token::new(token));
    }

    pub(super) fn allow_hosts<H: Into<String>>(&mut self, hosts: impl IntoIterator<Item = H>) {
        let plain = |host: H| plain(&host.into()).to_owned();
        self.hosts = Some(hosts.into_iter().map(plain).collect());
    }

    /// Refuses a request that asks another host: a page of a stranger can point a name of its own at this address, and have the
    /// browser of an operator ask for it.
    pub(super) fn check_host<B>(&self, request: &Request<B>) -> Result<(), Problem> {
        let Some(hosts) = &self.hosts else { return Ok(()) };
        let asked = host_of(request);
        let is_known = asked.is_some_and(|asked| hosts.iter().any(|host| host.eq_ignore_ascii_case(plain(&asked))));
        if is_known { Ok(()) } else { Err(Problem::misdirected()) }
    }

    pub(super) fn check_token(&self, headers: &HeaderMap) -> Result<(), Problem> {
        match &self.token {
            None => Ok(()),
            Some(Some(token)) if token.is_in(headers) || token.is_password_in(headers) => Ok(()),
            Some(_) => Err(Problem::unauthorized_page()),
        }
    }
}

/// The host that a request asks, without its port.
fn host_of<B>(request: &Request<B>) -> Option<String> {
    if let Some(host) = request.uri().host() {
        return Some(host.to_owned());
    }
    Some(Authority::try_from(only(request.headers(), &HOST)?).ok()?.host().to_owned())
}

/// The value of a header that a request may have once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none()).map(HeaderValue::as_bytes)
}

/// A host without the brackets of an address, and without the dot of the root.
fn plain(host: &str) -> &str {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host)
}

/// What a client has to know.
#[derive(Clone)]
pub(super) struct Token(Arc<[u8]>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// `None` for an empty token.
    pub(super) fn new(token: &str) -> Option<Self> {
        (!token.is_empty()).then(|| Self(token.as_bytes().into()))
    }

    /// Whether a request brought this token. How long that takes says nothing about where a wrong one is wrong.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        credentials(headers, b"Bearer ").is_some_and(|given| same(&self.0, given))
    }

    /// Whether a request brought this token as the password of any user, which is how browsers can.
    fn is_password_in(&self, headers: &HeaderMap) -> bool {
        let Some(given) = credentials(headers, b"Basic ") else { return false };
        let Ok(decoded) = STANDARD.decode(given) else { return false };
        let colon = decoded.iter().position(|&byte| byte == b':');
        colon.is_some_and(|colon| same(&self.0, decoded.get(colon + 1..).unwrap_or_default()))
    }
}

/// What follows the scheme in the header of authorization.
fn credentials<'h>(headers: &'h HeaderMap, scheme: &[u8]) -> Option<&'h [u8]> {
    let (of, given) = only(headers, &AUTHORIZATION)?.split_at_checked(scheme.len())?;
    of.eq_ignore_ascii_case(scheme).then_some(given)
}

/// Compares all bytes, however early they differ. Only the length of what was given shows in the time it takes.
fn same(expected: &[u8], given: &[u8]) -> bool {
    let longest = expected.len().max(given.len());
    let byte = |bytes: &[u8], at: usize| bytes.get(at).copied().unwrap_or(0);
    let differing = (0..longest).fold(0, |all, at| black_box(all | (byte(expected, at) ^ byte(given, at))));
    black_box(differing) == 0 && expected.len() == given.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (AUTHORIZATION, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token::new("secret").unwrap();
        for (values, fits) in [
            (&["Bearer secret"][..], true),
            (&["bearer secret"], true),
            (&["Bearer secre"], false),
            (&["Bearer secret "], false),
            (&["Bearer  secret"], false),
            (&["Bearer Secret"], false),
            (&[], false),
            (&["Basic secret"], false),
            (&["Bearer"], false),
            (&["secret"], false),
            (&["Bearer secret", "Bearer secret"], false),
        ] {
            assert_eq!(token.is_in(&with(values)), fits, "{values:?}");
        }
        assert!(Token::new("").is_none());
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn a_browser_brings_the_token_as_a_password() {
        let token = Token::new("sec:ret").unwrap();
        // Of the user `me`, of no user, and wrong ones: another password, no colon, no base64.
        for (value, fits) in [
            ("Basic bWU6c2VjOnJldA==", true),
            ("basic OnNlYzpyZXQ=", true),
            ("Basic bWU6c2VjOnJl", false),
            ("Basic c2Vj", false),
            ("Basic ??", false),
            ("Bearer bWU6c2VjOnJldA==", false),
        ] {
            assert_eq!(token.is_password_in(&with(&[value])), fits, "{value}");
        }
    }

    #[test]
    fn an_empty_token_lets_no_request_in() {
        let mut guard = Guard::default();
        assert!(guard.check_token(&with(&[])).is_ok(), "nothing is asked for, unless told");
        guard.require_token("");
        for values in [&[][..], &["Bearer "], &["Bearer"], &["Basic Og=="]] {
            assert!(guard.check_token(&with(values)).is_err(), "{values:?}");
        }
    }

    #[test]
    fn a_host_is_known_by_its_name_whatever_its_port() {
        let mut guard = Guard::default();
        let ask = |guard: &Guard, uri: &str, hosts: &[&str]| {
            let request = hosts.iter().fold(Request::get(uri), |it, host| it.header(HOST, *host));
            guard.check_host(&request.body(()).unwrap()).is_ok()
        };
        assert!(ask(&guard, "/admission", &["anything"]));
        guard.allow_hosts(["admin.internal", "127.0.0.1", "[::1]"]);
        for (uri, hosts, fits) in [
            ("/admission", &["admin.internal"][..], true),
            ("/admission", &["ADMIN.internal.:9901"], true),
            ("/admission", &["127.0.0.1:9901"], true),
            ("/admission", &["[::1]:9901"], true),
            ("http://admin.internal:9901/admission", &[], true),
            // The authority of the request line is what counts.
            ("http://evil.example/admission", &["admin.internal"], false),
            ("/admission", &["evil.example"], false),
            ("/admission", &["admin.internal.evil.example"], false),
            ("/admission", &["admin.internal@evil.example"], false),
            ("/admission", &["admin.internal", "admin.internal"], false),
            ("/admission", &[""], false),
            ("/admission", &[], false),
        ] {
            assert_eq!(ask(&guard, uri, hosts), fits, "{uri} {hosts:?}");
        }
    }
}
