#![doc = include_str!("../docs/reference/index.md")]

/// What an adaptive breaker does in an outage, in steady failure, and to a slow backend.
pub mod adaptive_breaker {
    #![doc = include_str!("../docs/reference/adaptive_breaker.md")]
}

/// What windows, limiters and breakers do if their clock is set back, or is far ahead.
pub mod clock_steps {
    #![doc = include_str!("../docs/reference/clock_steps.md")]
}

/// What a histogram costs, and its mapping to histograms of Prometheus and OpenTelemetry.
pub mod histograms {
    #![doc = include_str!("../docs/reference/histograms.md")]
}

/// Panics, signal handlers, `fork`, allocations, and threads that are killed.
pub mod process {
    #![doc = include_str!("../docs/reference/process.md")]
}

/// The form of times in JSON and in binary formats.
pub mod serialized_times {
    #![doc = include_str!("../docs/reference/serialized_times.md")]
}
