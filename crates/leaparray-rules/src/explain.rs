//! Which rules concern a request, and why.

use std::fmt;
use std::sync::Arc;

use leaparray::TrafficType;
use leaparray::flow::shadow::{Mode, Share};

use crate::caller::{Caller, KeyValues};
use crate::pattern::Pattern;
use crate::plan::{Index, Member, Numbers};
use crate::rule::{self, KeySource, Quoted, Rule, Traffic};
use crate::text::RuleSet;

/// Which rules concern a request, in the order in which they are asked, and why: plain data.
/// Returned by [`RuleSet::explain`]. Its text is for people.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The name of the resource.
    pub resource: String,
    /// The name of the context through which the request enters the resource, if it has one.
    pub context: Option<String>,
    /// The rules that concern the request, in the order in which they are asked.
    pub rules: Vec<Concerned>,
    /// The other rules, in the order of the text.
    pub others: Vec<(Arc<str>, WhyNot)>,
}

/// A rule that concerns a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Concerned {
    /// The rule.
    pub rule: Rule,
    /// The name or the pattern by which the rule concerns the resource.
    pub by: Pattern,
    /// The key by which the request counts, if the rule has one: empty if the request lacks it.
    pub key: Option<String>,
    /// The class of the request, empty if it has none, and the share of the limit that it may use,
    /// if the rule has a priority.
    pub class: Option<(String, Share)>,
    /// The tenant of the request, empty if it has none, and its weight, if the rule has tenants.
    pub tenant: Option<(String, u32)>,
}

/// Why a rule does not concern a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNot {
    /// It is off.
    Off,
    /// It is for requests of this direction, and not of the other one.
    Direction(Traffic),
    /// None of its resources matches.
    Resource,
    /// Its conditions are for other callers.
    Caller,
}

impl RuleSet {
    /// Returns which rules concern a request of a resource, and why.
    ///
    /// ```
    /// use leaparray::TrafficType;
    /// use leaparray_rules::{RuleSet, Traffic, WhyNot};
    ///
    /// let rules = RuleSet::parse(
    ///     r#"
    ///     [[rule]]
    ///     name = "each-client"
    ///     resource = "/api/*"
    ///     key = "header:x-api-key"
    ///     limit = "50 per minute, bursts of 10"
    ///
    ///     [[rule]]
    ///     name = "payments"
    ///     outbound = "payments.internal"
    ///     breaker = "adaptive"
    ///     "#,
    /// )?;
    /// let explanation = rules.explain(TrafficType::Inbound, "GET /api/orders", &"a");
    /// assert_eq!(explanation.rules[0].key.as_deref(), Some("a"));
    /// let outbound = WhyNot::Direction(Traffic::Outbound);
    /// assert_eq!(explanation.others, [("payments".into(), outbound)]);
    /// assert_eq!(
    ///     explanation.to_string(),
    ///     "GET /api/orders: 1 of 2 rules\n\
    ///      1. each-client: \"/api/*\" matches, counted by header:x-api-key = \"a\"\n   \
    ///         limit = \"50 per minute, bursts of 10\"\n\
    ///      not payments: it is for outbound requests\n",
    /// );
    /// # Ok::<_, leaparray_rules::Problems>(())
    /// ```
    #[must_use]
    pub fn explain<A: Caller + ?Sized>(
        &self,
        traffic: TrafficType,
        resource: &str,
        caller: &A,
    ) -> Explanation {
        self.explain_in(traffic, resource, None, caller)
    }

    /// Like [`explain`](Self::explain), for a request that enters the resource through a
    /// [context](leaparray::Resource::in_context), if it has one.
    ///
    /// ```
    /// use leaparray::TrafficType;
    /// use leaparray_rules::RuleSet;
    ///
    /// let rules = RuleSet::parse(
    ///     "[[rule]]\nname = \"nightly\"\nresource = \"orders\"\n\
    ///      only = { context = \"batch\" }\nin_flight = 4\n",
    /// )?;
    /// let explain = |context| rules.explain_in(TrafficType::Inbound, "orders", context, &());
    /// assert_eq!(
    ///     explain(Some("batch")).to_string(),
    ///     "orders in context \"batch\": 1 of 1 rules\n\
    ///      1. nightly: \"orders\" is its name\n   in_flight = 4\n",
    /// );
    /// assert!(explain(Some("web")).rules.is_empty() && explain(None).rules.is_empty());
    /// # Ok::<_, leaparray_rules::Problems>(())
    /// ```
    #[must_use]
    pub fn explain_in<A: Caller + ?Sized>(
        &self,
        traffic: TrafficType,
        resource: &str,
        context: Option<&str>,
        caller: &A,
    ) -> Explanation {
        let list = Index::new(self.rules().iter(), Numbers::default()).find(traffic, resource);
        let handle = |source: &KeySource| {
            (if *source == KeySource::Context { context } else { Some(resource) }).map(Arc::from)
        };
        let keys: Vec<_> =
            list.sources.iter().map(|it| KeyValues::of(caller, it, handle)).collect();
        let (asked, others): (Vec<&Member>, Vec<&Member>) =
            list.members.iter().partition(|it| list.holds(**it, &self.rules()[it.rule], &keys));
        let concerned = asked.iter().filter_map(|member| {
            let rule = &self.rules()[member.rule];
            let by = rule.resources.iter().find(|it| it.matches(resource))?.clone();
            let part = member.part.map(|place| &keys[place]);
            let class = part.zip(rule.priority.as_ref()).map(|(values, priority)| {
                let class = priority.class_of(values);
                (class.to_owned(), priority.share_of(class))
            });
            let tenant = part.zip(rule.tenants.as_ref()).map(|(values, tenants)| {
                let tenant = values.text().unwrap_or_default();
                (tenant.to_owned(), tenants.weight_of(tenant))
            });
            let key = member.key.map(|place| keys[place].text().unwrap_or_default().to_owned());
            Some(Concerned { rule: rule.clone(), by, key, class, tenant })
        });
        let others = self.rules().iter().enumerate().filter_map(|(place, rule)| {
            if asked.iter().any(|it| it.rule == place) {
                return None;
            }
            let why = if rule.mode == Mode::Off {
                WhyNot::Off
            } else if others.iter().any(|it| it.rule == place) {
                WhyNot::Caller
            } else if !rule.traffic.has(traffic) {
                WhyNot::Direction(rule.traffic)
            } else {
                WhyNot::Resource
            };
            Some((Arc::clone(&rule.name), why))
        });
        let (rules, others) = (concerned.collect(), others.collect());
        let (resource, context) = (resource.to_owned(), context.map(str::to_owned));
        Explanation { resource, context, rules, others }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, context, rules, others } = self;
        f.write_str(resource)?;
        if let Some(context) = context {
            write!(f, " in context {}", Quoted(context))?;
        }
        writeln!(f, ": {} of {} rules", rules.len(), rules.len() + others.len())?;
        for (index, concerned) in rules.iter().enumerate() {
            writeln!(f, "{}. {concerned}", index + 1)?;
        }
        for (name, why) in others {
            writeln!(f, "not {name}: {why}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Concerned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, by, key, class, tenant } = self;
        let how = if by.is_name() { "is its name" } else { "matches" };
        write!(f, "{}: {} {how}", rule.name, Quoted(by))?;
        match (&rule.key, key.as_deref()) {
            (Some(source), Some("")) if *source != KeySource::Resource => {
                write!(f, ", counted with all that lack {source}")?;
            }
            (Some(source), Some(key)) => write!(f, ", counted by {source} = {}", Quoted(key))?,
            _ => {}
        }
        if let (Some(priority), Some((class, share))) = (&rule.priority, class) {
            let source = &priority.source;
            match &**class {
                "" => write!(f, ", without {source}")?,
                class => write!(f, ", of {source} = {}", Quoted(class))?,
            }
            write!(f, ", up to {share} of the limit")?;
        }
        if let (Some(tenants), Some((tenant, weight))) = (&rule.tenants, tenant) {
            let source = &tenants.source;
            match &**tenant {
                "" => write!(f, ", a tenant with all that lack {source}")?,
                tenant => write!(f, ", of tenant {source} = {}", Quoted(tenant))?,
            }
            write!(f, ", with weight {weight}")?;
        }
        if rule.mode != Mode::Enforce {
            write!(f, ", mode {}", Quoted(rule::ModeText(rule.mode)))?;
        }
        write!(f, "\n   {}", rule.limit.to_string().replace('\n', "\n   "))?;
        let (priority, tenants) = (rule.priority.as_ref(), rule.tenants.as_ref());
        let priority = priority.map(ToString::to_string);
        for text in priority.into_iter().chain(tenants.map(ToString::to_string)) {
            write!(f, "\n   {}", text.replace('\n', "\n   "))?;
        }
        Ok(())
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "its mode is off",
            Self::Direction(Traffic::Outbound) => "it is for outbound requests",
            Self::Direction(_) => "it is for inbound requests",
            Self::Resource => "none of its resources matches",
            Self::Caller => "it is for other callers",
        })
    }
}
