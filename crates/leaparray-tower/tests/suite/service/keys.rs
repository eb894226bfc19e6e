//! Limits for each client or tenant.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use leaparray::flow::keyed::OfKey;
use leaparray::flow::{
    AllOf, ConcurrencyLimiter, Keyed, LimiterExt, Rate, SlidingWindowLimiter, TokenBucket,
};
use leaparray::{Clock, ManualClock, Resource, WindowConfig};
use tower::{Layer, Service};

use crate::service::{
    Manual, Step, Steps, answering, endings_of, get, layer, poll_body, poll_now, registry,
};

/// One request in a second for each client, and bursts of two.
fn clients(registry: &Manual, max_keys: usize) -> Arc<Keyed<IpAddr, TokenBucket<ManualClock>>> {
    let bucket = TokenBucket::with_clock(Rate::per_second(1).unwrap(), 2, registry.clock().clone());
    Arc::new(Keyed::new(bucket, max_keys).unwrap())
}

/// Returns the address of a client, which a server puts into the extensions of a request.
fn address<A>(request: &Request<A>) -> Cow<'static, IpAddr> {
    Cow::Owned(*request.extensions().get().unwrap())
}

fn get_from(client: u8) -> Request<()> {
    let mut request = get("/");
    request.extensions_mut().insert(IpAddr::from([192, 0, 2, client]));
    request
}

fn empty() -> Response<Steps> {
    Response::new(Steps::default().that_says_its_end())
}

#[test]
fn each_client_has_a_limit_of_its_own() {
    let registry = registry();
    let clients = clients(&registry, 1_000);
    let keyed = Arc::clone(&clients);
    let layer = layer(&registry).limit_by(move |request: &Request<()>, _: &Resource<_>| {
        Some(OfKey::new(Arc::clone(&keyed), address(request)))
    });
    let mut service = layer.layer(answering(empty()));
    let mut ask = |client| poll_now(service.call(get_from(client))).unwrap();
    let statuses = [1, 1, 1, 2, 1].map(|client| ask(client).status().as_u16());
    assert_eq!(statuses, [200, 200, 429, 200, 429]);
    let refused = ask(1);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.headers()["ratelimit-policy"], "\"default\";q=2;w=2");
    assert_eq!(refused.headers()["ratelimit"], "\"default\";r=0;t=1");
    registry.clock().advance(Duration::from_secs(1));
    assert_eq!([1, 1].map(|client| ask(client).status().as_u16()), [200, 429]);
    assert_eq!(endings_of(&registry, "/"), [4, 0, 0, 4, 0]);
    let top = clients.top_refused(10);
    assert_eq!((top.len(), top[0].key, top[0].refusals), (1, IpAddr::from([192, 0, 2, 1]), 4));
}

#[test]
fn known_client_is_served_while_there_is_no_room_for_others() {
    let registry = registry();
    let clients = clients(&registry, 2);
    let keyed = Arc::clone(&clients);
    let layer = layer(&registry).limit_by(move |request: &Request<()>, _: &Resource<_>| {
        Some(OfKey::new(Arc::clone(&keyed), address(request)))
    });
    let mut service = layer.layer(answering(empty()));
    let mut ask = |client| poll_now(service.call(get_from(client))).unwrap();
    let statuses = [1, 2, 3, 4, 1].map(|client| ask(client).status().as_u16());
    assert_eq!(statuses, [200, 200, 503, 503, 200]);
    assert!(!ask(3).headers().contains_key("retry-after"), "when a place is free is not known");
    assert_eq!((clients.len(), clients.counts().no_room_refusals), (2, 3));
}

#[test]
fn permit_of_a_client_is_in_use_until_the_end_of_the_body() {
    let registry = registry();
    let make = (|| ConcurrencyLimiter::new(1), registry.clock().clone());
    let keyed = Arc::new(Keyed::<IpAddr, _>::new(make, 10).unwrap());
    let layer = layer(&registry).limit_by(move |request: &Request<()>, _: &Resource<_>| {
        Some(OfKey::new(Arc::clone(&keyed), address(request)))
    });
    let mut service = layer.layer(answering(Response::new(Steps::of([Step::Data(b"data")]))));
    let mut ask = |client| poll_now(service.call(get_from(client))).unwrap();
    let mut first = ask(1).into_body();
    assert_eq!([1, 2].map(|client| ask(client).status().as_u16()), [429, 200]);
    while let std::task::Poll::Ready(Some(_)) = poll_body(&mut first) {}
    assert_eq!(ask(1).status(), 200);
}

/// A request that one of the two limits refuses takes no permit of the other.
#[test]
fn client_has_a_limit_beside_the_one_of_the_service() {
    let registry = registry();
    let clients = clients(&registry, 10);
    let rate = Rate::per_second(1).unwrap();
    let all = Arc::new(TokenBucket::with_clock(rate, 3, registry.clock().clone()));
    let (keyed, shared) = (Arc::clone(&clients), Arc::clone(&all));
    let layer = layer(&registry).limit_by(move |request: &Request<()>, _: &Resource<_>| {
        let client = OfKey::new(Arc::clone(&keyed), address(request));
        Some(AllOf::new((Arc::clone(&shared), client)))
    });
    let mut service = layer.layer(answering(empty()));
    let mut ask = |client| poll_now(service.call(get_from(client))).unwrap().status().as_u16();
    assert_eq!([1, 1, 1].map(&mut ask), [200, 200, 429]);
    assert_eq!(all.quota_at(registry.clock().now()).unwrap().remaining, 1);
    assert_eq!([2, 2].map(&mut ask), [200, 429]);
    let now = registry.clock().clone();
    let quota = clients.of_key(&IpAddr::from([192, 0, 2, 2])).quota_at(now.now());
    assert_eq!(quota.map(|quota| quota.remaining), Some(1));
}

/// Members have no limit, or a window of their own. Their requests do not count in the window of
/// the guests, although all are of one route.
#[test]
fn members_take_no_permits_of_guests() {
    let second = WindowConfig::new(10, Duration::from_secs(1)).unwrap();
    for of_members in [None, Some(100)] {
        let registry = registry();
        let window = |limit| {
            let clock = registry.clock().clone();
            Arc::new(SlidingWindowLimiter::of_buckets_with_clock(second, limit, clock).unwrap())
        };
        let (members, guests) = (of_members.map(window), window(10));
        let layer = layer(&registry).limit_by(move |request: &Request<()>, _: &Resource<_>| {
            let is_member = request.headers().contains_key("member");
            if is_member { members.clone() } else { Some(Arc::clone(&guests)) }
        });
        let mut service = layer.layer(answering(empty()));
        for _ in 0..18 {
            let member = Request::get("/").header("member", "").body(()).unwrap();
            assert_eq!(poll_now(service.call(member)).unwrap().status(), 200);
        }
        let statuses = [(); 11].map(|()| poll_now(service.call(get("/"))).unwrap().status());
        let (admitted, refused) = statuses.split_at(10);
        assert!(admitted.iter().all(|&it| it == 200) && refused == [429], "{statuses:?}");
    }
}
