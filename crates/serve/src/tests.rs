use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

fn server(access: AccessRules) -> Server {
    let pages: PageFn = Box::new(|path| {
        (path == "/metrics").then(|| Page { content_type: "text/plain; version=0.0.4", body: b"up 1\n".to_vec() })
    });
    Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), access, pages).unwrap()
}

fn ask(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A refusal can reset the connection after its answer.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(server: &Server, path: &str, headers: &str) -> String {
    ask(server, &format!("GET {path} HTTP/1.1\r\n{headers}\r\n"))
}

#[test]
fn pages_are_served_and_nothing_else() {
    let server = server(AccessRules::default());
    let answer = get(&server, "/metrics", "Host: localhost\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nup 1\n"), "{answer}");
    assert!(get(&server, "/etc/passwd", "Host: localhost\r\n").starts_with("HTTP/1.1 404 "));
    let head = ask(&server, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let post = ask(&server, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("allow: GET, HEAD\r\n"), "{post}");
}

#[test]
fn a_foreign_host_is_refused() {
    let server = server(AccessRules::default());
    for headers in ["Host: evil.example\r\n", "", "Host: localhost\r\nHost: localhost\r\n", "Host: evil.example:80\r\n"]
    {
        let answer = get(&server, "/metrics", headers);
        assert!(answer.starts_with("HTTP/1.1 403 ") || answer.starts_with("HTTP/1.1 400 "), "{headers}: {answer}");
        assert!(!answer.contains("up 1"), "{answer}");
    }
}

#[test]
fn a_token_is_asked_for() {
    let server = server(AccessRules { token: Some("secret".into()), ..AccessRules::default() });
    for headers in
        ["", "Authorization: Bearer wrong\r\n", "Authorization: Basic secret\r\n", "Authorization: Bearer secret2\r\n"]
    {
        let answer = get(&server, "/metrics", &format!("Host: localhost\r\n{headers}"));
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("www-authenticate: Bearer"), "{answer}");
    }
    let answer = get(&server, "/metrics", "Host: localhost\r\nAuthorization: Bearer secret\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[test]
fn headers_without_end_and_slow_clients_are_cut_off() {
    let server = server(AccessRules::default());
    let long = get(&server, "/metrics", &format!("Host: localhost\r\nX: {}\r\n", "x".repeat(MOST_BYTES)));
    assert!(!long.contains("up 1"), "{long}");
    let began = Instant::now();
    let slow = ask(&server, "GET /metrics HTTP/1.1\r\nHost: local");
    assert!(!slow.contains("up 1"), "{slow}");
    assert!(began.elapsed() < LONGEST_CONNECTION, "{:?}", began.elapsed());
}

#[test]
fn idle_connections_do_not_keep_others_out_for_long() {
    let server = server(AccessRules::default());
    let idle: Vec<TcpStream> = (0..MOST_CONNECTIONS).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    assert!(get(&server, "/metrics", "Host: localhost\r\n").ends_with("up 1\n"));
    drop(idle);
}

#[test]
fn the_port_is_free_once_it_has_ended() {
    let server = server(AccessRules::default());
    let address = server.address();
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}
