//! The machine: its name, its address and its load.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::{Mutex, PoisonError};

use leaparray_rules::machine::{CpuTimes, cpu_times};

/// Returns the name of the machine.
pub(crate) fn host_name() -> String {
    gethostname::gethostname().to_string_lossy().into_owned()
}

/// Returns the address from which this machine reaches another one: one of IPv4 if there is one,
/// since a dashboard cannot call one of IPv6. Sends nothing: the operating system chooses the
/// address when a socket of UDP is connected.
pub(crate) fn address_towards(server: impl ToSocketAddrs) -> Option<IpAddr> {
    let mut all: Vec<_> = server.to_socket_addrs().ok()?.collect();
    all.sort_by_key(SocketAddr::is_ipv6);
    all.into_iter().find_map(|to| {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => ([0; 4], 0).into(),
            SocketAddr::V6(_) => ([0; 8], 0).into(),
        };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip().to_canonical())
    })
}

/// Returns the address of this machine in its network; the loopback address if it has none.
pub(crate) fn address() -> IpAddr {
    // An address for documentation: it is routed as any other is.
    address_towards((Ipv4Addr::new(192, 0, 2, 1), 9)).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// The load of the machine between two readings.
#[derive(Debug, Default)]
pub(crate) struct Load(Mutex<Option<CpuTimes>>);

impl Load {
    /// Returns the share of the time since the last reading for which the processors were busy,
    /// from 0 to 1; `None` for the first reading, and if it is not known.
    pub(crate) fn cpu(&self) -> Option<f64> {
        let now = cpu_times().ok()?;
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(now)?;
        Some(now.percent_since(before) / 100.0)
    }

    /// Returns the mean number of runnable threads of the last minute; `None` if it is not known.
    pub(crate) fn average() -> Option<f64> {
        parse_average(&std::fs::read_to_string("/proc/loadavg").ok()?)
    }
}

fn parse_average(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_is_the_first_number() {
        assert_eq!(parse_average("0.75 1.20 1.10 2/345 6789\n"), Some(0.75));
        assert_eq!(parse_average(""), None);
    }

    #[test]
    fn loopback_is_reached_from_loopback() {
        assert_eq!(address_towards("127.0.0.1:8080"), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(address_towards("no address"), None);
    }

    #[test]
    fn address_is_of_ip_4_if_the_server_has_both() {
        let both: [SocketAddr; 2] = ["[::1]:8080", "127.0.0.1:8080"].map(|it| it.parse().unwrap());
        assert_eq!(address_towards(&both[..]), Some(Ipv4Addr::LOCALHOST.into()));
    }
}
