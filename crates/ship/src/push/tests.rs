use super::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

/// A request as received.
struct Seen {
    head: String,
    body: Vec<u8>,
}

/// Answers each request with the next of these, and repeats the last one from then on.
fn receiver(answers: &'static [&'static str]) -> (SocketAddr, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (to_test, seen) = channel();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).unwrap() == 0 {
                    break;
                }
            }
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            let answer = answers[n.min(answers.len() - 1)];
            stream.write_all(format!("HTTP/1.1 {answer}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
            if to_test.send(Seen { head, body }).is_err() {
                return;
            }
        }
    });
    (address, seen)
}

fn pusher(address: SocketAddr, credentials: Option<Credentials>) -> (Pusher, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let log = said.clone();
    let endpoint =
        Endpoint::new(&format!("http://{address}/api"), &[("X-Test", "yes")], credentials, |_| None).unwrap();
    let log: LogFn = Arc::new(move |what: &str| log.lock().unwrap().push(what.to_owned()));
    (Pusher::start("remote write", endpoint, log).unwrap(), said)
}

fn next(seen: &Receiver<Seen>) -> Seen {
    seen.recv_timeout(Duration::from_secs(30)).expect("a request")
}

fn wait_for(pusher: &Pusher, condition: impl Fn(PushCounts) -> bool) -> PushCounts {
    let began = Instant::now();
    loop {
        let counts = pusher.counts();
        if condition(counts) {
            return counts;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{counts:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn batches_arrive_in_order_with_headers_and_credentials() {
    let (address, seen) = receiver(&["204 No Content"]);
    let (pusher, said) = pusher(address, Some(Credentials::Value("Bearer secret".into())));
    pusher.push("/v1/metrics", b"first".to_vec());
    pusher.push("/v1/logs", b"second".to_vec());
    let (first, second) = (next(&seen), next(&seen));
    assert!(first.head.starts_with("POST /api/v1/metrics HTTP/1.1\r\n"), "{}", first.head);
    let head = first.head.to_lowercase();
    assert!(head.contains("x-test: yes\r\n") && head.contains("authorization: bearer secret\r\n"), "{head}");
    assert_eq!((first.body, second.body), (b"first".to_vec(), b"second".to_vec()));
    let counts = wait_for(&pusher, |counts| counts.sent == 2);
    assert_eq!((counts.failures, counts.dropped, counts.waiting), (0, 0, 0));
    assert!(said.lock().unwrap().is_empty());
}

#[test]
fn a_failure_is_said_once_and_the_batch_is_sent_again() {
    let (address, seen) =
        receiver(&["503 Service Unavailable\r\nRetry-After: 0", "500 Error\r\nRetry-After: 0", "200 OK"]);
    let (pusher, said) = pusher(address, None);
    pusher.push("", b"first".to_vec());
    let bodies: Vec<Vec<u8>> = (0..3).map(|_| next(&seen).body).collect();
    assert_eq!(bodies, vec![b"first".to_vec(); 3]);
    let counts = wait_for(&pusher, |counts| counts.sent == 1);
    assert_eq!((counts.failures, counts.dropped), (2, 0));
    drop(pusher);
    let said = said.lock().unwrap();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with(&format!("remote write to http://{address}/api fails: status 503")), "{said:?}");
    assert!(said[1].contains("works again after 2 failures"), "{said:?}");
}

#[test]
fn what_is_refused_is_not_sent_again() {
    let (address, seen) = receiver(&["400 Bad Request", "200 OK"]);
    let (pusher, _) = pusher(address, None);
    pusher.push("", b"wrong".to_vec());
    pusher.push("", b"right".to_vec());
    assert_eq!((next(&seen).body, next(&seen).body), (b"wrong".to_vec(), b"right".to_vec()));
    let counts = wait_for(&pusher, |counts| counts.sent == 1);
    assert_eq!((counts.failures, counts.dropped), (1, 1));
}

#[test]
fn a_redirection_is_not_followed() {
    let (elsewhere, seen_elsewhere) = receiver(&["200 OK"]);
    let target: &'static str = format!("307 Temporary Redirect\r\nLocation: http://{elsewhere}/").leak();
    let (address, seen) = receiver(vec![target].leak());
    let (pusher, _) = pusher(address, Some(Credentials::Value("Bearer secret".into())));
    pusher.push("", b"first".to_vec());
    next(&seen);
    wait_for(&pusher, |counts| counts.dropped + counts.failures > 0);
    assert!(seen_elsewhere.try_recv().is_err());
}

#[test]
fn the_queue_has_bounds_and_the_oldest_are_given_up() {
    // The port was free a moment ago: nothing listens there.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (pusher, _) = pusher(address, None);
    for _ in 0..MOST_WAITING + 50 {
        pusher.push("", vec![0; 10]);
    }
    let counts = wait_for(&pusher, |counts| counts.failures > 0 && counts.dropped + counts.waiting >= 290);
    assert!(counts.waiting <= MOST_WAITING as u64 && counts.dropped >= 50, "{counts:?}");
    pusher.push("", vec![0; MOST_BYTES + 1]);
    assert!(pusher.counts().waiting <= 1);
    // Exit does not wait for an unreachable receiver.
    let began = Instant::now();
    drop(pusher);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn credentials_are_read_anew_for_each_request() {
    let folder = whyslow_testing::folder();
    let file = folder.path().join("authorization");
    std::fs::write(&file, "Bearer one\n").unwrap();
    let (address, seen) = receiver(&["200 OK"]);
    let (pusher, _) = pusher(address, Some(Credentials::File(file.clone())));
    pusher.push("", b"a".to_vec());
    assert!(next(&seen).head.contains("Bearer one\r\n"));
    wait_for(&pusher, |counts| counts.sent == 1);
    std::fs::write(&file, "Bearer two\n").unwrap();
    pusher.push("", b"b".to_vec());
    assert!(next(&seen).head.contains("Bearer two\r\n"));
}

#[test]
fn pauses_grow_to_a_minute() {
    for (failures, longest) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (50, 60)] {
        let pause = pause(failures).as_secs_f64();
        let longest = f64::from(longest);
        assert!((longest / 2.0..=longest).contains(&pause), "{failures}: {pause}");
    }
}
