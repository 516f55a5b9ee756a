//! Network addresses: lists of IPs and CIDR ranges, and the client's real address behind proxies.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};

/// Most addresses of engines that one served name may have.
pub const MAX_ENGINE_URLS: usize = 16;

/// Addresses and CIDR ranges; an empty list means "no restriction" wherever it is used as an allow-list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IpList(Vec<IpNet>);

/// An entry of a list that is no address and no range.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not an IP address or a CIDR range")]
pub struct InvalidRange(String);

impl IpList {
    /// Reads a list of addresses and ranges.
    ///
    /// # Errors
    /// Names the first entry that is neither an address nor a range.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidRange> {
        let nets = entries.into_iter().map(str::trim).filter(|it| !it.is_empty()).map(|entry| {
            let net = IpNet::from_str(entry).or_else(|_| IpAddr::from_str(entry).map(IpNet::from));
            net.map(|net| canonical(net.trunc())).map_err(|_| InvalidRange(entry.to_owned()))
        });
        nets.collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether the list has no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `ip` lies in one of the ranges. An IPv4 address that is mapped to IPv6 counts as IPv4.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.0.iter().any(|net| net.contains(&ip))
    }

    /// Returns the entries as they are stored and shown: single addresses without `/32`.
    pub fn entries(&self) -> Vec<String> {
        let single = |net: &IpNet| net.prefix_len() == net.max_prefix_len();
        let short = |net: &IpNet| if single(net) { net.addr().to_string() } else { net.to_string() };
        self.0.iter().map(short).collect()
    }
}

/// A range of private addresses from which a runtime takes a small subnet for each network of engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubnetRange(Ipv4Net);

impl SubnetRange {
    /// Length of a subnet's prefix: 61 engines and their gateway.
    pub const PREFIX: u8 = 26;

    /// Reads a range in CIDR notation, such as `10.189.0.0/16`. It must hold at least one subnet.
    pub fn parse(text: &str) -> Option<Self> {
        let net: Ipv4Net = text.trim().parse().ok()?;
        (net.prefix_len() <= Self::PREFIX && net == net.trunc()).then_some(Self(net))
    }

    /// Returns the subnets in their order, from the one with the number `first` (modulo their count) on.
    pub fn subnets(self, first: u32) -> impl Iterator<Item = Ipv4Net> {
        let count = 1_u32.checked_shl((Self::PREFIX - self.0.prefix_len()).into()).unwrap_or(u32::MAX);
        let begin = u32::from(self.0.network());
        (0..count).filter_map(move |it| {
            let number = (u64::from(first) + u64::from(it)) % u64::from(count);
            let address = begin.checked_add((number << (32 - Self::PREFIX)) as u32)?;
            Ipv4Net::new(address.into(), Self::PREFIX).ok()
        })
    }
}

impl fmt::Display for SubnetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Converts ranges of IPv4-mapped IPv6 addresses (RFC 4291 §2.5.5.2, `::ffff:0:0/96`) to IPv4, as [`IpList::contains`]
/// does with the addresses that it looks up.
fn canonical(net: IpNet) -> IpNet {
    match (net, net.addr().to_canonical(), net.prefix_len().checked_sub(96)) {
        (IpNet::V6(_), IpAddr::V4(ip), Some(prefix)) => Ipv4Net::new(ip, prefix).map_or(net, IpNet::V4),
        _ => net,
    }
}

impl fmt::Display for IpList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.entries().join(","))
    }
}

impl Serialize for IpList {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.entries().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for IpList {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Vec::<String>::deserialize(deserializer)?;
        Self::parse(entries.iter().map(String::as_str)).map_err(serde::de::Error::custom)
    }
}

/// Returns the client's address: the peer, unless the peer is a trusted proxy; then the right-most address of
/// `X-Forwarded-For` that is not itself a trusted proxy. Returns `None` if a trusted proxy sent something that is not
/// an address: the caller must refuse the request rather than guess.
///
/// `forwarded` yields the header's values, as bytes, in the order in which they arrived; each may hold several
/// addresses. Bytes that are not text are not an address.
pub fn client_ip<'a>(
    peer: IpAddr,
    trusted: &IpList,
    forwarded: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> Option<IpAddr> {
    let mut client = peer.to_canonical();
    for hop in forwarded.rev().flat_map(|value| value.rsplit(|it| *it == b',')) {
        if !trusted.contains(client) {
            return Some(client);
        }
        client = std::str::from_utf8(hop).ok()?.trim().parse::<IpAddr>().ok()?.to_canonical();
    }
    Some(client)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_gives_its_subnets_from_any_of_them_on() {
        let range = SubnetRange::parse("10.189.0.0/24").unwrap();
        let from = |first| range.subnets(first).map(|it| it.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(from(0), "10.189.0.0/26 10.189.0.64/26 10.189.0.128/26 10.189.0.192/26");
        assert_eq!(from(7), "10.189.0.192/26 10.189.0.0/26 10.189.0.64/26 10.189.0.128/26");
        assert_eq!(SubnetRange::parse("0.0.0.0/0").unwrap().subnets(u32::MAX).count(), 1 << 26);
        for bad in ["10.189.0.0", "10.189.0.0/27", "10.189.0.1/24", "fd00::/8", ""] {
            assert_eq!(SubnetRange::parse(bad), None, "{bad}");
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn lists_take_addresses_and_ranges_and_show_them_short() {
        let list = IpList::parse(["10.0.0.7", " 192.168.1.9/24 ", "::1"]).unwrap();
        assert_eq!(list.entries(), ["10.0.0.7", "192.168.1.0/24", "::1"]);
        assert!(list.contains(ip("192.168.1.200")) && list.contains(ip("::ffff:10.0.0.7")));
        assert!(!list.contains(ip("10.0.0.8")));
        let dressed = IpList::parse(["::ffff:10.0.0.7", "::ffff:192.168.0.0/112"]).unwrap();
        assert_eq!(dressed.entries(), ["10.0.0.7", "192.168.0.0/16"]);
        assert!(dressed.contains(ip("10.0.0.7")) && dressed.contains(ip("::ffff:192.168.3.4")));
        assert_eq!(IpList::parse(["10.0.0.0/33"]), Err(InvalidRange("10.0.0.0/33".into())));
    }

    #[test]
    fn a_forwarded_address_counts_only_from_a_trusted_proxy() {
        let trusted = IpList::parse(["10.0.0.0/8"]).unwrap();
        let from =
            |peer, header: &[&str]| client_ip(ip(peer), &trusted, header.iter().map(|it| it.as_bytes()));
        assert_eq!(from("203.0.113.1", &["198.51.100.9"]), Some(ip("203.0.113.1")));
        assert_eq!(from("10.0.0.1", &["198.51.100.9"]), Some(ip("198.51.100.9")));
        assert_eq!(from("10.0.0.1", &["1.2.3.4, 198.51.100.9", "10.9.9.9"]), Some(ip("198.51.100.9")));
        assert_eq!(from("10.0.0.1", &[]), Some(ip("10.0.0.1")));
        assert_eq!(from("10.0.0.1", &["not-an-address"]), None);
        // A header line that is not text is not skipped: the line before it could be forged by the client.
        let lines: [&[u8]; 2] = [b"198.51.100.9", b"\xff"];
        assert_eq!(client_ip(ip("10.0.0.1"), &trusted, lines.into_iter()), None);
        assert_eq!(client_ip(ip("10.0.0.1"), &trusted, lines.into_iter().rev()), Some(ip("198.51.100.9")));
    }

    proptest! {
        /// Text that an attacker writes to the left of the first untrusted hop never changes the answer.
        #[test]
        fn the_left_part_of_the_header_is_ignored(left in "[ -~]{0,40}", client: [u8; 4]) {
            let client = IpAddr::from(client);
            let trusted = IpList::parse(["10.0.0.0/8"]).unwrap();
            prop_assume!(!trusted.contains(client));
            let header = format!("{left},{client}");
            prop_assert_eq!(client_ip(ip("10.0.0.1"), &trusted, [header.as_bytes()].into_iter()), Some(client));
        }
    }
}
