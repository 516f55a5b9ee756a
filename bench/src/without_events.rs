//! A proxy in front of a container engine that lets no events through.

use std::path::PathBuf;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};

/// Passes everything on to the engine except requests for events, whose connections it closes.
pub(crate) async fn serve(listener: UnixListener, engine: PathBuf) {
    let mut tasks = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let engine = engine.clone();
        tasks.spawn(async move {
            let Ok(server) = UnixStream::connect(engine).await else { return };
            let (from_client, mut to_client) = client.into_split();
            let (mut from_server, to_server) = server.into_split();
            tokio::select! {
                () = pass_requests(from_client, to_server) => {}
                _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
            }
        });
    }
}

/// Passes requests on until one asks for events, or until one side is gone.
async fn pass_requests(mut client: OwnedReadHalf, mut engine: OwnedWriteHalf) {
    let mut buffer = vec![0; 64 * 1024];
    // A request's first line comes in one piece from this client.
    while let Ok(n @ 1..) = client.read(&mut buffer).await {
        let asked = buffer.get(..n).unwrap_or_default();
        let line = asked.split(|it| *it == b'\r').next().unwrap_or_default();
        if memchr::memmem::find(line, b"/events").is_some() || engine.write_all(asked).await.is_err() {
            return;
        }
    }
}
