//! Which requests are answered.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};

/// The addresses from which a [`CommandCenter`](crate::CommandCenter) answers requests: by default,
/// those of this machine.
///
/// The address is taken from the connection. A header such as `Forwarded` is not read, since any
/// client can send it. A centre that is nested in a service of axum learns the address if the
/// service is made by `into_make_service_with_connect_info::<SocketAddr>()`. Without the address, a
/// request is refused.
///
/// A proxy on this machine hides the address of its client. A request that tells a proxy, by
/// `Forwarded`, `Via`, `X-Forwarded-For` or `X-Real-IP`, is therefore refused. A proxy that sends
/// none of these cannot be told from a client on this machine: do not nest a centre in a service
/// that is behind one, and give the centre a port of its own that the proxy does not forward.
///
/// Requests of web pages are refused as well: those with an `Origin`, with a `Sec-Fetch-Site` other
/// than `none`, or with a `Host` that is neither an address of one machine nor `localhost`. A
/// dashboard sends none of these, and addresses a service by the address that the service has
/// registered. So a web page can read no answer, also not under a name that was pointed at this
/// machine (DNS rebinding). Browsers tell `Sec-Fetch-Site` only to loopback addresses and over TLS.
/// Without it, a request that changes rules is refused if a browser has made it: one with an
/// `Accept-Language`, or with the `User-Agent` of a browser.
///
/// ```
/// use leaparray_sentinel::Access;
///
/// let access = Access::default().allow("10.1.2.3".parse()?).allow("10.8.0.0/16".parse()?);
/// assert!(access.allows("10.8.255.1".parse()?));
/// assert!(access.allows("::ffff:10.1.2.3".parse()?), "the same address");
/// assert!(access.allows("127.0.0.1".parse()?));
/// assert!(!access.allows("10.9.0.1".parse()?));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Access {
    networks: Vec<Network>,
}

impl Default for Access {
    /// Allows the addresses of this machine: `127.0.0.0/8` and `::1`.
    fn default() -> Self {
        let loopback = [
            Network { address: IpAddr::from([127, 0, 0, 0]), bits: 8 },
            Network::from(IpAddr::from(Ipv6Addr::LOCALHOST)),
        ];
        Self { networks: loopback.to_vec() }
    }
}

impl Access {
    /// Allows an address, or all addresses of a network, beside the allowed ones.
    pub fn allow(mut self, network: Network) -> Self {
        self.networks.push(network);
        self
    }

    /// Returns whether requests from an address are answered. An IPv4 address that is mapped to an
    /// IPv6 address is the IPv4 address.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|it| it.contains(address))
    }

    /// Returns why a request is refused, if it is.
    pub(crate) fn check(&self, request: &Parts) -> Result<(), &'static str> {
        if is_of_page(request) {
            return Err(OF_PAGE);
        }
        if PROXIES.iter().any(|it| request.headers.contains_key(*it)) {
            return Err(
                "The command centre answers no requests of proxies, which hide the address of the \
                 client",
            );
        }
        match request.extensions.get::<ConnectInfo<SocketAddr>>() {
            Some(ConnectInfo(from)) if self.allows(from.ip()) => Ok(()),
            Some(_) => Err("The command centre does not allow this address"),
            None => Err(
                "The command centre is not told the address of the connection: make the service by \
                 `into_make_service_with_connect_info::<SocketAddr>()`",
            ),
        }
    }
}

/// Why a request of a web page is refused.
const OF_PAGE: &str = "The command centre answers no requests of web pages";

/// The header by which a browser tells which page has made a request: `none` for an address that
/// was typed.
const FETCH_SITE: &str = "sec-fetch-site";

/// The headers by which a proxy tells that it is one.
const PROXIES: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];

/// Returns why a request that changes something is refused, if it is, although it is
/// [allowed](Access::check): a web page may have made it, which can read no answer.
pub(crate) fn check_change(headers: &HeaderMap) -> Result<(), &'static str> {
    let is_browser = |it: &HeaderValue| it.as_bytes().starts_with(b"Mozilla/");
    let may_be_of_page = !headers.contains_key(FETCH_SITE)
        && (headers.contains_key(header::ACCEPT_LANGUAGE)
            || headers.get(header::USER_AGENT).is_some_and(is_browser));
    if may_be_of_page { Err(OF_PAGE) } else { Ok(()) }
}

/// Returns whether a web page is known to have made a request, or can read its answer.
fn is_of_page(request: &Parts) -> bool {
    let headers = &request.headers;
    let is_foreign = |it: &HeaderValue| it.as_bytes() != b"none";
    headers.contains_key(header::ORIGIN)
        || headers.get(FETCH_SITE).is_some_and(is_foreign)
        || headers.get(header::HOST).is_some_and(|it| !it.to_str().is_ok_and(is_address))
        // HTTP/2 has the name here.
        || request.uri.authority().is_some_and(|it| !is_address(it.as_str()))
}

/// Returns whether a `Host` is an address of one machine or `localhost`, with or without a port.
fn is_address(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        // A colon in brackets is one of an IPv6 address.
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    // `0.0.0.0` and `[::]` reach this machine as well, and browsers do not know that.
    let is_name = match bare {
        Some(bare) => bare.parse().is_ok_and(|it: Ipv6Addr| !it.is_unspecified()),
        None => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse().is_ok_and(|it: Ipv4Addr| !it.is_unspecified())
        }
    };
    is_name && port.bytes().all(|it| it.is_ascii_digit())
}

/// An address, or the addresses that begin with the same bits: `10.1.2.3`, `10.0.0.0/8`,
/// `2001:db8::/32`.
///
/// ```
/// use leaparray_sentinel::Network;
///
/// let network: Network = "10.8.0.0/16".parse()?;
/// assert!(network.contains("10.8.3.4".parse()?));
/// let error = "10.8.0.0/33".parse::<Network>().unwrap_err();
/// assert!(error.to_string().starts_with("\"10.8.0.0/33\" is no network; write an address"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Returns whether an address is one of these.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                let differing = u32::from(one) ^ u32::from(other);
                differing.leading_zeros() >= self.bits
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => {
                let differing = u128::from(one) ^ u128::from(other);
                differing.leading_zeros() >= self.bits
            }
            _ => false,
        }
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, bits: bits_of(address) }
    }
}

const fn bits_of(address: IpAddr) -> u32 {
    if address.is_ipv4() { u32::BITS } else { u128::BITS }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let error = || NetworkError { text: text.to_owned() };
        let (address, bits) = match text.split_once('/') {
            None => (text, None),
            Some((address, bits)) => (address, Some(bits)),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let Some(bits) = bits else { return Ok(address.into()) };
        let bits = bits.parse().ok().filter(|&it| it <= bits_of(address)).ok_or_else(error)?;
        let own = address.to_canonical();
        // Of a mapped IPv4 address, the last 32 bits are its own.
        match bits_of(address) - bits_of(own) {
            mapped if mapped <= bits => Ok(Self { address: own, bits: bits - mapped }),
            _ => Ok(Self { address, bits }),
        }
    }
}

/// A text is no [`Network`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetworkError {
    /// The text.
    pub text: String,
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no network; write an address, or one with the number of its leading bits, such \
             as 10.0.0.0/8",
            self.text
        )
    }
}

impl std::error::Error for NetworkError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_hosts() {
        for host in
            ["127.0.0.1", "10.0.0.1:8719", "[::1]", "[::1]:8719", "localhost", "LOCALHOST:1"]
        {
            assert!(is_address(host), "{host}");
        }
        for host in ["a.example", "a.example:8719", "127.0.0.1.a.example", "", ":8719", "[a]:1"] {
            assert!(!is_address(host), "{host}");
        }
    }

    #[test]
    fn network_of_no_bits_has_all_addresses_of_its_family() {
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains(IpAddr::from([255, 1, 2, 3])));
        assert!(!all.contains(Ipv6Addr::LOCALHOST.into()));
        let mapped: Network = "::ffff:10.0.0.0/104".parse().unwrap();
        assert_eq!(mapped, "10.0.0.0/8".parse().unwrap());
        for text in ["", "10.0.0.0/", "10.0.0.0/-1", "::/129", "a/8"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
