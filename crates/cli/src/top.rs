//! `top`: a live view of models, throughput and GPUs. At a terminal it is redrawn every second until `q` is pressed;
//! elsewhere it is printed once.

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use clap::{ArgMatches, Command};
use serde_json::{Value, json};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use crate::{
    cx::Cx,
    exit::{Failure, Outcome},
    gateway_options::connected,
    models::remark,
    options::{flag, has},
    output::{Out, Table, Tone},
    terminal::{self, Keys},
    text::{cell, clean, count},
};

const EVERY: Duration = Duration::from_secs(1);
/// If an update takes longer than this, the screen says so.
const LONG: Duration = Duration::from_secs(2);
/// Longest wait for a key before the reader checks whether it has to end, in milliseconds.
const KEY_WAIT: u32 = 200;

pub(crate) fn command() -> Command {
    let top = Command::new("top").about("Shows models, requests, tokens and GPUs, live; `q` ends it");
    connected(top.arg(flag("once", "Prints everything once, as without a terminal")))
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let live =
        io::stdout().is_terminal() && io::stdin().is_terminal() && !cx.out.json() && !has(matches, "once");
    if live {
        return watch(cx).await;
    }
    let seen = Seen::look(cx).await?;
    cx.out.either(&seen.json(), || seen.lines(&cx.out, "").iter().try_for_each(|it| cx.out.line(it)))
}

/// One snapshot of everything. Values that an older gateway lacks, or that an engine does not report, are `Null`.
struct Seen {
    models: Value,
    metrics: Value,
    throughput: Value,
    gpus: Value,
}

impl Seen {
    async fn look(cx: &Cx) -> Outcome<Self> {
        let optional = async |path: &str| match cx.client.get(path).await {
            Ok(answer) => Ok(answer.json),
            Err(Failure::Refused(it)) if it.status == 404 || it.status >= 500 => Ok(Value::Null),
            Err(other) => Err(other),
        };
        let (models, metrics, throughput, gpus) = tokio::try_join!(
            cx.client.get("/admin/models?limit=1000"),
            optional("/admin/models/metrics?limit=1000"),
            optional("/admin/system/throughput"),
            optional("/admin/system/gpus"),
        )?;
        Ok(Self { models: models.json, metrics, throughput, gpus })
    }

    fn json(&self) -> Value {
        json!({
            "models": self.models, "metrics": self.metrics, "throughput": self.throughput, "gpus": self.gpus,
        })
    }

    fn lines(&self, out: &Out, head: &str) -> Vec<String> {
        let mut lines = Vec::new();
        if !head.is_empty() {
            lines.push(out.paint(Tone::Bold, &out.fit(head)));
        }
        lines.extend(out.flow(&self.summary()));
        lines.push(String::new());
        lines.extend(self.models(out));
        let gpus = self.gpus.as_array().is_some_and(|it| !it.is_empty());
        if gpus {
            lines.push(String::new());
            lines.extend(self.gpus(out));
        }
        let remarks = self.remarks(out);
        if !remarks.is_empty() {
            lines.push(String::new());
            lines.extend(remarks);
        }
        lines
    }

    fn summary(&self) -> Vec<String> {
        let it = &self.throughput;
        if it.is_null() {
            return vec!["throughput: not reported by this gateway".to_owned()];
        }
        let rate = |name: &str| it[name].as_f64().map_or_else(|| "-".to_owned(), |it| format!("{it:.1}"));
        vec![
            format!("{} requests/s", rate("req_per_sec")),
            format!("{} prompt tokens/s", rate("prompt_tokens_per_sec")),
            format!("{} generated tokens/s", rate("generation_tokens_per_sec")),
            format!("{} requests now", cell(&it["active_requests"])),
            format!("latency p50 {} ms, p95 {} ms", cell(&it["latency_p50_ms"]), cell(&it["latency_p95_ms"])),
        ]
    }

    /// Returns remarks that are too long for a column: what engines do not report, and why models failed.
    fn remarks(&self, out: &Out) -> Vec<String> {
        let about = |model: &Value| {
            let text = match self.metrics_of(model)["error"].as_str() {
                Some(why) => why.to_owned(),
                None => remark(model),
            };
            (!text.is_empty() && text != "-")
                .then(|| out.fit(&clean(&format!("{}: {text}", cell(&model["served_name"])))))
        };
        self.models.as_array().into_iter().flatten().filter_map(about).collect()
    }

    fn metrics_of(&self, model: &Value) -> &Value {
        let mut metrics = self.metrics.as_array().into_iter().flatten();
        metrics.find(|it| it["model_id"] == model["id"]).unwrap_or(&Value::Null)
    }

    fn models(&self, out: &Out) -> Vec<String> {
        let mut table = Table::new(&[
            "MODEL",
            "ENGINE",
            "STATE",
            "RUN>",
            "WAIT>",
            "KV %>",
            "PROMPT>",
            "GENERATED>",
            "TTFT P95>",
        ])
        .sparing(&["ENGINE", "KV %>", "PROMPT>", "TTFT P95>", "WAIT>"]);
        for model in self.models.as_array().into_iter().flatten() {
            let metrics = self.metrics_of(model);
            let state = cell(&model["state"]);
            let tone = Tone::of_state(&state);
            let whole = |name: &str| {
                let value = &metrics[name];
                value.as_f64().map_or_else(|| "-".to_owned(), |it| count(&json!(it.round() as i64)))
            };
            let cache = metrics["kv_cache_usage"].as_f64();
            table.toned([
                (cell(&model["served_name"]), Tone::Plain),
                (cell(&model["engine_type"]), Tone::Plain),
                (state, tone),
                (whole("requests_running"), Tone::Plain),
                (whole("requests_waiting"), Tone::Plain),
                (cache.map_or_else(|| "-".to_owned(), |it| format!("{:.0}", it * 100.0)), Tone::Plain),
                (whole("prompt_tokens_total"), Tone::Plain),
                (whole("generation_tokens_total"), Tone::Plain),
                (whole("ttft_p95_ms"), Tone::Plain),
            ]);
        }
        table.lines(out)
    }

    fn gpus(&self, out: &Out) -> Vec<String> {
        let mut table = Table::new(&["GPU>", "NAME", "MEMORY", "USED MIB>", "TOTAL MIB>", "PROCESSES>"]);
        for gpu in self.gpus.as_array().into_iter().flatten() {
            let (used, total) = (gpu["mem_used_mb"].as_f64(), gpu["mem_total_mb"].as_f64());
            let bar = match (used, total) {
                (Some(used), Some(total)) if total > 0.0 => crate::progress::bar(used / total),
                _ => "-".to_owned(),
            };
            table.row([
                cell(&gpu["index"]),
                cell(&gpu["name"]),
                bar.trim_end().to_owned(),
                count(&gpu["mem_used_mb"]),
                count(&gpu["mem_total_mb"]),
                gpu["processes"].as_array().map_or(0, Vec::len).to_string(),
            ]);
        }
        table.lines(out)
    }
}

/// The alternate screen of the terminal. The normal screen comes back when the value is dropped, also by a panic.
struct Screen;

impl Screen {
    fn open() -> Outcome<Self> {
        io::stdout().write_all(b"\x1b[?1049h\x1b[?25l")?;
        Ok(Self)
    }

    /// Draws over the previous lines, and only as many lines as fit.
    fn draw(lines: &[String]) -> Outcome<()> {
        let (_, rows) = terminal::size().unwrap_or((80, 24));
        let mut text = String::from("\x1b[H");
        let n_shown = if lines.len() > rows { rows.saturating_sub(1) } else { lines.len() };
        let more = (n_shown < lines.len()).then(|| format!("… {} more lines", lines.len() - n_shown));
        for (n, line) in lines.iter().take(n_shown).chain(&more).enumerate() {
            if n > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = io::stdout().write_all(b"\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().flush();
    }
}

/// Returns the text beside the address in the head line.
fn state(cx: &Cx, asked: Instant, trouble: &str) -> String {
    if asked.elapsed() >= LONG {
        return format!("no answer for {} s; q ends", asked.elapsed().as_secs());
    }
    let at = cx.out.time(&crate::times::now().rfc3339().into());
    format!("{at}   {}", if trouble.is_empty() { "q ends" } else { trouble })
}

/// Keys that are pressed, read on a thread of their own.
struct Pressed {
    keys: mpsc::UnboundedReceiver<u8>,
    over: Arc<AtomicBool>,
    reader: JoinHandle<()>,
}

impl Pressed {
    fn read(mut terminal: Keys) -> Self {
        let (press, keys) = mpsc::unbounded_channel();
        let over = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&over);
        let reader = tokio::task::spawn_blocking(move || {
            while !done.load(Ordering::Relaxed) {
                match terminal.next(KEY_WAIT) {
                    Ok(Some(byte)) => drop(press.send(byte)),
                    Ok(None) => {}
                    Err(_) => return,
                }
            }
        });
        Self { keys, over, reader }
    }

    /// Ends the reader, which restores the terminal's old mode.
    async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.reader.await;
    }
}

/// Signals that a live view handles.
struct Signals {
    terminate: Signal,
    hang_up: Signal,
    resize: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            resize: signal(SignalKind::window_change())?,
        })
    }
}

async fn watch(cx: &Cx) -> Outcome<()> {
    // Read before the screen changes, so that an error stays readable on the normal screen.
    let seen = Seen::look(cx).await?;
    let keys = Keys::take().map_err(|error| Failure::Usage(format!("there is no terminal: {error}")))?;
    let wrong = |error: io::Error| Failure::Failed(format!("can't listen to signals: {error}"));
    let mut signals = Signals::listen().map_err(wrong)?;
    let mut pressed = Pressed::read(keys);
    let screen = Screen::open();
    let end = redraw(cx, seen, &mut pressed, &mut signals).await;
    drop(screen);
    pressed.end().await;
    end
}

/// Draws what is seen each second, until a key or a signal ends it.
async fn redraw(cx: &Cx, mut seen: Seen, pressed: &mut Pressed, signals: &mut Signals) -> Outcome<()> {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let look_at = async |at| {
        sleep_until(at).await;
        Seen::look(cx).await
    };
    // A gateway may take minutes to answer, or hang. Keys and signals are handled meanwhile.
    let mut asked = Instant::now() + EVERY;
    let mut look = Box::pin(look_at(asked));
    let mut trouble = String::new();
    loop {
        let head = format!("{}   {}", cx.client.gateway.url(), state(cx, asked, &trouble));
        // The terminal may have another size now.
        Screen::draw(&seen.lines(&cx.out.refit(), &head))?;
        tokio::select! {
            found = &mut look => {
                match found {
                    Ok(new) => {
                        seen = new;
                        trouble.clear();
                    }
                    Err(failure @ (Failure::Unreachable(_) | Failure::TimedOut(_))) => {
                        trouble = clean(failure.words().trim_start_matches("gantry: ").trim_end());
                    }
                    Err(other) => return Err(other),
                }
                asked = Instant::now().max(asked + EVERY);
                look = Box::pin(look_at(asked));
            }
            _ = tick.tick() => {}
            key = pressed.keys.recv() => match key {
                Some(b'q' | b'Q') | None => return Ok(()),
                Some(byte) if terminal::is_interrupt(byte) => return Err(Failure::Interrupted),
                Some(_) => {}
            },
            _ = signals.resize.recv() => {}
            _ = signals.terminate.recv() => return Err(Failure::Interrupted),
            _ = signals.hang_up.recv() => return Err(Failure::Interrupted),
        }
    }
}
