//! The results: JSON for machines, a table for people.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use crate::{
    phases::{Phase, Sample, Scale},
    stats::{median, ratio},
};

pub(crate) const DIRECT: &str = "direct";
pub(crate) const NGINX: &str = "nginx";
pub(crate) const GATEWAY: &str = "gantry";

/// Everything one comparison found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) date: String,
    pub(crate) machine: Machine,
    pub(crate) versions: BTreeMap<&'static str, String>,
    pub(crate) rounds: u32,
    pub(crate) scale: Scale,
    pub(crate) notes: Vec<String>,
    pub(crate) raw: BTreeMap<&'static str, Raw>,
    pub(crate) ratios: Ratios,
}

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) cpu: String,
    pub(crate) pinned: bool,
    pub(crate) realtime: bool,
}

/// The results of one target: samples by phase, one per round, and what is measured once.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Raw {
    pub(crate) kib_per_stream: Option<f64>,
    pub(crate) ready_ms: Option<f64>,
    pub(crate) idle_rss_mib: Option<f64>,
    #[serde(flatten)]
    pub(crate) phases: BTreeMap<&'static str, Vec<Sample>>,
}

impl Raw {
    fn median(&self, phase: Phase, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        median(self.phases.get(phase.name())?.iter().filter_map(of))
    }

    fn cpu_us(&self, phase: Phase) -> Option<f64> {
        self.median(phase, |it| it.cpu_us)
    }
}

/// The figures the gateway is judged by; `None` where the gateway or a side of a ratio was not measured.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Ratios {
    unary_cpu_vs_nginx: Option<f64>,
    unary_64k_cpu_vs_nginx: Option<f64>,
    chunk_cpu_vs_nginx: Option<f64>,
    added_p99_vs_nginx: Option<f64>,
    kib_per_stream: Option<f64>,
    ready_ms: Option<f64>,
    idle_rss_mib: Option<f64>,
}

impl Ratios {
    pub(crate) fn of(raw: &BTreeMap<&'static str, Raw>) -> Self {
        let Some(gateway) = raw.get(GATEWAY) else { return Self::default() };
        let cpu = |phase| ratio(gateway.cpu_us(phase), raw.get(NGINX)?.cpu_us(phase));
        Self {
            unary_cpu_vs_nginx: cpu(Phase::Unary),
            unary_64k_cpu_vs_nginx: cpu(Phase::Unary64k),
            chunk_cpu_vs_nginx: cpu(Phase::Sse),
            added_p99_vs_nginx: ratio(added(raw, GATEWAY, p99), added(raw, NGINX, p99)),
            kib_per_stream: gateway.kib_per_stream,
            ready_ms: gateway.ready_ms,
            idle_rss_mib: gateway.idle_rss_mib,
        }
    }
}

fn p50(sample: &Sample) -> f64 {
    f64::from(sample.outcome.p50_us)
}

fn p99(sample: &Sample) -> f64 {
    f64::from(sample.outcome.p99_us)
}

/// Returns a latency minus the one of calling the mock directly, in µs.
fn added(raw: &BTreeMap<&str, Raw>, name: &str, of: fn(&Sample) -> f64) -> Option<f64> {
    let latency = |name| raw.get(name)?.median(Phase::Latency, |it: &Sample| Some(of(it)));
    Some(latency(name)? - latency(DIRECT)?)
}

/// A row of the table: its label, and a function that finds the cell of one target.
type Row<'a> = (&'a str, Box<dyn Fn(&str) -> Option<f64> + 'a>);

/// Formats the table, the ratios and the notes.
pub(crate) fn table(report: &Report) -> String {
    let raw = &report.raw;
    let of = |label, phase, what: fn(&Sample) -> Option<f64>| -> Row<'_> {
        (label, Box::new(move |name: &str| raw.get(name)?.median(phase, what)))
    };
    let once = |label, what: fn(&Raw) -> Option<f64>| -> Row<'_> {
        (label, Box::new(move |name: &str| what(raw.get(name)?)))
    };
    let rows: Vec<Row<'_>> = vec![
        of("CPU µs/request, saturated", Phase::Unary, |it| it.cpu_us),
        of("  requests/s", Phase::Unary, |it| Some(it.outcome.rps)),
        of("  busy share of one core", Phase::Unary, |it| it.busy),
        of("CPU µs/request, 64 KiB body", Phase::Unary64k, |it| it.cpu_us),
        of("  requests/s", Phase::Unary64k, |it| Some(it.outcome.rps)),
        of("  busy share of one core", Phase::Unary64k, |it| it.busy),
        of("CPU µs/SSE chunk", Phase::Sse, |it| it.cpu_us),
        of("  chunks/s", Phase::Sse, |it| Some(it.outcome.chunks as f64 / it.outcome.measured_s)),
        of("p50 µs at a low rate", Phase::Latency, |it| Some(p50(it))),
        of("p99 µs at a low rate", Phase::Latency, |it| Some(p99(it))),
        of("CPU µs/request at a low rate", Phase::Latency, |it| it.cpu_us),
        ("added p50 µs", Box::new(|name| added(raw, name, p50).filter(|_| name != DIRECT))),
        ("added p99 µs", Box::new(|name| added(raw, name, p99).filter(|_| name != DIRECT))),
        once("KiB per open stream", |it| it.kib_per_stream),
        once("idle RSS MiB", |it| it.idle_rss_mib),
        once("ready ms", |it| it.ready_ms),
    ];
    let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |it| format!("{it:.1}"));
    let mut out = format!("{:<30}{:>12}{:>12}{:>12}{:>10}\n", "", DIRECT, NGINX, GATEWAY, "ratio");
    for (label, find) in rows {
        let (nginx, gateway) = (find(NGINX), find(GATEWAY));
        let ratio = ratio(gateway, nginx).map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
        let (direct, nginx, gateway) = (cell(find(DIRECT)), cell(nginx), cell(gateway));
        // Writing to a string cannot fail.
        writeln!(out, "{label:<30}{direct:>12}{nginx:>12}{gateway:>12}{ratio:>10}").ok();
    }
    for note in &report.notes {
        writeln!(out, "note: {note}").ok();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Outcome;

    fn sample(cpu_us: f64, p99_us: u32) -> Sample {
        let outcome = Outcome {
            requests: 1,
            errors: 0,
            first_error: None,
            rps: 1.0,
            p50_us: 100,
            p90_us: 100,
            p99_us,
            chunks: 1,
            measured_s: 1.0,
        };
        Sample { outcome, cpu_us: Some(cpu_us), busy: Some(1.0) }
    }

    fn raw(cpu_us: f64, p99_us: u32) -> Raw {
        let samples = [0.0, 1.0, 50.0].map(|it| sample(cpu_us + it - 1.0, p99_us)).to_vec();
        let phases = Phase::ALL.map(|it| (it.name(), samples.clone())).into_iter().collect();
        Raw { kib_per_stream: Some(9.0), ready_ms: Some(20.0), idle_rss_mib: Some(15.0), phases }
    }

    #[test]
    fn ratios_are_of_medians_and_of_what_is_added() {
        let targets = BTreeMap::from([(DIRECT, raw(1.0, 300)), (NGINX, raw(16.0, 700))]);
        assert_eq!(Ratios::of(&targets), Ratios::default());
        let mut targets = targets;
        targets.insert(GATEWAY, raw(20.0, 800));
        let ratios = Ratios::of(&targets);
        assert_eq!(ratios.unary_cpu_vs_nginx, Some(1.25));
        assert_eq!(ratios.chunk_cpu_vs_nginx, Some(1.25));
        assert_eq!(ratios.added_p99_vs_nginx, Some(1.25));
        assert_eq!(ratios.kib_per_stream, Some(9.0));
    }
}
