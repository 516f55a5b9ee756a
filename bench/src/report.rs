//! The results: JSON for machines, a table for people.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use crate::{
    phases::{Phase, Sample, Scale},
    stats::{Spread, median, ratio, spread},
};

pub(crate) const DIRECT: &str = "direct";
pub(crate) const NGINX: &str = "nginx";
pub(crate) const HAPROXY: &str = "haproxy";
pub(crate) const GATEWAY: &str = "gantry";

/// Everything one comparison found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) date: String,
    pub(crate) machine: Machine,
    pub(crate) versions: BTreeMap<&'static str, String>,
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

/// The results of one target: samples by phase, one per turn, and what is measured once.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Raw {
    pub(crate) kib_per_stream: Option<f64>,
    pub(crate) ready_ms: Option<f64>,
    pub(crate) idle_rss_mib: Option<f64>,
    pub(crate) idle_cpu_percent: Option<f64>,
    /// Instructions in user space for a unary request.
    pub(crate) instructions: Option<f64>,
    #[serde(flatten)]
    pub(crate) phases: BTreeMap<&'static str, Vec<Sample>>,
}

impl Raw {
    fn samples(&self, phase: Phase) -> impl Iterator<Item = &Sample> {
        self.phases.get(phase.name()).into_iter().flatten()
    }

    fn median(&self, phase: Phase, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        median(self.samples(phase).filter_map(of))
    }
}

/// The figures the gateway is judged by; `None` where the gateway or a side of a ratio was not measured. Ratios are of each turn.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Ratios {
    unary_cpu_vs_nginx: Option<Spread>,
    unary_64k_cpu_vs_nginx: Option<Spread>,
    chunk_cpu_vs_nginx: Option<Spread>,
    added_p50_vs_nginx: Option<Spread>,
    added_p99_vs_nginx: Option<Spread>,
    slow_added_p50_vs_nginx: Option<Spread>,
    slow_added_p99_vs_nginx: Option<Spread>,
    instructions_vs_nginx: Option<f64>,
    kib_per_stream: Option<f64>,
    ready_ms: Option<f64>,
    idle_rss_mib: Option<f64>,
    idle_cpu_percent: Option<f64>,
}

impl Ratios {
    pub(crate) fn of(raw: &BTreeMap<&'static str, Raw>) -> Self {
        let Some(gateway) = raw.get(GATEWAY) else { return Self::default() };
        let cpu = |phase| ratio_of_turns(raw, |name| cpu_us(raw, name, phase));
        let latency = |phase, of| ratio_of_turns(raw, |name| added(raw, name, phase, of));
        let instructions = |name| raw.get(name)?.instructions;
        Self {
            unary_cpu_vs_nginx: cpu(Phase::Unary),
            unary_64k_cpu_vs_nginx: cpu(Phase::Unary64k),
            chunk_cpu_vs_nginx: cpu(Phase::Sse),
            added_p50_vs_nginx: latency(Phase::Latency, p50),
            added_p99_vs_nginx: latency(Phase::Latency, p99),
            slow_added_p50_vs_nginx: latency(Phase::LatencySlow, p50),
            slow_added_p99_vs_nginx: latency(Phase::LatencySlow, p99),
            instructions_vs_nginx: ratio(instructions(GATEWAY), instructions(NGINX)),
            kib_per_stream: gateway.kib_per_stream,
            ready_ms: gateway.ready_ms,
            idle_rss_mib: gateway.idle_rss_mib,
            idle_cpu_percent: gateway.idle_cpu_percent,
        }
    }
}

/// Returns the gateway's values over nginx's, turn by turn: the machine's speed changes from turn to turn.
fn ratio_of_turns(raw: &BTreeMap<&str, Raw>, of: impl Fn(&str) -> Vec<f64>) -> Option<Spread> {
    if !raw.contains_key(GATEWAY) {
        return None;
    }
    let pairs = of(GATEWAY).into_iter().zip(of(NGINX));
    spread(pairs.filter_map(|(gateway, nginx)| ratio(Some(gateway), Some(nginx))))
}

/// Returns the CPU time for a request or chunk in each turn, in µs.
fn cpu_us(raw: &BTreeMap<&str, Raw>, name: &str, phase: Phase) -> Vec<f64> {
    raw.get(name).into_iter().flat_map(|it| it.samples(phase)).filter_map(|it| it.cpu_us).collect()
}

fn p50(sample: &Sample) -> f64 {
    f64::from(sample.outcome.p50_us)
}

fn p99(sample: &Sample) -> f64 {
    f64::from(sample.outcome.p99_us)
}

/// Returns a latency of each turn minus the one of calling the mock directly, in µs.
fn added(raw: &BTreeMap<&str, Raw>, name: &str, phase: Phase, of: fn(&Sample) -> f64) -> Vec<f64> {
    let all = |name| raw.get(name).into_iter().flat_map(move |it| it.samples(phase)).map(of);
    all(name).zip(all(DIRECT)).map(|(proxy, direct)| proxy - direct).collect()
}

/// A row of the table: its label, and a function that finds the cell of one target.
type Row<'a> = (&'a str, Box<dyn Fn(&str) -> Option<f64> + 'a>);

/// Formats the table, the ratios and the notes.
pub(crate) fn table(report: &Report) -> String {
    let mut out = format!("{:<32}{DIRECT:>10}{NGINX:>10}{HAPROXY:>10}{GATEWAY:>10}{:>8}\n", "", "ratio");
    let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |it| format!("{it:.1}"));
    for (label, find) in rows(&report.raw) {
        let ratio = ratio(find(GATEWAY), find(NGINX)).map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
        let [direct, nginx, haproxy, gateway] = [DIRECT, NGINX, HAPROXY, GATEWAY].map(|it| cell(find(it)));
        // Writing to a string cannot fail.
        writeln!(out, "{label:<32}{direct:>10}{nginx:>10}{haproxy:>10}{gateway:>10}{ratio:>8}").ok();
    }
    let ratios = &report.ratios;
    writeln!(out, "\n{:<32}{:>10}{:>10}{:>10}", "gantry / nginx, turn by turn", "median", "least", "most")
        .ok();
    for (label, spread) in [
        ("CPU, unary", ratios.unary_cpu_vs_nginx),
        ("CPU, 64 KiB body", ratios.unary_64k_cpu_vs_nginx),
        ("CPU, SSE chunk", ratios.chunk_cpu_vs_nginx),
        ("added p50, 200 requests/s", ratios.added_p50_vs_nginx),
        ("added p99, 200 requests/s", ratios.added_p99_vs_nginx),
        ("added p50, 50 requests/s", ratios.slow_added_p50_vs_nginx),
        ("added p99, 50 requests/s", ratios.slow_added_p99_vs_nginx),
    ] {
        let Some(Spread { median, least, most }) = spread else { continue };
        writeln!(out, "{label:<32}{median:>10.2}{least:>10.2}{most:>10.2}").ok();
    }
    for note in &report.notes {
        writeln!(out, "note: {note}").ok();
    }
    out
}

fn rows<'a>(raw: &'a BTreeMap<&'static str, Raw>) -> Vec<Row<'a>> {
    let of = |label, phase, what: fn(&Sample) -> Option<f64>| -> Row<'a> {
        (label, Box::new(move |name: &str| raw.get(name)?.median(phase, what)))
    };
    let once = |label, what: fn(&Raw) -> Option<f64>| -> Row<'a> {
        (label, Box::new(move |name: &str| what(raw.get(name)?)))
    };
    let more = |label, phase, what: fn(&Sample) -> f64| -> Row<'a> {
        (label, Box::new(move |name: &str| median(added(raw, name, phase, what)).filter(|_| name != DIRECT)))
    };
    vec![
        of("CPU µs/request, saturated", Phase::Unary, |it| it.cpu_us),
        of("  requests/s", Phase::Unary, |it| Some(it.outcome.rps)),
        of("  p99 µs", Phase::Unary, |it| Some(p99(it))),
        of("  busy share of one core", Phase::Unary, |it| it.busy),
        of("CPU µs/request, 64 KiB body", Phase::Unary64k, |it| it.cpu_us),
        of("  requests/s", Phase::Unary64k, |it| Some(it.outcome.rps)),
        of("CPU µs/SSE chunk", Phase::Sse, |it| it.cpu_us),
        of("  chunks/s", Phase::Sse, |it| Some(it.outcome.chunks as f64 / it.outcome.measured_s)),
        of("p50 µs, 200 requests/s", Phase::Latency, |it| Some(p50(it))),
        of("p99 µs, 200 requests/s", Phase::Latency, |it| Some(p99(it))),
        more("  added p50 µs", Phase::Latency, p50),
        more("  added p99 µs", Phase::Latency, p99),
        of("  CPU µs/request", Phase::Latency, |it| it.cpu_us),
        more("added p50 µs, 50 requests/s", Phase::LatencySlow, p50),
        more("added p99 µs, 50 requests/s", Phase::LatencySlow, p99),
        once("1000 instructions/request (user)", |it| it.instructions.map(|it| it / 1000.0)),
        once("KiB per open stream", |it| it.kib_per_stream),
        once("idle RSS MiB", |it| it.idle_rss_mib),
        once("idle CPU, 0.01 % of a core", |it| it.idle_cpu_percent.map(|it| it * 100.0)),
        once("ready ms", |it| it.ready_ms),
    ]
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
            stolen: 0.0,
            steal: 0.0,
            chunks: 1,
            all_requests: 1,
            all_chunks: 1,
            measured_s: 1.0,
        };
        Sample { outcome, cpu_us: Some(cpu_us), busy: Some(1.0) }
    }

    fn raw(cpu_us: f64, p99_us: u32) -> Raw {
        let samples = [0.0, 1.0, 50.0].map(|it| sample(cpu_us + it - 1.0, p99_us)).to_vec();
        let phases = Phase::ALL.map(|it| (it.name(), samples.clone())).into_iter().collect();
        Raw { kib_per_stream: Some(9.0), phases, ..Raw::default() }
    }

    #[test]
    fn ratios_are_of_turns_and_of_what_is_added() {
        let targets = BTreeMap::from([(DIRECT, raw(1.0, 300)), (NGINX, raw(16.0, 700))]);
        assert_eq!(Ratios::of(&targets), Ratios::default());
        let mut targets = targets;
        targets.insert(GATEWAY, raw(20.0, 800));
        let ratios = Ratios::of(&targets);
        // 19, 20 and 69 to 15, 16 and 65.
        let cpu = Some(Spread { median: 1.25, least: 69.0 / 65.0, most: 19.0 / 15.0 });
        assert_eq!((ratios.unary_cpu_vs_nginx, ratios.chunk_cpu_vs_nginx), (cpu, cpu));
        assert_eq!(ratios.added_p99_vs_nginx, Some(Spread { median: 1.25, least: 1.25, most: 1.25 }));
        assert_eq!(ratios.kib_per_stream, Some(9.0));
    }
}
