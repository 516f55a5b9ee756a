//! Encodes spans for OTLP: `opentelemetry/proto/trace/v1/trace.proto` of OTLP 1.x, with the attributes of
//! OpenTelemetry's semantic conventions for HTTP servers (1.41) and for generative AI (2026, "development").
//! Attributes named `gantry.…` have no name in these conventions.

use std::time::Duration;

use gantry_dataplane::spans::{Call, Span};
use gantry_domain::usage::STATUS_CLIENT_CLOSED;
use gantry_settings::Settings;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span as Wire, Status, span::SpanKind, status::StatusCode},
};
use prost::Message;

const SERVICE_NAME: &str = "service.name";
const DEFAULT_NAME: &str = "gantry";
/// `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`: it is known whether the parent span belongs to another process.
const KNOWS_REMOTE: u32 = 0x100;
/// `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`
const IS_REMOTE: u32 = 0x200;

/// Returns the description of the program that sends the spans.
pub(super) fn resource(settings: &Settings) -> Resource {
    let given = &settings.tracing.otel_resource_attributes.0;
    let mut attributes: Vec<_> = given
        .iter()
        .filter(|(name, _)| name != SERVICE_NAME || settings.tracing.otel_service_name.is_none())
        .map(|(name, value)| text(name, value.as_str()))
        .collect();
    let mut unless_given = |name: &str, value: String| {
        if !attributes.iter().any(|it: &KeyValue| it.key == name) {
            attributes.push(text(name, value));
        }
    };
    let name = settings.tracing.otel_service_name.clone();
    unless_given(SERVICE_NAME, name.unwrap_or_else(|| DEFAULT_NAME.to_owned()));
    unless_given("service.version", env!("CARGO_PKG_VERSION").to_owned());
    unless_given("service.instance.id", uuid::Uuid::now_v7().to_string());
    Resource { attributes, ..Resource::default() }
}

/// Returns the body of a request to the collector.
pub(super) fn request(resource: &Resource, spans: impl Iterator<Item = Span>) -> Vec<u8> {
    let scope = InstrumentationScope {
        name: DEFAULT_NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_spans =
        ScopeSpans { scope: Some(scope), spans: spans.map(span).collect(), ..ScopeSpans::default() };
    let resource_spans = ResourceSpans {
        resource: Some(resource.clone()),
        scope_spans: vec![scope_spans],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec()
}

fn span(it: Span) -> Wire {
    let start = u64::try_from(it.started.0).unwrap_or(0).saturating_mul(1_000_000);
    let name = format!("{} {}", method(&it.method), it.route);
    let remote = it.parent.map_or(0, |_| IS_REMOTE);
    let failed = it.status >= 500;
    let status = failed.then(|| Status { code: StatusCode::Error.into(), ..Status::default() });
    Wire {
        trace_id: it.trace.to_be_bytes().into(),
        span_id: it.id.to_be_bytes().into(),
        parent_span_id: it.parent.map(|it| it.to_be_bytes().into()).unwrap_or_default(),
        trace_state: it.state.as_deref().unwrap_or_default().to_owned(),
        flags: u32::from(it.flags) | KNOWS_REMOTE | remote,
        name,
        kind: SpanKind::Server.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(nanos(it.duration)),
        attributes: attributes(it),
        status,
        ..Wire::default()
    }
}

fn attributes(it: Span) -> Vec<KeyValue> {
    let mut all = vec![
        text("http.request.method", method(&it.method)),
        text("http.route", it.route),
        text("url.path", it.path),
        text("url.scheme", "http"),
        text("client.address", it.client.to_string()),
        text("gantry.request_id", it.request_id),
    ];
    // A client that disconnected got no status code.
    if it.status == STATUS_CLIENT_CLOSED {
        all.push(text("error.type", "client_closed"));
    } else {
        all.push(int("http.response.status_code", it.status.into()));
        if it.status >= 500 {
            all.push(text("error.type", it.status.to_string()));
        }
    }
    if let Some(it) = it.call {
        call(&mut all, it);
    }
    all
}

fn call(all: &mut Vec<KeyValue>, it: Call) {
    all.push(text("gen_ai.operation.name", it.endpoint.facts().telemetry_name));
    if !it.model.is_empty() {
        all.push(text("gen_ai.request.model", it.model));
    }
    if let Some(engine) = it.engine {
        all.push(text("gen_ai.provider.name", engine.as_str()));
    }
    if it.endpoint.streams() {
        all.push(value("gen_ai.request.stream", Value::BoolValue(it.stream)));
    }
    if let Some(ttft) = it.ttft {
        all.push(value("gen_ai.response.time_to_first_chunk", Value::DoubleValue(ttft.as_secs_f64())));
    }
    all.push(int("gen_ai.usage.input_tokens", it.prompt_tokens));
    all.push(int("gen_ai.usage.output_tokens", it.completion_tokens));
    if let Some(cached) = it.cached_tokens {
        all.push(int("gen_ai.usage.cache_read.input_tokens", cached));
    }
    if it.estimated {
        all.push(value("gantry.usage.estimated", Value::BoolValue(true)));
    }
    all.push(text("gantry.outcome", it.outcome.as_str()));
}

/// Returns a method's name if it is a standard one, because a client may invent others.
fn method(method: &http::Method) -> &'static str {
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"]
        .into_iter()
        .find(|it| *it == method.as_str())
        .unwrap_or("_OTHER")
}

fn nanos(it: Duration) -> u64 {
    u64::try_from(it.as_nanos()).unwrap_or(u64::MAX)
}

fn value(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn text(key: &str, text: impl Into<String>) -> KeyValue {
    value(key, Value::StringValue(text.into()))
}

fn int(key: &str, int: i64) -> KeyValue {
    value(key, Value::IntValue(int))
}
