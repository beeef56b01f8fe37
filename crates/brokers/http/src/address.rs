//! Addresses that a webhook may not go to: whatever is not a public host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one of the public Internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, d] = address.octets();
    let is_special = match (a, b, c) {
        // This network, private, loopback, link-local, private.
        (0 | 10 | 127, ..) | (169, 254, _) | (192, 168, _) => true,
        (172, b, _) => (16..=31).contains(&b),
        // Shared by carriers; protocol assignments; documentation; benchmarks.
        (100, b, _) => (64..=127).contains(&b),
        (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113) => true,
        (198, b, _) => (18..=19).contains(&b),
        // What virtual machines of Azure ask about themselves: public in form only.
        (168, 63, 129) => d == 16,
        // 6to4 relays, multicast, reserved and broadcast.
        (192, 88, 99) => true,
        (a, ..) => a >= 224,
    };
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // Addresses that carry one of IPv4: mapped, translated (NAT64), 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(embedded(high, low))
        }
        [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),
        // Documentation, and tunnels and protocol assignments below 2001::/23.
        [0x2001, 0x0db8, ..] => false,
        [0x2001, second, ..] if second < 0x0200 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // Global unicast, and nothing else: no loopback, unique local, link-local, multicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_pass() {
        let public = ["1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1"];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        let forbidden = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "fd00:ec2::254",
            "ff02::1",
            "64:ff9b:1::1",
            "100::1",
            "3fff::1",
            "5f00::1",
        ];
        for address in forbidden {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }
}
