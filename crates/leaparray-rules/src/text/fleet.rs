//! Whether a limit is over the fleet.

use super::fields::Fields;
use crate::problem::Fault;

const OVER: &str = "\"process\" or \"fleet\"";

/// The keys of a share of the limit.
#[cfg(any(feature = "fleet", test))]
pub(super) const AWAY_KEYS: &[&str] = &["part", "processes"];

/// Returns whether the limit of a rule is over the fleet. A wrong value is reported.
pub(super) fn is_over_fleet(fields: &Fields<'_>) -> bool {
    let over = fields.parsed("over", OVER, |text| match text {
        "process" => Ok(false),
        "fleet" => Ok(true),
        other => Err(format!("{other:?} has no meaning")),
    });
    let is_over_fleet = over == Some(true);
    if over == Some(false) && fields.has("away") {
        let other = "over = \"fleet\"";
        fields.report("away", fields.line_of("away"), Fault::Needs { other });
    }
    if is_over_fleet {
        for (key, reason) in [
            ("key", "a limit for each key is of one process"),
            ("warm_up", "a limit that warms up is of one process"),
        ] {
            if fields.has(key) {
                refuse(fields, key, reason);
            }
        }
        if !cfg!(feature = "fleet") {
            let wrong = "\"fleet\" is not possible: this program is built without the feature \
                         `fleet` of `leaparray-rules`";
            fields.report_value("over", wrong.to_owned(), "\"process\"");
        }
    }
    is_over_fleet
}

/// Reports a key that cannot stand beside a limit over the fleet.
pub(super) fn refuse(fields: &Fields<'_>, key: &'static str, reason: &str) {
    let right = "`over = \"process\"`, or a limit such as \"1000 per second\" without it";
    fields.report_value(key, format!("is not possible over the fleet: {reason}"), right);
}

#[cfg(not(feature = "fleet"))]
pub(super) const fn read<T>(
    _: &Fields<'_>,
    _: crate::quantity::Per,
    _: Option<usize>,
) -> Option<T> {
    None
}

#[cfg(feature = "fleet")]
pub(super) use with_fleet::read;

#[cfg(feature = "fleet")]
mod with_fleet {
    use leaparray_redis::WhenAway;
    use toml::de::DeValue;

    use crate::fleet::{self, Fleet, FleetLimit};
    use crate::limit::Limit;
    use crate::quantity::Per;
    use crate::text::fields::Fields;
    use crate::text::limiter::wrong;

    const AWAY: &str = "\"closed\", \"open\", or a table such as { part = 0.5, processes = 10 }";

    /// Reads the rest of a limit over the fleet.
    pub(in crate::text) fn read(
        fields: &Fields<'_>,
        rate: Per,
        buckets: Option<usize>,
    ) -> Option<Limit> {
        if fields.rule.is_some_and(|name| !fleet::is_rule_name(name)) {
            const RIGHT: &str =
                "a name of at most 191 bytes, of which a brace and a `%` take three";
            const _: () = assert!(Fleet::MAX_RULE_NAME_LEN == 191);
            fields.report_value("name", "is too long for a limit over the fleet".to_owned(), RIGHT);
        }
        let away = if fields.has("away") { away(fields)? } else { WhenAway::Closed };
        Some(Limit::Fleet(FleetLimit::new(rate, buckets, away)))
    }

    fn away(fields: &Fields<'_>) -> Option<WhenAway> {
        let value = fields.get("away")?;
        match value.found {
            DeValue::String(text) if text == "closed" => Some(WhenAway::Closed),
            DeValue::String(text) if text == "open" => Some(WhenAway::Open),
            DeValue::Table(_) => {
                let table = fields.table(&value, "away.", super::AWAY_KEYS)?;
                table.report_unknown();
                for (key, what) in [
                    ("part", "the part of the limit that is set aside"),
                    ("processes", "the highest number of processes"),
                ] {
                    if !table.has(key) {
                        table.report_missing(
                            what,
                            if key == "part" { &["part"] } else { &["processes"] },
                        );
                    }
                }
                let part = table.float("part", "a number between 0 and 1, such as 0.5");
                let right = "a number of processes, such as 10";
                let processes = table.whole("processes", right)?;
                let processes = u32::try_from(processes).ok();
                if processes.is_none() {
                    table.report_value("processes", "is out of range".to_owned(), right);
                }
                Some(WhenAway::Share { part: part?, processes: processes? })
            }
            _ => wrong(fields, &value, AWAY),
        }
    }
}
