//! A rate limit service for Envoy.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use leaparray::MonotonicClock;
use leaparray_envoy::quota::QuotaConfig;
use leaparray_envoy::server::{Bounds, ConfigFiles, Server};
#[cfg(feature = "redis")]
use leaparray_envoy::service::Leases;
use leaparray_envoy::service::{Fallback, Service, Settings, Store};
use leaparray_web::{Access, Token};
use tokio::net::TcpListener;

const USAGE: &str = "\
usage: leaparray-envoy [OPTION]... FILE_OR_FOLDER...
       leaparray-envoy check FILE_OR_FOLDER...
       leaparray-envoy begin --redis URL [--name NAME]

Serves the limits of files in the format of Envoy's reference server; of a folder, those of its
files *.yaml and *.yml. The files are followed: a change is in force within two seconds.

--grpc ADDRESS        where RLS and RLQS are served: 127.0.0.1:8081 unless it says otherwise
--http ADDRESS        where /json, /healthcheck, /metrics and /leaparray/ are served: 127.0.0.1:8080
--redis URL           divides the limits among the instances with this Redis or Valkey server
--name NAME           the name under which instances share limits: leaparray-envoy
--when-away POLICY    closed refuses what no limit can decide on, open admits it: closed
--headers             adds RateLimit-Limit, -Remaining and -Reset to responses
--page-token TOKEN    the token of the live page; without it, a random one is printed
--quota-ttl SECONDS   the time to live of quotas: 3
--quota-delivery MS   the longest time in which a quota is delivered: 1000
--max-waiting BYTES    the most memory of requests that wait for Redis: 67108864
--clock-skew MS       by how much the clock of a client of RLS with quotas may be behind: 5
--max-streams NUMBER  the most open streams of a connection of gRPC: 1024
--max-request BYTES   the longest request of RLS: 65536
--max-report BYTES    the longest report of RLQS: 262144

check                 tells each problem of the files in a line
begin                 declares instances as new on a Redis server, before their very first start:
                      RLS is then limited without a quarantine at the start";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("leaparray-envoy: {problem}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        ["help" | "-h" | "--help"] => {
            println!("{USAGE}");
            Ok(())
        }
        ["begin", options @ ..] => begin(&Options::of(options)?),
        ["check", paths @ ..] => {
            let options = Options::of_files(paths)?;
            let config = options.files.read().map_err(|it| it.to_string())?;
            println!("{} domains", config.domains().len());
            Ok(())
        }
        arguments => serve(Options::of_files(arguments)?),
    }
}

struct Options {
    files: ConfigFiles,
    has_files: bool,
    grpc: String,
    http: String,
    redis: Option<String>,
    name: String,
    settings: Settings,
    headers: bool,
    token: Option<String>,
    quotas: QuotaConfig,
    bounds: Bounds,
}

impl Options {
    /// Reads options with at least one file.
    fn of_files(arguments: &[&str]) -> Result<Self, String> {
        let options = Self::of(arguments)?;
        let no_file = || "no file; see leaparray-envoy --help".to_owned();
        if options.has_files { Ok(options) } else { Err(no_file()) }
    }

    fn of(arguments: &[&str]) -> Result<Self, String> {
        let mut paths = Vec::new();
        let mut options = Self {
            files: ConfigFiles::new::<&str>([]),
            has_files: false,
            grpc: "127.0.0.1:8081".to_owned(),
            http: "127.0.0.1:8080".to_owned(),
            redis: None,
            name: "leaparray-envoy".to_owned(),
            settings: Settings::default(),
            headers: false,
            token: None,
            quotas: QuotaConfig::default(),
            bounds: Bounds::default(),
        };
        let mut arguments = arguments.iter();
        while let Some(&argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next().copied();
                value.ok_or_else(|| format!("{argument} needs a value; see leaparray-envoy --help"))
            };
            let number = |text: &str| {
                text.parse::<u64>().map_err(|_| format!("{argument} {text:?} is no whole number"))
            };
            let size = |text: &str| {
                let size = number(text)?;
                if size == 0 {
                    return Err(format!("{argument} 0 admits nothing: write at least 1"));
                }
                usize::try_from(size).map_err(|_| format!("{argument} {size} is too large"))
            };
            let quotas = options.quotas;
            match argument {
                "--grpc" => value()?.clone_into(&mut options.grpc),
                "--http" => value()?.clone_into(&mut options.http),
                "--redis" => options.redis = Some(value()?.to_owned()),
                "--name" => value()?.clone_into(&mut options.name),
                "--when-away" => {
                    options.settings.fallback = match value()? {
                        "closed" => Fallback::Closed,
                        "open" => Fallback::Open,
                        other => {
                            return Err(format!("--when-away {other:?} is not closed or open"));
                        }
                    };
                }
                "--headers" => options.headers = true,
                "--page-token" => options.token = Some(value()?.to_owned()),
                "--quota-ttl" => {
                    options.quotas = quotas.with_ttl(Duration::from_secs(number(value()?)?));
                }
                "--quota-delivery" => {
                    let delivery = Duration::from_millis(number(value()?)?);
                    options.quotas = quotas.with_delivery(delivery);
                }
                "--clock-skew" => {
                    options.settings.clock_skew = Duration::from_millis(number(value()?)?);
                }
                "--max-streams" => {
                    let streams = size(value()?)?;
                    options.bounds.max_streams = u32::try_from(streams)
                        .map_err(|_| format!("{argument} {streams} is too large"))?;
                }
                "--max-waiting" => {
                    let bytes = number(value()?)?;
                    options.settings.max_waiting = usize::try_from(bytes)
                        .map_err(|_| format!("{argument} {bytes} is too large"))?;
                }
                "--max-request" => options.bounds.max_request = size(value()?)?,
                "--max-report" => options.bounds.max_report = size(value()?)?,
                other if other.starts_with('-') => {
                    return Err(format!("unknown option {other:?}; see leaparray-envoy --help"));
                }
                path => paths.push(path),
            }
        }
        options.has_files = !paths.is_empty();
        options.files = ConfigFiles::new(paths);
        Ok(options)
    }
}

#[tokio::main]
async fn serve(options: Options) -> Result<(), String> {
    let config = options.files.read().map_err(|it| it.to_string())?;
    let store = store(&options)?;
    let settings = options.settings;
    let service = Service::with_settings(&config, &store, settings, MonotonicClock::new());
    let token = match options.token {
        Some(token) => Token::new(token).map_err(|it| format!("--page-token: {it}"))?,
        None => Token::random(),
    };
    let grpc = bind("--grpc", &options.grpc).await?;
    let http = bind("--http", &options.http).await?;
    let address = |listener: &TcpListener| listener.local_addr().map_err(|it| it.to_string());
    println!("gRPC: {}", address(&grpc)?);
    println!("HTTP: http://{}/json", address(&http)?);
    println!("live page: {}", token.url(format!("http://{}/leaparray", address(&http)?)));
    let server = Server::new(service);
    #[cfg(feature = "redis")]
    let server = match &options.redis {
        Some(address) => server
            .with_quota_shares(address, &options.name)
            .map_err(|it| format!("--redis {address}: {it}"))?,
        None => server,
    };
    server
        .with_quotas(options.quotas)
        .with_bounds(options.bounds)
        .with_headers(options.headers)
        .with_page(Access::token(&token))
        .with_files(options.files)
        .serve(grpc, http, stopped())
        .await
        .map_err(|it| it.to_string())
}

/// Returns the store of the limits.
#[cfg(feature = "redis")]
fn store(options: &Options) -> Result<Store, String> {
    let Some(address) = &options.redis else { return Ok(Store::Memory) };
    let engine = leaparray_redis::RedisEngine::open(address);
    let engine = engine.map_err(|it| format!("--redis {address}: {it}"))?;
    let leases = Leases::new(&options.name, engine);
    Ok(Store::Redis(leases.map_err(|it| format!("--name {:?}: {it}", options.name))?))
}

/// Declares instances as new on a server.
#[cfg(feature = "redis")]
#[tokio::main(flavor = "current_thread")]
async fn begin(options: &Options) -> Result<(), String> {
    let address = options.redis.as_deref().ok_or("begin needs --redis URL")?;
    let failed = |error: &dyn std::fmt::Display| format!("--redis {address}: {error}");
    let engine = leaparray_redis::RedisEngine::open(address).map_err(|it| failed(&it))?;
    let leases = Leases::new(&options.name, engine.clone());
    let leases = leases.map_err(|it| format!("--name {:?}: {it}", options.name))?;
    let begun = leases.begin_new(&engine).await.map_err(|it| failed(&it))?;
    println!("{:?} begins for {begun} units of time", options.name);
    Ok(())
}

#[cfg(not(feature = "redis"))]
fn begin(_: &Options) -> Result<(), String> {
    Err("this program was built without the feature `redis`".to_owned())
}

#[cfg(not(feature = "redis"))]
fn store(options: &Options) -> Result<Store, String> {
    match &options.redis {
        None => Ok(Store::Memory),
        Some(_) => Err("--redis: this program was built without the feature `redis`".to_owned()),
    }
}

async fn bind(option: &str, address: &str) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| format!("{option} {address}: {error}"))
}

/// Waits for the signal to stop.
async fn stopped() {
    let interrupt = async { drop(tokio::signal::ctrl_c().await) };
    #[cfg(unix)]
    let terminate = async {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}
