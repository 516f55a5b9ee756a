//! `status`, which shows the state of a gateway on one screen; and `version`.

use std::{collections::BTreeMap, time::Duration};

use clap::{ArgMatches, Command};
use serde_json::{Map, Value, json};

use crate::{
    cx::Cx,
    doctor,
    exit::{Exit, Failure, Outcome},
    gateway_options::connected,
    http::Answer,
    models::remark,
    options::has,
    output::Tone,
    text::{cell, clean},
    times::{ago, now},
    watch,
};

/// Longest wait of `version` for the gateway's version.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of failed requests that are shown.
const N_ERRORS: usize = 5;

pub(crate) fn command() -> Command {
    connected(Command::new("status").about("Shows the gateway's readiness, its models by state, and the last errors"))
        .arg(watch::option())
        .after_help(
            "The exit code is 0 if the gateway is ready and no model failed, 1 if something is wrong, and 3 if no gateway \
             answers. Models and errors are shown only if you may see them; without a session only the gateway is shown.",
        )
}

pub(crate) fn version_command() -> Command {
    connected(
        Command::new("version").about("Prints the version of this program, and of the gateway if it answers"),
    )
}

pub(crate) async fn version(cx: &Cx) -> Outcome<()> {
    let own = env!("CARGO_PKG_VERSION");
    let health = tokio::time::timeout(PATIENCE, cx.client.get("/health")).await;
    let gateway =
        health.ok().and_then(Result::ok).map(|it| it.json["version"].clone()).filter(Value::is_string);
    let url = cx.client.gateway.url();
    let known = gateway.as_ref().map(|version| json!({ "url": url, "version": version }));
    cx.out.either(&json!({ "version": own, "gateway": known }), || {
        cx.out.line(&format!("gantry {own}"))?;
        if let Some(version) = &gateway {
            return cx.out.line(&format!("gateway {} at {url}", cell(version)));
        }
        cx.out.note(&format!("no gateway answers at {url}"));
        Ok(())
    })
}

/// Status if a proxy does not forward `/readyz`, although the gateway serves.
const HIDDEN: &str = "serves (its readiness is not shown here)";

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let is_watched = has(matches, "watch");
    let show = |report: &Value| {
        let is_ready = report["status"] == "ready" || report["status"] == HIDDEN;
        cx.out.either(report, || print(cx, report, is_ready))?;
        let is_well = is_ready && report["failed"].as_object().is_none_or(Map::is_empty);
        if is_well || is_watched { Ok(()) } else { Err(Failure::Told(Exit::Failed)) }
    };
    watch::shown(cx, matches, || look(cx), show).await
}

async fn look(cx: &Cx) -> Outcome<Value> {
    let health = match cx.client.health().await {
        Err(Failure::Unreachable(why)) => return Err(unreachable(cx, why).await),
        other => other?.json,
    };
    if !health["version"].is_string() {
        let url = cx.client.gateway.url();
        return Err(Failure::Failed(format!("something other than Gantry answers at {url}")));
    }
    let ready = match cx.client.get("/readyz").await {
        // A gateway that is not ready answers in the same format.
        Err(Failure::Refused(it)) if it.status == 503 && it.body["checks"].is_object() => it.body,
        // A proxy in front may show `/readyz` to load balancers only (deploy/proxy).
        Err(Failure::Refused(it)) if (400..500).contains(&it.status) => {
            json!({ "status": HIDDEN, "checks": {}, "runtime": null })
        }
        other => other?.json,
    };
    let (models, errors) = (models(cx).await?, errors(cx).await?);
    let failed: Vec<&Value> =
        models.iter().flatten().filter(|it| it["state"] == "failed" && it["archived"] != true).collect();
    let mut states = BTreeMap::new();
    for model in models.iter().flatten() {
        *states.entry(cell(&model["state"])).or_insert(0_u64) += 1;
    }
    let reasons: Map<String, Value> =
        failed.iter().map(|it| (cell(&it["served_name"]), remark(it).into())).collect();
    Ok(json!({
        "url": cx.client.gateway.url(),
        "version": health["version"],
        "status": ready["status"],
        "runtime": ready["runtime"],
        "checks": ready["checks"],
        "last_proven_restore": ready["last_proven_restore"],
        "models": models.as_ref().map(|_| &states),
        "failed": reasons,
        "errors": errors,
    }))
}

/// Adds to the failure what systemd says, if the gateway is the service of this machine.
async fn unreachable(cx: &Cx, why: String) -> Failure {
    let Some(port) = doctor::local_port(&cx.client.gateway.url()) else { return Failure::Unreachable(why) };
    let service = tokio::task::spawn_blocking(doctor::service).await.ok().flatten();
    Failure::Unreachable(match service {
        Some(service) => format!("{why}: {}", service.words(port)),
        None => why,
    })
}

fn print(cx: &Cx, report: &Value, is_ready: bool) -> Outcome<()> {
    let tone = if is_ready { Tone::Good } else { Tone::Bad };
    let state = cx.out.paint(tone, &cell(&report["status"]));
    cx.out.line(&format!(
        "{}  {state}, version {}, engines by {}",
        clean(report["url"].as_str().unwrap_or_default()),
        cell(&report["version"]),
        cell(&report["runtime"])
    ))?;
    for (name, it) in report["checks"].as_object().into_iter().flatten().filter(|(_, it)| *it != "ok") {
        cx.out.line(&format!("  {}: {}", clean(name), cell(it)))?;
    }
    if let Some(proven) = report["last_proven_restore"].as_str().and_then(|it| ago(it, now())) {
        cx.out.line(&format!("last proven restore: {proven}"))?;
    }
    match report["models"].as_object() {
        None => cx.out.note("models and errors are not shown: `gantry login` as an administrator"),
        Some(states) if states.is_empty() => {
            cx.out.line("there are no models yet: gantry models create --help")?;
        }
        Some(states) => {
            let parts = states
                .iter()
                .map(|(state, n)| format!("{n} {}", cx.out.paint(Tone::of_state(state), &clean(state))));
            cx.out.line(&format!("models: {}", parts.collect::<Vec<_>>().join(", ")))?;
        }
    }
    for (name, why) in report["failed"].as_object().into_iter().flatten() {
        cx.out.line(&format!("  {}: {}", clean(name), cell(why)))?;
    }
    let errors = report["errors"].as_array().map_or(&[][..], Vec::as_slice);
    if !errors.is_empty() {
        cx.out.line("last failed requests in 24 hours:")?;
    }
    for it in errors {
        let [model, endpoint, status, outcome] =
            ["model_name", "endpoint", "status_code", "outcome"].map(|name| cell(&it[name]));
        cx.out.line(&format!(
            "  {}  {model}  {endpoint}  {status} {outcome}",
            cx.out.time(&it["created_at"])
        ))?;
    }
    Ok(())
}

/// Returns a list that only some callers may see; `None` for the others.
fn allowed(answer: Outcome<Answer>) -> Outcome<Option<Vec<Value>>> {
    match answer {
        Ok(answer) => Ok(Some(answer.list().to_vec())),
        Err(Failure::Refused(it)) if matches!(it.status, 401 | 403 | 404) => Ok(None),
        // The gateway runs, and its readiness tells more than this error.
        Err(Failure::Refused(it)) if it.status >= 500 => Ok(None),
        Err(other) => Err(other),
    }
}

async fn models(cx: &Cx) -> Outcome<Option<Vec<Value>>> {
    allowed(cx.client.get("/admin/models?limit=1000").await)
}

async fn errors(cx: &Cx) -> Outcome<Option<Vec<Value>>> {
    allowed(cx.client.get(&format!("/admin/usage?status=5xx&hours=24&limit={N_ERRORS}")).await)
}
