//! Types of the settings that OpenTelemetry defines. Names and forms are those of its specification ("Environment
//! Variable Specification", "OpenTelemetry Protocol Exporter"), so that values meant for other programs work here too.

use gantry_connect::HttpUrl;
use gantry_domain::words;
use percent_encoding::percent_decode_str;
use secrecy::SecretString;

use crate::{choice::value_of_words, value::Value};

/// Address of a collector: `http[s]://host[:port][/path]`. The default port is the scheme's, as in any URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint(pub HttpUrl);

impl Value for OtlpEndpoint {
    const ALLOWED: &'static str =
        "http://HOST:PORT or https://HOST:PORT, with a path if the collector wants one";
    const ALLOWED_DE: &'static str =
        "http://HOST:PORT oder https://HOST:PORT, mit einem Pfad, wenn der Collector einen will";

    fn parse(text: &str) -> Option<Self> {
        HttpUrl::parse(text).map(Self)
    }

    fn show(&self) -> String {
        format!("{}://{}{}", self.0.scheme(), self.0.host_and_port(), self.0.base())
    }
}

/// A list of names and values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pairs(pub Vec<(String, String)>);

impl Value for Pairs {
    const ALLOWED: &'static str = "name=value pairs, comma-separated; values percent-encoded";
    const ALLOWED_DE: &'static str = "Paare name=value, durch Kommas getrennt; Werte prozentkodiert";

    fn parse(text: &str) -> Option<Self> {
        let pairs = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        pairs.map(pair).collect::<Option<_>>().map(Self)
    }

    fn show(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
    }
}

fn pair(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let (name, value) = (name.trim(), percent_decode_str(value.trim()).decode_utf8().ok()?);
    let clean = |it: &str| !it.contains(char::is_control);
    (!name.is_empty() && clean(name) && clean(&value)).then(|| (name.to_owned(), value.into_owned()))
}

/// A list of names and values whose values are never shown, because the collector's key is among them.
#[derive(Debug, Clone, Default)]
pub struct SecretPairs(pub Vec<(String, SecretString)>);

impl Value for SecretPairs {
    const ALLOWED: &'static str = Pairs::ALLOWED;
    const ALLOWED_DE: &'static str = Pairs::ALLOWED_DE;
    const IN_FILE: bool = true;

    fn parse(text: &str) -> Option<Self> {
        // The characters that a header name may have (RFC 9110 §5.6.2).
        let token =
            |it: &str| it.bytes().all(|it| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it));
        let all = Pairs::parse(text)?.0;
        let legal = all.iter().all(|(name, value)| token(name) && value.is_ascii());
        legal.then(|| Self(all.into_iter().map(|(name, value)| (name, value.into())).collect()))
    }

    fn show(&self) -> String {
        "***".to_owned()
    }
}

words! {
    /// Which traces are exported: a sampler of the specification.
    pub enum TracesSampler {
        /// All traces.
        AlwaysOn = "always_on",
        /// No trace.
        AlwaysOff = "always_off",
        /// A share of the traces.
        TraceIdRatio = "traceidratio",
        /// As the caller's trace says; all of those that begin here.
        ParentBasedAlwaysOn = "parentbased_always_on",
        /// As the caller's trace says; none of those that begin here.
        ParentBasedAlwaysOff = "parentbased_always_off",
        /// As the caller's trace says; a share of those that begin here.
        ParentBasedTraceIdRatio = "parentbased_traceidratio",
    }
}

impl TracesSampler {
    /// Returns whether the decision in the caller's trace comes first, and the share of the other traces that is
    /// exported. `ratio` is the share from the setting.
    pub fn decides(self, ratio: Share) -> (bool, f64) {
        match self {
            Self::AlwaysOn => (false, 1.0),
            Self::AlwaysOff => (false, 0.0),
            Self::TraceIdRatio => (false, ratio.0),
            Self::ParentBasedAlwaysOn => (true, 1.0),
            Self::ParentBasedAlwaysOff => (true, 0.0),
            Self::ParentBasedTraceIdRatio => (true, ratio.0),
        }
    }
}

value_of_words!(
    TracesSampler,
    "always_on, always_off, traceidratio, or one of them after parentbased_",
    "always_on, always_off, traceidratio, oder eines davon nach parentbased_"
);

/// A share, 0–1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

impl Value for Share {
    const ALLOWED: &'static str = "a number from 0 to 1";
    const ALLOWED_DE: &'static str = "eine Zahl von 0 bis 1";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|it| (0.0..=1.0).contains(it)).map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_where_on_it() {
        let shown = |text: &str| OtlpEndpoint::parse(text).map(|it| it.show());
        for (text, wanted) in [
            ("http://localhost:4318", "http://localhost:4318"),
            ("http://localhost:4318/", "http://localhost:4318"),
            ("https://otlp.example/otlp/", "https://otlp.example:443/otlp"),
            ("http://[::1]:4318/a/b", "http://[::1]:4318/a/b"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(wanted));
        }
        for bad in [
            "localhost:4318",
            "grpc://x:1",
            "http://",
            "http://:1",
            "http://x:",
            "http://x:0",
            "http://x:70000",
            "http://me:pw@x:1",
            "http://x:1/?a",
            "http://x:1/ b",
            "http://[::1",
            "http://[::1]x",
        ] {
            assert_eq!(shown(bad), None, "{bad}");
        }
    }

    #[test]
    fn pairs_are_decoded_and_secrets_stay_hidden() {
        let pairs = Pairs::parse(" a=1, b = x%20y ,,c=d=e").unwrap().0;
        let told: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(told, [("a", "1"), ("b", "x y"), ("c", "d=e")]);
        for bad in ["a", "=1", "a=%0d%0ab"] {
            assert!(Pairs::parse(bad).is_none(), "{bad}");
        }
        let secrets = SecretPairs::parse("authorization=Bearer%20abc").unwrap();
        assert_eq!(secrets.0[0].1.expose_secret(), "Bearer abc");
        assert!(!format!("{secrets:?} {}", secrets.show()).contains("abc"));
        assert!(SecretPairs::parse("a b=1").is_none());
    }

    #[test]
    fn samplers_are_called_what_other_programs_call_them() {
        for (sampler, name) in TracesSampler::ALL.into_iter().zip(TracesSampler::WORDS) {
            assert_eq!((TracesSampler::parse(name), sampler.show().as_str()), (Some(sampler), name));
        }
        assert_eq!(TracesSampler::parse("jaeger_remote"), None);
        let half = Share::parse("0.5").unwrap();
        assert_eq!(TracesSampler::ParentBasedTraceIdRatio.decides(half), (true, 0.5));
        assert_eq!(TracesSampler::AlwaysOff.decides(half), (false, 0.0));
        for bad in ["", "-0.1", "1.1", "NaN", "half"] {
            assert_eq!(Share::parse(bad), None, "{bad}");
        }
    }
}
