//! A way to a server for a client that sends a large body. A server may answer and close its connection before it has read all
//! of a body that it refuses; hyper then often sees that it can't send the rest before it has read the answer, and loses it.
//! Here the client can always send to the end, and the answer comes.

use std::future::pending;

use reqwest::{
    Request,
    header::{CONNECTION, HOST, HeaderValue},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Size of a body that may not fit into the kernel's buffers, in bytes.
const LARGE: usize = 64 << 10;

/// Leads a request with a large body over a connection that takes all of it. Other requests stay as they are.
pub(crate) async fn lead(request: &mut Request) {
    let size = request.body().and_then(reqwest::Body::as_bytes).map_or(0, <[u8]>::len);
    let url = request.url();
    let Some(port) = url.port().filter(|_| url.scheme() == "http" && url.host_str() == Some("127.0.0.1"))
    else {
        return;
    };
    if size < LARGE {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    request.url_mut().set_port(Some(listener.local_addr().unwrap().port())).unwrap();
    let headers = request.headers_mut();
    headers.entry(HOST).or_insert(HeaderValue::try_from(format!("127.0.0.1:{port}")).unwrap());
    // Nothing else is sent on this connection.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        // Without a server the client is told by the end of its connection.
        if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
            pass(client, server).await;
        }
    });
}

/// Passes bytes on until the client closes its connection.
async fn pass(client: TcpStream, server: TcpStream) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let request = async {
        let (mut buffer, mut wanted) = (vec![0; LARGE], true);
        while let Ok(n @ 1..) = from_client.read(&mut buffer).await {
            wanted = wanted && to_server.write_all(&buffer[..n]).await.is_ok();
        }
    };
    let answer = async {
        let mut buffer = vec![0; LARGE];
        while let Ok(n @ 1..) = from_server.read(&mut buffer).await {
            if to_client.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
        let _ = to_client.shutdown().await;
        pending::<()>().await;
    };
    tokio::select! {
        () = request => {}
        () = answer => {}
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Method;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use crate::Client;

    #[tokio::test]
    async fn an_answer_that_comes_before_all_of_the_body_was_sent_is_read() {
        const ROUNDS: usize = 20;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::of_engine(&format!("http://{}", listener.local_addr().unwrap()));
        let refuse = async {
            for _ in 0..ROUNDS {
                let (mut stream, _) = listener.accept().await.unwrap();
                assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
                let answer =
                    b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: 5\r\nconnection: close\r\n\r\nlarge";
                stream.write_all(answer).await.unwrap();
            }
        };
        let send = async {
            for _ in 0..ROUNDS {
                let answer = client.send(client.request(Method::POST, "/").body(vec![0_u8; 16 << 20])).await;
                assert_eq!((answer.status, answer.text.as_str()), (413, "large"));
            }
        };
        tokio::join!(refuse, send);
    }
}
