//! The arguments.

use clap::Parser;

/// Runs a fleet of service processes with one limit, kills one of them and the server of the limit,
/// and audits every window.
#[derive(Parser, Debug)]
#[command(name = "fleet", version)]
pub(crate) struct Args {
    /// The address of the Redis server of the limit; without it, redis-server is started on a free
    /// port. A server that is named is not killed. A key of some 50 bytes stays on it, and for ten
    /// minutes the windows of the run
    #[arg(long, value_name = "redis://HOST:PORT")]
    pub(crate) redis: Option<String>,
    /// For how many seconds requests are sent. At a third of the time, a process is killed, and at
    /// two thirds the server
    #[arg(long, default_value_t = 18, value_parser = clap::value_parser!(u32).range(9..=3_600))]
    pub(crate) seconds: u32,
    /// How many requests the fleet admits in any ten buckets of 100 ms; 2.5 times as many are sent
    #[arg(long, value_name = "REQUESTS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..=5_000))]
    pub(crate) limit: u64,
    /// How many service processes there are. The first one has the highest load
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=6))]
    pub(crate) processes: u32,
    /// Be a service process on this port. The address of the server of the limit is in the
    /// environment
    #[arg(long, value_name = "PORT", hide = true, requires = "fleet", requires = "name")]
    pub(crate) serve: Option<u16>,
    /// The fleet whose windows a service process delivers to
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) fleet: Option<String>,
    /// The name of a service process
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) name: Option<String>,
}

/// Returns the reason of an error in the arguments, without the usage.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().take_while(|line| !line.trim().is_empty());
    reason.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}
