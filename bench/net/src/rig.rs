//! Two network namespaces, with both servers in one.

use std::time::Duration;
use whyslow_pairs::child::{Running, clean_up, output};
use whyslow_pairs::failure::Result;
use whyslow_pairs::stop;

const NEAR: &str = "wsl-net-bench-near";
const FAR: &str = "wsl-net-bench-far";
const PATIENCE: Duration = Duration::from_secs(30);
/// Token of the servers, which exist only during the measurement.
const TOKEN: &str = "WHYSLOW_TOKEN=a token of the benchmarks";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Loopback,
    Veth,
}

/// Two namespaces with their servers; removed when dropped.
pub struct Rig {
    whyslow: String,
    _servers: [Running; 2],
    _namespaces: [Namespace; 2],
}

struct Namespace(&'static str);

impl Rig {
    pub fn new(whyslow: String) -> Result<Self> {
        let namespaces = [Namespace::new(NEAR)?, Namespace::new(FAR)?];
        ip(&["-n", NEAR, "link", "add", "wire0", "type", "veth", "peer", "name", "wire0", "netns", FAR])?;
        for (namespace, address) in [(NEAR, "10.219.8.1/24"), (FAR, "10.219.8.2/24")] {
            ip(&["-n", namespace, "address", "add", address, "dev", "wire0"])?;
            ip(&["-n", namespace, "link", "set", "lo", "up"])?;
            ip(&["-n", namespace, "link", "set", "wire0", "up"])?;
        }
        let serve = ["env", TOKEN, &whyslow, "bench", "net", "serve", "--listen", "0.0.0.0", "--for", "2h"];
        let servers = [start_in(FAR, &serve)?, start_in(FAR, &["iperf3", "-s"])?];
        stop::pause(Duration::from_secs(1))?;
        Ok(Self { whyslow, _servers: servers, _namespaces: namespaces })
    }

    pub fn whyslow(&self, wire: Wire, args: &[&str]) -> Result<String> {
        let (namespace, host) = wire.ends();
        let command =
            [&["netns", "exec", namespace, "env", TOKEN, &self.whyslow, "bench", "net", host, "--json"], args];
        output("ip", &command.concat(), PATIENCE)
    }

    pub fn iperf3(&self, wire: Wire, args: &[&str]) -> Result<String> {
        let (namespace, host) = wire.ends();
        output("ip", &[&["netns", "exec", namespace, "iperf3", "-c", host, "-J"], args].concat(), PATIENCE)
    }
}

impl Wire {
    /// Returns the client's namespace and the server's address.
    fn ends(self) -> (&'static str, &'static str) {
        match self {
            Self::Loopback => (FAR, "127.0.0.1"),
            Self::Veth => (NEAR, "10.219.8.2"),
        }
    }
}

impl Namespace {
    fn new(name: &'static str) -> Result<Self> {
        ip(&["netns", "add", name])?;
        Ok(Self(name))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        clean_up("ip", &["netns", "del", self.0]);
    }
}

fn ip(args: &[&str]) -> Result<()> {
    output("ip", args, PATIENCE).map(drop)
}

fn start_in(namespace: &str, command: &[&str]) -> Result<Running> {
    Running::start("ip", &[&["netns", "exec", namespace], command].concat())
}
