//! What the gateway has, and how it is brought to what an entry says.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    entry::{Difference, Entry},
    section::Section,
};
use crate::{
    cx::Cx,
    exit::{Failure, Outcome},
    http::escaped,
    resolve::listed,
    text::{cell, clean},
};

/// What was done for an entry.
#[derive(Debug)]
pub(super) enum Done {
    Equal,
    /// A new key has a token, except in a dry run.
    Created {
        token: Option<String>,
    },
    Changed(Vec<Difference>),
}

/// The records of the gateway, each list read when it is first needed. In a dry run they are as they would become.
#[derive(Default)]
pub(super) struct Known(BTreeMap<Section, Vec<Value>>);

impl Known {
    async fn of(&mut self, cx: &Cx, section: Section) -> Outcome<&mut Vec<Value>> {
        let list = match self.0.remove(&section) {
            Some(list) => list,
            None => listed(cx, section.path(), &section.narrow(), None).await?.0,
        };
        Ok(self.0.entry(section).or_insert(list))
    }

    /// Creates or changes what the entry names, unless it is as the entry says.
    pub(super) async fn apply(&mut self, cx: &Cx, entry: &Entry, is_dry: bool) -> Outcome<Done> {
        let records = self.of(cx, entry.of).await?;
        let mut found = records.iter().enumerate().filter(|(_, record)| entry.names(record));
        let (first, second) = (found.next(), found.next());
        match first.map(|(at, record)| (at, record.clone())) {
            Some(_) if second.is_some() => {
                Err(Failure::Failed("several have this name, so that none of them is meant".to_owned()))
            }
            Some((at, record)) => self.change(cx, entry, at, record, is_dry).await,
            None if entry.section == Section::Limits => Err(missing(entry.of, &entry.name)),
            None => self.create(cx, entry, is_dry).await,
        }
    }

    async fn create(&mut self, cx: &Cx, entry: &Entry, is_dry: bool) -> Outcome<Done> {
        let body = self.with_ids(cx, entry.of, entry.fields.clone()).await?;
        if is_dry {
            self.of(cx, entry.of).await?.push(Value::Object(entry.fields.clone()));
            return Ok(Done::Created { token: None });
        }
        let made = cx.client.post(entry.of.path(), Some(&Value::Object(body))).await?.json;
        let token = made["token"].as_str().map(str::to_owned);
        self.of(cx, entry.of).await?.push(made);
        Ok(Done::Created { token })
    }

    async fn change(
        &mut self,
        cx: &Cx,
        entry: &Entry,
        at: usize,
        mut record: Value,
        is_dry: bool,
    ) -> Outcome<Done> {
        let differences = entry.differences(&record);
        if differences.is_empty() {
            return Ok(Done::Equal);
        }
        let body = self.with_ids(cx, entry.of, entry.change(&differences)).await?;
        if is_dry {
            for it in &differences {
                record[it.field.as_str()] = it.to.clone();
            }
        } else {
            let id = match entry.of {
                Section::Registry => escaped(&entry.name),
                _ => cell(&record["id"]),
            };
            let path = format!("{}/{id}", entry.of.path());
            record = cx.client.change(&path, &Value::Object(body), record["revision"].as_str()).await?.json;
        }
        if let Some(old) = self.of(cx, entry.of).await?.get_mut(at) {
            *old = record;
        }
        Ok(Done::Changed(differences))
    }

    /// Replaces the names of organisations and users in a body by the ids that the API takes.
    async fn with_ids(
        &mut self,
        cx: &Cx,
        section: Section,
        mut body: Map<String, Value>,
    ) -> Outcome<Map<String, Value>> {
        let (org, user) =
            (("org_name", "org_id", Section::Organisations), ("username", "user_id", Section::Users));
        let names = match section {
            Section::Users => vec![org],
            Section::Keys => vec![org, user],
            _ => Vec::new(),
        };
        for (name_field, id_field, of) in names {
            let Some(name) = body.shift_remove(name_field) else { continue };
            let records = self.of(cx, of).await?;
            let record = records.iter().find(|it| it[of.name()] == name);
            let record = record.ok_or_else(|| missing(of, name.as_str().unwrap_or_default()))?;
            body.insert(id_field.to_owned(), record["id"].clone());
        }
        Ok(body)
    }
}

fn missing(section: Section, name: &str) -> Failure {
    let what = if section == Section::Users { "user" } else { "organisation" };
    Failure::NotFound(format!("there is no {what} `{}`", clean(name)))
}
