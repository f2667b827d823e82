//! `whyslow bench net`.

use super::{chosen, seconds, watched};
use crate::interrupt::Interrupt;
use crate::options::{OutputOptions, duration, one_of, size};
use crate::output::{Failure, print};
use clap::{Args, Subcommand};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use whyslow_bench::Stop;
use whyslow_bench::net::{self, NetOptions, NetPart, PORT, ServerKind, ServerOptions, Token};
use whyslow_documents::bench::{BenchReport, Direction, NetLoad};
use whyslow_show::json;

/// Environment variable with the token; there is no option for it, because command lines are readable by all users.
const TOKEN: &str = "WHYSLOW_TOKEN";

/// Options of `bench net`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct NetArgs {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    measure: MeasureArgs,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// Run the server, for clients that know the token
    Serve(ServeArgs),
    /// Stop a server
    Stop(StopArgs),
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Address to listen on, TCP and UDP; 0.0.0.0 or :: for all interfaces
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// The port
    #[arg(long, default_value_t = PORT)]
    port: u16,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    time: Duration,
    /// File with the token; otherwise WHYSLOW_TOKEN, otherwise one is generated and printed
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct StopArgs {
    /// The server: HOST or HOST:PORT
    host: String,
    /// File with the server's token; otherwise WHYSLOW_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct MeasureArgs {
    /// The server, where `whyslow bench net serve` runs: HOST or HOST:PORT
    #[arg(required = true)]
    host: Option<String>,
    /// File with the server's token; otherwise WHYSLOW_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Measure TCP streams against an iperf3 server (`iperf3 -s`)
    #[arg(long, conflicts_with_all = ["token_file", "only", "rate"])]
    iperf3: bool,
    /// Parts to measure [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = one_of(&PARTS))]
    only: Vec<NetPart>,
    /// Direction of the data [default: both, one after the other]
    #[arg(long, value_name = "up|down", value_parser = one_of(&DIRECTIONS))]
    direction: Option<Direction>,
    /// Duration of each run
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = duration)]
    time: Duration,
    /// Number of parallel streams
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=127))]
    streams: u32,
    /// Bytes per send or receive call
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = block)]
    block: u32,
    /// Socket buffer size, except where it is swept [default: chosen by the kernel]
    #[arg(long, value_name = "SIZE", value_parser = block)]
    buffer: Option<u32>,
    /// Maximum TCP segment size, except where it is swept
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(88..=32767))]
    mss: Option<u32>,
    /// Congestion control algorithm at both ends
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Send datagrams at this rate, such as 100M (bit/s, decimal), instead of searching for the highest rate without loss
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Send from the page cache without copying (sendfile)
    #[arg(long)]
    zerocopy: bool,
    /// Have receivers copy the data, as programs do, instead of discarding it in the kernel
    #[arg(long)]
    copy: bool,
}

const DIRECTIONS: [(&str, Direction); 2] = [("up", Direction::Up), ("down", Direction::Down)];

const PARTS: [(&str, NetPart); 7] = [
    ("mtu", NetPart::Mtu),
    ("latency", NetPart::Latency),
    ("streams", NetPart::Streams),
    ("loaded", NetPart::Loaded),
    ("buffers", NetPart::Buffers),
    ("segments", NetPart::Segments),
    ("udp", NetPart::Udp),
];

/// Measures and returns the report; or serves, or stops a server.
pub(super) fn run(args: &NetArgs, look: &OutputOptions) -> Result<Option<BenchReport>, Failure> {
    match &args.other {
        Some(Other::Serve(args)) => serve(args, look)?,
        Some(Other::Stop(args)) => {
            let token = known(args.token_file.as_ref())?;
            net::stop_server(&args.host, &token).map_err(|e| Failure::usage(e.to_string()))?;
        }
        None => return measure(&args.measure).map(Some),
    }
    Ok(None)
}

fn measure(args: &MeasureArgs) -> Result<BenchReport, Failure> {
    let host = args.host.clone().ok_or_else(|| Failure::usage("specify the host to measure against"))?;
    let parts = if args.iperf3 { vec![NetPart::Streams] } else { chosen(&args.only, &PARTS) };
    let directions = args.direction.map_or_else(|| vec![Direction::Up, Direction::Down], |direction| vec![direction]);
    let like = NetLoad {
        block: args.block,
        buffer: args.buffer,
        segment: args.mss,
        congestion: args.congestion.clone(),
        rate: args.rate,
        send_file: args.zerocopy,
        discard: !args.copy,
        ..NetLoad::stream(Direction::Up, seconds(args.time)?)
    };
    let server = if args.iperf3 { ServerKind::Iperf3 } else { ServerKind::Whyslow(known(args.token_file.as_ref())?) };
    let asked = NetOptions { host, server, parts, directions, streams: args.streams, like };
    watched(|stop, watch| net::measure(&asked, stop, watch))
}

fn serve(args: &ServeArgs, look: &OutputOptions) -> Result<(), Failure> {
    let given = given(args.token_file.as_ref())?;
    let made = given.is_none();
    let token = given.map_or_else(Token::random, Ok).map_err(|e| Failure::usage(e.to_string()))?;
    let listen = SocketAddr::new(args.listen, args.port);
    let asked = ServerOptions { listen, token: token.clone(), seconds: seconds(args.time)? };
    let interrupt = Interrupt::listen_as_service()?;
    let stop = Stop::from(interrupt.flag());
    let mut printed = Ok(());
    let ready = |at: SocketAddr| printed = print(invitation(at, &asked, made.then_some(&token), look));
    net::serve(&asked, &stop, ready).map_err(|e| Failure::usage(e.to_string()))?;
    printed
}

/// Describes the address and how to reach it; prints the token only if it was generated.
fn invitation(at: SocketAddr, asked: &ServerOptions, made: Option<&Token>, look: &OutputOptions) -> String {
    if look.display.json {
        return json::pretty(&Listening { address: at, seconds: asked.seconds, token: made.map(Token::reveal) });
    }
    let time = whyslow_model::human::quantity(asked.seconds, "s");
    let host = if at.ip().is_unspecified() { "THIS-HOST".to_owned() } else { at.ip().to_string() };
    let host = match (at.port(), at.is_ipv6()) {
        (PORT, _) => host,
        (port, true) => format!("[{host}]:{port}"),
        (port, false) => format!("{host}:{port}"),
    };
    let token = made.map_or_else(String::new, |token| format!("{TOKEN}={} ", token.reveal()));
    let only = if at.ip().is_loopback() { " (this machine only: see --listen)" } else { "" };
    format!("Listening on {at}, TCP and UDP{only}, for {time}. To measure:\n  {token}whyslow bench net {host}\n")
}

#[derive(serde::Serialize)]
struct Listening<'a> {
    address: SocketAddr,
    seconds: f64,
    token: Option<&'a str>,
}

fn known(file: Option<&PathBuf>) -> Result<Token, Failure> {
    given(file)?.ok_or_else(|| {
        Failure::usage(format!("no token: set {TOKEN}, or name a file with --token-file; the server printed it"))
    })
}

/// Reads the token from the file or the environment.
fn given(file: Option<&PathBuf>) -> Result<Option<Token>, Failure> {
    let text = match file {
        Some(path) => {
            let read = std::fs::read_to_string(path);
            Some(read.map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?)
        }
        None => std::env::var(TOKEN).ok(),
    };
    text.map(|text| Token::new(&text).map_err(|e| Failure::usage(e.to_string()))).transpose()
}

fn block(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).ok().filter(|&size| size <= 1 << 30).ok_or_else(|| "at most 1G".into())
}

/// Parses a rate such as `64000`, `100M` or `2.5G` in decimal bit/s; returns bytes per second.
fn rate(text: &str) -> Result<f64, String> {
    let wrong = || "not a rate such as 64k, 100M or 2.5G (bits a second)".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * factor / 8.0;
    if (1.0..=1e13).contains(&bytes) { Ok(bytes) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_bits() {
        assert_eq!(rate("8000"), Ok(1000.0));
        assert_eq!(rate("100M"), Ok(12.5e6));
        assert_eq!(rate("2.5g"), Ok(312.5e6));
        for wrong in ["", "0", "M", "-1", "1X", "1 M", "9999999G"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
