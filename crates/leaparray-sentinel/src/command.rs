//! The commands of a dashboard, and their parameters.

use std::collections::HashMap;

use leaparray_rules::SentinelKind;

/// The parameters of a command. Each is decoded once.
#[derive(Debug, Default)]
pub(crate) struct Parameters(HashMap<String, String>);

impl Parameters {
    /// Adds those of a query or a form. A later value replaces an earlier one.
    pub(crate) fn add(&mut self, encoded: &[u8]) {
        self.0.extend(form_urlencoded::parse(encoded).into_owned());
    }

    /// Returns a parameter, unless it is absent or blank.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|it| it.trim()).filter(|it| !it.is_empty())
    }

    /// Returns a whole number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let wrong = |it| format!("{name} is {it:?}; write a whole number of milliseconds or lines");
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| wrong(text))
    }

    /// Returns the kind of rules of `getRules` and `setRules`.
    pub(crate) fn kind(&self) -> Result<SentinelKind, String> {
        let text = self.get("type").unwrap_or_default();
        // The rules of parameters have commands of their own.
        let mut kinds = SentinelKind::ALL.into_iter().filter(|it| *it != SentinelKind::ParamFlow);
        kinds.find(|it| it.name().eq_ignore_ascii_case(text)).ok_or_else(|| "invalid type".into())
    }
}

/// A command of a dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Api,
    BasicInfo,
    ClusterNode,
    ClusterNodeById,
    GetClusterMode,
    GetParamFlowRules,
    GetRules,
    GetSwitch,
    JsonTree,
    Metric,
    SetParamFlowRules,
    SetRules,
    SetSwitch,
    SystemStatus,
    Version,
}

impl Command {
    pub(crate) const ALL: [Self; 15] = [
        Self::Api,
        Self::BasicInfo,
        Self::ClusterNode,
        Self::ClusterNodeById,
        Self::GetClusterMode,
        Self::GetParamFlowRules,
        Self::GetRules,
        Self::GetSwitch,
        Self::JsonTree,
        Self::Metric,
        Self::SetParamFlowRules,
        Self::SetRules,
        Self::SetSwitch,
        Self::SystemStatus,
        Self::Version,
    ];

    /// Returns the command with a name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns the name, which is the path.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::BasicInfo => "basicInfo",
            Self::ClusterNode => "clusterNode",
            Self::ClusterNodeById => "clusterNodeById",
            Self::GetClusterMode => "getClusterMode",
            Self::GetParamFlowRules => "getParamFlowRules",
            Self::GetRules => "getRules",
            Self::GetSwitch => "getSwitch",
            Self::JsonTree => "jsonTree",
            Self::Metric => "metric",
            Self::SetParamFlowRules => "setParamFlowRules",
            Self::SetRules => "setRules",
            Self::SetSwitch => "setSwitch",
            Self::SystemStatus => "systemStatus",
            Self::Version => "version",
        }
    }

    /// Returns whether the command may change something.
    pub(crate) const fn is_change(self) -> bool {
        matches!(self, Self::SetParamFlowRules | Self::SetRules | Self::SetSwitch)
    }

    /// Returns what `/api` says of the command.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Api => "the commands",
            Self::BasicInfo => "the name and the address of the machine",
            Self::ClusterNode => "the resources; parameter: type=notZero for those of this minute",
            Self::ClusterNodeById => "a resource; parameter: id={resource}",
            Self::GetClusterMode => "the part in a cluster: none",
            Self::GetParamFlowRules => "the rules of parameters",
            Self::GetRules => "the rules; parameter: type={flow|degrade|system|authority}",
            Self::GetSwitch => "whether the rules decide",
            Self::JsonTree => "the resources below their contexts",
            Self::Metric => {
                "the lines of seconds; parameters: startTime={ms}, and any of endTime={ms}, \
                 identity={resource}, maxLines={number}"
            }
            Self::SetParamFlowRules => "replaces the rules of parameters; parameter: data={JSON}",
            Self::SetRules => {
                "replaces rules; parameters: type={flow|degrade|system|authority}&data={JSON}"
            }
            Self::SetSwitch => "has the rules decide or not; parameter: value={true|false}",
            Self::SystemStatus => "the rates of all inbound traffic",
            Self::Version => "the version of Sentinel that is spoken",
        }
    }
}
