//! The scripts, prepared for a Redis client.

use redis::Script;

use super::script;

/// The scripts.
#[derive(Debug)]
pub(in crate::engine) struct FleetScripts {
    pub(in crate::engine) deliver: Script,
    pub(in crate::engine) survey: Script,
    pub(in crate::engine) fetch: Script,
    pub(in crate::engine) names: Script,
}

impl FleetScripts {
    pub(in crate::engine) fn new() -> Self {
        let of = |script: &str| Script::new(&format!("{}{script}", script::CLOCK));
        Self {
            deliver: of(script::DELIVER),
            survey: of(script::SURVEY),
            fetch: of(script::FETCH),
            names: Script::new(script::NAMES),
        }
    }
}
