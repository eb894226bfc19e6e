#!/usr/bin/env bash
# OpenTelemetry: one short time makes all buckets of an exponential histogram wider, for ever
#
# Guess: an exponential histogram with 160 buckets keeps a relative error below 1 % for response
# times of 100 to 200 ms. One value far away costs a bucket.
# Behaviour: the buckets have to reach from the least to the greatest value. After one value of 1 µs
# among 1,000, they are 9 % wide instead of 0.5 %. With cumulative temporality, which Prometheus
# needs, all later values have these buckets until the process ends. With delta temporality, the
# next collection is precise again.
# Version: opentelemetry-sdk 1.45.2 (of PyPI).
# Here: the bins of a resource have the scale of their configuration, whatever the values are. So
# have the exponential histograms of `OtlpSource`.
. "$(dirname "$0")/lib.sh"

python_packages opentelemetry-sdk==1.45.2

program() { python_program <<'END'; }
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View

for temporality in (AggregationTemporality.CUMULATIVE, AggregationTemporality.DELTA):
    reader = InMemoryMetricReader(preferred_temporality={Histogram: temporality})
    view = View(instrument_name="time", aggregation=ExponentialBucketHistogramAggregation())
    histogram = MeterProvider([reader], views=[view]).get_meter("finding").create_histogram("time")
    widths = []
    for outliers in ([], [0.001], [], [], []):
        for value in [100 + index / 10 for index in range(1_000)] + outliers:
            histogram.record(value)
        metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        point = metrics[0].data.data_points[0]
        widths.append(f"{2 ** 2 ** -point.scale - 1:.1%}")
    print(f"{temporality.name}: {', '.join(widths)}")
END

expect program <<'END'
CUMULATIVE: 0.5%, 9.1%, 9.1%, 9.1%, 9.1%
DELTA: 0.5%, 9.1%, 0.5%, 0.5%, 0.5%
END
