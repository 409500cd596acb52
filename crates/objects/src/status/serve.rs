//! A server of the metrics: one path, small requests, bounded connections, in the infrastructure domain.
//!
//! A collector that is slow or stuck holds one of a few places until its time is up; nothing else waits for it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use turnkeep_scheduler::ambient::Infrastructure;
use turnkeep_scheduler::io::infra_handle;

use super::{Status, text};
use crate::error::{Error, ErrorKind};
use crate::node::NodeInner;

/// Connections that are served at once; one more is closed.
const CONNECTIONS_MAX: usize = 16;
/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// How long a request may take to come, and the answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running server of a node's metrics. Dropping it ends the server.
pub struct MetricsServer {
    address: SocketAddr,
    task: AbortHandle,
}

impl MetricsServer {
    /// Where it listens; with port 0 asked for, the port that was given.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for MetricsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetricsServer({})", self.address)
    }
}

/// Begins to serve.
pub(crate) async fn serve(node: &Arc<NodeInner>, address: SocketAddr) -> Result<MetricsServer, Error> {
    let refused = |error: std::io::Error| {
        let text = format!("{error}; give it another address, or port 0 for any free one");
        Error::new(ErrorKind::Unavailable, format!("address {address}"), "serve metrics", &text)
    };
    let bound = infra_handle().spawn(async move {
        let listener = TcpListener::bind(address).await?;
        listener.local_addr().map(|bound| (listener, bound))
    });
    let stopped = |_| refused(std::io::Error::other("the runtime has stopped"));
    let (listener, bound) = bound.await.map_err(stopped)?.map_err(refused)?;
    let node = Arc::downgrade(node);
    let task = infra_handle().spawn(Infrastructure::new(accept(node, listener)));
    Ok(MetricsServer { address: bound, task: task.abort_handle() })
}

async fn accept(node: Weak<NodeInner>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, mostly: they come back when others end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let node = node.clone();
        tokio::spawn(async move {
            let _place = place;
            // A client that goes away or takes too long is its own affair.
            let _ = timeout(2 * PATIENCE, answer(node, stream)).await;
        });
    }
}

async fn answer(node: Weak<NodeInner>, mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    let asked = timeout(PATIENCE, read_head(&mut stream, &mut head)).await;
    let (status, body) = match asked {
        Ok(Ok(true)) => respond(&node, &head),
        Ok(Ok(false)) => ("400 Bad Request", "the request is no HTTP, or too long\n".to_owned()),
        _ => return Ok(()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// Reads until the empty line; `false` if it does not come.
async fn read_head(stream: &mut TcpStream, head: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut part).await?;
        if read == 0 || head.len() + read > HEAD_BYTES_MAX {
            return Ok(false);
        }
        head.extend_from_slice(&part[..read]);
    }
    Ok(true)
}

fn respond(node: &Weak<NodeInner>, head: &[u8]) -> (&'static str, String) {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    match (words.next(), words.next(), node.upgrade()) {
        (Some(b"GET"), Some(b"/metrics" | b"/"), Some(node)) => ("200 OK", text(&Status::of(&node))),
        (Some(b"GET"), Some(b"/metrics" | b"/"), None) => {
            ("503 Service Unavailable", "the node has ended\n".into())
        }
        (Some(b"GET"), Some(_), _) => ("404 Not Found", "the metrics are at /metrics\n".into()),
        (Some(b"HEAD" | b"POST" | b"PUT" | b"DELETE" | b"OPTIONS" | b"PATCH"), ..) => {
            ("405 Method Not Allowed", "only GET is served here\n".into())
        }
        _ => ("400 Bad Request", "the request is no HTTP\n".into()),
    }
}
