#!/usr/bin/env bash
# metrics-exporter-prometheus: what a kept handle counts after an idle timeout is never exported
#
# Guess: a counter that was idle leaves the exposition, and comes back when it counts again.
# Behaviour: it comes back only if it is asked for by name again. A `Counter` that the program keeps
# refers to the value that was taken out of the registry. What it counts is lost for the rest of the
# process, without an error, also after another part of the program has made the counter anew.
# Versions: metrics 0.24.6, metrics-exporter-prometheus 0.18.3.
# Here: `Registry::evict_idle`, and `WindowRecorder::drop_idle` of leaparray-metrics, leave what has
# a handle. A service that keeps `metrics` for its dashboards must not set an idle timeout for
# counters with kept handles.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
metrics = "=0.24.6"
metrics-exporter-prometheus = { version = "=0.18.3", default-features = false }
metrics-util = { version = "=0.20.4", default-features = false }
END

program() { cargo_program <<'END'; }
use metrics_exporter_prometheus::PrometheusBuilder;
use metrics_util::MetricKindMask;
use std::{thread::sleep, time::Duration};

fn main() {
    let timeout = Some(Duration::from_millis(20));
    let builder = PrometheusBuilder::new().idle_timeout(MetricKindMask::COUNTER, timeout);
    let recorder = builder.build_recorder();
    let exporter = recorder.handle();
    let show = |when| {
        let text = exporter.render();
        let sample = text.lines().find(|line| line.starts_with("orders"));
        println!("{when}: {}", sample.unwrap_or("nothing"));
    };
    metrics::with_local_recorder(&recorder, || {
        let orders = metrics::counter!("orders");
        orders.increment(1);
        show("counted once");
        sleep(Duration::from_millis(100));
        show("after the timeout");
        orders.increment(10);
        show("counted 10 by the kept handle");
        metrics::counter!("orders").increment(1);
        orders.increment(100);
        show("counted 1 by name, and 100 by the kept handle");
    });
}
END

expect program <<'END'
counted once: orders 1
after the timeout: nothing
counted 10 by the kept handle: nothing
counted 1 by name, and 100 by the kept handle: orders 1
END
