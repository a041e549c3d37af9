//! What other programs put into the headers of a request on its way: baggage, and numbers of attempts.

use std::borrow::Cow;

use http::{HeaderName, HeaderValue};

use super::{Classify, KeyExtractor};
use crate::{Criticality, admission::RequestHead, ticket::Ticket};

static BAGGAGE: HeaderName = HeaderName::from_static("baggage");
static PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");
static ENVOY_ATTEMPT: HeaderName = HeaderName::from_static("x-envoy-attempt-count");

/// A key from the member `name` of W3C Baggage, which tracing libraries pass on from service to service: the first one,
/// where there are several. Properties of the member are ignored, and its value is percent-decoded. A value that is not
/// UTF-8 then counts as missing, and so does all that is beyond 8,192 bytes of baggage.
///
/// Callers can send any baggage, as they can send any header: let a gateway remove what comes from strangers.
///
/// ```
/// # let admission = tower_admission::Admission::builder().build().unwrap();
/// use tower_admission::{AdmissionLayer, classify::{by_baggage, demote_retries}};
///
/// // baggage: criticality=sheddable_plus,tenant=acme;since=2024
/// let level = by_baggage("criticality").as_criticality();
/// let classify = (by_baggage("tenant").as_label(), level, demote_retries(1));
/// let layer = AdmissionLayer::new(&admission).classify(classify);
/// ```
pub fn by_baggage(name: &str) -> KeyExtractor {
    /// What each platform has to pass on.
    const MOST_BYTES: usize = 8_192;
    let name = name.to_owned();
    KeyExtractor::new(move |request| {
        let lines = request.headers().get_all(&BAGGAGE).iter();
        let lines = lines.scan(MOST_BYTES, |left, line: &HeaderValue| {
            *left = left.checked_sub(line.len())?;
            Some(line)
        });
        let members = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
        let mut pairs = members.filter_map(|member| member.split(';').next()?.split_once('='));
        pairs.find(|(key, _)| key.trim_ascii() == name).and_then(|(_, value)| percent_decoded(value.trim_ascii()))
    })
}

/// Percent-encoding (RFC 3986, section 2.1) of what is UTF-8 then; `None` for anything else.
pub(crate) fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    let Some((plain, encoded)) = text.split_once('%') else { return Some(Cow::Borrowed(text)) };
    let mut bytes = plain.as_bytes().to_vec();
    for part in encoded.split('%') {
        let (digits, plain) = part.split_at_checked(2)?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_number)?);
        bytes.extend_from_slice(plain.as_bytes());
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Lowers the [criticality](crate::Ticket::criticality) of retries by one level, from this retry of a request on, so that
/// first attempts are served before them: 1 is the first retry, and 0 counts as 1. Put it last in a tuple of classifiers.
///
/// The number of attempts is that of `grpc-previous-rpc-attempts`, which clients of gRPC send (gRFC A6), or of
/// `x-envoy-attempt-count`, which an Envoy proxy sends where its route has `include_request_attempt_count`. A client that
/// sends neither is taken for a first attempt. [`by_baggage`] has an example.
pub fn demote_retries(from: u32) -> impl Classify {
    move |request: &RequestHead<'_>, ticket: &mut Ticket<'_>| {
        let number = |name| request.header(name)?.trim_ascii().parse::<u32>().ok();
        let attempts = number(&ENVOY_ATTEMPT).map(|attempt| attempt.saturating_sub(1));
        if number(&PREVIOUS_ATTEMPTS).max(attempts) >= Some(from.max(1)) {
            ticket.set_criticality(match ticket.how_critical() {
                Criticality::CriticalPlus => Criticality::Critical,
                Criticality::Critical => Criticality::SheddablePlus,
                _ => Criticality::Sheddable,
            });
        }
    }
}
