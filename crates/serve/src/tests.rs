use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

fn server(access: AccessRules) -> PageServer {
    let pages: PageFn = Box::new(|asked| {
        let text = |text: &str| Page::new("text/plain; version=0.0.4", text.into());
        match asked.path.as_str() {
            "/metrics" => Some(text("up 1\n")),
            "/slow" => {
                std::thread::sleep(Duration::from_secs(2));
                Some(text("slow\n"))
            }
            "/broken" => panic!("on purpose"),
            "/page" => Some(Page {
                status: PageStatus::BadRequest,
                policy: Some("default-src 'self'".into()),
                ..text(asked.parameter("name").unwrap_or("nameless"))
            }),
            "/nothing" => Some(Page { status: PageStatus::NoContent, ..Page::default() }),
            _ => None,
        }
    });
    PageServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), access, pages).unwrap()
}

fn ask(server: &PageServer, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A refused connection can be reset after its answer.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(server: &PageServer, path: &str, headers: &str) -> String {
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
fn a_token_in_the_address_does_only_where_it_is_said_to() {
    let token = Some("secret".to_owned());
    let strict = server(AccessRules { token: token.clone(), ..AccessRules::default() });
    assert!(get(&strict, "/metrics?token=secret", "Host: localhost\r\n").starts_with("HTTP/1.1 401 "));
    let lenient = server(AccessRules { token, takes_token_from_address: true, ..AccessRules::default() });
    let answer = get(&lenient, "/metrics?token=secret", "Host: localhost\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let answer = get(&lenient, "/metrics", "Host: localhost\r\nAuthorization: Bearer secret\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for (path, headers) in [
        ("/metrics", ""),
        ("/metrics?token=wrong", ""),
        ("/metrics?Token=secret", ""),
        ("/metrics?token=secret&token=secret", ""),
        ("/secret", ""),
        ("/metrics", "Cookie: token=secret\r\n"),
        ("/metrics", "X-Token: secret\r\n"),
    ] {
        let answer = get(&lenient, path, &format!("Host: localhost\r\n{headers}"));
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("the server printed"), "{path}: {answer}");
    }
}

#[test]
fn pages_of_other_origins_are_not_answered() {
    let server = server(AccessRules::default());
    let own = format!("Host: {0}\r\nOrigin: http://{0}\r\n", server.address());
    assert!(get(&server, "/metrics", &own).starts_with("HTTP/1.1 200 OK\r\n"));
    for origin in ["null", "http://evil.example", "http://localhost", "https://localhost:1"] {
        let answer = get(&server, "/metrics", &format!("Host: localhost:1\r\nOrigin: {origin}\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains("up 1"), "{origin}: {answer}");
    }
}

#[test]
fn a_page_has_its_status_and_policy_and_parameters() {
    let server = server(AccessRules::default());
    let answer = get(&server, "/page?name=a%20b", "Host: localhost\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    for header in [
        "content-security-policy: default-src 'self'\r\n",
        "x-frame-options: DENY\r\n",
        "referrer-policy: no-referrer\r\n",
        "x-content-type-options: nosniff\r\n",
    ] {
        assert!(answer.contains(header), "{header}: {answer}");
    }
    assert!(answer.ends_with("\r\n\r\na b"), "{answer}");
    assert!(get(&server, "/nothing", "Host: localhost\r\n").starts_with("HTTP/1.1 204 "));
    let plain = get(&server, "/metrics", "Host: localhost\r\n");
    assert!(plain.contains("content-security-policy: default-src 'none'\r\n"), "{plain}");
}

#[test]
fn an_answer_that_takes_long_delays_no_other_and_one_that_panics_is_an_error() {
    let server = server(AccessRules::default());
    let began = Instant::now();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| get(&server, "/slow", "Host: localhost\r\n"));
        let broken = get(&server, "/broken", "Host: localhost\r\n");
        assert!(broken.starts_with("HTTP/1.1 500 "), "{broken}");
        assert!(get(&server, "/metrics", "Host: localhost\r\n").ends_with("up 1\n"));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert!(slow.join().unwrap().ends_with("slow\n"));
    });
}

#[test]
fn headers_without_end_and_slow_clients_are_cut_off() {
    let server = server(AccessRules::default());
    let long = get(&server, "/metrics", &format!("Host: localhost\r\nX: {}\r\n", "x".repeat(MOST_BYTES)));
    assert!(!long.contains("up 1"), "{long}");
    let began = Instant::now();
    let slow = ask(&server, "GET /metrics HTTP/1.1\r\nHost: local");
    assert!(!slow.contains("up 1"), "{slow}");
    assert!(began.elapsed() < TRANSFER_WITHIN, "{:?}", began.elapsed());
}

#[test]
fn idle_connections_do_not_keep_others_out_for_long() {
    let server = server(AccessRules::default());
    let idle: Vec<TcpStream> =
        (0..MOST_CONNECTIONS + 50).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    for _ in 0..20 {
        assert!(get(&server, "/metrics", "Host: localhost\r\n").ends_with("up 1\n"));
    }
    // The server did not wait for their timeouts: most of them are still connected.
    let is_connected = |stream: &&TcpStream| {
        stream.set_nonblocking(true).unwrap();
        (&**stream).read(&mut [0]).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    };
    let connected = idle.iter().filter(is_connected).count();
    assert!(connected > MOST_CONNECTIONS / 2, "{connected} are still connected");
    assert!(!is_connected(&&idle[0]), "the oldest had to leave");
}

#[test]
fn strangers_who_come_back_do_not_keep_others_out() {
    let server = server(AccessRules::default());
    let address = server.address();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..6 {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut open: Vec<TcpStream> = Vec::new();
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect(address) else { continue };
                    if number % 2 == 0 {
                        let _ = stream.write_all(b"garbage\r\n\r\n");
                    }
                    open.push(stream);
                    if open.len() > 50 {
                        open.clear();
                    }
                }
            });
        }
        let began = Instant::now();
        for _ in 0..20 {
            assert!(get(&server, "/metrics", "Host: localhost\r\n").ends_with("up 1\n"));
        }
        println!("20 answers took {:?}", began.elapsed());
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn the_port_is_free_once_it_has_ended() {
    let server = server(AccessRules::default());
    let address = server.address();
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn it_ends_at_once_even_if_an_answer_is_still_being_computed() {
    let server = server(AccessRules::default());
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    drop(server);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}
