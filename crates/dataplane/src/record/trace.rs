//! W3C Trace Context (Recommendation of 2021): which trace a request belongs to. If spans are exported, the engine gets
//! the gateway's span as its parent. Otherwise, a client's context is passed on as it is, since the gateway's own part
//! is not recorded. A request without one begins a trace.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::random::Random;

pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// `00-` trace `-` parent `-` flags.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;
/// Flags that have a meaning: sampled, and (Trace Context level 2) that the id of the trace is random.
const KNOWN_FLAGS: u8 = 3;
/// Limits up to which the specification asks everyone to carry `tracestate`; longer ones are left out whole.
const MAX_STATE: usize = 512;
const MAX_MEMBERS: usize = 32;
const MAX_KEY: usize = 256;
const MAX_VALUE: usize = 256;

/// The trace context of one request.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    /// The `traceparent` that the engine gets.
    pub parent: HeaderValue,
    pub state: Option<HeaderValue>,
    /// The gateway's own span, if it is exported.
    pub own: Option<OwnSpan>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnSpan {
    pub trace: u128,
    pub id: u64,
    /// The client's span.
    pub parent: Option<u64>,
    pub flags: u8,
}

/// Which traces are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// A trace that began elsewhere is recorded if it is marked as sampled there; the share is that of the other
    /// traces.
    pub follows_parent: bool,
    /// Share of the traces, 0–1.
    pub share: f64,
}

impl Sampler {
    /// Returns whether a trace is recorded. Gateways with the same share record the same traces: `TraceIdRatioBased` of
    /// OpenTelemetry's Rust SDK, by the low 63 bits of the id.
    fn takes(self, trace: u128, parent_flags: Option<u8>) -> bool {
        match parent_flags {
            Some(flags) if self.follows_parent => flags & SAMPLED != 0,
            _ => self.share >= 1.0 || (((trace as u64) >> 1) as f64) < self.share * (1_u64 << 63) as f64,
        }
    }
}

impl Trace {
    /// Takes the context that the client sent, if it is valid; otherwise begins a new trace. `flag` is that of a new
    /// trace if there is no `sampler`, and so no spans.
    pub(crate) fn new(headers: &HeaderMap, sampler: Option<Sampler>, flag: bool, random: &Random) -> Self {
        let mut parents = headers.get_all(&TRACEPARENT).iter();
        let given = match (parents.next(), parents.next()) {
            (Some(parent), None) => Context::read(parent.as_bytes()).map(|it| (parent, it)),
            _ => None,
        };
        let state = given.and_then(|_| state(headers));
        let Some(sampler) = sampler else {
            let parent = given.map_or_else(
                || Context::begin(random, u8::from(flag)).header(),
                |(parent, _)| parent.clone(),
            );
            return Self { parent, state, own: None };
        };
        let begun = given.map_or_else(|| Context::begin(random, 0), |(_, context)| context);
        if !sampler.takes(begun.trace, given.map(|(_, context)| context.flags)) {
            let parent = given.map_or_else(|| begun.header(), |(parent, _)| parent.clone());
            return Self { parent, state, own: None };
        }
        let [span] = random.numbers();
        let flags = begun.flags & KNOWN_FLAGS | SAMPLED;
        let own = Context { trace: begun.trace, span: span | 1, flags };
        let parent = given.map(|(_, context)| context.span);
        let span = OwnSpan { trace: own.trace, id: own.span, parent, flags };
        Self { parent: own.header(), state, own: Some(span) }
    }

    /// Returns the trace id as 32 hexadecimal digits.
    pub(crate) fn id(&self) -> &str {
        self.parent.to_str().ok().and_then(|it| it.get(3..35)).unwrap_or_default()
    }
}

/// The content of a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Context {
    trace: u128,
    span: u64,
    flags: u8,
}

impl Context {
    /// Reads a `traceparent`; `None` if it is invalid. A version that is not known yet may have more fields behind
    /// those of version 00.
    fn read(text: &[u8]) -> Option<Self> {
        let (head, more) = text.split_at_checked(LENGTH)?;
        let (version, dashes) = (&head[..2], [head[2], head[35], head[52]]);
        let goes_on = more.is_empty() || (version != b"00" && more[0] == b'-');
        if version == b"ff" || dashes != *b"---" || !goes_on {
            return None;
        }
        hex(version)?;
        let (trace, span) = (hex(&head[3..35])?, hex(&head[36..52])? as u64);
        // Zeros are invalid.
        (trace != 0 && span != 0).then_some(Self { trace, span, flags: hex(&head[53..])? as u8 })
    }

    fn begin(random: &Random, flags: u8) -> Self {
        let [high, low, span] = random.numbers();
        Self { trace: u128::from(high) << 64 | u128::from(low | 1), span: span | 1, flags }
    }

    fn header(self) -> HeaderValue {
        let Self { trace, span, flags } = self;
        let text = format!("00-{trace:032x}-{span:016x}-{flags:02x}");
        HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

/// Reads a hexadecimal number. Only lower-case digits are valid, as the specification wants them.
fn hex(text: &[u8]) -> Option<u128> {
    text.iter().try_fold(0, |sum, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(sum << 4 | u128::from(digit))
    })
}

/// Joins all `tracestate` headers; `None` if there is none, or if the list is not valid, or longer than has to be
/// carried.
fn state(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut all = headers.get_all(&TRACESTATE).iter();
    let first = all.next()?;
    let joined = all.try_fold(first.clone(), |joined, next| {
        HeaderValue::from_bytes(&[joined.as_bytes(), b",", next.as_bytes()].concat()).ok()
    })?;
    (joined.len() <= MAX_STATE && is_list(joined.as_bytes())).then_some(joined)
}

/// Returns whether these are `key=value` members (§3.3.1 of the Recommendation), at least one of them.
fn is_list(text: &[u8]) -> bool {
    let members = text.split(|it| *it == b',').map(<[u8]>::trim_ascii).filter(|it| !it.is_empty());
    let mut n = 0;
    for member in members {
        n += 1;
        let equals = member.iter().position(|it| *it == b'=');
        let Some((key, value)) = equals.and_then(|at| Some((&member[..at], member.get(at + 1..)?))) else {
            return false;
        };
        if n > MAX_MEMBERS || !is_key(key) || !is_value(value) {
            return false;
        }
    }
    n > 0
}

/// Returns whether a key is valid: `vendor` or `tenant@vendor`.
fn is_key(key: &[u8]) -> bool {
    let word = |it: &[u8]| {
        let starts = it.first().is_some_and(|it| matches!(it, b'a'..=b'z' | b'0'..=b'9'));
        starts && it.iter().all(|it| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/'))
    };
    key.len() <= MAX_KEY && key.splitn(2, |it| *it == b'@').all(word)
}

fn is_value(value: &[u8]) -> bool {
    let printable = value.iter().all(|it| matches!(it, b' '..=b'~') && *it != b'=');
    printable && (1..=MAX_VALUE).contains(&value.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_the_recommendation_calls_invalid_is() {
        let read = |text: &str| Context::read(text.as_bytes());
        assert_eq!(read(GOOD).unwrap().header(), GOOD);
        assert_eq!(read(&format!("cc{}-what-the-future-will-be", &GOOD[2..])).unwrap().header(), GOOD);
        for bad in [
            &format!("ff{}", &GOOD[2..]),
            &format!("{GOOD}-01"),
            &format!("cc{}.x", &GOOD[2..]),
            &GOOD.to_uppercase(),
            &GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &GOOD.replace("-01", "-0x"),
            &GOOD.replace('-', "_"),
            "",
            "00",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_tracestate_is_a_list_or_nothing() {
        let long = |n| format!("a={}", "x".repeat(n));
        let many = |n: usize| (0..n).map(|it| format!("k{it}=1")).collect::<Vec<_>>().join(",");
        for good in
            ["a=1", "a=1,b=2", "a=1 , b=x y", "0t@ven-dor=1", "a_-*/=!", "a=1,", &many(32), &long(256)]
        {
            assert!(is_list(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ",",
            "a",
            "=1",
            "a=",
            "A=1",
            "a b=1",
            "a=1=2",
            "a@b@c=1",
            "@a=1",
            "a=\u{e9}",
            &many(33),
            &long(257),
        ] {
            assert!(!is_list(bad.as_bytes()), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_share_is_about_that_share_of_all_traces(share in 0.0_f64..=1.0, seed: u64) {
            let sampler = Sampler { follows_parent: true, share };
            // Well spread ids: the finaliser of splitmix64.
            let mix = |n: u64| {
                let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                n ^ (n >> 31)
            };
            let ids = (1..=4000_u64).map(|n| mix(seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
            let taken = ids.filter(|it| sampler.takes(u128::from(*it), None)).count() as f64 / 4000.0;
            prop_assert!((taken - share).abs() < 0.06, "{taken} for {share}");
            for (flags, wanted) in [(1, true), (0, false), (3, true)] {
                prop_assert_eq!(sampler.takes(1, Some(flags)), wanted);
            }
        }
    }
}
