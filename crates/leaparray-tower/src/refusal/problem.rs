//! Problem details (RFC 9457), if the client takes them.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use leaparray::flow::Reason;
use serde::Serialize;

use super::{Answer, Refuse, Refused, answer, headers};

/// Answers refused requests as [`Answer`] does, with a body that says what was refused, if bodies
/// can be made of a `String`: problem details of [RFC 9457][rfc] in JSON, a sentence in plain text,
/// or nothing, by the request's `Accept` (RFC 9110, section 12.5.1). JSON is preferred, and is also
/// sent to a client that takes `application/json`. A request of gRPC has its status in headers, and
/// no body.
///
/// | member | value |
/// |---|---|
/// | `type` | for the status 429 `https://iana.org/assignments/http-problem-types#quota-exceeded` if nothing remains of a quota of the limiter, for 503 `…#temporary-reduced-capacity`, both of the IETF's [draft][ietf] of the `RateLimit` headers; otherwise `about:blank` |
/// | `title` | what the type means |
/// | `status` | 429 or 503 |
/// | `detail` | the refusal in a sentence |
/// | `resource` | the name of the resource |
/// | `reason` | the [name](Reason::name) of the reason |
/// | `limiter` | the [name](leaparray::flow::Refusal::limiter) of the limiter that refused, if it has one |
/// | `retry_after` | the seconds of `Retry-After`, if the time is known |
/// | `violated-policies` | for `quota-exceeded`, the names in `RateLimit-Policy` of the limits of which nothing remains |
///
/// [rfc]: https://www.rfc-editor.org/rfc/rfc9457
/// [ietf]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::BodyExt;
/// use leaparray::Registry;
/// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
/// use leaparray_tower::{Problem, ResourceLayer};
/// use std::convert::Infallible;
/// use std::sync::Arc;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let name = |_: &Request<()>, name: &mut String| name.push_str("search");
/// let registry = Arc::new(Registry::new());
/// let bucket = TokenBucket::new(Rate::per_minute(1)?, 1).named("searches");
/// let layer = ResourceLayer::new(registry, name)?.limit(Arc::new(bucket)).refuse(Problem);
/// let answer = async |_| Ok::<_, Infallible>(Response::new(String::new()));
/// let service = ServiceBuilder::new().layer(layer).service(service_fn(answer));
///
/// assert_eq!(service.clone().oneshot(Request::new(())).await?.status(), 200);
/// let refused = service.oneshot(Request::new(())).await?;
/// assert_eq!(refused.headers()["content-type"], "application/problem+json");
/// let body = refused.into_body().collect().await?.to_bytes();
/// let problem: serde_json::Value = serde_json::from_slice(&body)?;
/// assert_eq!((&problem["status"], &problem["retry_after"]), (&429.into(), &60.into()));
/// assert_eq!(problem["detail"], "refused by searches: the limit is reached");
/// assert_eq!(problem["violated-policies"][0], "searches");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Problem;

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The members, in this order.
#[derive(Serialize)]
struct Details<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    resource: &'a str,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    limiter: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated_policies: Vec<String>,
}

impl<B: From<String>, E> Refuse<B, E> for Problem {
    type Error = E;

    fn refuse(&self, refused: &Refused, request: &Parts) -> Result<Response<Option<B>>, E> {
        let response = Refuse::<B, E>::refuse(&Answer, refused, request)?;
        if refused.is_grpc {
            return Ok(response);
        }
        let (mut head, _) = response.into_parts();
        let detail = detail(refused);
        let body = match Form::accepted(&request.headers) {
            Form::Problem => {
                head.headers.insert(CONTENT_TYPE, PROBLEM);
                serde_json::to_string(&details(refused, &detail)).expect("texts and numbers")
            }
            Form::Text => {
                head.headers.insert(CONTENT_TYPE, TEXT);
                detail + "\n"
            }
            Form::Nothing => return Ok(Response::from_parts(head, None)),
        };
        Ok(Response::from_parts(head, Some(body.into())))
    }

    fn error(error: E) -> E {
        error
    }
}

/// Returns the refusal in a sentence. Without the time: a client does not know the server's clock.
fn detail(refused: &Refused) -> String {
    let reason = refused.refusal.reason;
    match refused.refusal.limiter() {
        Some(name) => format!("refused by {name}: {reason}"),
        None => format!("refused: {reason}"),
    }
}

fn details<'a>(refused: &'a Refused, detail: &'a str) -> Details<'a> {
    let status = answer::status(refused);
    let is_spent = |index: &usize| refused.quotas[*index].remaining == 0;
    let spent = (0..refused.quotas.len()).filter(is_spent);
    let spent = spent.map(|index| headers::item_name(&refused.quotas, index).into_owned());
    let mut violated_policies: Vec<_> = spent.collect();
    let (kind, title) = if answer::is_unavailable(refused) {
        violated_policies.clear();
        (
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "The capacity of the server is reduced for some time",
        )
    } else if violated_policies.is_empty() {
        ("about:blank", status.canonical_reason().unwrap_or_default())
    } else {
        ("https://iana.org/assignments/http-problem-types#quota-exceeded", "A quota is exceeded")
    };
    Details {
        kind,
        title,
        status: status.as_u16(),
        detail,
        resource: &refused.resource,
        reason: Reason::name(refused.refusal.reason),
        limiter: refused.refusal.limiter(),
        retry_after: refused.retry_after().map(|after| after.as_secs()),
        violated_policies,
    }
}

/// The form of the body that a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Problem,
    Text,
    Nothing,
}

impl Form {
    /// Returns the form that a client prefers; of two that it takes equally, the problem details.
    fn accepted(headers: &HeaderMap) -> Self {
        let fields = headers.get_all(ACCEPT).iter().filter(|field| !field.is_empty());
        let fields: Vec<_> = fields.collect();
        if fields.is_empty() {
            return Self::Problem;
        }
        // A field that is not text is not understood, and accepts nothing.
        let ranges = || {
            let texts = fields.iter().filter_map(|field| field.to_str().ok());
            texts.flat_map(|text| text.split(',')).filter_map(MediaRange::parse)
        };
        // The most specific range that matches decides, and not the one with most weight.
        let quality = |kind: &str| {
            let matching =
                ranges().filter_map(|range| Some((range.precedence(kind)?, range.quality)));
            matching.max_by_key(|(precedence, _)| *precedence).unwrap_or_default()
        };
        let problem = match quality("application/problem+json") {
            (EXACT, quality) => quality,
            // A client that takes JSON takes the details as JSON.
            (_, of_wildcard) => match quality("application/json") {
                (EXACT, of_json) => of_json.max(of_wildcard),
                _ => of_wildcard,
            },
        };
        let (_, text) = quality("text/plain");
        match (problem, text) {
            (0, 0) => Self::Nothing,
            (problem, text) if problem >= text => Self::Problem,
            _ => Self::Text,
        }
    }
}

/// The precedence of a range that is the type.
const EXACT: u8 = 2;

/// A media range of `Accept`.
struct MediaRange<'a> {
    range: &'a str,
    /// The weight in thousandths.
    quality: u16,
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let range = parts.next().filter(|range| range.contains('/'))?;
        let weight = parts.find_map(|it| it.strip_prefix("q=").or_else(|| it.strip_prefix("Q=")));
        let quality = match weight {
            None => 1_000,
            Some(weight) => weight.parse::<f64>().ok().filter(|it| (0.0..=1.0).contains(it)).map(
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "0 to 1000"
                )]
                |weight| (weight * 1_000.0).round() as u16,
            )?,
        };
        Some(Self { range, quality })
    }

    /// Returns how closely the range matches a type: [`EXACT`], 1 by the first half, or 0 as `*/*`.
    /// `None` if it does not match.
    fn precedence(&self, kind: &str) -> Option<u8> {
        if self.range.eq_ignore_ascii_case(kind) {
            return Some(EXACT);
        }
        let class = self.range.strip_suffix("/*")?;
        let of_kind = kind.split('/').next().unwrap_or_default();
        match class {
            "*" => Some(0),
            _ => of_kind.eq_ignore_ascii_case(class).then_some(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(fields: &[&str]) -> Form {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(ACCEPT, HeaderValue::from_bytes(field.as_bytes()).unwrap());
        }
        Form::accepted(&headers)
    }

    #[test]
    fn form_is_the_one_that_the_client_prefers() {
        let cases: [(&[&str], Form); 19] = [
            (&[], Form::Problem),
            (&["*/*"], Form::Problem),
            (&["application/json"], Form::Problem),
            (&["Application/Problem+JSON"], Form::Problem),
            (&["application/*;q=0.1"], Form::Problem),
            (&["text/plain"], Form::Text),
            (&["text/*"], Form::Text),
            (&["text/plain, */*;q=0.1"], Form::Text),
            (&["text/html, application/xhtml+xml, */*;q=0.8"], Form::Problem),
            (&["text/plain;q=0.5", "application/json; charset=utf-8 ;q=0.4"], Form::Text),
            (&["application/problem+json;q=0, application/json, text/*;q=0.1"], Form::Text),
            (&["application/json;q=0, */*"], Form::Problem),
            (&["text/plain;q=0.8, application/json;q=0.5, */*;q=0.9"], Form::Problem),
            (&[""], Form::Problem),
            (&["*/*;q=0"], Form::Nothing),
            (&["image/png"], Form::Nothing),
            (&["text/html"], Form::Nothing),
            (&["*/*;q=2", "text/plain;q=x"], Form::Nothing),
            (&["é"], Form::Nothing),
        ];
        for (fields, expected) in cases {
            assert_eq!(form(fields), expected, "{fields:?}");
        }
    }
}
