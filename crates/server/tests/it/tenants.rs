//! Two organisations: nothing of the one exists for the other. The requests are made from the `OpenAPI` document, so that
//! a new route is among them without a word here.

use gantry_testkit::{Client, Database};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    simulator::Simulator,
    team::{PASSWORD, Team, everything, id, make_model, make_org, make_user},
};

/// One object of each kind that belongs to somebody, all of the organisation that the callers are not of, and a request
/// that was metered.
struct Foreign {
    org: i64,
    user: i64,
    key: i64,
    model: i64,
    chat: String,
}

impl Foreign {
    async fn make(team: &Team) -> Self {
        let org = make_org(&team.owner, "Other").await;
        let user = make_user(&team.owner, org, "otto", "user").await;
        let simulator = Simulator::start("").await;
        simulator.join(&team.gateway).await;
        let (key, client) = team.owner.new_key(&json!({ "user_id": user })).await;
        let prompt = json!({ "model": "m", "prompt": "one two", "max_tokens": 4 });
        let answer = client.post("/v1/completions", &prompt).await;
        team.owner.usage_of(answer.header("x-request-id").unwrap()).await;
        let otto = team.gateway.sign_in("otto", PASSWORD).await;
        let chat = json!({ "model_name": "m", "engine_type": "vllm" });
        let chat = otto.post("/v1/chat/sessions", &chat).await.expect(201);
        let model = make_model(&team.owner, "foreign").await;
        Self { org, user, key: id(&key), model, chat: chat["id"].as_str().unwrap().to_owned() }
    }

    /// What the parameter `{id}` of this path, or a field of this name, refers to.
    fn of_path(&self, path: &str) -> String {
        match path.split('/').nth(2).unwrap_or_default() {
            "keys" => self.key.to_string(),
            "orgs" => self.org.to_string(),
            "users" => self.user.to_string(),
            "chat" => self.chat.clone(),
            _ => self.model.to_string(),
        }
    }

    fn of_field(&self, name: &str) -> Option<i64> {
        match name {
            "org_id" => Some(self.org),
            "user_id" => Some(self.user),
            "key_id" => Some(self.key),
            "model_id" => Some(self.model),
            _ => None,
        }
    }
}

/// The schema behind references and `anyOf`, as a list of objects.
fn forms<'a>(document: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        return forms(document, document.pointer(reference.trim_start_matches('#')).unwrap());
    }
    let parts = ["anyOf", "oneOf"].iter().filter_map(|it| schema[*it].as_array()).flatten();
    let deep: Vec<_> = parts.flat_map(|it| forms(document, it)).collect();
    if deep.is_empty() { vec![schema] } else { deep }
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

async fn call(client: &Client, method: &str, path: &str, body: Option<&Value>) -> gantry_testkit::Answer {
    let method: Method = method.to_ascii_uppercase().parse().unwrap();
    let request = client.request(method, path);
    client.send(if let Some(body) = body { request.json(body) } else { request }).await
}

#[tokio::test]
async fn nothing_of_another_organisation_is_there_by_any_id() {
    for database in Database::all("nothing_of_another_organisation_is_there") {
        let team = Team::on(database).await;
        let foreign = Foreign::make(&team).await;
        let document = team.gateway.client().get("/openapi.json").await.expect(200);
        let otto = team.gateway.sign_in("otto", PASSWORD).await;
        let chat_path = format!("/v1/chat/sessions/{}", foreign.chat);
        let before = (everything(&team.owner).await, otto.get(&chat_path).await.expect(200));
        let (mut n_paths, mut n_fields) = (0, 0);
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let required = operation["x-gantry-role"].as_str().unwrap_or("-").to_owned();
                let body_schema = &operation["requestBody"]["content"]["application/json"]["schema"];
                let form = forms(&document, body_schema)[0];
                let mut body = json!({});
                for field in form["required"].as_array().into_iter().flatten() {
                    let name = field.as_str().unwrap();
                    n_fields += 1;
                    body[name] = fitting(&document, name, &form["properties"][name], n_fields);
                }
                let body = body_schema.is_object().then_some(body);
                let target = path.replace("{id}", &foreign.of_path(path));
                for (role, client) in [("org_admin", &team.org_admin), ("user", &team.user)] {
                    let may = required == "user" || (required == "org_admin" && role == "org_admin");
                    // By the path.
                    if path.contains("{id}") {
                        n_paths += 1;
                        let answer = call(client, method, &target, body.as_ref()).await;
                        let wanted = if may { 404 } else { 403 };
                        assert_eq!(answer.status, wanted, "{role}: {method} {target}: {}", answer.text);
                        if may {
                            assert_eq!(answer.code(), "not_found", "{role}: {method} {target}");
                        }
                    }
                    // By a field of the body, on an object of one's own organisation where there is one.
                    for name in form["properties"].as_object().into_iter().flat_map(|it| it.keys()) {
                        let Some(theirs) = foreign.of_field(name) else { continue };
                        n_fields += 1;
                        let mut body = body.clone().unwrap_or_default();
                        body[name] = theirs.into();
                        let own = own_target(&team, path).await;
                        let answer = call(client, method, &own, Some(&body)).await;
                        let fine =
                            if may { [404, 422].contains(&answer.status) } else { answer.status == 403 };
                        assert!(fine, "{role}: {method} {own} {name}: {} {}", answer.status, answer.text);
                    }
                    // By a parameter of the query: a list shows nothing of theirs.
                    for parameter in operation["parameters"].as_array().into_iter().flatten() {
                        let Some(theirs) = parameter["name"].as_str().and_then(|it| foreign.of_field(it))
                        else {
                            continue;
                        };
                        if parameter["in"] != "query" || path.contains('{') {
                            continue;
                        }
                        n_fields += 1;
                        let target = format!("{path}?{}={theirs}", parameter["name"].as_str().unwrap());
                        let answer = call(client, method, &target, None).await;
                        if may {
                            let empty = answer.status == 200 && is_empty(&answer.json);
                            assert!(
                                empty || answer.status == 404 || answer.status == 422,
                                "{role}: {target}: {}",
                                answer.text
                            );
                        } else {
                            assert_eq!(answer.status, 403, "{role}: {target}: {}", answer.text);
                        }
                    }
                }
            }
        }
        assert!(n_paths > 30 && n_fields > 20, "{n_paths} paths, {n_fields} fields");
        // The own objects that were made for the fields are gone again.
        assert_eq!((everything(&team.owner).await, otto.get(&chat_path).await.expect(200)), before);
    }
}

/// The path with the id of the caller himself, where fields of a change are tried.
async fn own_target(team: &Team, path: &str) -> String {
    let users = team.owner.get("/admin/users?q=uwe").await.expect(200);
    path.replace("{id}", &id(&users[0]).to_string())
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
