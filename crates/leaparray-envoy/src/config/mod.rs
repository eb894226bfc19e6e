//! The configuration: the files of Envoy's reference server, read as they are.

mod error;
mod metadata;
mod rate_limit;
mod read;
mod reader;
mod unit;
mod yaml;

use std::collections::HashMap;
use std::sync::Arc;

pub use error::{ConfigError, Problem};
pub use metadata::Metadata;
pub(crate) use read::entry_name;
pub use unit::Unit;

/// The limits of one or more domains: a checked configuration. Plain data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub(crate) domains: Vec<Domain>,
}

/// The limits of a domain.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Domain {
    /// The name of the domain.
    pub name: Arc<str>,
    /// The descriptors of the first entry.
    pub descriptors: Vec<DescriptorConfig>,
}

/// A descriptor of the configuration: a node of the tree of a domain.
#[expect(clippy::struct_excessive_bools, reason = "the file has them")]
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DescriptorConfig {
    /// The key of the entry.
    pub key: String,
    /// The value of the entry; empty for all values. A `*` at the end stands for any text.
    pub value: String,
    /// The limit of requests whose last entry is this one.
    pub rate_limit: Option<RateLimit>,
    /// Whether the limit is in the shadow: it refuses nothing.
    pub shadow_mode: bool,
    /// Whether the limit is a quota: it refuses a request only if all quotas of the request do.
    pub quota_mode: bool,
    /// Whether each combination of values has counts of its own.
    pub detailed_metric: bool,
    /// Whether each value of this entry has counts of its own.
    pub value_to_metric: bool,
    /// Whether all values that a `*` stands for share one limit.
    pub share_threshold: bool,
    /// Data for the dynamic metadata of a response.
    pub metadata: Option<Metadata>,
    /// The descriptors of the next entry.
    pub descriptors: Vec<Self>,
}

/// A limit of the configuration.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateLimit {
    /// The number of requests; `None` for no limit.
    pub requests: Option<(u32, Unit)>,
    /// The name by which other limits replace this one; empty if it has none.
    pub name: String,
    /// The names of the limits that do not count for a request that has this one.
    pub replaces: Vec<String>,
    /// The requests of a [quota](crate::service::Quota) for a 50th of the unit, which a caller may
    /// decide on by itself; `None` if it asks for each request. At least 2.
    pub requests_per_quota: Option<u32>,
}

impl Config {
    /// Reads one file, of one domain, or of several in documents of their own.
    ///
    /// ```
    /// use leaparray_envoy::config::Config;
    ///
    /// let error = Config::from_yaml(
    ///     "
    /// domain: shop
    /// descriptors:
    ///   - key: client
    ///     rate_limit: { unit: minutes, requests_per_unit: 2 }
    /// ",
    /// )
    /// .unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "line 5: domain \"shop\": client.rate_limit.unit: \"minutes\" is no unit; \
    ///      the units are second, minute, hour, day, month, year, week",
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a [`ConfigError`] with all problems of the text, up to 100.
    pub fn from_yaml(text: &str) -> Result<Self, ConfigError> {
        Self::from_files([("", text)])
    }

    /// Reads several files, each with its name. No two may have the same domain.
    ///
    /// # Errors
    ///
    /// Returns a [`ConfigError`] with all problems of the files, up to 100.
    pub fn from_files<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        Self::read(files, false)
    }

    /// Reads several files. Those of one domain are merged, as the reference server does with
    /// `MERGE_DOMAIN_CONFIG`: no two may have the same key and value at the first level.
    ///
    /// ```
    /// use leaparray_envoy::config::Config;
    ///
    /// let client = "{ domain: shop, descriptors: [{ key: client }] }";
    /// let path = "{ domain: shop, descriptors: [{ key: path }] }";
    /// let config = Config::from_merged_files([("a.yaml", client), ("b.yaml", path)])?;
    /// assert_eq!(config.domains()[0].descriptors.len(), 2);
    /// let error = Config::from_files([("a.yaml", client), ("b.yaml", path)]).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "b.yaml:1: domain \"shop\": the domain is that of a.yaml; \
    ///      name another one, or merge the files",
    /// );
    /// # Ok::<_, leaparray_envoy::config::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a [`ConfigError`] with all problems of the files, up to 100.
    pub fn from_merged_files<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        Self::read(files, true)
    }

    fn read<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
        merges: bool,
    ) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut domains: Vec<Domain> = Vec::new();
        // The place of a domain in the list, and its file.
        let mut known: HashMap<Arc<str>, (usize, &str)> = HashMap::new();
        for (file, text) in files {
            for (line, domain) in read::read(file, text, &mut problems) {
                let problem = |path: String, wrong: String, right: &str| Problem {
                    file: file.to_owned(),
                    line: Some(line),
                    domain: Some(domain.name.to_string()),
                    path,
                    wrong,
                    right: right.to_owned(),
                };
                let Some((at, first)) = known.get(&domain.name) else {
                    known.insert(Arc::clone(&domain.name), (domains.len(), file));
                    domains.push(domain);
                    continue;
                };
                let of = if first.is_empty() { "an earlier document" } else { first };
                if !merges {
                    let wrong = format!("the domain is that of {of}");
                    let right = "name another one, or merge the files";
                    problems.push(problem(String::new(), wrong, right));
                    continue;
                }
                let into = &mut domains[*at].descriptors;
                let taken: std::collections::HashSet<(String, String)> =
                    into.iter().map(|it| (it.key.clone(), it.value.clone())).collect();
                for descriptor in &domain.descriptors {
                    if taken.contains(&(descriptor.key.clone(), descriptor.value.clone())) {
                        let path = entry_name(&descriptor.key, &descriptor.value);
                        let wrong = format!("the key and the value are those of {of}");
                        problems.push(problem(path, wrong, "write them in one file"));
                    } else {
                        into.push(descriptor.clone());
                    }
                }
            }
        }
        if problems.is_empty() { Ok(Self { domains }) } else { Err(ConfigError { problems }) }
    }

    /// Returns the domains, in the order of the files.
    #[must_use]
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }
}
