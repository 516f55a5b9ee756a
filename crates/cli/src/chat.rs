//! `chat`: one question, or a conversation at the terminal, with a model behind the gateway.

use std::{
    cell::RefCell,
    io::{self, IsTerminal, Read},
};

use clap::{Arg, ArgMatches, Command};
use http::Method;
use serde_json::{Map, Value, json};

use crate::{
    complete,
    cx::Cx,
    events::Events,
    exit::{Failure, Outcome},
    gateway_options::connected,
    http::{Client, Login},
    options::{int, number, option, positional, text, texts},
    output::{Foreign, Tone},
    streams::tell,
    target::variable,
};

const PATH: &str = "/v1/chat/completions";
/// Stands for standard input among the words of a question.
const STDIN: &str = "-";
/// Longest text that is read from standard input, in bytes; gateways refuse larger bodies.
const LONGEST: u64 = 64 << 20;

pub(crate) fn command() -> Command {
    connected(Command::new("chat").about("Talks with a running model"))
        .arg(complete::models(positional("MODEL", "Served name of the model")))
        .arg(Arg::new("PROMPT").num_args(1..).help(
            "One question; `-` among the words stands for standard input. Without it, standard input is the question, or a \
             conversation begins at a terminal",
        ))
        .args([
            option("system", "TEXT", "Instructions to the model before the conversation"),
            number("max-tokens", "N", "Longest answer, in tokens"),
            option("key", "KEY", "An API key instead of the session; other users of this machine can see it here, so \
            GANTRY_API_KEY is safer"),
        ])
        .after_help(
            "gantry chat qwen\n\
             gantry chat qwen 'What is a gantry?'\n\
             git diff | gantry chat qwen 'Write a commit message for this:' -\n\
             \n\
             In a conversation, /new starts a new one, /bye or Ctrl-D ends it, and Ctrl-C stops an answer.",
        )
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut talk = Talk::new(cx, matches)?;
    let words = texts(matches, "PROMPT");
    if words.is_empty() && io::stdin().is_terminal() {
        if cx.out.json() {
            return Err(Failure::Usage("--json needs a question on the command line".to_owned()));
        }
        return talk.converse().await;
    }
    let question = question(&words)?;
    talk.say(&question);
    if cx.out.json() {
        let answer = talk.client.patient_call(Method::POST, PATH, Some(&talk.body(false))).await?;
        return cx.out.value(&answer.json);
    }
    match talk.answer().await? {
        End::Complete => Ok(()),
        End::Stopped => Err(Failure::Interrupted),
    }
}

/// Returns the question: the words, with standard input in place of a `-`; or standard input alone if there are no
/// words.
fn question(words: &[&str]) -> Outcome<String> {
    if !words.is_empty() && !words.contains(&STDIN) {
        return Ok(words.join(" "));
    }
    let wrong = |error: io::Error| Failure::Usage(format!("can't read the standard input: {error}"));
    let mut piped = String::new();
    io::stdin().lock().take(LONGEST).read_to_string(&mut piped).map_err(wrong)?;
    let mut question = String::new();
    for (n, word) in words.iter().enumerate() {
        if *word == STDIN {
            question.push_str(if n > 0 { "\n\n" } else { "" });
            question.push_str(&piped);
        } else {
            question.push_str(if n > 0 { " " } else { "" });
            question.push_str(word);
        }
    }
    let question = if words.is_empty() { piped } else { question };
    if question.trim().is_empty() {
        return Err(Failure::Usage("there is no question: standard input is empty".to_owned()));
    }
    Ok(question)
}

/// How an answer ended.
enum End {
    Complete,
    /// Ctrl-C stopped the answer.
    Stopped,
}

struct Talk<'a> {
    cx: &'a Cx,
    client: Client,
    /// The request without its messages.
    request: Map<String, Value>,
    /// Number of messages at the beginning that `/new` keeps: the system message, if there is one.
    n_fixed: usize,
    messages: Vec<Value>,
}

impl<'a> Talk<'a> {
    fn new(cx: &'a Cx, matches: &ArgMatches) -> Outcome<Self> {
        let key = text(matches, "key").map(str::to_owned).or_else(|| variable("GANTRY_API_KEY"));
        let login = match (key, &cx.client.login) {
            (Some(key), _) => Login::Bearer(key.trim().to_owned().into()),
            (None, Login::Bearer(_)) => {
                return Err(Failure::Usage(
                    "a token is for the admin API, not for models: set an API key in GANTRY_API_KEY"
                        .to_owned(),
                ));
            }
            (None, other) => other.clone(),
        };
        let mut request = Map::new();
        request.insert("model".to_owned(), text(matches, "MODEL").into());
        if let Some(n) = int(matches, "max-tokens") {
            request.insert("max_tokens".to_owned(), n.into());
        }
        let system = text(matches, "system").map(|it| json!({ "role": "system", "content": it }));
        let messages: Vec<Value> = system.into_iter().collect();
        Ok(Self {
            cx,
            client: Client::new(cx.client.gateway.clone(), login),
            request,
            n_fixed: messages.len(),
            messages,
        })
    }

    fn say(&mut self, text: &str) {
        self.messages.push(json!({ "role": "user", "content": text }));
    }

    fn body(&self, stream: bool) -> Value {
        let mut body = self.request.clone();
        body.insert("messages".to_owned(), self.messages.clone().into());
        body.insert("stream".to_owned(), stream.into());
        body.into()
    }

    /// Prints the model's answer to the messages so far, as it arrives, and adds it to the messages.
    async fn answer(&mut self) -> Outcome<End> {
        let (mut events, said) = (Events::default(), RefCell::new(String::new()));
        // What came without an event.
        let plain = RefCell::new(Vec::new());
        let mut shown = Shown { out: Foreign::new(&self.cx.out), thinking: false };
        let take = |bytes: &[u8]| {
            let found = events.take(bytes);
            if found.is_empty() {
                plain.borrow_mut().extend_from_slice(bytes);
            }
            for event in found {
                if !event["error"].is_null() {
                    let why = event["error"]["message"].as_str().unwrap_or("the answer broke off");
                    return Err(Failure::Failed(crate::text::clean(why)));
                }
                let delta = &event["choices"][0]["delta"];
                let part = |name: &str| delta[name].as_str().unwrap_or_default();
                // The first field name is llama.cpp's, the second is vLLM's.
                for name in ["reasoning_content", "reasoning"] {
                    shown.thoughts(self.cx, part(name));
                }
                shown.words(part("content"))?;
                said.borrow_mut().push_str(part("content"));
            }
            Ok(())
        };
        let body = self.body(true);
        // Dropping the stream closes the connection; the gateway then stops the engine's work on this request.
        let end = tokio::select! {
            done = self.client.stream_of(Method::POST, PATH, Some(&body), take) => done.map(|()| End::Complete),
            _ = tokio::signal::ctrl_c() => Ok(End::Stopped),
        };
        let mut said = said.into_inner();
        // An engine may answer with one JSON object although it was asked for a stream.
        if said.is_empty()
            && let Ok(answer) = serde_json::from_slice::<Value>(&plain.into_inner())
            && let Some(content) = answer["choices"][0]["message"]["content"].as_str()
        {
            shown.words(content)?;
            content.clone_into(&mut said);
        }
        self.cx.out.line("")?;
        if end.is_ok() {
            self.messages.push(json!({ "role": "assistant", "content": said }));
        }
        end
    }

    async fn converse(&mut self) -> Outcome<()> {
        self.cx.out.note("/new starts a new conversation, /bye or Ctrl-D ends it; Ctrl-C stops an answer");
        loop {
            let prompt = self.cx.out.paint(Tone::Bold, ">>> ");
            let line = tokio::select! {
                line = tokio::task::spawn_blocking(move || read_line(&prompt)) => line,
                _ = tokio::signal::ctrl_c() => {
                    self.cx.out.note("");
                    return Err(Failure::Interrupted);
                }
            };
            let wrong = |error: io::Error| Failure::Failed(format!("can't read from the terminal: {error}"));
            let Some(line) = line.map_err(io::Error::other).and_then(|it| it).map_err(wrong)? else {
                self.cx.out.note("");
                return Ok(());
            };
            match line.trim() {
                "" => continue,
                "/bye" | "/exit" | "/quit" => return Ok(()),
                "/new" => {
                    self.messages.truncate(self.n_fixed);
                    self.cx.out.note("this is a new conversation");
                    continue;
                }
                _ => self.say(&line),
            }
            match self.answer().await {
                Ok(_) => {}
                Err(failure) if failure.ends_all() => return Err(failure),
                Err(failure) => {
                    self.cx.out.complain(&failure);
                    // Forget the question, so that it can be asked again.
                    self.messages.pop();
                }
            }
        }
    }
}

/// The printed state of one answer.
struct Shown<'a> {
    out: Foreign<'a>,
    /// The model has printed reasoning, but no part of the answer yet.
    thinking: bool,
}

impl Shown<'_> {
    fn words(&mut self, text: &str) -> Outcome<()> {
        if text.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.thinking) {
            tell("\n\n");
        }
        self.out.take(text.as_bytes())
    }

    /// Shows the model's reasoning. It is not part of the answer, so it is shown only at a terminal.
    fn thoughts(&mut self, cx: &Cx, text: &str) {
        if !text.is_empty() && io::stdout().is_terminal() && io::stderr().is_terminal() {
            self.thinking = true;
            tell(&cx.out.paint(Tone::Dim, &crate::text::clean_lines(text)));
        }
    }
}

/// Reads a line without its line end; `None` at the end of the input. The terminal itself does the line editing.
fn read_line(prompt: &str) -> io::Result<Option<String>> {
    tell(prompt);
    let mut line = String::new();
    let n = io::stdin().read_line(&mut line)?;
    Ok((n > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
}
