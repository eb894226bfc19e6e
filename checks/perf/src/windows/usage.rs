//! The CPU time, memory and traffic of the server, by its own account.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;

use redis::Connection;

/// The counters of a server at a time.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    at: Instant,
    values: BTreeMap<String, f64>,
    scripts: f64,
}

/// The use of a server in each second between two times, and its memory at the second one.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerUsage {
    /// Seconds of the CPU.
    pub(super) cpu: f64,
    /// Calls of a script.
    pub(super) operations: f64,
    pub(super) bytes_in: f64,
    pub(super) bytes_out: f64,
    /// In bytes.
    pub(super) memory: f64,
}

impl Usage {
    pub(super) fn read(connection: &mut Connection) -> Result<Self, Box<dyn Error>> {
        let info: String = redis::cmd("INFO").arg("everything").query(connection)?;
        let (mut values, mut scripts) = (BTreeMap::new(), 0.0);
        for (name, value) in info.lines().filter_map(|line| line.trim().split_once(':')) {
            if let Ok(value) = value.parse() {
                values.insert(name.to_owned(), value);
            } else if name.starts_with("cmdstat_evalsha") {
                let calls = value.strip_prefix("calls=").and_then(|it| it.split(',').next());
                scripts += calls.and_then(|it| it.parse::<f64>().ok()).unwrap_or(0.0);
            }
        }
        Ok(Self { at: Instant::now(), values, scripts })
    }

    pub(super) fn since(&self, before: &Self) -> ServerUsage {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let value = |usage: &Self, name: &str| usage.values.get(name).copied().unwrap_or(f64::NAN);
        let rate = |name| (value(self, name) - value(before, name)) / seconds;
        ServerUsage {
            cpu: rate("used_cpu_user") + rate("used_cpu_sys"),
            operations: (self.scripts - before.scripts) / seconds,
            bytes_in: rate("total_net_input_bytes"),
            bytes_out: rate("total_net_output_bytes"),
            memory: value(self, "used_memory"),
        }
    }
}
