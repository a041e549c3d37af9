//! Callers by their IP address.

use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
    num::NonZeroU8,
};

use http::HeaderName;

use super::By;
use crate::admission::RequestHead;

/// By the IP address of the connection: a `SocketAddr` in the extensions of the request, or axum's `ConnectInfo` with
/// the feature `axum`. Missing where the server puts neither there.
///
/// tonic's own server has it elsewhere: `by_extension(|info: &TcpConnectInfo| ...)`.
pub fn by_peer_ip() -> By {
    By::new(|request| peer(request).map(|ip| Cow::Owned(ip.to_string())))
}

/// By the client's IP address in `X-Forwarded-For`, behind `proxies` proxies that you trust.
///
/// Each of those adds the address it was called from at the right end, so the client is the one at this place counted
/// from there. Everything further left was sent by the client itself and may say anything. Where there are fewer
/// addresses than proxies, somebody came past one of them: then the address of the connection counts, as in
/// [`by_peer_ip`].
pub fn by_forwarded_ip(proxies: NonZeroU8) -> By {
    By::new(move |request| {
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
    let mut values = Vec::new();
    for header in request.headers().get_all(X_FORWARDED_FOR) {
        values.extend(header.to_str().ok()?.split(','));
    }
    let place = values.len().checked_sub(usize::from(proxies.get()))?;
    address(values[place].trim())
}

/// An address with or without a port, in brackets or not.
fn address(text: &str) -> Option<IpAddr> {
    let plain = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let ip = plain.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    ip.map(|ip: IpAddr| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn ip(proxies: u8, values: &[&str], peer: Option<&str>) -> Option<String> {
        let mut request = Request::new(());
        for value in values {
            request.headers_mut().append("x-forwarded-for", value.parse().unwrap());
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
        assert_eq!(ip(2, &[], None), None);
    }
}
