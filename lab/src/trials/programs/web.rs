//! Trials with nginx, and services in JavaScript, Java and Python.

use crate::cgroup::{Cgroup, Controller};
use crate::error::{Context, Result};
use crate::expect::EntityPattern::{self, Process};
use crate::expect::Expect;
use crate::load_process::LoadCommand;
use crate::program::{ProgramCommand, home};
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::fs;
use std::path::Path;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "nginx-quota",
        what: "clients ask nginx for more than the quota of its cgroup lets it answer",
        finding: Some("cpu.throttled"),
        never: &["cpu.saturated", "cpu.single_thread", "net.loss"],
        setup: |bed| {
            let group = Cgroup::new(bed, "web", &[Controller::Cpu])?;
            group.set_cpu_quota(100_000 * bed.range(10..=25) / 100, 100_000)?;
            let (home, port) = (home(bed)?, bed.port());
            let nginx = nginx(&home, port)?.in_cgroup(&group)?.serve(bed, port)?;
            ask_without_end(bed, &home, port, 8)?;
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone()]).culprit([Process(nginx), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "nginx-files",
        what: "nginx has as many files open as it may, so that it can accept no more connections",
        finding: Some("limit.open_files"),
        never: &["net.loss", "cpu.saturated", "limit.processes"],
        setup: |bed| {
            let (home, port, limit) = (home(bed)?, bed.port(), bed.range(24..=64));
            configure_nginx(&home, port)?;
            let limited =
                ProgramCommand::new(&home, "prlimit", "util-linux")?.args([format!("--nofile={limit}:{limit}")]);
            let nginx = limited.args(["nginx"]).args(NGINX_ARGS).serve(bed, port)?;
            ask_without_end(bed, &home, port, limit * 2)?;
            Ok(Expect::subject([Process(nginx)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "node-busy",
        what: "the one thread of a Node.js service encodes and decodes JSON all the time",
        finding: Some("cpu.single_thread"),
        never: &["cpu.saturated", "cpu.system_time", "lock.contention"],
        setup: |bed| {
            let work = "const rows = Array.from({length: 5000}, (_, i) => ({i, text: 'x'.repeat(40)}));\n\
                        console.log('ready');\n\
                        for (;;) JSON.parse(JSON.stringify(rows));\n";
            let node = node(bed, work)?;
            Ok(Expect::subject([Process(node)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "java-heap",
        what: "the heap of a Java service is nearly full, so that its one collecting thread collects all the time",
        finding: Some("cpu.single_thread"),
        never: &["cpu.saturated", "mem.leak", "lock.contention"],
        setup: |bed| {
            let megabytes = bed.range(40..=45);
            let java = java(bed, &["-XX:+UseSerialGC", "-Xmx64m", "-Xms64m"], megabytes, 0)?;
            Ok(Expect::subject([Process(java)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "python-gil",
        what: "one thread of a Python service computes, and the others can hardly run beside it",
        finding: Some("cpu.single_thread"),
        never: &["cpu.saturated", "cpu.system_time", "cpu.context_switches"],
        setup: |bed| {
            let (threads, pause) = (bed.range(2..=6), bed.range(50..=200));
            let work = format!(
                "import threading, time\n\
                 def compute():\n    while True: sum(i * i for i in range(1000))\n\
                 def answer():\n    while True:\n        sum(i * i for i in range(100))\n        time.sleep({pause} / 1000)\n\
                 threading.Thread(target=compute).start()\n\
                 for _ in range({threads}): threading.Thread(target=answer).start()\nprint('ready', flush=True)\n"
            );
            let python = python(bed, &work)?;
            Ok(Expect::subject([Process(python)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "nginx",
        what: "clients ask nginx for a page at a steady rate",
        setup: |bed| {
            let (home, port) = (home(bed)?, bed.port());
            nginx(&home, port)?.serve(bed, port)?;
            ask_steadily(bed, port, 200..=800)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "node",
        what: "clients ask a Node.js service for a page at a steady rate",
        setup: |bed| {
            let port = bed.port();
            let server = format!(
                "require('http').createServer((_, out) => out.end('x'.repeat(1000)))\
                 .listen({port}, '127.0.0.1', () => console.log('ready'));\n"
            );
            node(bed, &server)?;
            ask_steadily(bed, port, 50..=200)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "java",
        what: "a Java service makes garbage at a steady rate, which is collected several times a second",
        setup: |bed| {
            java(bed, &["-Xmx128m"], 10, 5)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "python",
        what: "threads of a Python service do a little work several times a second",
        setup: |bed| {
            let (threads, pause) = (bed.range(2..=8), bed.range(50..=200));
            let work = format!(
                "import threading, time\ndef work():\n    while True:\n        sum(i * i for i in range(10000))\n        \
                 time.sleep({pause} / 1000)\n\
                 for _ in range({threads}): threading.Thread(target=work).start()\nprint('ready', flush=True)\n"
            );
            python(bed, &work)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Arguments of nginx: one process that logs nothing.
const NGINX_ARGS: &[&str] = &["-p", ".", "-c", "nginx.conf", "-e", "nginx.err"];

fn nginx(home: &Path, port: u16) -> Result<ProgramCommand> {
    configure_nginx(home, port)?;
    Ok(ProgramCommand::new(home, "nginx", "nginx-light")?.args(NGINX_ARGS))
}

fn configure_nginx(home: &Path, port: u16) -> Result<()> {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path tmp;"));
    let text = format!(
        "daemon off; master_process off; pid nginx.pid;\nevents {{ worker_connections 512; }}\n\
         http {{ access_log off; {} keepalive_requests 1000000000;\n\
         server {{ listen 127.0.0.1:{port}; root .; }} }}\n",
        temporary.join(" ")
    );
    write(home, "nginx.conf", &text)?;
    write(home, "index.html", &"x".repeat(2000))
}

fn node(bed: &mut Testbed, script: &str) -> Result<u32> {
    let home = home(bed)?;
    write(&home, "service.js", script)?;
    ProgramCommand::new(&home, "node", "nodejs")?.args(["service.js"]).start_and_await(bed, "ready")
}

fn python(bed: &mut Testbed, script: &str) -> Result<u32> {
    let home = home(bed)?;
    write(&home, "service.py", script)?;
    ProgramCommand::new(&home, "python3", "python3")?.args(["service.py"]).start_and_await(bed, "ready")
}

/// Starts a service that holds this many megabytes, replaces them again and again, and pauses for some milliseconds
/// after each megabyte.
fn java(bed: &mut Testbed, options: &[&str], megabytes: u64, pause_ms: u64) -> Result<u32> {
    let home = home(bed)?;
    let text = format!(
        "public class Service {{ public static void main(String[] args) throws Exception {{\n\
         byte[][] held = new byte[{megabytes} * 1024][];\nboolean full = false;\n\
         for (int i = 0; ; i = (i + 1) % held.length) {{\n\
         held[i] = new byte[1024];\n\
         if (i == held.length - 1 && !full) {{ full = true; System.out.println(\"ready\"); }}\n\
         if (i % 1024 == 0) Thread.sleep({pause_ms});\n}} }} }}\n"
    );
    write(&home, "Service.java", &text)?;
    let java = ProgramCommand::new(&home, "java", "default-jdk-headless")?;
    java.args(options).args(["Service.java"]).start_and_await(bed, "ready")
}

/// Starts clients that send requests as fast as the server answers.
fn ask_without_end(bed: &mut Testbed, home: &Path, port: u16, clients: u64) -> Result<u32> {
    let ab = ProgramCommand::new(home, "ab", "apache2-utils")?;
    let options = ["-q", "-r", "-k", "-s", "300", "-t", "3600", "-n", "1000000", "-c", &clients.to_string()];
    ab.args(options).args([format!("http://127.0.0.1:{port}/")]).start(bed)
}

fn ask_steadily(bed: &mut Testbed, port: u16, rates: std::ops::RangeInclusive<u64>) -> Result<()> {
    let (clients, rate) = (bed.range(2..=4), bed.range(rates));
    let get = LoadCommand::new("http-get").with("to", format!("127.0.0.1:{port}"));
    get.with("clients", clients).with("rate", rate / clients).start(bed)?;
    Ok(())
}

fn write(home: &Path, name: &str, text: &str) -> Result<()> {
    fs::write(home.join(name), text).context(name)
}
