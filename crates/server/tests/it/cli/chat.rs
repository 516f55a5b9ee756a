//! `chat`: a question, a pipe, a conversation.

use gantry_testkit::Gateway;
use serde_json::json;

use super::{Ran, Shell, terminal::at_terminal, with_engine};

async fn with_model() -> (Gateway, tempfile::TempDir, Shell) {
    let (gateway, engine) = with_engine().await;
    let shell = Shell::of_owner(&gateway);
    shell.make(&["qwen"]);
    shell.run(&["models", "start", "qwen", "--wait", "--timeout", "300"]).ends(0);
    (gateway, engine, shell)
}

#[tokio::test]
async fn one_question_is_answered_with_the_session_or_a_key() {
    let (gateway, _engine, shell) = with_model().await;
    let asked = shell.run(&["chat", "qwen", "What", "is", "it?", "--max-tokens", "8"]).ends(0);
    assert!(asked.out.trim().len() > 5 && asked.err.is_empty(), "{:?} {}", asked.out, asked.err);
    let piped = shell.run_with(&["chat", "qwen", "Sum up:", "-"], "many words").ends(0);
    assert!(piped.out.trim().len() > 5, "{}", piped.out);
    let whole =
        shell.run_with(&["chat", "qwen", "--json", "--system", "Be short."], "many words").ends(0).json();
    assert_eq!(whole["choices"][0]["message"]["role"], "assistant", "{whole}");

    let key = shell.run(&["keys", "create", "k"]).ends(0).out;
    let stranger = Shell::at(&gateway.url);
    let told = stranger.run(&["chat", "qwen", "hello"]).ends(4).err;
    assert!(told.contains("run `gantry login`"), "{told}");
    let mut command = stranger.command(&["chat", "qwen", "hello"]);
    Ran::of(command.env("GANTRY_API_KEY", key.trim()).output().unwrap()).ends(0);
    let refused = stranger.run(&["chat", "qwen", "hello", "--key", "gty_wrong"]).ends(4);
    assert!(!refused.err.is_empty() && !refused.err.contains("gantry login"), "{}", refused.err);
    let none = shell.run(&["chat", "none", "hello", "--json"]).ends(5);
    assert_eq!(none.error()["error"]["code"], json!("model_not_found"));
    shell.run_with(&["chat", "qwen"], "  \n").ends(2);
}

#[tokio::test]
async fn a_conversation_goes_on_until_its_end() {
    let (_gateway, _engine, shell) = with_model().await;
    let keys = [
        (">>> ", "hello\n"),
        ("hello\r\n", "/new\n"),
        ("this is a new conversation\r", "again\n"),
        ("again\r\n", "/bye\n"),
    ];
    let Some((shown, well)) = at_terminal(&shell, "chat qwen --max-tokens 4", &keys, &[]).await else {
        return;
    };
    assert!(well, "{shown}");
    let asked = async || {
        let used = shell.run(&["usage", "list", "--model", "qwen", "--json"]).ends(0).json();
        (used.as_array().unwrap().len() == 2).then_some(())
    };
    gantry_testkit::eventually("both questions are metered", gantry_testkit::PATIENCE, asked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_answer_that_is_no_stream_is_shown_too() {
    let answer = json!({ "choices": [{ "message": { "role": "assistant", "content": "all at once" } }] });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shell = Shell::at(&format!("http://{}", listener.local_addr().unwrap()));
    let respond = move || {
        let answer = answer.clone();
        async move { axum::Json(answer) }
    };
    let router = axum::Router::new().fallback(respond);
    #[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
    drop(tokio::spawn(async { axum::serve(listener, router).await }));
    let said = shell.run(&["chat", "qwen", "hello", "--key", "gty_any"]).ends(0).out;
    assert_eq!(said, "all at once\n");
}
