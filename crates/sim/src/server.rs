//! The HTTP server: the loading phase, the accept loop, and the ways in which the process ends.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::api;
use crate::args::Exit;
use crate::config::Config;
use crate::engine::Engine;
use crate::faults::CrashLog;
use crate::flavour::Flavour;
use crate::refused;
use crate::startup;

/// Time for vLLM's last error answers to be written before its process ends.
const LAST_WORDS: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 1024;

/// Serves on `listener` until `stop` is cancelled or a fault ends the process; returns the exit
/// code. The loading phase has passed for vLLM, which does not listen before it is ready.
pub async fn serve(listener: TcpListener, config: Config, stop: CancellationToken) -> i32 {
    let engine = Engine::new(config);
    let mut connections = JoinSet::new();
    let soft = CancellationToken::new();
    let config = &engine.config;
    let loads = config.flavour == Flavour::Llamacpp && !config.faults.load.is_zero();
    engine.loading.store(loads, Relaxed);
    let mut load = std::pin::pin!(sleep(config.faults.load));
    if !loads {
        say_ready(&engine, &listener);
    }
    let code = loop {
        let loading = engine.loading.load(Relaxed);
        tokio::select! {
            biased;
            () = engine.crashed() => {
                // A fault in generated code kills llama-server at once; vLLM still answers, then exits with 0.
                if engine.config.flavour == Flavour::Vllm {
                    sleep(LAST_WORDS).await;
                    return 0;
                }
                return 139;
            }
            () = stop.cancelled() => break if loading { 143 } else { 0 },
            () = &mut load, if loading => {
                if let Some(exit) = out_of_memory(&engine.config) {
                    say(&exit.stderr);
                    return exit.code;
                }
                engine.loading.store(false, Relaxed);
                say_ready(&engine, &listener);
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => { connections.spawn(connection(Arc::clone(&engine), stream, soft.clone())); }
                // The process is probably out of file descriptors, so it waits for connections to end.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
        }
    };
    drop(listener);
    if code == 0 {
        soft.cancel();
        let drained = async { while connections.join_next().await.is_some() {} };
        // Connections that are not done by then are cut off, as the engines do.
        let _ = timeout(engine.config.drain, drained).await;
    }
    code
}

async fn connection(engine: Arc<Engine>, stream: TcpStream, soft: CancellationToken) {
    // Without Nagle's algorithm, small events are sent at once; each is written alone.
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    if engine.config.flavour == Flavour::Llamacpp {
        builder.auto_date_header(false).title_case_headers(true);
    }
    let service = service_fn(move |request| {
        let engine = Arc::clone(&engine);
        async move { Ok::<_, std::convert::Infallible>(api::handle(engine, request).await) }
    });
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    // An error means that the client left or sent invalid data. It needs no report.
    tokio::select! {
        _ = served.as_mut() => return,
        () = soft.cancelled() => served.as_mut().graceful_shutdown(),
    }
    let _ = served.await;
}

/// Binds, loads and serves in a process of its own, which signals stop.
pub(crate) async fn run(config: Config) -> i32 {
    let stop = match signals() {
        Ok(stop) => stop,
        Err(error) => {
            say(&format!("engine simulator: cannot listen for signals: {error}\n"));
            return 1;
        }
    };
    say(&startup::loading_lines(&config));
    let socket = match bind(&config).await {
        Ok(socket) => socket,
        Err(error) => {
            say(&cannot_bind(&config, &error));
            return 1;
        }
    };
    if config.flavour == Flavour::Vllm {
        // vLLM binds early but listens only when the engine is up: a client is refused until then.
        tokio::select! {
            () = sleep(config.faults.load) => {}
            () = stop.cancelled() => return 0,
        }
        if let Some(exit) = out_of_memory(&config) {
            say(&exit.stderr);
            return exit.code;
        }
    } else if config.faults.load.is_zero()
        && let Some(exit) = out_of_memory(&config)
    {
        say(&exit.stderr);
        return exit.code;
    }
    match socket.listen(BACKLOG) {
        Ok(listener) => serve(listener, config, stop).await,
        Err(error) => {
            say(&cannot_bind(&config, &error));
            1
        }
    }
}

async fn bind(config: &Config) -> std::io::Result<TcpSocket> {
    let mut last = std::io::Error::other("the host has no address");
    for address in lookup_host((config.host.as_str(), config.port)).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        match socket.bind(address) {
            Ok(()) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn cannot_bind(config: &Config, error: &std::io::Error) -> String {
    match config.flavour {
        Flavour::Vllm => format!(
            "Traceback (most recent call last):\n    sock.bind(addr)\nOSError: [Errno {}] error while attempting to \
             bind on address {}:{}: {error}\n",
            error.raw_os_error().unwrap_or(0),
            config.host,
            config.port
        ),
        Flavour::Llamacpp => format!(
            "0.00.021.363 E srv         start: couldn't bind HTTP server socket, hostname: {}, port: {}\n\
             0.00.021.455 E srv  llama_server: exiting due to HTTP server error\n",
            config.host, config.port
        ),
    }
}

/// Returns the exit of `--sim-oom`, which happens after loading.
fn out_of_memory(config: &Config) -> Option<Exit> {
    let log = || refused::crash_log(config.flavour, CrashLog::Oom, &config.model, config.version);
    config.faults.oom.then(|| Exit::failure(1, log()))
}

/// Returns a token that SIGTERM or SIGINT cancels.
fn signals() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    #[expect(
        clippy::disallowed_methods,
        reason = "the simulator is its own process; there is no Supervisor to ask"
    )]
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        told.cancel();
    });
    Ok(stop)
}

fn say_ready(engine: &Engine, listener: &TcpListener) {
    let address = listener.local_addr().as_ref().map_or_else(|_| "unknown".to_owned(), SocketAddr::to_string);
    say(&startup::ready_lines(&engine.config, &address));
}

/// Writes to standard error and ignores a closed one.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
