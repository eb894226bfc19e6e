#![doc = include_str!("../docs/guide/index.md")]

/// Outcomes of requests, names, contexts, eviction, data of a resource.
pub mod resources {
    #![doc = include_str!("../docs/guide/resources.md")]
}

/// Which limiter to choose, how to ask it, and how to answer.
pub mod limits {
    #![doc = include_str!("../docs/guide/limits.md")]
}

/// Percentiles of response times: how to read them, and what they mean.
pub mod percentiles {
    #![doc = include_str!("../docs/guide/percentiles.md")]
}

/// The number of buckets, several lengths, what a rate means, and where every count is.
pub mod windows {
    #![doc = include_str!("../docs/guide/windows.md")]
}

/// A limit for each client, tenant or address, with bounded memory.
pub mod clients {
    #![doc = include_str!("../docs/guide/clients.md")]
}

/// Queues of threads and tasks, and several limits at once.
pub mod waiting {
    #![doc = include_str!("../docs/guide/waiting.md")]
}

/// Reserving an estimate, and settling the actual cost.
pub mod costs {
    #![doc = include_str!("../docs/guide/costs.md")]
}

/// Limits that count what they would refuse, and that are enforced for a share.
pub mod shadow {
    #![doc = include_str!("../docs/guide/shadow.md")]
}

/// Breakers and adaptive limits.
pub mod backends {
    #![doc = include_str!("../docs/guide/backends.md")]
}

/// Adaptive limits beside published ones: goodput, response times, time to settle.
pub mod adaptive_limits {
    #![doc = include_str!("../docs/guide/adaptive_limits.md")]
}

/// Budgets of retries and hedges, classes that give way, and fair shares of tenants.
pub mod sharing {
    #![doc = include_str!("../docs/guide/sharing.md")]
}

/// Exporters, each second once, histograms.
pub mod exporting {
    #![doc = include_str!("../docs/guide/exporting.md")]
}

/// Which clock to choose, and tests without waiting.
pub mod clocks {
    #![doc = include_str!("../docs/guide/clocks.md")]
}

/// Configurations from TOML, JSON or YAML.
pub mod configuration {
    #![doc = include_str!("../docs/guide/configuration.md")]
}

/// Limits and breakers from a file, changed while requests are decided.
pub mod rules {
    #![doc = include_str!("../docs/guide/rules.md")]
}

/// Sentinel's rules as JSON: what each field becomes, and the differences.
pub mod sentinel {
    #![doc = include_str!("../docs/guide/sentinel.md")]
}

/// Moving a Java service: Sentinel's dashboard, its rule files, and what the same rules admit.
pub mod sentinel_dashboard {
    #![doc = include_str!("../docs/guide/sentinel_dashboard.md")]
}

/// A rate limit service for Envoy.
pub mod envoy {
    #![doc = include_str!("../docs/guide/envoy.md")]
}

/// One limit and one window over all processes, through Redis.
pub mod fleet {
    #![doc = include_str!("../docs/guide/fleet.md")]
}

/// What a thread owns, and how much memory it takes.
pub mod memory {
    #![doc = include_str!("../docs/guide/memory.md")]
}
