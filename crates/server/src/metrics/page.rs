//! Writes families of metrics in Prometheus's text format.

use std::fmt::{Display, Write};

use gantry_dataplane::Histogram;
use gantry_domain::metrics::Metric;

/// The text format 0.0.4 of Prometheus.
pub(super) struct Page(pub(super) String);

impl Page {
    pub(super) fn head(&mut self, metric: Metric) {
        let Metric { name, kind, help, .. } = metric;
        // Writing to a String can't fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.as_str());
    }

    /// Writes one line; `labels` are the values of the metric's labels.
    pub(super) fn line(
        &mut self,
        metric: Metric,
        suffix: &str,
        labels: &[&str],
        le: Option<&str>,
        value: impl Display,
    ) {
        let _ = write!(self.0, "{}{suffix}", metric.name);
        let names = metric.labels.iter().zip(labels).map(|(name, value)| (*name, *value));
        for (index, (name, value)) in names.chain(le.map(|le| ("le", le))).enumerate() {
            let _ = write!(self.0, "{}{name}=\"", if index == 0 { '{' } else { ',' });
            for character in value.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        let close = if metric.labels.is_empty() && le.is_none() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }

    /// Writes a family without labels; an unknown value is left out.
    pub(super) fn one(&mut self, metric: Metric, value: Option<impl Display>) {
        self.head(metric);
        if let Some(value) = value {
            self.line(metric, "", &[], None, value);
        }
    }

    pub(super) fn histogram(&mut self, metric: Metric, model: &str, histogram: &Histogram) {
        let (buckets, sum) = histogram.read();
        let mut count = 0;
        for (bound, n) in buckets {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |it| it.to_string());
            self.line(metric, "_bucket", &[model], Some(&bound), n);
            count = n;
        }
        self.line(metric, "_sum", &[model], None, sum);
        self.line(metric, "_count", &[model], None, count);
    }
}
