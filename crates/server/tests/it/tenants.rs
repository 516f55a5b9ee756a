//! Two organisations: nothing of the one exists for the other. The requests are made from the `OpenAPI` document, so that
//! a new route is among them without a word here.

use std::collections::BTreeMap;

use gantry_testkit::{Answer, Client, Database};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    simulator::Simulator,
    team::{PASSWORD, Team, everything, id, make_key, make_model, make_token, make_user},
};

/// One object of each kind, by the word in its path (`x-gantry-object` in the document).
type Things = BTreeMap<&'static str, Value>;

/// What is of the organisation that the callers are not of, a request that was metered among it, and its user.
async fn foreign(team: &Team) -> (Things, Client, Simulator) {
    let org = id(&team.owner.post("/admin/orgs", &json!({ "name": "Other" })).await.expect(201));
    let user = make_user(&team.owner, org, "otto", "user").await;
    let simulator = Simulator::start("").await;
    simulator.join(&team.gateway).await;
    let (key, client) = team.owner.new_key(&json!({ "user_id": user })).await;
    let prompt = json!({ "model": "m", "prompt": "one two", "max_tokens": 4 });
    let answer = client.post("/v1/completions", &prompt).await;
    team.owner.usage_of(answer.header("x-request-id").unwrap()).await;
    let otto = team.gateway.sign_in("otto", PASSWORD).await;
    let model = make_model(&team.owner, "foreign").await;
    let things = [("orgs", json!(org)), ("users", json!(user)), ("keys", json!(id(&key)))];
    let token = json!(id(&make_token(&otto, "*:read").await));
    let more = [("models", json!(model)), ("sessions", begin_chat(&otto).await), ("tokens", token)];
    let job = team.owner.post("/admin/deployment/export", &json!({ "output_dir": "p" })).await.expect(202);
    let more = more.into_iter().chain([("jobs", job["id"].clone())]);
    (things.into_iter().chain(more).collect(), otto, simulator)
}

/// What `client`, who is `username` of the team's tenant, may touch. Models belong to nobody.
async fn own(team: &Team, client: &Client, username: &str) -> Things {
    let user = id(&team.owner.get(&format!("/admin/users?q={username}")).await.expect(200)[0]);
    let key = id(&make_key(&team.owner, &json!({ "user_id": user })).await);
    let model = make_model(&team.owner, &format!("of-{username}")).await;
    let things = [("orgs", json!(team.tenant)), ("users", json!(user)), ("keys", json!(key))];
    let token = json!(id(&make_token(client, "*:read").await));
    let more = [("models", json!(model)), ("sessions", begin_chat(client).await), ("tokens", token)];
    // Jobs are nobody's, as models are: an id that there may be.
    things.into_iter().chain(more).chain([("jobs", json!("deploy-1"))]).collect()
}

async fn begin_chat(client: &Client) -> Value {
    let chat = json!({ "model_name": "m", "engine_type": "vllm" });
    client.post("/v1/chat/sessions", &chat).await.expect(201)["id"].clone()
}

/// The schema behind references and `anyOf`, as a list.
fn forms<'a>(document: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        return forms(document, document.pointer(reference.trim_start_matches('#')).unwrap());
    }
    let parts = ["anyOf", "oneOf", "allOf"].iter().filter_map(|it| schema[*it].as_array()).flatten();
    let deep: Vec<_> = parts.flat_map(|it| forms(document, it)).collect();
    if deep.is_empty() { vec![schema] } else { deep }
}

/// A field of a body, however deep, that names an object.
struct Reference {
    path: Vec<String>,
    kind: String,
    in_array: bool,
}

impl Reference {
    /// `body` with `id` in this field.
    fn put(&self, body: &Value, id: &Value) -> Value {
        let mut body = body.clone();
        let field = self.path.iter().fold(&mut body, |at, name| &mut at[name]);
        *field = if self.in_array { json!([id]) } else { id.clone() };
        body
    }
}

/// Every id of a body. A field that looks like one but does not say of what fails the test.
fn references(document: &Value, schema: &Value, path: &[String], found: &mut Vec<Reference>) {
    for form in forms(document, schema) {
        for (name, field) in form["properties"].as_object().into_iter().flatten() {
            let path: Vec<String> = path.iter().chain([name]).cloned().collect();
            for form in forms(document, field) {
                let of = |form: &Value| form["x-gantry-object"].as_str().map(str::to_owned);
                let (kind, in_array) = match (of(form), forms(document, &form["items"])[0]) {
                    (None, items) => (of(items), of(items).is_some()),
                    (kind, _) => (kind, false),
                };
                // A repository of the model hub is a name.
                let named_so =
                    name == "id" || name == "ids" || name.ends_with("_id") || name.ends_with("_ids");
                let is_id = named_so && form["format"] != "hub-repository";
                assert!(kind.is_some() || !is_id, "of what is `{}` the id?", path.join("."));
                found.extend(kind.map(|kind| Reference { path: path.clone(), kind, in_array }));
            }
            references(document, field, &path, found);
        }
    }
}

/// A value that fits the schema of a required field.
fn fitting(document: &Value, name: &str, schema: &Value, n: usize) -> Value {
    let schema = forms(document, schema)[0];
    if let Some(word) = schema["enum"].as_array().and_then(|it| it.first()) {
        return word.clone();
    }
    match (name, schema["type"].as_str()) {
        ("url", _) => json!("http://127.0.0.1:9"),
        (_, Some("integer" | "number")) => schema["minimum"].clone(),
        (_, Some("boolean")) => json!(true),
        (_, Some("array")) => json!([]),
        (_, Some("object")) => json!({}),
        _ => json!(format!("made-up-{n}")),
    }
}

async fn call(client: &Client, method: &str, path: &str, body: Option<&Value>) -> Answer {
    let method: Method = method.to_ascii_uppercase().parse().unwrap();
    let request = client.request(method, path);
    client.send(if let Some(body) = body { request.json(body) } else { request }).await
}

/// The path with the object that its `{id}` names.
fn filled(path: &str, operation: &Value, things: &Things) -> String {
    let parameters = operation["parameters"].as_array().unwrap();
    let Some(parameter) = parameters.iter().find(|it| it["name"] == "id" && it["in"] == "path") else {
        return path.to_owned();
    };
    let id = &things[parameter["schema"]["x-gantry-object"].as_str().unwrap()];
    path.replace("{id}", id.to_string().trim_matches('"'))
}

#[track_caller]
fn assert_hidden(answer: &Answer, may: bool, request: &str) {
    let wanted = if may { (404, "not_found") } else { (403, "forbidden") };
    assert_eq!((answer.status, answer.code()), wanted, "{request}: {}", answer.text);
}

#[tokio::test]
async fn nothing_of_another_organisation_is_there_by_any_id() {
    for database in Database::one("nothing_of_another_organisation_is_there") {
        let team = Team::on(database).await;
        let (foreign, otto, _simulator) = foreign(&team).await;
        let people = [
            ("org_admin", &team.org_admin, own(&team, &team.org_admin, "olga").await),
            ("user", &team.user, own(&team, &team.user, "uwe").await),
        ];
        let document = team.gateway.client().get("/openapi.json").await.expect(200);
        let chat = format!("/v1/chat/sessions/{}", foreign["sessions"].as_str().unwrap());
        let before = (everything(&team.owner).await, otto.get(&chat).await.expect(200));
        let (mut n_paths, mut n_fields, mut n_queries, mut n) = (0, 0, 0, 0);
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let required = operation["x-gantry-role"].as_str().unwrap_or("-").to_owned();
                let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
                let mut ids = Vec::new();
                references(&document, schema, &[], &mut ids);
                // The least that is complete, so that nothing but the id can be refused.
                let form = forms(&document, schema)[0];
                let mut body = json!({});
                for field in form["required"].as_array().into_iter().flatten() {
                    let name = field.as_str().unwrap();
                    n += 1;
                    body[name] = fitting(&document, name, &form["properties"][name], n);
                }
                let body = schema.is_object().then_some(body);
                for (role, client, own) in &people {
                    let may = required == "user" || (required == "org_admin" && *role == "org_admin");
                    if path.contains("{id}") {
                        n_paths += 1;
                        let target = filled(path, operation, &foreign);
                        let answer = call(client, method, &target, body.as_ref()).await;
                        assert_hidden(&answer, may, &format!("{role}: {method} {target}"));
                    }
                    for field in &ids {
                        n_fields += 1;
                        let target = filled(path, operation, own);
                        let body = field.put(body.as_ref().unwrap(), &foreign[field.kind.as_str()]);
                        let answer = call(client, method, &target, Some(&body)).await;
                        assert_hidden(&answer, may, &format!("{role}: {method} {target} {body}"));
                    }
                    // By a parameter of the query: a list shows nothing of theirs.
                    for parameter in operation["parameters"].as_array().unwrap() {
                        let Some(kind) = parameter["schema"]["x-gantry-object"].as_str() else { continue };
                        if parameter["in"] != "query" {
                            continue;
                        }
                        n_queries += 1;
                        let (path, name) =
                            (filled(path, operation, own), parameter["name"].as_str().unwrap());
                        let target = format!("{path}?{name}={}", foreign[kind]);
                        let answer = call(client, method, &target, None).await;
                        let nothing = match answer.header("content-type") {
                            // A table has its head all the same.
                            Some(it) if it.starts_with("text/csv") => answer.text.lines().count() == 1,
                            _ => !answer.json.is_null() && is_empty(&answer.json),
                        };
                        let empty = may && answer.status == 200 && nothing;
                        if !empty {
                            assert_hidden(&answer, may, &format!("{role}: {target}"));
                        }
                    }
                }
            }
        }
        assert!(n_paths > 30 && n_fields >= 8 && n_queries > 20, "{n_paths} {n_fields} {n_queries}");
        assert_eq!((everything(&team.owner).await, otto.get(&chat).await.expect(200)), before);
    }
}

/// A list without entries; or an object all of whose numbers are zero and lists empty, as sums over nothing are.
fn is_empty(answer: &Value) -> bool {
    match answer {
        // A series has its steps all the same.
        Value::Array(items) => items.iter().all(|it| it["requests"].is_number() && is_empty(it)),
        Value::Object(map) => map.iter().all(|(name, it)| match it {
            Value::Number(number) => number.as_f64() == Some(0.0) || name.ends_with("_sec"),
            Value::Array(_) | Value::Object(_) => is_empty(it),
            _ => true,
        }),
        _ => true,
    }
}
