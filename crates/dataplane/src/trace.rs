//! W3C Trace Context (Recommendation of 2021): which trace a request belongs to. A client's is passed on as it is,
//! since the gateway's own part is not recorded; a request without one begins a trace.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::worker::Worker;

pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// `00-` trace `-` parent `-` flags.
const LENGTH: usize = 55;
/// What the specification asks everybody to carry; longer ones are left out whole.
const MAX_STATE: usize = 512;

/// Of one request.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub parent: HeaderValue,
    pub state: Option<HeaderValue>,
}

impl Trace {
    /// The one that the client sent, if it is valid, else a new one.
    pub(crate) fn new(headers: &HeaderMap, worker: &Worker) -> Self {
        let mut parents = headers.get_all(&TRACEPARENT).iter();
        match (parents.next(), parents.next()) {
            (Some(parent), None) if is_valid(parent.as_bytes()) => {
                Self { parent: parent.clone(), state: state(headers) }
            }
            _ => Self { parent: fresh(worker), state: None },
        }
    }

    /// 32 hexadecimal digits.
    pub(crate) fn id(&self) -> &str {
        self.parent.to_str().ok().and_then(|it| it.get(3..35)).unwrap_or_default()
    }
}

fn fresh(worker: &Worker) -> HeaderValue {
    let [high, low, parent] = worker.random();
    let flags = u8::from(worker.config.trace_sampled);
    // Zeros are invalid.
    let text = format!("00-{high:016x}{:016x}-{:016x}-{flags:02x}", low | 1, parent | 1);
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn state(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut all = headers.get_all(&TRACESTATE).iter();
    let first = all.next()?;
    let joined = all.try_fold(first.clone(), |joined, next| {
        HeaderValue::from_bytes(&[joined.as_bytes(), b",", next.as_bytes()].concat()).ok()
    })?;
    (joined.len() <= MAX_STATE).then_some(joined)
}

/// A version that is not known yet may have more behind what version 00 has.
fn is_valid(text: &[u8]) -> bool {
    let hex = |it: &[u8]| it.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let some = |it: &[u8]| hex(it) && it.iter().any(|byte| *byte != b'0');
    let Some((head, more)) = text.split_at_checked(LENGTH) else { return false };
    let (version, dashes) = (&head[..2], [head[2], head[35], head[52]]);
    hex(version)
        && version != b"ff"
        && dashes == *b"---"
        && some(&head[3..35])
        && some(&head[36..52])
        && hex(&head[53..])
        && (more.is_empty() || (version != b"00" && more[0] == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_recommendation_calls_invalid_is() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(is_valid(good.as_bytes()));
        assert!(is_valid(format!("cc{}-what-the-future-will-be", &good[2..]).as_bytes()));
        for bad in [
            &format!("ff{}", &good[2..]),
            &format!("{good}-01"),
            &format!("cc{}.x", &good[2..]),
            &good.to_uppercase(),
            &good.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &good.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &good.replace("-01", "-0x"),
            &good.replace('-', "_"),
            "",
            "00",
        ] {
            assert!(!is_valid(bad.as_bytes()), "{bad}");
        }
    }
}
