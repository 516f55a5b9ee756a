//! A small HTTP/1.1 client: one connection, and the requests that are sent on it one after the other.
//!
//! There is no task behind a connection. The future that waits for an answer drives it, so dropping it, for example
//! because its time is over, stops everything at once.

use std::{io, pin::Pin};

use bytes::Bytes;
use http::{Request, Response, response::Parts};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1::{Connection, SendRequest, handshake},
};
use hyper_util::rt::TokioIo;

use crate::{ConnectError, Connector, HttpUrl, Stream};

/// Why a request got no complete answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("the connection was closed without an answer")]
    NoAnswer,
    #[error("the answer broke off")]
    BrokenOff,
    #[error("the answer is larger than allowed")]
    TooLarge,
}

type Io = Connection<TokioIo<Stream>, Full<Bytes>>;

/// A connection that sends requests one after the other. Dropping it closes it.
pub struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once the server has closed it.
    io: Option<Pin<Box<Io>>>,
}

impl Connector {
    /// Connects to an HTTP server.
    ///
    /// # Errors
    /// It can't be reached, or its certificate is not good for this name.
    pub async fn http(&self, url: &HttpUrl) -> Result<HttpConnection, ConnectError> {
        let stream = self.connect(url.is_tls(), url.host(), url.port()).await?;
        HttpConnection::over(stream).await.map_err(ConnectError::Io)
    }
}

impl HttpConnection {
    /// Speaks HTTP over a connection that is open.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn over(stream: TokioIo<Stream>) -> io::Result<Self> {
        let reset = |_| io::Error::from(io::ErrorKind::ConnectionReset);
        let (sender, io) = handshake(stream).await.map_err(reset)?;
        Ok(Self { sender, io: Some(Box::pin(io)) })
    }

    /// Whether the server keeps it open for one more request.
    pub fn is_open(&self) -> bool {
        self.io.is_some() && !self.sender.is_closed()
    }

    /// Sends a request, whose URI is a path and whose `Host` header is set, and waits for the head of its answer. There
    /// is no time limit.
    ///
    /// # Errors
    /// [`HttpError::NoAnswer`]
    pub async fn send(&mut self, request: Request<Bytes>) -> Result<Answer<'_>, HttpError> {
        let sender = &mut self.sender;
        let request = request.map(Full::new);
        let sent = async {
            sender.ready().await?;
            sender.send_request(request).await
        };
        let response = drive(&mut self.io, sent).await.map_err(|_| HttpError::NoAnswer)?;
        let (head, body) = response.into_parts();
        Ok(Answer { head, body, io: &mut self.io })
    }
}

/// Does `work` while it drives the connection.
async fn drive<T>(io: &mut Option<Pin<Box<Io>>>, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    if let Some(driver) = io {
        tokio::select! {
            done = &mut work => return done,
            _ = driver => *io = None,
        }
    }
    work.await
}

/// An answer whose body is still to be read. The connection can send the next request after that.
pub struct Answer<'a> {
    pub head: Parts,
    body: Incoming,
    io: &'a mut Option<Pin<Box<Io>>>,
}

impl Answer<'_> {
    /// Returns the next part of the body; `None` at its end.
    ///
    /// # Errors
    /// [`HttpError::BrokenOff`]
    pub async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        while let Some(frame) = drive(self.io, self.body.frame()).await {
            // Frames that hold no data are trailers.
            if let Ok(data) = frame.map_err(|_| HttpError::BrokenOff)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Reads the whole body, at most `limit` bytes.
    ///
    /// # Errors
    /// [`HttpError::BrokenOff`], [`HttpError::TooLarge`]
    pub async fn read(self, limit: usize) -> Result<Response<Bytes>, HttpError> {
        let Self { head, body, io } = self;
        let body = drive(io, Limited::new(body, limit).collect()).await.map_err(|error| {
            if error.is::<LengthLimitError>() { HttpError::TooLarge } else { HttpError::BrokenOff }
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// A server that gives each of `answers` for one request, on one connection, and then closes it.
    async fn server(answers: &'static [&'static str]) -> (HttpUrl, impl Future<Output = String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serve = async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            for answer in answers {
                let mut part = [0; 1024];
                let n = stream.read(&mut part).await.unwrap();
                asked.extend_from_slice(&part[..n]);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            String::from_utf8(asked).unwrap()
        };
        (HttpUrl::parse(&url).unwrap(), serve)
    }

    fn get(url: &HttpUrl, path: &str) -> Request<Bytes> {
        let request = Request::get(format!("{}{path}", url.base()));
        request.header(http::header::HOST, url.authority()).body(Bytes::new()).unwrap()
    }

    #[tokio::test]
    async fn one_connection_serves_several_requests_until_the_server_closes_it() {
        let (url, serve) = server(&[
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\nconnection: close\r\n\r\ntwo",
        ])
        .await;
        let ask = async {
            let mut connection = Connector::default().http(&url).await.unwrap();
            let one = connection.send(get(&url, "/a")).await.unwrap().read(3).await.unwrap();
            assert_eq!((one.status().as_u16(), &one.body()[..]), (200, &b"one"[..]));
            assert!(connection.is_open());
            let mut two = connection.send(get(&url, "/b")).await.unwrap();
            assert_eq!(two.head.status, 404);
            let mut body = Vec::new();
            while let Some(part) = two.next().await.unwrap() {
                body.extend_from_slice(&part);
            }
            assert_eq!(body, b"two");
            assert!(
                connection.send(get(&url, "/c")).await.is_err_and(|it| matches!(it, HttpError::NoAnswer))
            );
            assert!(!connection.is_open());
        };
        let (asked, ()) = tokio::join!(serve, ask);
        assert!(asked.contains("GET /a ") && asked.contains("GET /b ") && asked.contains(url.authority()));
    }

    #[tokio::test]
    async fn an_answer_that_is_too_large_or_breaks_off_is_none() {
        let long = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ntoo large";
        let broken = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nbroken";
        for (answers, large) in [(&[long][..], true), (&[broken], false)] {
            let answers: &'static [&'static str] = answers.to_vec().leak();
            let (url, serve) = server(answers).await;
            let ask = async {
                let mut connection = Connector::default().http(&url).await.unwrap();
                let read = connection.send(get(&url, "/")).await.unwrap().read(8).await.unwrap_err();
                assert_eq!(matches!(read, HttpError::TooLarge), large, "{read}");
                assert_eq!(matches!(read, HttpError::BrokenOff), !large, "{read}");
            };
            tokio::join!(serve, ask);
        }
    }
}
