//! Tests the demonstration for some seconds, with a store in a folder.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use whyslow_testing::{ends_with_test, folder, http_get, wait_for};

/// Returns the path of this package's program.
fn bench_fleet() -> PathBuf {
    // At runtime: a shell that wraps the compiler drops variables with a hyphen in their name.
    std::env::var_os("CARGO_BIN_EXE_bench-fleet").expect("the program").into()
}

#[test]
fn a_fleet_is_shown_and_leaves_nothing_behind() {
    if ["whyslow", "whyslow-fleet"].iter().any(|name| !bench_fleet().with_file_name(name).exists()) {
        println!("skipped: whyslow and whyslow-fleet are not built (1 test skipped)");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "under CI=true they must be");
        return;
    }
    let temporary = folder();
    let mut demo = Command::new(bench_fleet());
    demo.args(["demo", "--listen", "127.0.0.1:0", "--hours", "2", "--every", "2", "--for", "20"]);
    demo.env("TMPDIR", temporary.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut demo = ends_with_test(&mut demo).spawn().unwrap();
    let mut out = BufReader::new(demo.stdout.take().unwrap());
    let mut url = String::new();
    out.read_line(&mut url).unwrap();
    let (address, path) = url.trim().strip_prefix("http://").and_then(|url| url.split_once('/')).expect("an address");
    let token = path.strip_prefix("?token=").expect("a token").to_owned();
    let address = address.parse().unwrap();
    let sick = wait_for("sick hosts", || {
        let answer = http_get(address, "/api/sick?since=3h", &format!("Authorization: Bearer {token}\r\n"))?;
        let document: serde_json::Value = serde_json::from_str(&answer.body).ok()?;
        (document["observed"] == 20).then(|| document["sick"].as_u64())?
    });
    assert_eq!(sick, 7, "every third one");
    assert!(demo.wait().unwrap().success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("are sick since it was rolled out"), "{rest}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
    assert!(std::net::TcpStream::connect::<std::net::SocketAddr>(address).is_err(), "the page has ended too");
}
