//! The part of a request that classifiers see: everything but its body.

use http::{Extensions, HeaderMap, HeaderName, Method, Request, Uri, header::CONTENT_TYPE};

/// Looked up by name, it would be parsed for every response.
pub(super) static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The head of a request. Borrowed, `Copy`, and the same for every body type.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
}

impl<'r> RequestHead<'r> {
    /// The head of `request`.
    pub fn of<B>(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// The method.
    pub const fn method(&self) -> &'r Method {
        self.method
    }

    /// The URI. Behind a nested router some frameworks cut off its prefix.
    pub const fn uri(&self) -> &'r Uri {
        self.uri
    }

    /// The headers; the metadata of a gRPC call.
    pub const fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// The extensions.
    pub const fn extensions(&self) -> &'r Extensions {
        self.extensions
    }

    /// The value of a header as text, UTF-8 included; the first one, where there are several.
    pub fn header(&self, name: &HeaderName) -> Option<&'r str> {
        let value = self.headers.get(name)?;
        // Nearly all values are plain ASCII, which is found out faster.
        value.to_str().ok().or_else(|| std::str::from_utf8(value.as_bytes()).ok())
    }

    /// Whether this is a gRPC or gRPC-Web call: a POST with the content type of one.
    pub fn is_grpc(&self) -> bool {
        *self.method == Method::POST && is_grpc(self.headers)
    }
}

/// `application/grpc`, `-web` and `-web-text` behind it or not, alone or followed by `+`, `;` or a space, in any case as all media
/// types. `application/grpcfoo` is something else.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(&CONTENT_TYPE) else { return false };
    // Most other types differ in what stands behind the `/`.
    let Some((kind, rest)) = value.as_bytes().split_at_checked(12) else { return false };
    let Some(rest) = behind(rest, b"grpc").filter(|_| kind.eq_ignore_ascii_case(b"application/")) else { return false };
    let rest = behind(rest, b"-web").map_or(rest, |web| behind(web, b"-text").unwrap_or(web));
    matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// What follows `word`, in any case, if `text` begins with it.
fn behind<'t>(text: &'t [u8], word: &[u8]) -> Option<&'t [u8]> {
    let (head, rest) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_a_post_with_its_content_type() {
        let ask = |method: Method, value: &str| {
            let request = Request::builder().method(method).header(CONTENT_TYPE, value).body(()).unwrap();
            RequestHead::of(&request).is_grpc()
        };
        let check = |value: &str| ask(Method::POST, value);
        for kind in
            ["grpc", "GRPC", "grpc+proto", "grpc; a=b", "grpc ; a=b", "grpc-web", "grpc-Web+proto", "grpc-web-text"]
        {
            assert!(check(&format!("application/{kind}")) && check(&format!("Application/{kind}")), "{kind}");
        }
        for kind in ["grpcfoo", "grpc-webfoo", "grpc-webtext", "grpc-web-textual", "grpc-text", "applications/grpc", ""]
        {
            assert!(!check(&format!("application/{kind}")) && !check(kind), "{kind}");
        }
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::OPTIONS] {
            assert!(!ask(method.clone(), "application/grpc"), "{method}");
        }
        assert!(!RequestHead::of(&Request::post("/").body(()).unwrap()).is_grpc());
    }
}
