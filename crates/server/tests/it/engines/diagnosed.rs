//! What an operator sees of a failed start: the record, the readiness, the timeline, and the log with its diagnosis.

use std::{fs::OpenOptions, io::Write, time::Duration};

use gantry_testkit::{Client, Managed, eventually};
use serde_json::{Value, json};

/// A failure that is provoked, and what must be said of it.
pub(super) struct Case {
    /// Also the model's name.
    pub name: &'static str,
    /// Settings besides those of every model here.
    pub set: Value,
    pub error_type: &'static str,
    /// The field to change, and the value to try where there is one.
    pub field: Option<&'static str>,
    pub value: Option<Value>,
    /// The model runs once the field has that value.
    pub cures: bool,
}

/// A case without a value to try.
pub(super) fn case(
    name: &'static str,
    set: Value,
    error_type: &'static str,
    field: Option<&'static str>,
) -> Case {
    Case { name, set, error_type, field, value: None, cures: false }
}

impl Case {
    /// The diagnosis offers this value.
    pub(super) fn offers(mut self, value: Value) -> Self {
        self.value = Some(value);
        self
    }

    /// The diagnosis offers this value, and it helps.
    pub(super) fn cured_by(mut self, value: Value) -> Self {
        self.cures = true;
        self.offers(value)
    }

    /// Waits for the failure and looks at it from all sides; what differs from what must be said comes back.
    pub(super) async fn check(&self, owner: &Client, model: &Managed, limit: Duration) -> Result<(), String> {
        let record = diagnosed(owner, model, limit).await;
        let found = &record["diagnosis"];
        let fixes = found["fixes"].as_array().cloned().unwrap_or_default();
        let first = fixes.into_iter().find(|it| it["field"].is_string()).unwrap_or_default();
        let value = first.get("value").cloned();
        let seen = (found["error_type"].as_str().unwrap_or_default(), found["field"].as_str(), value);
        if seen != (self.error_type, self.field, self.value.clone()) {
            let log = owner.get(&model.path("logs?tail=60")).await;
            return Err(format!(
                "{}: {seen:?}\n{record}\n{}",
                self.name,
                log.json["logs"].as_str().unwrap_or("")
            ));
        }
        assert_eq!((&found["detected"], &found["severity"]), (&json!(true), &json!("error")), "{found}");
        assert!(!found["evidence"].as_array().unwrap().is_empty(), "{found}");
        let (title, message) = (found["title"].as_str().unwrap(), found["message"].as_str().unwrap());
        let line = format!("{title}: {message}");

        let ready = owner.get(&model.path("readiness")).await.expect(200);
        assert_eq!((&ready["status"], &ready["detail"]), (&json!("error"), &json!(line)));
        let events = owner.get(&model.path("events?limit=1")).await.expect(200);
        assert_eq!((&events[0]["to"], &events[0]["reason"]), (&json!("failed"), &record["state_reason"]));
        assert!(events[0]["detail"].as_str().is_some_and(|it| it.ends_with(&line)), "{events}");
        // A later request gets the same diagnosis.
        let logs = owner.get(&model.path("logs?diagnose=true")).await.expect(200);
        assert_eq!(logs["diagnosis"]["error_type"], found["error_type"], "{}: {logs}", self.name);
        tell(self.name, &record);
        Ok(())
    }

    /// Does what the diagnosis says. The model must run then, and nothing is said of the failure any more.
    pub(super) async fn cure(&self, owner: &Client, model: &Managed) {
        let field = self.field.unwrap();
        let change = json!({ field: self.value });
        owner.patch(&format!("/admin/models/{}", model.id), &change).await.expect(200);
        let record = model.start(owner).await;
        assert_eq!(record["diagnosis"], json!(null));
        let record = model.reaches(owner, "running").await;
        assert_eq!(record["diagnosis"], json!(null));
    }
}

/// Waits for the failure and its diagnosis.
pub(super) async fn diagnosed(owner: &Client, model: &Managed, limit: Duration) -> Value {
    eventually(&format!("a diagnosis of {}", model.served_name), limit, async || {
        let record = model.record(owner).await;
        assert_ne!(record["state"], "running", "{}", model.served_name);
        record["diagnosis"].is_object().then_some(record)
    })
    .await
}

/// One line of the table that `make test-engines` prints.
#[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the gateway")]
pub(super) fn tell(name: &str, record: &Value) {
    let found = &record["diagnosis"];
    let word = |it: &Value| it.as_str().unwrap_or("-").to_owned();
    let fix = found["fixes"].as_array().unwrap().iter().find(|it| it["field"].is_string());
    let value = fix.and_then(|it| it.get("value"));
    let fix = match (fix, value) {
        (Some(fix), Some(value)) => format!("{} = {value}", word(&fix["field"])),
        (Some(fix), None) => word(&fix["field"]),
        (None, _) => "-".to_owned(),
    };
    let row = format!("{}\t{name}\t{}\t{fix}\n", word(&record["engine_type"]), word(&found["title"]));
    print!("{row}");
    if let Ok(path) = std::env::var("GANTRY_DIAGNOSES_FILE") {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(row.as_bytes()).unwrap();
    }
}
