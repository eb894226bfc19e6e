//! Prints a dashboard for Grafana, of all resources of a service.
//!
//! ```console
//! $ cd crates/leaparray-prometheus
//! $ cargo run --example dashboard > dashboard.json
//! ```

use serde_json::{Value, json};

/// The labels by which the variables of the dashboard choose resources.
const CHOSEN: &str = r#"job=~"$job", resource=~"$resource""#;

/// A panel: its title, the unit of its values, and its queries with their legends.
struct Panel {
    title: &'static str,
    unit: &'static str,
    queries: Vec<(String, &'static str)>,
}

pub(crate) fn main() {
    println!("{:#}", dashboard());
}

/// Returns the dashboard.
pub(crate) fn dashboard() -> Value {
    let panels = panels();
    let panels: Vec<_> = (0..).zip(&panels).map(|(number, panel)| panel.json(number)).collect();
    json!({
        "title": "leaparray",
        "uid": "leaparray",
        "description": "Requests, response times and limits of the resources of leaparray",
        "tags": ["leaparray"],
        "schemaVersion": 39,
        "refresh": "5s",
        "time": { "from": "now-15m", "to": "now" },
        "templating": { "list": [
            { "name": "datasource", "type": "datasource", "query": "prometheus" },
            variable("job", "label_values(leaparray_resources, job)"),
            variable("resource", "label_values(leaparray_pass_total{job=~\"$job\"}, resource)"),
        ] },
        "panels": panels,
    })
}

fn panels() -> Vec<Panel> {
    let rate = |metric: &str, by: &str| {
        format!("sum by ({by}) (rate({metric}{{{CHOSEN}}}[$__rate_interval]))")
    };
    let quantile = |q| {
        let buckets = rate("leaparray_response_time_seconds_bucket", "resource, le");
        format!("histogram_quantile({q}, {buckets})")
    };
    let ratio =
        |part: &str, of: &str| format!("{} / {}", rate(part, "resource"), rate(of, "resource"));
    vec![
        Panel {
            title: "Admitted requests",
            unit: "reqps",
            queries: vec![(rate("leaparray_pass_total", "resource"), "{{resource}}")],
        },
        Panel {
            title: "Refused requests",
            unit: "reqps",
            queries: vec![(
                rate("leaparray_refusals_total", "resource, reason"),
                "{{resource}}, {{reason}}",
            )],
        },
        Panel {
            title: "Failed and cancelled requests, as a share",
            unit: "percentunit",
            queries: vec![
                (ratio("leaparray_exception_total", "leaparray_pass_total"), "{{resource}} failed"),
                (
                    ratio("leaparray_cancelled_total", "leaparray_pass_total"),
                    "{{resource}} cancelled",
                ),
            ],
        },
        Panel {
            title: "Requests in flight",
            unit: "short",
            queries: vec![(
                format!("sum by (resource) (leaparray_in_flight{{{CHOSEN}}})"),
                "{{resource}}",
            )],
        },
        Panel {
            title: "Response time: median and 99th percentile",
            unit: "s",
            queries: vec![
                (quantile(0.5), "{{resource}} p50"),
                (quantile(0.99), "{{resource}} p99"),
            ],
        },
        Panel {
            title: "Response time: mean",
            unit: "s",
            queries: vec![(
                ratio(
                    "leaparray_response_time_seconds_sum",
                    "leaparray_response_time_seconds_count",
                ),
                "{{resource}}",
            )],
        },
        Panel {
            title: "Limits: permits that remain, as a share",
            unit: "percentunit",
            queries: vec![(
                r#"leaparray_limit_remaining{job=~"$job"} / leaparray_limit{job=~"$job"}"#
                    .to_owned(),
                "{{limiter}}",
            )],
        },
        Panel {
            title: "Breakers: probability of a refusal",
            unit: "percentunit",
            queries: vec![(
                r#"leaparray_breaker_drop_probability{job=~"$job"}"#.to_owned(),
                "{{limiter}}",
            )],
        },
    ]
}

impl Panel {
    /// Returns the panel at its place: two in each row.
    fn json(&self, number: u32) -> Value {
        let targets = ('A'..).zip(&self.queries).map(|(id, (query, legend))| {
            json!({ "refId": id.to_string(), "expr": query, "legendFormat": legend })
        });
        json!({
            "id": number + 1,
            "type": "timeseries",
            "title": self.title,
            "datasource": { "type": "prometheus", "uid": "${datasource}" },
            "gridPos": { "x": number % 2 * 12, "y": number / 2 * 8, "w": 12, "h": 8 },
            "fieldConfig": { "defaults": { "unit": self.unit, "min": 0 }, "overrides": [] },
            "targets": targets.collect::<Vec<_>>(),
        })
    }
}

/// Returns a variable with the values of a query, of which all are chosen at first.
fn variable(name: &str, query: &str) -> Value {
    json!({
        "name": name,
        "type": "query",
        "datasource": { "type": "prometheus", "uid": "${datasource}" },
        "query": { "query": query, "refId": name },
        "refresh": 2,
        "multi": true,
        "includeAll": true,
        "allValue": ".*",
        "current": { "text": "All", "value": "$__all" },
    })
}
