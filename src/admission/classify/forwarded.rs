//! Callers by their IP address.

use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
    num::NonZeroU8,
};

use http::HeaderName;

use super::KeyExtractor;
use crate::admission::RequestHead;

/// A key from the IP address of the connection: a `SocketAddr` in the extensions of the request, or axum's
/// `ConnectInfo` with the feature `axum`.
///
/// Needs `into_make_service_with_connect_info::<SocketAddr>()` and, with axum, the feature `axum`. Without either the key is missing,
/// and all such requests share one label, with one rate and one cap.
///
#[cfg_attr(feature = "axum", doc = "```no_run")]
#[cfg_attr(not(feature = "axum"), doc = "```ignore")]
/// use std::net::SocketAddr;
/// use axum::{Router, routing::get};
/// use tower_admission::{Admission, AdmissionLayer, Cap, ClassLimits, Rules, classify::by_peer_ip};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let each = ClassLimits::new().max_in_flight(Cap::from(4).reject()); // of each address
/// let admission = Admission::builder().rules(Rules::new().default_limits(each)).build()?;
/// let app: Router = Router::new()
///     .route("/", get(async || "ok"))
///     .layer(AdmissionLayer::new(&admission).classify(by_peer_ip().as_label()));
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
/// axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
/// # Ok(())
/// # }
/// ```
///
/// With tonic's own server use `by_extension(|info: &TcpConnectInfo| ...)`.
pub fn by_peer_ip() -> KeyExtractor {
    KeyExtractor::new(|request| peer(request).map(|ip| Cow::Owned(ip.to_string())))
}

/// A key from the client's IP address in `X-Forwarded-For`, behind `proxies` trusted proxies.
///
/// Each proxy appends the address of its caller at the right end, so the entry of the client is number `proxies` from
/// the right. The client itself may have sent everything further left, in any bytes: these entries are ignored. Several
/// header lines are one list, and an empty entry is an entry.
///
/// The key is the address of the connection, as in [`by_peer_ip`], in two cases. With fewer entries than proxies, the
/// request has bypassed a proxy. An entry that is not an address, such as `unknown` or a name, says nothing about the
/// client. All such requests have the key of the last proxy.
///
/// Each address is a key of its own, and a client with IPv6 commonly has 2⁶⁴ of them.
pub fn by_forwarded_ip(proxies: NonZeroU8) -> KeyExtractor {
    KeyExtractor::new(move |request| {
        let ip = forwarded(request, proxies).or_else(|| peer(request))?;
        Some(Cow::Owned(ip.to_string()))
    })
}

fn peer(request: &RequestHead<'_>) -> Option<IpAddr> {
    let extensions = request.extensions();
    #[cfg(feature = "axum")]
    if let Some(info) = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(info.0.ip().to_canonical());
    }
    extensions.get::<SocketAddr>().map(|address| address.ip().to_canonical())
}

fn forwarded(request: &RequestHead<'_>, proxies: NonZeroU8) -> Option<IpAddr> {
    const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
    let lines = request.headers().get_all(X_FORWARDED_FOR).iter().rev();
    // A stranger chose the bytes to the left: only the entry that a proxy has written is taken for text.
    let mut entries = lines.flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b','));
    let entry = entries.nth(usize::from(proxies.get()) - 1)?;
    address(std::str::from_utf8(entry.trim_ascii()).ok()?)
}

/// An address with or without a port, in brackets or not.
fn address(text: &str) -> Option<IpAddr> {
    let plain = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let ip = plain.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    ip.map(|ip: IpAddr| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn ip<V: AsRef<[u8]>>(proxies: u8, values: &[V], peer: Option<&str>) -> Option<String> {
        let mut request = Request::new(());
        for value in values {
            let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
            request.headers_mut().append("x-forwarded-for", value);
        }
        if let Some(peer) = peer {
            request.extensions_mut().insert(SocketAddr::new(peer.parse().unwrap(), 1));
        }
        let head = RequestHead::of(&request);
        (by_forwarded_ip(proxies.try_into().unwrap()).key)(&head).map(Cow::into_owned)
    }

    #[test]
    fn the_client_is_counted_from_the_right_so_what_it_sends_itself_does_not_matter() {
        assert_eq!(ip(1, &["6.6.6.6, 1.2.3.4"], None).as_deref(), Some("1.2.3.4"));
        assert_eq!(ip(2, &["6.6.6.6, 1.2.3.4", "10.0.0.1"], None).as_deref(), Some("1.2.3.4"));
        assert_eq!(ip(1, &["[2001:db8::1]:443"], None).as_deref(), Some("2001:db8::1"));
        assert_eq!(ip(1, &["::ffff:1.2.3.4"], None).as_deref(), Some("1.2.3.4"));
        assert_eq!(ip(1, &["1.2.3.4:99"], None).as_deref(), Some("1.2.3.4"));
    }

    #[test]
    fn what_does_not_fit_falls_back_to_the_connection() {
        let peer = Some("9.9.9.9");
        for values in [&[][..], &["1.2.3.4"], &["garbage, 1.2.3.4"], &["", ""]] {
            assert_eq!(ip(2, values, peer).as_deref(), Some("9.9.9.9"), "{values:?}");
        }
        assert_eq!(ip::<&str>(2, &[], None), None);
    }

    #[test]
    fn what_a_client_sends_is_not_looked_at() {
        let peer = Some("9.9.9.9");
        for value in [&b"\xff, 1.2.3.4"[..], b"\xff\xfe,,\x80 , 1.2.3.4", b"unknown, _hidden, for=1, [, ], 1.2.3.4"] {
            assert_eq!(ip(1, &[value], peer).as_deref(), Some("1.2.3.4"), "{value:?}");
        }
        assert_eq!(ip(2, &[&b"\xff"[..], b"1.2.3.4", b"10.0.0.1"], peer).as_deref(), Some("1.2.3.4"));
        // What a proxy has written is, and may be of no use.
        for value in
            [&b"1.2.3.4, \xff"[..], b"1.2.3.4,", b"1.2.3.4, unknown", b"1.2.3.4, 5.6.7.8\xff", b"1.2.3.4, [::1"]
        {
            assert_eq!(ip(1, &[value], peer).as_deref(), Some("9.9.9.9"), "{value:?}");
        }
        assert_eq!(ip(2, &["6.6.6.6, , 10.0.0.1"], peer).as_deref(), Some("9.9.9.9"), "an empty entry is an entry");
    }

    proptest! {
        /// However its own bytes are cut into lines and entries.
        #[test]
        fn no_client_changes_its_key(proxies in 1u8..4, own in vec(vec(9u8..=255, 0..40), 0..20)) {
            let mut lines: Vec<Vec<u8>> = own.into_iter().map(|mut line| {
                // What a header can't hold never arrives.
                line.retain(|&byte| HeaderValue::from_bytes(&[byte]).is_ok());
                line
            }).collect();
            lines.push(b"1.2.3.4".to_vec());
            lines.extend((1..proxies).map(|_| b"10.0.0.1".to_vec()));
            let apart = ip(proxies, &lines, Some("9.9.9.9"));
            prop_assert_eq!(apart.as_deref(), Some("1.2.3.4"));
            let joined = ip(proxies, &[lines.join(&b", "[..])], Some("9.9.9.9"));
            prop_assert_eq!(joined.as_deref(), Some("1.2.3.4"));
        }
    }
}
