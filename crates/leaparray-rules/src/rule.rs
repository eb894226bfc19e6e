//! A rule: plain data.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use leaparray::TrafficType;
use leaparray::flow::shadow::Mode;

use crate::caller::KeyValues;
use crate::client::Network;
use crate::condition::{Condition, ConditionTable};
use crate::limit::Limit;
use crate::part::Part;
use crate::pattern::Pattern;
use crate::priority::Priority;
use crate::quantity::{Percent, QuantityError};
use crate::tenants::Tenants;

/// A rule: which requests it concerns, and how it limits them. Plain data, read from a text by
/// [`RuleSet::parse`](crate::RuleSet::parse).
///
/// Its text is a table of TOML, which is read as the same rule:
///
/// ```
/// use leaparray_rules::RuleSet;
///
/// let text = "[[rule]]\n\
///             name = \"each-client\"\n\
///             resource = \"/api/*\"\n\
///             key = \"header:x-api-key\"\n\
///             limit = \"50 per minute, bursts of 10\"\n";
/// let rules = RuleSet::parse(text)?;
/// assert_eq!(rules.rules()[0].to_string(), text);
/// # Ok::<_, leaparray_rules::Problems>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rule {
    /// The name, by which refusals, headers, exporters and the page tell limits apart. The process
    /// keeps each distinct name until it ends, once.
    pub name: Arc<str>,
    /// The direction of the requests.
    pub traffic: Traffic,
    /// The resources: a request of one that matches any of these is concerned.
    pub resources: Vec<Pattern>,
    /// The key by which a request is counted. `None` if all requests count together.
    pub key: Option<KeySource>,
    /// The greatest number of keys that are stored. Further keys share one limit. Of a rule with
    /// [`tenants`](Self::tenants), it is the number of tenants that are busy at the same time; a
    /// further one is admitted while at most half of the limit is in use.
    pub max_keys: usize,
    /// The rule concerns a request if each of these matches its key: `only` in a file. Of
    /// [several](crate::Caller::several) values of a key, one that matches is enough.
    pub only: Vec<Condition>,
    /// The rule does not concern a request if one of these matches its key: `except` in a file. Of
    /// several values of a key, each has to match.
    pub except: Vec<Condition>,
    /// The shares of the limit in flight that the classes of requests may use. `None` if each
    /// request may use all of it. In a box, as most rules have none.
    pub priority: Option<Box<Priority>>,
    /// The tenants that share the limit in flight fairly. `None` if a request may use all of it,
    /// whoever sends it.
    pub tenants: Option<Box<Tenants>>,
    /// How far the rule is enforced.
    pub mode: Mode,
    /// The limiter.
    pub limit: Limit,
}

/// The source of the key by which the requests of a rule are counted: each value has a limit of its
/// own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeySource {
    /// A header of the request, by its name in lower case. A request with several values lacks the
    /// key.
    Header(Box<str>),
    /// The address of the client, without the bits after these.
    Client {
        /// The number of leading bits of an IPv4 address.
        v4: u8,
        /// The number of leading bits of an IPv6 address.
        v6: u8,
    },
    /// The name of the resource.
    Resource,
    /// The name of the [context](leaparray::Resource::in_context) through which the request enters
    /// the resource. A request that enters the resource itself lacks the key.
    Context,
    /// A value that the program has given the request under that name.
    Extension(Box<str>),
}

/// The direction of the requests that a rule concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Traffic {
    /// Requests to this service: `resource` in a file.
    Inbound,
    /// Requests to other services: `outbound` in a file.
    Outbound,
    /// Both: `either` in a file. A resource has one direction; such a rule concerns it whichever
    /// that is.
    Either,
}

impl Traffic {
    /// The directions by their keys in a file.
    pub(crate) const KEYS: [(&str, Self); 3] =
        [("resource", Self::Inbound), ("outbound", Self::Outbound), ("either", Self::Either)];

    /// Returns whether it has requests of that direction.
    #[must_use]
    pub const fn has(self, traffic: TrafficType) -> bool {
        match self {
            Self::Inbound => matches!(traffic, TrafficType::Inbound),
            Self::Outbound => matches!(traffic, TrafficType::Outbound),
            Self::Either => true,
        }
    }

    /// Returns the key by which a file names the resources.
    const fn key(self) -> &'static str {
        match self {
            Self::Inbound => "resource",
            Self::Outbound => "outbound",
            Self::Either => "either",
        }
    }
}

impl Rule {
    /// The number of keys that are stored if the rule does not say.
    pub const DEFAULT_MAX_KEYS: usize = 100_000;

    /// The number of tenants that are busy at the same time if the rule does not say: a table of
    /// 320 KB.
    pub const DEFAULT_MAX_TENANTS: usize = 10_000;

    /// Returns whether the rule concerns requests of a resource: by its name and its direction. Of
    /// these, it concerns those that its conditions match.
    #[must_use]
    pub fn concerns(&self, traffic: TrafficType, resource: &str) -> bool {
        self.mode != Mode::Off
            && self.traffic.has(traffic)
            && self.resources.iter().any(|it| it.matches(resource))
    }

    /// Returns the [strictest](Limit::strictest) limit of this rule and the next one with its name;
    /// `None` if the limiter cannot be changed in place.
    pub(crate) fn becomes(&self, next: &Self) -> Option<Limit> {
        let has_table = next.key.is_some() || next.tenants.is_some();
        let has_same_keys = next.key == self.key && (!has_table || next.max_keys == self.max_keys);
        // The shares and the weights are in the rule, and not in its limiter.
        let parts = |it: &Self| (it.priority.is_some(), it.tenants.is_some());
        if has_same_keys && parts(self) == parts(next) {
            self.limit.strictest(&next.limit)
        } else {
            None
        }
    }

    /// Returns the resource at which a page shows the rule: a rule for one is shown there.
    pub(crate) fn shown_at(&self) -> &str {
        match &self.resources[..] {
            [one] if one.is_name() => one.as_str(),
            _ => &self.name,
        }
    }

    /// Returns the source of the class of a request, or of its tenant.
    pub(crate) fn part_source(&self) -> Option<&KeySource> {
        let tenant = || self.tenants.as_ref().map(|it| &it.source);
        self.priority.as_ref().map(|it| &it.source).or_else(tenant)
    }

    /// Returns the part of the limit for a request with these values of its class or its tenant.
    pub(crate) fn part<'a, K: Deref<Target = str>>(&self, values: &'a KeyValues<K>) -> Part<'a> {
        match (&self.priority, &self.tenants) {
            (Some(priority), _) => Part::Share(priority.share_of(priority.class_of(values))),
            (None, Some(tenants)) => {
                // Requests without a tenant are one: a request that leaves it out gains nothing.
                let name = values.text().unwrap_or_default();
                Part::Tenant { name, weight: tenants.weight_of(name) }
            }
            (None, None) => Part::Whole,
        }
    }

    /// Returns the conditions on the keys of a request, and whether the key has to match.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = (&Condition, bool)> {
        let only = self.only.iter().map(|it| (it, true));
        only.chain(self.except.iter().map(|it| (it, false)))
    }
}

impl KeySource {
    /// The values that would be right.
    pub(crate) const RIGHT: &str = "\"client\", \"client/24\", \"resource\", \"context\", \
                                    \"header:NAME\" or \"extension:NAME\"";

    /// The leading bits of an address by which clients are told apart if the rule does not say: the
    /// whole IPv4 address, and the part of an IPv6 address that a network chooses. A client has
    /// many addresses with that part.
    pub(crate) const CLIENT: Self = Self::Client { v4: 32, v6: 64 };

    /// Returns whether the handle to the resource has the key, so that no caller is asked for it.
    #[inline]
    pub(crate) const fn is_of_handle(&self) -> bool {
        matches!(self, Self::Resource | Self::Context)
    }

    /// Returns the key of a client's address; `None` if this is another source. For a
    /// [`Caller`](crate::Caller) of your own.
    ///
    /// ```
    /// use leaparray_rules::KeySource;
    ///
    /// let source = KeySource::Client { v4: 24, v6: 64 };
    /// assert_eq!(source.of_client("10.1.2.3".parse()?).as_deref(), Some("10.1.2.0/24"));
    /// assert_eq!(KeySource::Resource.of_client("10.1.2.3".parse()?), None);
    /// # Ok::<_, std::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn of_client(&self, address: IpAddr) -> Option<String> {
        let Self::Client { v4, v6 } = *self else { return None };
        Some(Network { address, v4, v6 }.to_string())
    }
}

/// As a file has it.
///
/// ```
/// use leaparray_rules::KeySource;
///
/// assert_eq!("client/24".parse(), Ok(KeySource::Client { v4: 24, v6: 64 }));
/// let error = "cookie".parse::<KeySource>().unwrap_err();
/// assert_eq!(error.to_string(), "\"cookie\" is no key");
/// ```
impl FromStr for KeySource {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let is_token = |it: &str| {
            let is_other = |it: u8| b"!#$%&'*+-.^_`|~".contains(&it);
            !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || is_other(it))
        };
        let bits = |text: &str, max: u8, expected| {
            let bits = text.parse().ok().filter(|it| (1..=max).contains(it));
            bits.ok_or_else(|| QuantityError::new(text, expected))
        };
        if let Some(given) = text.strip_prefix("client/") {
            let (v4, v6) = given.split_once('/').unwrap_or((given, "64"));
            let v4 = bits(v4, 32, "number of bits from 1 to 32")?;
            return Ok(Self::Client { v4, v6: bits(v6, 128, "number of bits from 1 to 128")? });
        }
        match text.split_once(':') {
            None if text == "resource" => Ok(Self::Resource),
            None if text == "context" => Ok(Self::Context),
            None if text == "client" => Ok(Self::CLIENT),
            Some(("header", name)) if is_token(name) => {
                Ok(Self::Header(name.to_ascii_lowercase().into()))
            }
            Some(("header", name)) => Err(QuantityError::new(name, "name of a header")),
            Some(("extension", name)) if !name.is_empty() => Ok(Self::Extension(name.into())),
            _ => Err(QuantityError::new(text, "key")),
        }
    }
}

/// A mode as a file has it.
pub(crate) struct ModeText(pub(crate) Mode);

impl ModeText {
    /// The values that would be right.
    pub(crate) const RIGHT: &str = "\"enforce\", \"shadow\", \"off\", \"enforce for 10 % of \
                                    requests\" or \"enforce for 10 % of keys\"";
}

impl FromStr for ModeText {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let wrong = || QuantityError::new(text, "mode");
        Ok(Self(match text.trim() {
            "enforce" => Mode::Enforce,
            "shadow" => Mode::Shadow,
            "off" => Mode::Off,
            text => {
                let share = text.strip_prefix("enforce for ").ok_or_else(wrong)?;
                let (share, of) = share.split_once(" of ").ok_or_else(wrong)?;
                let share = share.parse::<Percent>()?.share();
                match of.trim() {
                    "requests" => Mode::Requests(share),
                    "keys" => Mode::Keys(share),
                    _ => return Err(wrong()),
                }
            }
        }))
    }
}

impl fmt::Display for ModeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Mode::Requests(share) => write!(f, "enforce for {share} of requests"),
            Mode::Keys(share) => write!(f, "enforce for {share} of keys"),
            mode => f.write_str(mode.name()),
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Extension(name) => write!(f, "extension:{name}"),
            Self::Resource => f.write_str("resource"),
            Self::Context => f.write_str("context"),
            it if *it == Self::CLIENT => f.write_str("client"),
            Self::Client { v4, v6: 64 } => write!(f, "client/{v4}"),
            Self::Client { v4, v6 } => write!(f, "client/{v4}/{v6}"),
        }
    }
}

/// Returns the greatest number of keys, or of tenants, if a rule does not say.
pub(crate) const fn default_max_keys(has_tenants: bool) -> usize {
    if has_tenants { Rule::DEFAULT_MAX_TENANTS } else { Rule::DEFAULT_MAX_KEYS }
}

/// A string of TOML.
pub(crate) struct Quoted<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Quoted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for it in self.0.to_string().chars() {
            match it {
                '"' | '\\' => write!(f, "\\{it}")?,
                it if it.is_control() => write!(f, "\\u{:04x}", u32::from(it))?,
                it => write!(f, "{it}")?,
            }
        }
        f.write_str("\"")
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[[rule]]\nname = {}", Quoted(&self.name))?;
        let texts: Vec<_> = self.resources.iter().map(|it| Quoted(it).to_string()).collect();
        match &texts[..] {
            [one] => writeln!(f, "{} = {one}", self.traffic.key())?,
            all => writeln!(f, "{} = [{}]", self.traffic.key(), all.join(", "))?,
        }
        if let Some(key) = &self.key {
            writeln!(f, "key = {}", Quoted(key))?;
        }
        let has_table = self.key.is_some() || self.tenants.is_some();
        if has_table && self.max_keys != default_max_keys(self.tenants.is_some()) {
            writeln!(f, "max_keys = {}", self.max_keys)?;
        }
        for (name, conditions) in [("only", &self.only), ("except", &self.except)] {
            if !conditions.is_empty() {
                writeln!(f, "{name} = {}", ConditionTable(conditions))?;
            }
        }
        if self.mode != Mode::Enforce {
            writeln!(f, "mode = {}", Quoted(ModeText(self.mode)))?;
        }
        writeln!(f, "{}", self.limit)?;
        self.priority.as_ref().map_or(Ok(()), |it| writeln!(f, "{it}"))?;
        self.tenants.as_ref().map_or(Ok(()), |it| writeln!(f, "{it}"))
    }
}
