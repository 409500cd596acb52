//! The metrics as text, over HTTP, and what a bad client can do to it: nothing.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use turnkeep::prelude::*;

use crate::stream::{Block, Ping, Room, node};
use crate::support::{Signal, within};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

async fn request(address: SocketAddr, request: &[u8]) -> String {
    within(async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        // A server that closes on a bad client may reset the connection.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    })
    .await
}

async fn scrape(address: SocketAddr) -> String {
    request(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await
}

#[tokio::test]
async fn stat_2_a_metrics_carry_no_ids_and_are_well_formed() {
    let node = node(2).await;
    for id in ["plain", "with \"quotes\"", "a\nline", "{label=\"x\"}"] {
        let room = node.spot::<Room>(id).create().await.unwrap();
        room.ask(Ping).await.unwrap();
    }
    node.quiesce().await.unwrap();
    let text = node.metrics_text();
    for id in ["plain", "quotes", "a\nline", "label"] {
        assert!(!text.contains(id), "{id} in {text}");
    }
    let mut kinds = std::collections::HashMap::new();
    for line in text.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let family = name.split('{').next().unwrap();
            assert!(kinds.contains_key(family), "{line}");
            assert_eq!(family.ends_with("_total"), kinds[family] == "counter", "{line}");
            value.parse::<u64>().unwrap();
        }
    }
    assert!(text.contains("turnkeep_objects{kind=\"spot\"} 5\n"), "{text}");
    assert!(text.contains("turnkeep_node_state{state=\"open\"} 1\n"), "{text}");
    assert!(!node.shutdown().await.unwrap().forced);
}

#[tokio::test]
async fn stat_1_e_the_endpoint_answers_while_every_worker_is_blocked_and_refuses_what_is_no_request() {
    let node = node(1).await;
    let server = node.serve_metrics(ANY).await.unwrap();
    let room = node.spot::<Room>("r").create().await.unwrap();
    let (blocked, go) = (Signal::new(), Signal::new());
    room.send(Block(blocked.clone(), go.clone())).await.unwrap();
    within(blocked.wait()).await;
    let answer = scrape(server.address()).await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("turnkeep_records_under_way 1\n"),
        "{answer}"
    );
    go.set();
    let long = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 20_000]].concat();
    for (bad, status) in [
        (b"GET /nowhere HTTP/1.1\r\n\r\n".as_slice(), "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"\x16\x03\x01\r\n\r\n", "400"),
        (&long, "400"),
    ] {
        let answer = request(server.address(), bad).await;
        assert!(answer.is_empty() || answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert_eq!(node.serve_metrics(server.address()).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(!within(node.shutdown()).await.unwrap().forced);
    assert!(scrape(server.address()).await.contains("state=\"stopped\"} 1"));
    let address = server.address();
    drop(server);
    within(async { while TcpStream::connect(address).await.is_ok() {} }).await;
}

/// Clients that connect and say nothing take the places, for a while; turns do not notice, and neither does the end.
#[tokio::test]
async fn stat_1_f_stuck_collectors_delay_nothing() {
    let node = node(2).await;
    let server = node.serve_metrics(ANY).await.unwrap();
    let mut stuck = Vec::new();
    for _ in 0..40 {
        stuck.push(TcpStream::connect(server.address()).await.unwrap());
    }
    let room = node.spot::<Room>("r").create().await.unwrap();
    for _ in 0..1000 {
        within(room.ask(Ping)).await.unwrap();
    }
    assert!(!within(node.shutdown()).await.unwrap().forced);
    drop(stuck);
}
