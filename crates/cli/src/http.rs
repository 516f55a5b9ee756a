//! The public API over HTTP: sends one request after the other, each on its own connection, with the session's cookie
//! and without an `Origin` header, like other programs that are not browsers.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use gantry_connect::{ConnectError, Connector, HttpConnection, HttpUrl};
use http::{HeaderMap, HeaderValue, Method, Request, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::{
    exit::{Failure, Outcome, Refusal},
    output::{Out, reader_gone},
};

/// Address of the gateway by default.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8084";
const CONNECT: Duration = Duration::from_secs(10);
/// Longest wait of `doctor` and `status` for the first answer. A socket that systemd holds open accepts connections although
/// nobody answers.
const FIRST_ANSWER: Duration = Duration::from_secs(4);
/// Longest wait for an answer, except for requests that are known to take long.
const ANSWER: Duration = Duration::from_mins(3);
/// How long a command waits before it says that it waits.
const SILENT: Duration = Duration::from_secs(5);
/// Largest answer that is read, in bytes. A gateway sends no larger answers.
const MAX_ANSWER: usize = 256 << 20;
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A gateway's address. It has a base if a proxy serves other things beside the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GatewayUrl(pub(crate) HttpUrl);

impl GatewayUrl {
    /// # Errors
    /// The text does not have the form `http[s]://host[:port][/base]`.
    pub(crate) fn parse(text: &str) -> Outcome<Self> {
        HttpUrl::parse(text).map(Self).ok_or_else(|| {
            let text = crate::text::clean(text);
            Failure::Usage(format!(
                "`{text}` is not the address of a gateway, which has the form http://host:port"
            ))
        })
    }

    /// Returns the address in the form that the session file uses.
    pub(crate) fn url(&self) -> String {
        let authority = self.0.authority().to_ascii_lowercase();
        format!("{}://{authority}{}", self.0.scheme(), self.0.base())
    }
}

/// A complete answer with a status of success.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    /// `Null` if the body is not JSON.
    pub(crate) json: Value,
}

impl Answer {
    /// `X-Total-Count` of a list.
    pub(crate) fn total(&self) -> Option<usize> {
        self.headers.get("x-total-count")?.to_str().ok()?.parse().ok()
    }

    pub(crate) fn list(&self) -> &[Value] {
        self.json.as_array().map_or(&[], Vec::as_slice)
    }
}

/// Returns a query string with escaped values.
pub(crate) fn query(pairs: &[(&str, String)]) -> String {
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// Escapes text for a path or a query.
pub(crate) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// Credentials that are sent with requests.
#[derive(Debug, Clone)]
pub(crate) enum Login {
    Nobody,
    /// `svc_session=…`
    Session(SecretString),
    /// A token for the admin API, or a key for `/v1`.
    Bearer(SecretString),
}

/// Talks to one gateway.
pub(crate) struct Client {
    pub(crate) gateway: GatewayUrl,
    connector: Connector,
    pub(crate) login: Login,
    /// Where people are told that an answer is waited for.
    notes: Option<Out>,
}

impl Client {
    pub(crate) fn new(gateway: GatewayUrl, login: Login) -> Self {
        Self { gateway, connector: Connector::default(), login, notes: None }
    }

    /// Tells people that an answer is waited for, if it takes long.
    pub(crate) fn telling(self, out: &Out) -> Self {
        Self { notes: Some(out.clone()), ..self }
    }

    pub(crate) async fn get(&self, path: &str) -> Outcome<Answer> {
        self.call(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Option<&Value>) -> Outcome<Answer> {
        self.call(Method::POST, path, body).await
    }

    /// Asks whether a gateway answers. Unlike other requests, this one does not wait for a busy gateway.
    pub(crate) async fn health(&self) -> Outcome<Answer> {
        let late = |_| {
            Failure::Unreachable(format!(
                "something listens at {}, but it did not answer within {} s",
                self.gateway.url(),
                FIRST_ANSWER.as_secs()
            ))
        };
        let answer = tokio::time::timeout(FIRST_ANSWER, self.patient_call(Method::GET, "/health", None));
        answer.await.map_err(late)?
    }

    /// # Errors
    /// The request fails, or the answer's status is not a success.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Outcome<Answer> {
        self.in_time(self.request(method, path, body)?).await
    }

    /// Changes a record, unless somebody else has changed it after it had this revision.
    pub(crate) async fn change(&self, path: &str, body: &Value, revision: Option<&str>) -> Outcome<Answer> {
        let mut request = self.request(Method::PATCH, path, Some(body))?;
        if let Some(tag) = revision.and_then(|it| HeaderValue::try_from(format!("\"{it}\"")).ok()) {
            request.headers_mut().insert(header::IF_MATCH, tag);
        }
        self.in_time(request).await
    }

    async fn in_time(&self, request: Request<Bytes>) -> Outcome<Answer> {
        let late = |_| {
            Failure::Unreachable(format!(
                "{} did not answer within {} s",
                self.gateway.url(),
                ANSWER.as_secs()
            ))
        };
        let mut answer = pin!(self.send(request));
        if let Ok(early) = tokio::time::timeout(SILENT, &mut answer).await {
            return early;
        }
        if let Some(out) = &self.notes {
            out.note(&format!("{} has not answered yet; still waiting", self.gateway.url()));
        }
        tokio::time::timeout(ANSWER.saturating_sub(SILENT), answer).await.map_err(late)?
    }

    /// Sends a request and waits for its answer without a time limit.
    pub(crate) async fn patient_call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Outcome<Answer> {
        self.send(self.request(method, path, body)?).await
    }

    async fn send(&self, request: Request<Bytes>) -> Outcome<Answer> {
        let mut connection = self.connect().await?;
        let answer = connection.send(request).await.map_err(|_| self.broke_off())?;
        self.complete(answer).await
    }

    /// Sends a `GET` request and hands the body of its answer to `take` piece by piece, until it ends.
    pub(crate) async fn stream(&self, path: &str, take: impl FnMut(&[u8]) -> Outcome<()>) -> Outcome<()> {
        self.stream_of(Method::GET, path, None, take).await
    }

    /// Sends a request, if needed with a body, and hands the body of its answer to `take` piece by piece.
    pub(crate) async fn stream_of(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        mut take: impl FnMut(&[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut connection = self.connect().await?;
        let request = self.request(method, path, body)?;
        let mut answer = connection.send(request).await.map_err(|_| self.broke_off())?;
        if !answer.head.status.is_success() {
            return self.complete(answer).await.map(drop);
        }
        let mut gone = std::pin::pin!(reader_gone());
        loop {
            let part = tokio::select! {
                part = answer.next() => part,
                () = &mut gone => return Err(Failure::Closed),
            };
            let Some(data) = part.map_err(|_| self.broke_off())? else { return Ok(()) };
            take(&data)?;
        }
    }

    async fn connect(&self) -> Outcome<HttpConnection> {
        tokio::time::timeout(CONNECT, self.connector.http(&self.gateway.0))
            .await
            .map_err(|_| self.unreachable("it does not answer"))?
            .map_err(|error| match (&error, error.advice()) {
                (_, Some(advice)) => self.unreachable(&format!("{error}: {advice}")),
                (ConnectError::Tls(source), None) => self.unreachable(&format!("{error}: {source}")),
                _ => self.unreachable(&error.to_string()),
            })
    }

    fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Outcome<Request<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.gateway.0.base()))
            .header(header::HOST, self.gateway.0.authority())
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, concat!("gantry/", env!("CARGO_PKG_VERSION")));
        match &self.login {
            Login::Nobody => {}
            Login::Session(cookie) => request = request.header(header::COOKIE, cookie.expose_secret()),
            Login::Bearer(token) => {
                let value = format!("Bearer {}", token.expose_secret());
                request = request.header(header::AUTHORIZATION, value);
            }
        }
        let bytes = match body {
            Some(value) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Bytes::from(value.to_string())
            }
            None => Bytes::new(),
        };
        request.body(bytes).map_err(|_| Failure::Usage("an argument can't be put into a request".to_owned()))
    }

    async fn complete(&self, answer: gantry_connect::Answer<'_>) -> Outcome<Answer> {
        let (head, bytes) = answer.read(MAX_ANSWER).await.map_err(|_| self.broke_off())?.into_parts();
        let json = serde_json::from_slice(&bytes).unwrap_or_default();
        if !head.status.is_success() {
            let mut refusal = Refusal::new(head.status.as_u16(), &json);
            refusal.of_token = matches!(self.login, Login::Bearer(_));
            return Err(Failure::Refused(Box::new(refusal)));
        }
        Ok(Answer { headers: head.headers, json })
    }

    fn unreachable(&self, why: &str) -> Failure {
        let url = self.gateway.url();
        Failure::Unreachable(format!(
            "no gateway at {url}: {why} (--url or GANTRY_URL names another address; `gantry doctor` finds out more)"
        ))
    }

    fn broke_off(&self) -> Failure {
        Failure::Unreachable(format!(
            "{} closed the connection without a complete answer",
            self.gateway.url()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_base_and_an_address_in_brackets() {
        let gateway = GatewayUrl::parse("https://Box.lan/llm/").unwrap();
        assert_eq!((gateway.0.host(), gateway.0.port(), gateway.0.base()), ("box.lan", 443, "/llm"));
        assert_eq!(gateway.url(), "https://box.lan/llm");
        let gateway = GatewayUrl::parse("http://[::1]:8084").unwrap();
        assert_eq!((gateway.0.host(), gateway.0.port()), ("::1", 8084));
        for wrong in ["box:8084", "ftp://a", "http://u:p@a", "http://", "", "http://a?b=c"] {
            assert!(matches!(GatewayUrl::parse(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn values_can_not_break_out_of_a_query() {
        assert_eq!(query(&[("q", "a&b=c d/é".to_owned())]), "?q=a%26b%3Dc%20d%2F%C3%A9");
    }
}
