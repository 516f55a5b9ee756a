//! A TCP proxy between a program and a server. A test can hold it, make its connections go silent, or cut a reply.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Passes TCP connections on until this value is dropped.
pub struct Wire {
    pub addr: SocketAddr,
    state: Arc<State>,
}

struct State {
    target: SocketAddr,
    /// While true no byte passes, in either direction.
    held: watch::Sender<bool>,
    /// Connections with smaller numbers accept bytes and pass none on, for ever.
    lost_before: AtomicU64,
    opened: AtomicU64,
    /// The next reply to a request that contains these bytes is dropped, and its connection closed.
    cut_at: &'static [u8],
    armed: AtomicBool,
    cuts: AtomicUsize,
}

impl Wire {
    /// Starts a wire. `cut_at` is the text in the program's requests that [`Wire::cut_next`] waits for.
    pub async fn to(target: SocketAddr, cut_at: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::new(State {
            target,
            held: watch::Sender::new(false),
            lost_before: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            cut_at,
            armed: AtomicBool::new(false),
            cuts: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, Arc::clone(&shared)));
            }
        });
        Self { addr, state }
    }

    /// Lets nothing pass until [`Wire::release`].
    pub fn hold(&self) {
        self.state.held.send_replace(true);
    }

    /// Lets everything pass again, also what was held.
    pub fn release(&self) {
        self.state.held.send_replace(false);
    }

    /// Makes the existing connections go silent for ever without closing them; new ones work.
    pub fn lose(&self) {
        self.state.lost_before.store(self.state.opened.load(SeqCst), SeqCst);
    }

    /// Cuts the reply to the next request that contains `cut_at`. The server gets the request and answers; the program
    /// loses its connection instead of getting the answer.
    pub fn cut_next(&self) {
        self.state.armed.store(true, SeqCst);
    }

    /// Returns how often a reply was cut.
    pub fn cuts(&self) -> usize {
        self.state.cuts.load(SeqCst)
    }
}

async fn pass(program: TcpStream, state: Arc<State>) {
    let number = state.opened.fetch_add(1, SeqCst);
    let Ok(server) = TcpStream::connect(state.target).await else { return };
    let (mut from_program, mut to_program) = program.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut held = state.held.subscribe();
    let mut held_too = state.held.subscribe();
    let lost = || state.lost_before.load(SeqCst) > number;
    let cut = AtomicBool::new(false);
    let requests = async {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = from_program.read(&mut buffer).await.unwrap_or(0);
            if n == 0 {
                return;
            }
            let _ = held.wait_for(|it| !it).await;
            if lost() {
                continue;
            }
            let found = buffer[..n].windows(state.cut_at.len()).any(|it| it == state.cut_at);
            if found && state.armed.swap(false, SeqCst) {
                cut.store(true, SeqCst);
            }
            if to_server.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    };
    let replies = async {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = from_server.read(&mut buffer).await.unwrap_or(0);
            let _ = held_too.wait_for(|it| !it).await;
            if lost() {
                std::future::pending::<()>().await;
            }
            if cut.load(SeqCst) {
                state.cuts.fetch_add(1, SeqCst);
                return;
            }
            if n == 0 || to_program.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = replies => {}
    }
}
