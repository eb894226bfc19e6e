//! Load by h2load.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use prost::Message;

use crate::Result;

/// The path of `ShouldRateLimit`.
const PATH: &str = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Returns a request with two descriptors.
pub(crate) fn request(client: &str) -> RateLimitRequest {
    let descriptor = |key: &str, value: &str| RateLimitDescriptor {
        entries: vec![Entry { key: key.to_owned(), value: value.to_owned() }],
        ..RateLimitDescriptor::default()
    };
    RateLimitRequest {
        domain: "shop".to_owned(),
        descriptors: vec![descriptor("path", "/buy"), descriptor("client", client)],
        hits_addend: 1,
    }
}

/// Writes the frame of a request to a file: a byte that says that it is not compressed, its length,
/// and its bytes.
pub(crate) fn body(folder: &Path) -> Result<PathBuf> {
    let message = request("client-7").encode_to_vec();
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len())?.to_be_bytes());
    frame.extend(message);
    let path = folder.join("request.bin");
    std::fs::write(&path, frame)?;
    Ok(path)
}

/// What a load has measured.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) requests: usize,
    pub(crate) seconds: f64,
    /// The time in which 99 of 100 requests were answered, in microseconds.
    pub(crate) p99: u64,
}

/// As many requests as are answered.
pub(crate) fn full(port: u16, folder: &Path, body: &Path) -> Result<Load> {
    load(port, folder, body, &["-c", "4", "-m", "16"])
}

/// 2,000 requests in a second.
pub(crate) fn steady(port: u16, folder: &Path, body: &Path) -> Result<Load> {
    load(port, folder, body, &["-c", "8", "-m", "16", "--rps", "250"])
}

#[expect(clippy::cast_precision_loss, reason = "some seconds")]
fn load(port: u16, folder: &Path, body: &Path, options: &[&str]) -> Result<Load> {
    let log = folder.join("h2load.log");
    // The file is appended to.
    let _ = std::fs::remove_file(&log);
    let mut command = Command::new("h2load");
    command.args(["-D", "1"]).args(options);
    command.arg("-d").arg(body).arg(format!("--log-file={}", log.display()));
    command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
    command.arg(format!("http://127.0.0.1:{port}/{PATH}")).stdout(Stdio::null());
    let status = command.status().map_err(|it| format!("h2load: {it}"))?;
    if !status.success() {
        return Err(format!("h2load: {status}").into());
    }
    let mut ends = Vec::new();
    let mut times = Vec::new();
    for line in std::fs::read_to_string(&log)?.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [start, "200", time, ..] = fields[..] else {
            return Err(format!("h2load notes {line:?}").into());
        };
        let (start, time) = (start.parse::<u64>()?, time.parse::<u64>()?);
        ends.push(start + time);
        times.push(time);
    }
    let (Some(first), Some(last)) = (ends.iter().min(), ends.iter().max()) else {
        return Err("h2load was not answered".into());
    };
    times.sort_unstable();
    let seconds = (last - first) as f64 / 1e6;
    Ok(Load { requests: times.len(), seconds, p99: times[times.len() * 99 / 100] })
}
