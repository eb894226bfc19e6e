//! A service of axum in Sentinel's dashboard: see README.md.
#![forbid(unsafe_code)]

use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::{env, fs};

use axum::Router;
use axum::routing::get;
use leaparray::Registry;
use leaparray_rules::Rules;
use leaparray_sentinel::{Access, CommandCenter, Heartbeat, MetricLog, Network, RuleBook, bind};
use tokio::net::TcpListener;

/// The arguments of the program.
#[derive(Debug, Default, PartialEq)]
struct Options {
    /// The servers of the dashboard.
    servers: Vec<String>,
    /// The addresses of dashboards on other machines.
    allowed: Vec<Network>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--allow" => {
                    let network = arguments.next().ok_or("--allow needs an address")?;
                    options.allowed.push(network.parse()?);
                }
                it if it.starts_with('-') => {
                    return Err(
                        format!("{it} is unknown; write --allow NETWORK, or HOST:PORT").into()
                    );
                }
                _ => options.servers.push(argument),
            }
        }
        Ok(options)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(env::args().skip(1))?;
    let folder = env::temp_dir().join("example-sentinel");
    fs::create_dir_all(&folder)?;

    let registry = Arc::new(Registry::new());
    let rules = Rules::new(Arc::clone(&registry));
    let book = Arc::new(RuleBook::new(rules.clone()).folder(&folder)?);

    // Without an address that is allowed, nothing outside of this machine is answered.
    let is_local = options.allowed.is_empty();
    let address = if is_local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    let access = options.allowed.into_iter().fold(Access::default(), Access::allow);
    let commands = bind(address.into()).await?;
    let port = commands.local_addr()?.port();
    let center = CommandCenter::new(Arc::clone(&registry)).rules(book).accept_rules();
    tokio::spawn(center.access(access).serve(commands));
    println!("commands: http://127.0.0.1:{port}/api");

    let heartbeat = Heartbeat::new("example-sentinel", port);
    let heartbeat = options.servers.into_iter().fold(heartbeat, Heartbeat::server);
    // Without a server, the dashboard does not know the service, and the commands are answered.
    let heartbeat = heartbeat.on_change(|it| println!("dashboard: {it}")).start();
    if let Err(error) = &heartbeat {
        println!("no heartbeat: {error}");
    }
    let log = MetricLog::new(registry, &folder, "example-sentinel").start()?;
    println!("rules and metric log: {}", folder.display());

    let app: Router = Router::new()
        .route("/orders", get(async || "orders\n"))
        .route("/pay", get(async || "paid\n"))
        .layer(rules.layer()?);
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("service: http://127.0.0.1:3000/orders");
    axum::serve(listener, app).await?;
    drop((heartbeat, log));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let arguments = arguments.iter().map(|&it| it.to_owned());
        Options::parse(arguments).map_err(|it| it.to_string())
    }

    #[test]
    fn arguments_are_servers_and_networks() {
        let options = parse(&["a:8080", "--allow", "10.0.0.0/8", "b:8080"]).unwrap();
        assert_eq!(options.servers, ["a:8080", "b:8080"]);
        assert_eq!(options.allowed, ["10.0.0.0/8".parse().unwrap()]);
        assert!(parse(&["--allow"]).is_err());
        assert!(parse(&["--allow", "everyone"]).is_err());
        assert_eq!(
            parse(&["--help"]).unwrap_err(),
            "--help is unknown; write --allow NETWORK, or HOST:PORT"
        );
    }
}
