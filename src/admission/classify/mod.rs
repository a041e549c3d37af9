//! Which partition a request belongs to.
//!
//! A classifier fills in the [`Ticket`] of a request. A request without a partition is in the default partition. The
//! built-in classifiers neither panic nor answer a request.

mod carried;
mod forwarded;

use std::{borrow::Cow, collections::HashMap, fmt, marker::PhantomData};

#[cfg(feature = "introspect")]
pub(crate) use carried::percent_decoded;
pub use carried::{by_baggage, demote_retries};
pub use forwarded::{by_forwarded_ip, by_peer_ip};
use http::HeaderName;

use super::RequestHead;
use crate::{
    Criticality,
    keys::{LabelKey, PartitionKey},
    ticket::Ticket,
};

/// Fills in the ticket of a request. Implemented for closures; closures that borrow from the request need
/// [`classify_fn`].
///
/// ```
/// use tower_admission::{Admission, AdmissionLayer, Ticket, classify::RequestHead, percent};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let admission = Admission::builder().partition("reports", percent(20)).build()?;
/// let layer = AdmissionLayer::new(&admission).classify(|request: &RequestHead<'_>, ticket: &mut Ticket<'_>| {
///     if request.uri().path().starts_with("/reports") {
///         ticket.set_partition("reports");
///     }
/// });
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no classifier of HTTP requests",
    note = "a classifier is `by_header(…)` or one like it, several of them as a tuple, or a closure `|request: &RequestHead<'_>, ticket: &mut Ticket<'_>| …`",
    note = "write `classify_fn(|request, ticket| …)` for a closure that borrows from the request"
)]
pub trait Classify: Send + Sync + 'static {
    /// Fills in the ticket. Runs outside the lock, once per request.
    fn classify<'r>(&self, request: &RequestHead<'r>, ticket: &mut Ticket<'r>);

    /// Returns the header that names the partition, where nothing else is filled in: then no ticket is needed.
    #[doc(hidden)]
    fn partition_header(&self) -> Option<&HeaderName> {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<F> Classify for F
where
    F: for<'r> Fn(&RequestHead<'r>, &mut Ticket<'r>) + Send + Sync + 'static,
{
    fn classify<'r>(&self, request: &RequestHead<'r>, ticket: &mut Ticket<'r>) {
        self(request, ticket);
    }
}

/// A classifier from a closure that borrows from the request.
///
/// A closure that is not given to this function may only set owned names: the compiler assumes that request and ticket
/// are unrelated, and says `lifetime may not live long enough`.
///
/// ```
/// use tower_admission::{Admission, AdmissionLayer, classify::classify_fn};
///
/// # let admission = Admission::builder().build().unwrap();
/// let layer = AdmissionLayer::new(&admission).classify(classify_fn(|request, ticket| {
///     if let Some(tenant) = request.headers().get("x-tenant").and_then(|tenant| tenant.to_str().ok()) {
///         ticket.set_label(tenant);
///     }
/// }));
/// ```
pub const fn classify_fn<F>(classify: F) -> F
where
    F: for<'r> Fn(&RequestHead<'r>, &mut Ticket<'r>) + Send + Sync + 'static,
{
    classify
}

type Key = dyn for<'r> Fn(&RequestHead<'r>) -> Option<Cow<'r, str>> + Send + Sync;

/// Notes in a ticket what the key of its request says.
type Set = for<'r> fn(&mut Ticket<'r>, Cow<'r, str>);

/// A classifier that extracts a key from the request. Made by [`by_header`] and its siblings.
///
/// The key is the name of the partition, unless a [map](Self::map) translates it. Keys come from strangers: a key that
/// names no partition means the default partition.
#[must_use]
pub struct KeyExtractor {
    key: Box<Key>,
    /// The header that the key is read from, if it is one.
    header: Option<HeaderName>,
    set: Set,
    sets_partition: bool,
    map: Option<HashMap<String, String>>,
    next: Option<Box<Self>>,
}

impl KeyExtractor {
    fn new(key: impl for<'r> Fn(&RequestHead<'r>) -> Option<Cow<'r, str>> + Send + Sync + 'static) -> Self {
        let set: Set = |ticket, key| ticket.set_partition(key);
        Self { key: Box::new(key), header: None, set, sets_partition: true, map: None, next: None }
    }

    /// Translates keys into partitions; a key that is not in the map counts as missing.
    ///
    /// ```
    /// let by_tenant = tower_admission::classify::by_header("x-tenant").map([("acme", "gold"), ("globex", "gold")]);
    /// ```
    pub fn map<K, V>(mut self, partitions: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<String>,
        V: Into<String>,
    {
        self.map = Some(partitions.into_iter().map(|(key, partition)| (key.into(), partition.into())).collect());
        self
    }

    /// Uses the key as the class instead of the partition; see [`Ticket::class`].
    ///
    /// ```
    /// use tower_admission::classify::{by_grpc_method, by_header};
    ///
    /// let classify = (by_header("x-tenant"), by_grpc_method().as_class());
    /// ```
    pub const fn as_class(self) -> Self {
        self.by(|ticket, key| ticket.set_class(key))
    }

    /// Uses the key as the label instead of the partition; see [`Ticket::label`].
    ///
    /// ```
    /// use tower_admission::classify::{by_header, by_peer_ip};
    ///
    /// let classify = (by_header("x-pool").as_label().or(by_peer_ip().as_label()), by_header("x-run-id").as_run());
    /// ```
    pub const fn as_label(self) -> Self {
        self.by(|ticket, key| ticket.set_label(key))
    }

    /// Uses the key as the namespace of the label; see [`Ticket::namespace`].
    pub const fn as_namespace(self) -> Self {
        self.by(|ticket, key| ticket.set_namespace(key))
    }

    /// Uses the key as the run; see [`Ticket::run`].
    pub const fn as_run(self) -> Self {
        self.by(|ticket, key| ticket.set_run(key))
    }

    /// Uses the key as the criticality, in the words of [`Criticality::as_str`]; other words are ignored.
    pub const fn as_criticality(self) -> Self {
        self.by(|ticket, key| Criticality::from_word(&key).into_iter().for_each(|it| ticket.set_criticality(it)))
    }

    /// Uses `next` where the key is missing.
    pub fn or(mut self, next: Self) -> Self {
        self.next = Some(match self.next.take() {
            Some(known) => Box::new(known.or(next)),
            None => Box::new(next),
        });
        self
    }

    const fn by(mut self, set: Set) -> Self {
        (self.set, self.sets_partition) = (set, false);
        self
    }
}

/// All classifiers, one after the other.
macro_rules! classify_all {
    ($($part:ident $number:tt),*) => {
        impl<$($part: Classify),*> Classify for ($($part,)*) {
            fn classify<'r>(&self, request: &RequestHead<'r>, ticket: &mut Ticket<'r>) {
                $(self.$number.classify(request, ticket);)*
            }
        }
    };
}

classify_all!(A 0, B 1);
classify_all!(A 0, B 1, C 2);
classify_all!(A 0, B 1, C 2, D 3);

impl Classify for KeyExtractor {
    fn classify<'r>(&self, request: &RequestHead<'r>, ticket: &mut Ticket<'r>) {
        let key = (self.key)(request).filter(|key| !key.is_empty());
        let name = match &self.map {
            None => key,
            Some(map) => key.and_then(|key| map.get(&*key)).cloned().map(Cow::Owned),
        };
        if let Some(name) = name {
            (self.set)(ticket, name);
        } else if let Some(next) = &self.next {
            next.classify(request, ticket);
        }
    }

    fn partition_header(&self) -> Option<&HeaderName> {
        let names_it = self.sets_partition && self.map.is_none() && self.next.is_none();
        self.header.as_ref().filter(|_| names_it)
    }
}

impl fmt::Debug for KeyExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyExtractor").field("map", &self.map).field("next", &self.next).finish_non_exhaustive()
    }
}

/// A key from a header; of several lines, the first. In gRPC, headers are called metadata.
///
/// Callers can send any header: let a gateway set it, or put the layer behind the authentication and take the key from
/// an extension.
///
/// [Several tenants](crate::docs::tenants#n-in-flight-for-each-tenant-429-beyond) has a recipe for the partition and the label from one
/// header.
///
/// # Panics
///
/// If `name` can't be the name of a header.
pub fn by_header(name: &str) -> KeyExtractor {
    let name = HeaderName::try_from(name).unwrap_or_else(|_| panic!("{name:?} can't be the name of a header"));
    let header = Some(name.clone());
    let key = KeyExtractor::new(move |request| request.header(&name).map(|value| Cow::Borrowed(value.trim_ascii())));
    KeyExtractor { header, ..key }
}

/// A key from the extensions of the request, where an outer layer has put it, such as the claims of a token.
///
/// ```
/// #[derive(Clone)]
/// struct Claims { tenant: String }
///
/// let by_tenant = tower_admission::classify::by_extension(|claims: &Claims| Some(claims.tenant.as_str().into()));
/// ```
pub fn by_extension<T, F>(key: F) -> KeyExtractor
where
    T: Clone + Send + Sync + 'static,
    F: for<'t> Fn(&'t T) -> Option<Cow<'t, str>> + Send + Sync + 'static,
{
    KeyExtractor::new(move |request| key(request.extensions().get::<T>()?))
}

/// Sets the label by a key that an outer layer has put into the extensions of the request: no text is read or hashed. An
/// extension that is missing, or holds no key, sets none.
///
/// ```
/// use tower_admission::classify::{LabelKey, label_by_extension};
///
/// #[derive(Clone)]
/// struct Tenant { label: LabelKey }
///
/// let by_tenant = label_by_extension(|tenant: &Tenant| Some(&tenant.label));
/// ```
pub fn label_by_extension<T, F>(key: F) -> impl Classify
where
    T: Clone + Send + Sync + 'static,
    F: for<'t> Fn(&'t T) -> Option<&'t LabelKey> + Send + Sync + 'static,
{
    ByExtension { find: key, set: |ticket, key| ticket.set_label_key(key), extension: PhantomData }
}

/// Sets the partition by a key that an outer layer has put into the extensions of the request: no name is read or
/// compared. An extension that is missing, or holds no key, sets none.
///
/// ```
/// use tower_admission::{Admission, AdmissionLayer, classify::{PartitionKey, partition_by_extension}, percent};
///
/// #[derive(Clone)]
/// struct Plan { partition: Option<PartitionKey> }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let admission = Admission::builder().partition("gold", percent(50)).build()?;
/// let gold = Plan { partition: admission.partition_key("gold") };
/// let layer = AdmissionLayer::new(&admission).classify(partition_by_extension(|plan: &Plan| plan.partition.as_ref()));
/// # Ok(())
/// # }
/// ```
pub fn partition_by_extension<T, F>(key: F) -> impl Classify
where
    T: Clone + Send + Sync + 'static,
    F: for<'t> Fn(&'t T) -> Option<&'t PartitionKey> + Send + Sync + 'static,
{
    ByExtension { find: key, set: |ticket, key| ticket.set_partition_key(key), extension: PhantomData }
}

/// A classifier that sets what a key in an extension says.
struct ByExtension<T, F, K: 'static> {
    find: F,
    set: for<'r> fn(&mut Ticket<'r>, &'r K),
    extension: PhantomData<fn(&T)>,
}

impl<T, F, K> Classify for ByExtension<T, F, K>
where
    T: Clone + Send + Sync + 'static,
    F: for<'t> Fn(&'t T) -> Option<&'t K> + Send + Sync + 'static,
    K: 'static,
{
    #[inline]
    fn classify<'r>(&self, request: &RequestHead<'r>, ticket: &mut Ticket<'r>) {
        if let Some(key) = request.extensions().get::<T>().and_then(&self.find) {
            (self.set)(ticket, key);
        }
    }
}

/// A key from the route that axum has matched, such as `/users/{id}`. Missing where the layer wraps the whole router:
/// use `Router::layer` or `Router::route_layer`.
#[cfg(feature = "axum")]
#[cfg_attr(docsrs, doc(cfg(feature = "axum")))]
pub fn by_matched_path() -> KeyExtractor {
    by_extension(|path: &axum::extract::MatchedPath| Some(Cow::Borrowed(path.as_str())))
}

/// A key from the gRPC service, such as `grpc.health.v1.Health`. Missing where the request is not gRPC.
pub fn by_grpc_service() -> KeyExtractor {
    KeyExtractor::new(|request| grpc_path(request).map(|(service, _)| Cow::Borrowed(service)))
}

/// A key from the gRPC service and method, such as `grpc.health.v1.Health/Check`. Missing where the request is not
/// gRPC.
pub fn by_grpc_method() -> KeyExtractor {
    KeyExtractor::new(|request| {
        grpc_path(request)?;
        Some(Cow::Borrowed(&request.uri().path()[1..]))
    })
}

fn grpc_path<'r>(request: &RequestHead<'r>) -> Option<(&'r str, &'r str)> {
    let path = request.uri().path().strip_prefix('/').filter(|_| request.is_grpc())?;
    path.split_once('/').filter(|(_, method)| !method.is_empty() && !method.contains('/'))
}

/// A predicate that is true for exactly these paths; for [`AdmissionLayer::exempt`](crate::AdmissionLayer::exempt).
///
/// ```
/// # let admission = tower_admission::Admission::builder().build().unwrap();
/// use tower_admission::{AdmissionLayer, classify::paths};
///
/// let layer = AdmissionLayer::new(&admission).exempt(paths(["/healthz", "/readyz", "/metrics"]));
/// ```
pub fn paths<P: Into<String>>(
    paths: impl IntoIterator<Item = P>,
) -> impl Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static {
    let paths: Vec<String> = paths.into_iter().map(Into::into).collect();
    move |request| paths.iter().any(|path| path == request.uri().path())
}

#[cfg(test)]
mod tests {
    use http::{Request, header::CONTENT_TYPE};

    use super::*;
    use crate::{Admission, AdmissionLayer, percent};

    fn partition(by: &KeyExtractor, request: &Request<()>) -> Option<String> {
        let mut ticket = Ticket::new();
        by.classify(&RequestHead::of(request), &mut ticket);
        ticket.partition_name().map(str::to_owned)
    }

    #[test]
    fn missing_keys_fall_through_to_the_next_classifier_and_then_to_the_default() {
        let by = by_header("X-Tenant")
            .map([("acme", "gold")])
            .or(by_header("x-plan"))
            .or(by_extension(|n: &u32| Some(n.to_string().into())));
        let request = |tenant: &str, plan: &str| {
            Request::builder().header("x-tenant", tenant).header("x-plan", plan).extension(7u32).body(()).unwrap()
        };
        assert_eq!(partition(&by, &request(" acme ", "free")).as_deref(), Some("gold"));
        assert_eq!(partition(&by, &request("initech", "free")).as_deref(), Some("free"));
        assert_eq!(partition(&by, &request("initech", "")).as_deref(), Some("7"));
        assert_eq!(partition(&by, &Request::new(())), None);
    }

    #[test]
    fn header_values_that_are_not_text_are_missing() {
        let request = Request::builder().header("x-tenant", &b"\xff\xfe"[..]).body(()).unwrap();
        assert_eq!(partition(&by_header("x-tenant"), &request), None);
    }

    /// What is read without a ticket is what a ticket would say.
    #[test]
    fn a_header_names_the_same_partition_with_and_without_a_ticket() {
        let admission =
            Admission::builder().partition("gold", percent(20)).partition("größe", percent(20)).build().unwrap();
        let http = |classify: KeyExtractor| AdmissionLayer::new(&admission).classify(classify).protocol;
        let plain = http(by_header("x-tenant"));
        let mut found = [0; 3];
        for value in
            [&b"gold"[..], b" gold\t", b"Gold", b"", b" ", b"none", b"\xff\xfe", "größe".as_bytes(), b"default"]
        {
            let request = Request::builder().header("x-tenant", value).body(()).unwrap();
            let (head, mut ticket) = (RequestHead::of(&request), Ticket::new());
            assert!(plain.is_blank(&head, false));
            plain.fill_in(&mut ticket, &head, false);
            let partition = admission.shared.partition_of(&ticket);
            assert_eq!(admission.shared.partition(plain.partition_name(&head)), partition, "{value:?}");
            let named = Ticket::named(plain.partition_name(&head));
            assert_eq!(named.partition_name(), ticket.partition_name(), "{value:?}");
            found[partition.index()] += 1;
        }
        assert_eq!(found, [6, 2, 1]);
        let by = || by_header("x-tenant");
        let others =
            [by().map([("a", "gold")]), by().or(by_header("x")), by().as_label(), by_extension(|_: &u32| None)];
        assert!(others.into_iter().all(|other| http(other).partition_header.is_none()), "these need a ticket");
    }

    #[test]
    fn grpc_paths_are_split_and_others_are_missing() {
        let request = |path: &str, kind: &str| Request::post(path).header(CONTENT_TYPE, kind).body(()).unwrap();
        let call = request("/a.B/Do", "application/grpc");
        assert_eq!(partition(&by_grpc_service(), &call).as_deref(), Some("a.B"));
        assert_eq!(partition(&by_grpc_method(), &call).as_deref(), Some("a.B/Do"));
        for other in
            [request("/a.B/Do", "text/plain"), request("/a.B", "application/grpc"), request("/", "application/grpc")]
        {
            assert_eq!(partition(&by_grpc_service(), &other), None);
            assert_eq!(partition(&by_grpc_method(), &other), None);
        }
    }
}
