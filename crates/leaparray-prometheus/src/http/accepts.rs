//! What a client takes, by its headers: RFC 9110, sections 12.5.1 and 12.5.3.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderName};

/// What a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) format: Format,
    pub(super) gzip: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    /// The text format of Prometheus.
    Prometheus,
    Protobuf,
}

impl Format {
    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }
}

impl Accepts {
    pub(super) fn of(headers: &HeaderMap, has_protobuf: bool) -> Self {
        let ranges = elements(headers, ACCEPT);
        // The most specific range counts, wherever it is in the list. So `names` begin with it.
        let quality = |names: &[&str], fits: fn(&[String]) -> bool| {
            let of = |name: &str| {
                let named = ranges.iter().filter(|it| it.0 == name && fits(&it.1));
                named.map(|it| it.2).max()
            };
            names.iter().find_map(|name| of(name)).unwrap_or(0)
        };
        // Only a client that names it reads it.
        let protobuf = quality(&["application/vnd.google.protobuf"], is_delimited);
        let open_metrics =
            quality(&["application/openmetrics-text", "application/*", "*/*"], |_| true);
        let text = quality(&["text/plain", "text/*", "*/*"], |_| true);
        let format = if has_protobuf && protobuf > open_metrics.max(text) {
            Format::Protobuf
        } else if text > open_metrics {
            Format::Prometheus
        } else {
            Format::OpenMetrics
        };
        let encodings = elements(headers, ACCEPT_ENCODING);
        let gzip = encodings.into_iter().any(|(name, _, quality)| name == "gzip" && quality > 0);
        Self { format, gzip }
    }
}

/// Returns the elements of a list in lower case: their names, their parameters and their qualities
/// in thousandths. One whose quality is no number has none.
fn elements(headers: &HeaderMap, name: HeaderName) -> Vec<(String, Vec<String>, u32)> {
    let lists = headers.get_all(name).into_iter().filter_map(|list| list.to_str().ok());
    let element = |element: &str| {
        let element = element.to_ascii_lowercase();
        let mut parts = element.split(';').map(|part| part.trim().to_owned());
        let name = parts.next().unwrap_or_default();
        let parameters: Vec<String> = parts.collect();
        let quality = parameters.iter().find_map(|it| it.strip_prefix("q="));
        let quality = quality.map_or(Some(1.0), |it| it.parse::<f64>().ok()).unwrap_or(0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1")]
        let thousandths = (quality.clamp(0.0, 1.0) * 1e3) as u32;
        (name, parameters, thousandths)
    };
    lists.flat_map(|list| list.split(',').map(element).collect::<Vec<_>>()).collect()
}

/// Returns whether the messages may be one after the other, each after its length.
fn is_delimited(parameters: &[String]) -> bool {
    parameters.iter().any(|it| {
        let pair = it.split_once('=');
        pair.is_some_and(|(name, value)| {
            name.trim() == "encoding" && value.trim().trim_matches('"') == "delimited"
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{Accepts, Format};
    use http::header::{ACCEPT, ACCEPT_ENCODING};
    use http::{HeaderMap, HeaderValue};

    fn format(accept: &'static str) -> Format {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
        Accepts::of(&headers, true).format
    }

    fn gzip(encodings: &'static str) -> bool {
        let encodings = HeaderValue::from_static(encodings);
        Accepts::of(&HeaderMap::from_iter([(ACCEPT_ENCODING, encodings)]), false).gzip
    }

    #[test]
    fn format_is_the_one_that_the_client_prefers() {
        // Prometheus 3, with and without native histograms.
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                      encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,\
                      application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;\
                      q=0.3,*/*;q=0.2";
        assert_eq!(format(native), Format::Protobuf);
        let text = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;\
                    q=0.3,*/*;q=0.2";
        assert_eq!(format(text), Format::OpenMetrics);
        assert_eq!(format("text/plain;version=0.0.4;q=1,*/*;q=0.1"), Format::Prometheus);
        assert_eq!(format("*/*"), Format::OpenMetrics);
        assert_eq!(format("text/html, Text/Plain"), Format::Prometheus);
        assert_eq!(format("application/vnd.google.protobuf;encoding=text"), Format::OpenMetrics);
        let refuses = "*/*, text/plain;q=0.5, application/openmetrics-text;q=0";
        assert_eq!(format(refuses), Format::Prometheus);
        assert_eq!(format("text/*, text/plain;q=0, */*;q=0.1"), Format::OpenMetrics);
        assert_eq!(Accepts::of(&HeaderMap::new(), true).format, Format::OpenMetrics);
    }

    #[test]
    fn protobuf_is_only_for_a_service_that_has_it() {
        let accept = HeaderValue::from_static(
            "application/vnd.google.protobuf;encoding=delimited,text/plain;q=0.3",
        );
        let headers = HeaderMap::from_iter([(ACCEPT, accept)]);
        assert_eq!(Accepts::of(&headers, true).format, Format::Protobuf);
        assert_eq!(Accepts::of(&headers, false).format, Format::Prometheus);
    }

    #[test]
    fn gzip_is_used_if_the_client_takes_it() {
        assert!(gzip("gzip") && gzip("deflate, GZip;q=0.001") && gzip("br,gzip ; q=1"));
        assert!(
            !gzip("identity") && !gzip("gzip;q=0") && !gzip("gzip;q=0.000") && !gzip("gzip;q=x")
        );
        assert!(!Accepts::of(&HeaderMap::new(), false).gzip);
    }
}
