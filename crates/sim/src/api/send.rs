//! Generates a planned answer token by token and sends it, in one piece or as events.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;

use futures_util::stream::unfold;

use super::answer::{Piece, Plan, Shape, Tally};
use crate::engine::{Decode, Engine, Fault, Finish};
use crate::flavour::Flavour;
use crate::reply::{Refusal, Reply, event_reply, json_reply};

/// Text of vLLM's error after its engine process crashed.
const CRASH_TEXT: &str = "EngineCore encountered an issue. See stack trace (above) for the root cause.";

/// Generates the answer and sends it in the requested form.
pub(crate) async fn give(
    engine: &Arc<Engine>,
    stream: bool,
    shape: Box<dyn Shape>,
) -> Result<Reply, Refusal> {
    let decode = Decode::admit(engine, shape.plan().prompt_tokens);
    let flavour = engine.config.flavour;
    if engine.config.faults.hang {
        pending::<()>().await;
    }
    if stream {
        let pump = Pump {
            shape,
            decode: Some(decode),
            queue: VecDeque::new(),
            next: Cursor::default(),
            state: State::Start,
        };
        let events = unfold(pump, |mut pump| async move {
            let event = pump.event().await?;
            Some((event, pump))
        });
        return Ok(event_reply(flavour, events));
    }
    let mut decode = decode;
    decode.start().await;
    let n_tokens: usize = shape.plan().choices.iter().map(|choice| choice.pieces.len()).sum();
    for _ in 0..n_tokens {
        match decode.token().await {
            Ok(()) => {}
            Err(Fault::Injected) => {
                decode.fail();
                let kind = Refusal::of_status(flavour, 500).kind;
                return Err(Refusal::new(500, kind, "simulated error in mid-answer"));
            }
            Err(Fault::Crashed) if flavour == Flavour::Vllm => {
                decode.fail();
                return Err(Refusal::new(500, "InternalServerError", CRASH_TEXT));
            }
            Err(Fault::Crashed) => pending().await,
        }
    }
    let timings = decode.finish(reason(shape.plan()));
    Ok(json_reply(flavour, 200, &shape.whole(&Tally { emitted: n_tokens as u32, timings })))
}

fn reason(plan: &Plan) -> Finish {
    plan.choices.first().map_or(Finish::Stop, |choice| choice.finish)
}

enum State {
    Start,
    Tokens,
    End,
}

/// Generates a streamed answer while the client reads it. It is dropped with the connection.
struct Pump {
    shape: Box<dyn Shape>,
    decode: Option<Decode>,
    queue: VecDeque<String>,
    /// The token that comes next.
    next: Cursor,
    state: State,
}

/// A token of an answer. Choices take turns, as in a batch.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    choice: usize,
    /// Number of the token in its choice.
    token: usize,
}

impl Pump {
    async fn event(&mut self) -> Option<String> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            match self.state {
                State::Start => {
                    self.decode.as_mut()?.start().await;
                    self.queue.extend(self.shape.begin());
                    self.state = State::Tokens;
                }
                State::Tokens => self.token().await?,
                State::End => return None,
            }
        }
    }

    async fn token(&mut self) -> Option<()> {
        let Some(at) = self.next_piece() else {
            let emitted =
                self.shape.plan().choices.iter().map(|choice| choice.pieces.len()).sum::<usize>() as u32;
            let timings = self.decode.take()?.finish(reason(self.shape.plan()));
            self.queue.extend(self.shape.end(&Tally { emitted, timings }));
            self.state = State::End;
            return Some(());
        };
        match self.decode.as_mut()?.token().await {
            Ok(()) => self.queue.extend(self.shape.piece(at)),
            Err(Fault::Injected) => {
                self.queue.extend(self.shape.error());
                self.decode.take()?.fail();
                self.state = State::End;
            }
            // The process ends now. The stream must break off without a proper end.
            Err(Fault::Crashed) => pending().await,
        }
        Some(())
    }

    fn next_piece(&mut self) -> Option<Piece> {
        let choices = &self.shape.plan().choices;
        let longest = choices.iter().map(|choice| choice.pieces.len()).max()?;
        while self.next.token < longest {
            let Cursor { choice, token: index } = self.next;
            self.next = if choice + 1 < choices.len() {
                Cursor { choice: choice + 1, token: index }
            } else {
                Cursor { choice: 0, token: index + 1 }
            };
            let length = choices.get(choice)?.pieces.len();
            if index < length {
                let before: usize = choices
                    .iter()
                    .enumerate()
                    .map(|(i, other)| other.pieces.len().min(if i <= choice { index + 1 } else { index }))
                    .sum();
                return Some(Piece { choice, index, last: index + 1 == length, emitted: before as u32 });
            }
        }
        None
    }
}
