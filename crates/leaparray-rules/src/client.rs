//! The address of a client as a key.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network of a client: its address, without the bits after these.
///
/// An IPv4 address that is written as one of IPv6 is an IPv4 address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub(crate) address: IpAddr,
    pub(crate) v4: u8,
    pub(crate) v6: u8,
}

impl Network {
    /// The length of the longest text: an IPv6 address with a number of bits.
    #[cfg(any(feature = "tower", test))]
    pub(crate) const MAX_LEN: usize = 43;
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address.to_canonical() {
            IpAddr::V4(address) if self.v4 >= 32 => address.fmt(f),
            IpAddr::V6(address) if self.v6 >= 128 => address.fmt(f),
            IpAddr::V4(address) => {
                let mask = !(u32::MAX >> self.v4);
                write!(f, "{}/{}", Ipv4Addr::from_bits(address.to_bits() & mask), self.v4)
            }
            IpAddr::V6(address) => {
                let mask = !(u128::MAX >> self.v6);
                write!(f, "{}/{}", Ipv6Addr::from_bits(address.to_bits() & mask), self.v6)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_is_the_leading_bits() {
        for (address, v4, v6, expected) in [
            ("10.1.2.3", 32, 64, "10.1.2.3"),
            ("10.1.2.3", 24, 64, "10.1.2.0/24"),
            ("10.1.2.3", 1, 64, "0.0.0.0/1"),
            ("::ffff:10.1.2.3", 24, 64, "10.1.2.0/24"),
            ("2001:db8:1:2:3::7", 32, 64, "2001:db8:1:2::/64"),
            ("2001:db8:1:2:3::7", 32, 128, "2001:db8:1:2:3::7"),
        ] {
            let network = Network { address: address.parse().unwrap(), v4, v6 };
            assert_eq!(network.to_string(), expected, "{address}");
        }
    }

    #[test]
    fn longest_text_fits() {
        let address = Ipv6Addr::from_bits(u128::MAX).into();
        let text = Network { address, v4: 32, v6: 127 }.to_string();
        assert_eq!(text.len(), Network::MAX_LEN);
    }
}
