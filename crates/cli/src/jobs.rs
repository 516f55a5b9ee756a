//! `jobs`: the deployment jobs of a gateway; and how a verb follows the job that it began.

use std::{
    cell::RefCell,
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use clap::{ArgMatches, Command};
use http::Method;
use serde_json::Value;

use crate::{
    cx::Cx,
    exit::{Failure, Outcome},
    gateway_options::connected,
    http::{Login, escaped},
    options::{aliased, positional, text},
    output::{Table, Tone},
    progress::Progress,
    sign_in, terminal,
    text::{bytes, cell, clean},
    watch,
};

const PATH: &str = "/admin/deployment/jobs";
/// How often a job is asked for.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) fn command() -> Command {
    let list = aliased(Command::new("list"), "ls")
        .about("Lists the last 20 jobs, newest first, like `gantry jobs` alone")
        .arg(watch::option());
    let id = || positional("ID", "Id of the job, such as deploy-3; the number is enough");
    let show =
        Command::new("show").about("Shows a job: what it does or did, its log, and why it failed").arg(id());
    let follow =
        Command::new("follow").about("Shows the progress of a job until it ends").arg(id()).after_help(ENDS);
    let cancel = Command::new("cancel").about("Cancels a job: nothing half-made stays").arg(id());
    connected(aliased(
        Command::new("jobs")
            .about("Exports, imports and restores that run or have run: list, show, follow, cancel"),
        "job",
    ))
    .arg(watch::option())
    .subcommands([list, show, follow, cancel])
}

/// For the help of verbs that follow a job.
pub(crate) const ENDS: &str = "Ctrl-C ends this program and not the job: at a terminal you are asked whether to cancel it. The exit code \
is 0 if the job completed, 1 if it failed or was cancelled, and 130 after Ctrl-C.";

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("show", sub)) => show(cx, &id(sub)).await,
        Some(("follow", sub)) => {
            let job = cx.client.get(&path(&id(sub))).await?.json;
            follow(cx, job).await
        }
        Some(("cancel", sub)) => cancel(cx, &id(sub)).await,
        Some((_, sub)) => list(cx, sub).await,
        None => list(cx, matches).await,
    }
}

/// Returns the id in the form of the API: `3` means `deploy-3`.
fn id(matches: &ArgMatches) -> String {
    let given = text(matches, "ID").unwrap_or_default();
    if given.bytes().all(|it| it.is_ascii_digit()) { format!("deploy-{given}") } else { given.to_owned() }
}

fn path(id: &str) -> String {
    format!("{PATH}/{}", escaped(id))
}

fn tone(status: &str) -> Tone {
    match status {
        "completed" => Tone::Good,
        "running" | "pending" => Tone::Busy,
        "failed" => Tone::Bad,
        _ => Tone::Plain,
    }
}

async fn list(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let look = async || -> Outcome<Value> { Ok(cx.client.get(PATH).await?.json) };
    watch::shown(cx, matches, look, |jobs| table(cx, jobs)).await
}

fn table(cx: &Cx, jobs: &Value) -> Outcome<()> {
    cx.out.either(jobs, || {
        let jobs = jobs.as_array().map_or(&[][..], Vec::as_slice);
        let mut table =
            Table::new(&["ID", "JOB", "STATUS", "DONE>", "STARTED", "WHERE", "STEP"]).sparing(&["WHERE"]);
        for job in jobs {
            let status = cell(&job["status"]);
            let step = if job["error"].is_string() { &job["error"] } else { &job["step"] };
            table.toned([
                (cell(&job["id"]), Tone::Plain),
                (cell(&job["job_type"]), Tone::Plain),
                (status.clone(), tone(&status)),
                (format!("{:.0} %", fraction(job) * 100.0), Tone::Plain),
                (cx.out.time(&began(job)), Tone::Plain),
                (cell(&job["output_dir"]), Tone::Plain),
                (cell(step), Tone::Plain),
            ]);
        }
        if jobs.is_empty() {
            cx.out.note("there was no job yet");
            return Ok(());
        }
        cx.out.table(&table)
    })
}

/// Returns when a job began, in the form of the other times of the API.
fn began(job: &Value) -> Value {
    let ms = job["started_at"].as_f64().map(|it| (it * 1000.0) as i64);
    ms.map_or(Value::Null, |it| gantry_domain::Timestamp(it).rfc3339().into())
}

fn fraction(job: &Value) -> f64 {
    job["progress"].as_f64().unwrap_or(0.0)
}

async fn show(cx: &Cx, id: &str) -> Outcome<()> {
    let job = cx.client.get(&path(id)).await?.json;
    cx.out.either(&job, || {
        let mut pairs = vec![
            ("job", format!("{} {}", cell(&job["id"]), cell(&job["job_type"]))),
            ("status", cell(&job["status"])),
            ("started", cx.out.time(&began(&job))),
            ("folder", cell(&job["output_dir"])),
            ("step", cell(&job["step"])),
            ("done", standing(&job, None)),
        ];
        if job["error"].is_string() {
            pairs.push(("error", cell(&job["error"])));
        }
        pairs.extend(made(&job));
        cx.out.pairs(&pairs)?;
        for line in job["logs"].as_array().into_iter().flatten() {
            cx.out.line(&format!("  {}", cell(line)))?;
        }
        Ok(())
    })
}

async fn cancel(cx: &Cx, id: &str) -> Outcome<()> {
    let job = cx.client.call(Method::DELETE, &path(id), None).await?.json;
    cx.out.either(&job, || {
        let words = match job["status"].as_str() {
            Some("cancelled") => "is cancelled, and nothing half-made is left".to_owned(),
            Some("running") => "is past the point where it can be cancelled, and completes".to_owned(),
            _ => format!("ended before: it is {}", cell(&job["status"])),
        };
        cx.out.line(&format!("{} {words}", cell(&job["id"])))
    })
}

/// What a job made, for people.
fn made(job: &Value) -> Vec<(&'static str, String)> {
    let made = &job["artifacts"];
    let mut pairs = Vec::new();
    let mut text = |name: &'static str, field: &str| {
        let value = &made[field];
        if !value.is_null() && value.as_array().is_none_or(|it| !it.is_empty()) {
            let words = value.as_array().map(|it| it.iter().map(cell).collect::<Vec<_>>().join(", "));
            pairs.push((name, words.unwrap_or_else(|| cell(value))));
        }
    };
    text("package", "package_id");
    text("in", "path");
    text("needs", "base_id");
    text("images", "images");
    text("models", "models");
    text("install", "programs");
    text("loaded", "loaded_images");
    text("new files", "new_files");
    text("left out", "redacted");
    text("backup", "backup");
    if let Some(size) = made["size_bytes"].as_u64() {
        pairs.push(("size", bytes(size)));
    }
    if let Some(signed) = made["signed"].as_bool() {
        pairs.push(("signed", if signed { "yes" } else { "no" }.to_owned()));
    }
    pairs
}

/// `14 s left, 3.1 GiB of 20.1 GiB, 1.2 GiB/s`: a narrow terminal cuts off the end.
fn standing(job: &Value, speed: Option<u64>) -> String {
    let mut parts = Vec::new();
    if let Some(left) = job["eta_seconds"].as_u64() {
        parts.push(format!("{left} s left"));
    }
    let done = job["bytes_written"].as_u64().unwrap_or(0);
    parts.push(match job["estimated_size_bytes"].as_u64() {
        Some(all) => format!("{} of {}", bytes(done), bytes(all)),
        None => bytes(done),
    });
    parts.extend(speed.map(|it| format!("{}/s", bytes(it))));
    parts.join(", ")
}

/// Bytes a second, over the last few looks.
#[derive(Default)]
struct Speed(Vec<(Instant, u64)>);

impl Speed {
    fn of(&mut self, done: u64) -> Option<u64> {
        self.0.push((Instant::now(), done));
        if self.0.len() > 8 {
            self.0.remove(0);
        }
        let (first, last) = (self.0.first()?, self.0.last()?);
        let seconds = last.0.duration_since(first.0).as_secs_f64();
        (seconds > 0.2).then(|| (last.1.saturating_sub(first.1) as f64 / seconds) as u64)
    }
}

/// Shows a job until it ends.
///
/// # Errors
/// It fails or is cancelled, Ctrl-C is pressed, or the gateway does not answer any more.
pub(crate) async fn follow(cx: &Cx, job: Value) -> Outcome<()> {
    let last = RefCell::new(job);
    let end = tokio::select! {
        end = until_ended(cx, &last) => end?,
        _ = tokio::signal::ctrl_c() => End::Interrupted,
    };
    let job = last.into_inner();
    let id = cell(&job["id"]);
    match end {
        End::Seen => {}
        End::Replaced => {
            return cx.out.either(&job, || {
                cx.out.line(&format!("{id} is completed: the database is restored"))?;
                cx.out.note("this session ended with the old database: sign in again (`gantry login`)");
                Ok(())
            });
        }
        End::Interrupted => return interrupted(cx, &id).await,
    }
    if job["status"] != "completed" {
        if cx.out.json() {
            cx.out.value(&job)?;
        }
        let why = if job["error"].is_string() { format!(": {}", cell(&job["error"])) } else { String::new() };
        return Err(Failure::Failed(format!("{id} is {}{why}", cell(&job["status"]))));
    }
    cx.out.either(&job, || {
        cx.out.line(&format!("{id} is {}", cx.out.paint(Tone::Good, "completed")))?;
        cx.out.pairs(&made(&job))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The record says that the job has ended.
    Seen,
    /// The session ended. A restore ends all sessions in the transaction that puts the new database in place, and nothing else
    /// of it does.
    Replaced,
    Interrupted,
}

/// Looks at the record until the job has ended, and keeps the newest in `last`.
async fn until_ended(cx: &Cx, last: &RefCell<Value>) -> Outcome<End> {
    let job = last.borrow().clone();
    let path = path(job["id"].as_str().unwrap_or_default());
    // A restore ends all sessions at the moment in which the restored database takes the place of the old one.
    let restores = job["job_type"] == "db_restore" && matches!(cx.client.login, Login::Session(_));
    let user = if restores { cx.client.get("/auth/me").await.ok().map(|it| it.json) } else { None };
    let mut signed_in = None;
    let mut shown = Shown { progress: Progress::new(&cx.out), speed: Speed::default(), line: None };
    loop {
        shown.show(cx, &last.borrow());
        if last.borrow()["status"] != "running" && last.borrow()["status"] != "pending" {
            return Ok(End::Seen);
        }
        tokio::time::sleep(LOOK).await;
        match signed_in.as_ref().unwrap_or(&cx.client).get(&path).await {
            Ok(answer) => {
                *last.borrow_mut() = answer.json;
                // A request that was let in just before the swap still reads the job as completed.
                if !(restores && signed_in.is_none() && last.borrow()["status"] == "completed") {
                    continue;
                }
            }
            Err(Failure::Refused(it)) if it.status == 401 && restores && signed_in.is_none() => {}
            Err(failure) => return Err(failure),
        }
        shown.progress.clear();
        let name = user.as_ref().and_then(|it| it["user"]["username"].as_str());
        let Some(name) = name.filter(|_| sign_in::has_password()) else { return Ok(End::Replaced) };
        let name = clean(name);
        cx.out.note(&format!("this session ended with the old database: signing in again as {name}"));
        signed_in = Some(sign_in::again(cx, &name).await?);
    }
}

/// What is on the screen.
struct Shown {
    progress: Progress,
    speed: Speed,
    /// The last line of the log that was printed.
    line: Option<Value>,
}

impl Shown {
    fn show(&mut self, cx: &Cx, job: &Value) {
        let logs = job["logs"].as_array().map_or(&[][..], Vec::as_slice);
        let seen = self.line.as_ref().and_then(|line| logs.iter().rposition(|it| it == line));
        let new = &logs[seen.map_or(0, |it| it + 1)..];
        for line in new {
            self.progress.clear();
            cx.out.note(&format!("  {}", cell(line)));
        }
        self.line = logs.last().cloned();
        let speed = self.speed.of(job["bytes_written"].as_u64().unwrap_or(0));
        let what = clean(job["step"].as_str().unwrap_or_default());
        self.progress.show(&what, &standing(job, speed), Some(fraction(job)));
    }
}

/// After Ctrl-C: offers to cancel the job at a terminal, and leaves it otherwise.
async fn interrupted(cx: &Cx, id: &str) -> Outcome<()> {
    if io::stdin().is_terminal() && !cx.out.json() {
        let answer = terminal::ask(&format!("\nCancel {id}? Otherwise it goes on without you. [y/N] "))?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            cancel(cx, id).await?;
            return Err(Failure::Interrupted);
        }
    }
    cx.out.warn(&format!(
        "{id} goes on: `gantry jobs follow {id}` shows it, `gantry jobs cancel {id}` cancels it"
    ));
    Err(Failure::Interrupted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_standing_says_what_is_known() {
        let job = json!({ "bytes_written": 1024, "estimated_size_bytes": 4096, "eta_seconds": 9 });
        assert_eq!(standing(&job, Some(512)), "9 s left, 1.0 KiB of 4.0 KiB, 512 bytes/s");
        assert_eq!(standing(&json!({ "bytes_written": 5 }), None), "5 bytes");
    }
}
