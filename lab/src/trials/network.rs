//! Network trials: links at their limit, loss, and buffers or queues that are too small.

use crate::error::{Error, Result};
use crate::expect::EntityPattern::{self, Host, Named, Port, Process};
use crate::expect::Expect;
use crate::link::{
    Link, NarrowPath, asymmetric_paths, black_hole_relay, damaging_relay, drop_icmp_errors, drop_randomly, narrow_path,
    shared_subnet, track_connections, tun_relay, veth_pair,
};
use crate::load_process::{LoadCommand, LoadProcess};
use crate::netns::NetNs;
use crate::testbed::Testbed;
use crate::trial::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "net.window_limited",
        what: "the receive buffer of a TCP stream is far smaller than the bandwidth-delay product",
        finding: Some("net.window_limited"),
        never: &["net.loss", "net.link_saturated", "net.shaped"],
        setup: |bed| {
            let delay = bed.range(10_000..=30_000);
            let link = tun_relay(bed, delay, 0)?;
            let (port, buffer) = (bed.port(), bed.range(16..=48) << 10);
            let to = link.address(port);
            LoadCommand::new("sink").with("at", &to).with("buffer", buffer).in_netns(&link.far)?.start(bed)?;
            // Every kernel has Reno, which, like most algorithms, leaves pacing to the window.
            LoadCommand::new("source").with("to", &to).with("congestion", "reno").in_netns(&link.near)?.start(bed)?;
            Ok(Expect::subject([Port(port)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.window_limited.sender",
        what: "a program sets a send buffer for its TCP stream that is far smaller than the bandwidth-delay product",
        finding: Some("net.window_limited"),
        never: &["net.loss", "net.link_saturated", "net.shaped"],
        setup: |bed| {
            let delay = bed.range(10_000..=30_000);
            let link = tun_relay(bed, delay, 0)?;
            let (port, buffer) = (bed.port(), bed.range(16..=48) << 10);
            let to = link.address(port);
            LoadCommand::new("sink").with("at", &to).in_netns(&link.far)?.start(bed)?;
            let source = LoadCommand::new("source").with("to", &to).with("congestion", "reno").with("buffer", buffer);
            let source = source.in_netns(&link.near)?.start(bed)?;
            Ok(Expect::subject([Port(port)]).culprit([Process(source.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.loss",
        what: "a TCP stream crosses a link that loses a few per cent of the packets, whatever its load",
        setup: |bed| {
            let (delay, loss) = (bed.range(1_000..=10_000), bed.range(100..=500));
            let link = tun_relay(bed, delay, loss)?;
            let (port, source) = start_stream(bed, &link)?;
            Ok(Expect::subject([Port(port)]).culprit([Process(source.pid)]))
        },
        ..LOSS
    },
    Trial {
        name: "net.loss.here",
        what: "a packet filter of this machine drops a few of a TCP stream's packets",
        setup: |bed| {
            let (link, loss) = (veth_pair(bed)?, bed.range(100..=400));
            drop_randomly(bed, &link.far, loss)?;
            let (port, source) = start_stream(bed, &link)?;
            Ok(Expect::subject([Port(port)]).culprit([Process(source.pid)]))
        },
        ..LOSS
    },
    Trial {
        name: "net.loss.short",
        what: "connections too short to be sampled cross a link that loses a few per cent of the packets",
        finding: Some("net.loss"),
        never: &["net.window_limited", "net.link_saturated", "net.listen_overflow"],
        setup: |bed| {
            let (delay, loss) = (bed.range(1_000..=4_000), bed.range(300..=600));
            let link = tun_relay(bed, delay, loss)?;
            let to = link.address(bed.port());
            LoadCommand::new("sink").with("at", &to).in_netns(&link.far)?.start(bed)?;
            let (bytes, clients) = (bed.range(4..=20) << 10, bed.range(2..=6));
            let clients = LoadCommand::new("short-conns").with("to", &to).with("bytes", bytes).with("clients", clients);
            let clients = clients.in_netns(&link.near)?.start(bed)?;
            // Without BPF the peer is unknown.
            let peer = Named("connection", format!("*->{}", link.far_ip));
            Ok(Expect::subject([peer, Host]).culprit([Process(clients.pid), Host]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.errors",
        what: "a TCP stream crosses a link that damages some of the packets, which the interfaces count and refuse",
        finding: Some("net.errors"),
        never: &["net.window_limited", "net.link_saturated", "net.nic_drops", "net.udp_overflow"],
        setup: |bed| {
            let (delay, damage) = (bed.range(1_000..=10_000), bed.range(100..=500));
            let link = damaging_relay(bed, delay, damage)?;
            start_stream(bed, &link)?;
            Ok(Expect::subject([EntityPattern::interface("tun0")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.link_saturated",
        what: "TCP streams fill a link up to the rate of its shaper",
        finding: Some("net.link_saturated"),
        never: &["net.window_limited", "net.udp_overflow", "cpu.saturated"],
        setup: |bed| {
            let link = veth_pair(bed)?;
            link.near.shape("veth0", bed.range(20..=80), "64kb", "50ms")?;
            streams_over(bed, &link)
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.shaped",
        what: "TCP streams fill a class of a shaper that could send much more",
        finding: Some("net.shaped"),
        never: &["net.link_saturated", "net.window_limited", "net.loss", "cpu.saturated"],
        setup: |bed| {
            let link = veth_pair(bed)?;
            link.near.shape_class("veth0", bed.range(5..=40))?;
            streams_over(bed, &link)
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.shaped.bursts",
        what: "bursts of datagrams, few on average, overflow the short queue of a shaper",
        finding: Some("net.shaped"),
        never: &["net.link_saturated", "net.udp_overflow", "net.small_packets", "cpu.saturated"],
        setup: |bed| {
            let (link, megabits) = (veth_pair(bed)?, bed.range(20..=60));
            link.near.shape("veth0", megabits, "16kb", "2ms")?;
            // A fifth of the rate on average.
            let (size, burst) = (bed.range(500..=1400), bed.range(100..=300));
            start_datagrams(bed, &link, size, megabits * 1_000_000 / 8 / 5 / size, burst)?;
            Ok(Expect::subject([EntityPattern::interface("veth0")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.small_packets",
        what: "a program multicasts tiny datagrams as fast as it can",
        finding: Some("net.small_packets"),
        never: &["net.link_saturated", "net.udp_overflow", "cpu.irq_imbalance", "cpu.saturated"],
        setup: |bed| {
            let source = start_multicast(bed, 0)?;
            Ok(Expect::subject(["veth0", "veth1"].map(EntityPattern::interface)).culprit([Process(source.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.listen_overflow",
        what: "a server accepts connections more slowly than they arrive, and its queue is short",
        quick: true,
        finding: Some("net.listen_overflow"),
        never: &["net.udp_overflow", "net.loss"],
        setup: |bed| {
            let (port, backlog, pause) = (bed.port(), bed.range(1..=8), bed.range(200..=500));
            let at = format!("127.0.0.1:{port}");
            let accept = LoadCommand::new("accept").with("at", &at).with("backlog", backlog).with("every-ms", pause);
            let accept = accept.start(bed)?;
            let connect = LoadCommand::new("connect").with("to", &at).with("clients", backlog + bed.range(10..=30));
            connect.with("timeout-ms", 1500).start(bed)?;
            Ok(Expect::subject([Port(port)]).culprit([Process(accept.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.ports_exhausted",
        what: "short connections to a server leave a local port in TIME_WAIT each, until none is left",
        finding: Some("net.ports_exhausted"),
        never: &["net.loss", "net.listen_overflow", "limit.open_files"],
        setup: |bed| {
            let (link, port) = (veth_pair(bed)?, bed.port());
            limit_ports(bed, &link.near)?;
            let to = link.address(port);
            LoadCommand::new("sink").with("at", &to).in_netns(&link.far)?.start(bed)?;
            let (bytes, clients) = (bed.range(100..=2000), bed.range(1..=3));
            let clients = LoadCommand::new("short-conns").with("to", &to).with("bytes", bytes).with("clients", clients);
            let clients = clients.with("rate", bed.range(200..=1000)).in_netns(&link.near)?.start(bed)?;
            Ok(Expect::subject([Port(port)]).culprit([Process(clients.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.ports_exhausted.held",
        what: "a program opens connections to a server and closes none, until no local port is left",
        finding: Some("net.ports_exhausted"),
        never: &["net.loss", "net.listen_overflow", "limit.open_files"],
        setup: |bed| {
            let (link, port) = (veth_pair(bed)?, bed.port());
            let ports = limit_ports(bed, &link.near)?;
            let clients = hold_connections(bed, &link, port, ports + 1)?;
            Ok(Expect::subject([Port(port)]).culprit([Process(clients.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.conntrack_full",
        what: "a program opens more flows than the connection tracking table holds",
        finding: Some("net.conntrack_full"),
        never: &["net.loss", "net.ports_exhausted", "net.small_packets", "net.udp_overflow"],
        setup: |bed| {
            open_flows(bed, 105)?;
            Ok(Expect::subject([Named("limit", "net.netfilter.nf_conntrack_max".into())]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "many-flows",
        what: "a program opens half as many flows as the connection tracking table holds",
        setup: |bed| {
            open_flows(bed, 50)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.udp_overflow",
        what: "datagrams arrive faster than their reader takes them from a small buffer",
        finding: Some("net.udp_overflow"),
        never: &["net.listen_overflow", "net.softnet", "net.loss"],
        setup: |bed| {
            let (port, buffer, pause) = (bed.port(), bed.range(16..=128) << 10, bed.range(5_000..=20_000));
            let at = format!("127.0.0.1:{port}");
            let sink = LoadCommand::new("udp-sink").with("at", &at).with("buffer", buffer).with("every-us", pause);
            let sink = sink.start(bed)?;
            let (rate, size) = (bed.range(1000..=4000), bed.range(200..=1400));
            LoadCommand::new("udp-source").with("to", &at).with("size", size).with("rate", rate).start(bed)?;
            Ok(Expect::subject([Port(port)]).culprit([Process(sink.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "many-connections",
        what: "programs hold more connections than there are local ports, to several servers",
        setup: |bed| {
            let link = veth_pair(bed)?;
            let ports = limit_ports(bed, &link.near)?;
            let first = bed.port();
            for port in first..first + 3 {
                let share = bed.range(50..=85);
                hold_connections(bed, &link, port, ports * share / 100)?;
            }
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.arp_flux",
        what: "packets come by another of two interfaces of one subnet, and the reverse-path filter drops them",
        finding: Some("net.arp_flux"),
        never: &["net.loss", "net.udp_overflow", "net.shaped", "net.nic_drops"],
        setup: |bed| {
            // The route to the far end uses the first interface; packets that arrive on the second one are dropped.
            let subnet = shared_subnet(bed, ["veth2", "veth2"])?;
            subnet.near.set("net.ipv4.conf.all.rp_filter", 1)?;
            let (to, rate) = (format!("{}:{}", subnet.near_ips[0], bed.port()), bed.range(50..=500));
            let source = LoadCommand::new("udp-source").with("to", to).with("rate", rate).with("size", 200);
            source.in_netns(&subnet.far)?.start(bed)?;
            Ok(Expect::subject([EntityPattern::interface("veth0+veth2")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.arp_flux.strayed",
        what: "a stream to one of two interfaces of one subnet comes by the other",
        finding: Some("net.arp_flux"),
        never: &["net.loss", "net.link_saturated", "net.window_limited"],
        setup: |bed| {
            start_stream_into(bed, ["veth0", "veth0"])?;
            Ok(Expect::subject([EntityPattern::interface("veth0+veth2")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "two-interfaces",
        what: "a stream to one of two interfaces of one subnet comes by that interface",
        setup: |bed| {
            start_stream_into(bed, ["veth0", "veth2"])?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.reverse_path",
        what: "clients connect by another link than the one by which the route to them leaves, and the reverse-path filter drops them",
        finding: Some("net.reverse_path"),
        never: &["net.arp_flux", "net.loss", "net.listen_overflow", "net.nic_drops", "net.mtu_mismatch"],
        setup: |bed| {
            let (paths, port) = (asymmetric_paths(bed)?, bed.port());
            paths.near.set("net.ipv4.conf.all.rp_filter", 1)?;
            let to = format!("{}:{port}", paths.near_ip);
            LoadCommand::new("sink").with("at", &to).in_netns(&paths.near)?.start(bed)?;
            let connect = LoadCommand::new("connect").with("to", &to).with("clients", bed.range(5..=20));
            connect.with("timeout-ms", 1500).in_netns(&paths.far)?.start(bed)?;
            Ok(Expect::subject([EntityPattern::interface("veth2")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "two-paths",
        what: "clients connect by another link than the one by which the answers leave, and the reverse-path filter is loose",
        setup: |bed| {
            let (paths, port) = (asymmetric_paths(bed)?, bed.port());
            paths.near.set("net.ipv4.conf.all.rp_filter", 2)?;
            let to = format!("{}:{port}", paths.near_ip);
            LoadCommand::new("sink").with("at", &to).in_netns(&paths.near)?.start(bed)?;
            let (bytes, clients) = (bed.range(100..=2000), bed.range(1..=3));
            let clients = LoadCommand::new("short-conns").with("to", &to).with("bytes", bytes).with("clients", clients);
            clients.with("rate", bed.range(5..=20)).in_netns(&paths.far)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "foreign-broadcasts",
        what: "hosts of another network on the same link broadcast, and the reverse-path filter drops that",
        setup: |bed| {
            let link = veth_pair(bed)?;
            link.near.set("net.ipv4.conf.all.rp_filter", 1)?;
            let foreign = format!("10.218.{}.2", bed.range(1..=250));
            link.far.ip(&["address", "add", &format!("{foreign}/24"), "dev", "veth1"])?;
            link.far.ip(&["route", "add", "255.255.255.255", "dev", "veth1", "src", &foreign])?;
            let to = format!("255.255.255.255:{}", bed.port());
            let source = LoadCommand::new("udp-source").with("to", to).with("size", 200).with("burst", 1);
            source.with("rate", bed.range(5..=50)).in_netns(&link.far)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "forged-senders",
        what: "single datagrams arrive from many addresses that are reached by another link, and the reverse-path filter drops them",
        setup: |bed| {
            let paths = asymmetric_paths(bed)?;
            paths.near.set("net.ipv4.conf.all.rp_filter", 1)?;
            // The sender does not own the addresses that it uses.
            paths.far.ip(&["route", "add", "local", "198.19.0.0/16", "dev", "lo"])?;
            paths.near.ip(&["route", "add", "198.19.0.0/16", "dev", "veth0"])?;
            let to = format!("{}:{}", paths.near_ip, bed.port());
            let source = LoadCommand::new("udp-source").with("to", to).with("size", 100).with("burst", 1);
            let source = source.with("rate", bed.range(5..=50)).with("from", "198.19.0.1");
            source.in_netns(&paths.far)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.mtu_mismatch",
        what: "requests are larger than a link on the way takes, and the ICMP errors of the router there are dropped",
        finding: Some("net.mtu_mismatch"),
        never: &["net.loss", "net.reverse_path", "net.errors", "net.window_limited", "net.listen_overflow"],
        setup: |bed| {
            let mtu = bed.range(1200..=1400);
            let path = narrow_path(bed, mtu)?;
            drop_icmp_errors(bed, &path.router)?;
            start_requests(bed, &path)?;
            let subjects = ["veth1", "veth2"].map(EntityPattern::interface);
            Ok(Expect::subject(subjects))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.mtu_mismatch.path",
        what: "TCP streams cross a link that loses large packets, beside short connections whose packets are small",
        finding: Some("net.mtu_mismatch"),
        never: &["net.reverse_path", "net.errors", "net.window_limited", "net.link_saturated"],
        setup: |bed| {
            let (delay, largest) = (bed.range(1_000..=10_000), bed.range(1200..=1400));
            let link = black_hole_relay(bed, delay, largest)?;
            let (port, source) = start_stream(bed, &link)?;
            let to = link.address(port);
            let clients = LoadCommand::new("short-conns").with("to", &to).with("bytes", bed.range(100..=1000));
            clients.with("rate", bed.range(2..=20)).in_netns(&link.near)?.start(bed)?;
            Ok(Expect::subject([Port(port)]).culprit([Process(source.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.mtu_mismatch.link",
        what: "datagrams are larger than the other end of a virtual link takes",
        finding: Some("net.mtu_mismatch"),
        never: &["net.reverse_path", "net.udp_overflow", "net.errors", "net.nic_drops", "net.shaped"],
        setup: |bed| {
            let size = bed.range(1350..=1450);
            start_over_unequal_ends(bed, size)?;
            Ok(Expect::subject([EntityPattern::interface("veth0")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "unequal-mtu",
        what: "the two ends of a virtual link take packets of different sizes, and all datagrams fit",
        setup: |bed| {
            let size = bed.range(100..=1200);
            start_over_unequal_ends(bed, size)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "path-mtu-discovery",
        what: "requests are larger than a link on the way takes, and ICMP errors of the router there tell the sender",
        setup: |bed| {
            let mtu = bed.range(1200..=1400);
            let path = narrow_path(bed, mtu)?;
            start_requests(bed, &path)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "net.conntrack_full.container",
        what: "a program in a network namespace of its own opens more flows than its connection tracking table holds",
        finding: Some("net.conntrack_full"),
        never: &["net.loss", "net.ports_exhausted", "net.small_packets", "net.udp_overflow"],
        setup: |bed| {
            open_flows(bed, 105)?;
            bed.netns = None;
            Ok(Expect::subject([Named("limit", "net.netfilter.nf_conntrack_max".into())]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "limit.netlink_buffer",
        what: "network interfaces change faster than a program reads the kernel's messages about it from a small buffer",
        finding: Some("limit.netlink_buffer"),
        never: &["net.udp_overflow", "net.loss"],
        setup: |bed| {
            let (buffer, pause) = (bed.range(8..=64) << 10, bed.range(20_000..=50_000));
            let listener = start_link_changes(bed, buffer, pause, 200)?;
            // The kernel chooses the PID as the address.
            let socket = Named("socket", format!("route:{}", listener.pid));
            Ok(Expect::subject([socket]).culprit([Process(listener.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "link-changes",
        what: "network interfaces change often, and a program reads every message of the kernel about it",
        setup: |bed| {
            start_link_changes(bed, 1 << 20, 0, 100)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "stopped-listener",
        what: "network interfaces change often, and the program that receives the kernel's messages about it is stopped",
        setup: |bed| {
            let listener = start_link_changes(bed, 16 << 10, 0, 100)?;
            kill(Pid::from_raw(listener.pid.cast_signed()), Signal::SIGSTOP)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "loopback",
        what: "TCP streams run at a moderate rate over loopback",
        quick: true,
        setup: |bed| {
            let at = format!("127.0.0.1:{}", bed.port());
            LoadCommand::new("sink").with("at", &at).start(bed)?;
            let (streams, rate) = (bed.range(1..=4), bed.range(20..=60) << 20);
            LoadCommand::new("source").with("to", &at).with("streams", streams).with("rate", rate).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "paced-stream",
        what: "a TCP stream over a link with a long delay sends less than its window allows",
        setup: |bed| {
            let delay = bed.range(10_000..=30_000);
            let link = tun_relay(bed, delay, 0)?;
            let to = link.address(bed.port());
            LoadCommand::new("sink").with("at", &to).in_netns(&link.far)?.start(bed)?;
            let rate = bed.range(100..=400) << 10;
            LoadCommand::new("source").with("to", &to).with("rate", rate).in_netns(&link.near)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "shaped-below",
        what: "a TCP stream in a class of a shaper sends at about half of the rate of its class",
        setup: |bed| {
            let (link, megabits) = (veth_pair(bed)?, bed.range(10..=40));
            link.near.shape_class("veth0", megabits)?;
            let to = link.address(bed.port());
            LoadCommand::new("sink").with("at", &to).in_netns(&link.far)?.start(bed)?;
            let rate = megabits * 1_000_000 / 8 * bed.range(40..=60) / 100;
            LoadCommand::new("source").with("to", &to).with("rate", rate).in_netns(&link.near)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "slight-loss",
        what: "TCP streams of a moderate rate cross a link that loses one packet in ten thousand",
        setup: |bed| {
            let delay = bed.range(500..=3_000);
            let link = tun_relay(bed, delay, 1)?;
            let to = link.address(bed.port());
            LoadCommand::new("sink").with("at", &to).in_netns(&link.far)?.start(bed)?;
            let (streams, rate) = (bed.range(1..=3), bed.range(500..=2_000) << 10);
            let source = LoadCommand::new("source").with("to", &to).with("streams", streams).with("rate", rate);
            let algorithm = bed.choose(&["reno", "cubic", "bbr"]);
            source.with("congestion", algorithm).in_netns(&link.near)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "small-packets",
        what: "a program multicasts tens of thousands of tiny datagrams a second, far fewer than it could",
        setup: |bed| {
            let rate = bed.range(10_000..=40_000);
            start_multicast(bed, rate)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

const LOSS: Trial = Trial {
    finding: Some("net.loss"),
    never: &["net.window_limited", "net.link_saturated", "net.small_packets", "net.udp_overflow"],
    ..Trial::IDLE
};

/// Starts one to four TCP streams over a link that its shaper limits.
pub fn streams_over(bed: &mut Testbed, link: &Link) -> Result<Expect> {
    let (port, streams) = (bed.port(), bed.range(1..=4));
    let to = link.address(port);
    LoadCommand::new("sink").with("at", &to).in_netns(&link.far)?.start(bed)?;
    let source = LoadCommand::new("source").with("to", &to).with("streams", streams);
    let source = source.in_netns(&link.near)?.start(bed)?;
    let subject = EntityPattern::interface("veth0");
    Ok(Expect::subject([subject]).culprit([Process(source.pid), Port(port)]))
}

/// Starts one TCP stream from the near to the far end. Returns its port and its sender.
pub fn start_stream(bed: &mut Testbed, link: &Link) -> Result<(u16, LoadProcess)> {
    let port = bed.port();
    let to = link.address(port);
    LoadCommand::new("sink").with("at", &to).in_netns(&link.far)?.start(bed)?;
    let algorithm = bed.choose(&["reno", "cubic"]);
    let source = LoadCommand::new("source").with("to", &to).with("congestion", algorithm);
    Ok((port, source.in_netns(&link.near)?.start(bed)?))
}

/// Starts a paced stream to the second of two interfaces in one subnet. `answers` are the interfaces on which packets
/// to each of their addresses arrive.
fn start_stream_into(bed: &mut Testbed, answers: [&str; 2]) -> Result<()> {
    let subnet = shared_subnet(bed, answers)?;
    let to = format!("{}:{}", subnet.near_ips[1], bed.port());
    LoadCommand::new("sink").with("at", &to).in_netns(&subnet.near)?.start(bed)?;
    let rate = bed.range(1..=10) << 20;
    LoadCommand::new("source").with("to", &to).with("rate", rate).in_netns(&subnet.far)?.start(bed)?;
    Ok(())
}

/// Starts clients that send requests of several segments to the far end, and give up after a second without an answer.
fn start_requests(bed: &mut Testbed, path: &NarrowPath) -> Result<()> {
    let to = format!("{}:{}", path.far_ip, bed.port());
    LoadCommand::new("sink").with("at", &to).in_netns(&path.far)?.start(bed)?;
    let (bytes, clients) = (bed.range(4..=20) << 10, bed.range(2..=6));
    let clients = LoadCommand::new("short-conns").with("to", &to).with("bytes", bytes).with("clients", clients);
    let clients = clients.with("rate", bed.range(5..=20)).with("timeout-ms", 1000);
    clients.in_netns(&path.near)?.start(bed)?;
    Ok(())
}

/// Starts datagrams of this size over a link whose far end accepts packets of 1300 bytes.
fn start_over_unequal_ends(bed: &mut Testbed, size: u64) -> Result<()> {
    let (link, to) = (veth_pair(bed)?, bed.port());
    link.far.ip(&["link", "set", "veth1", "mtu", "1300"])?;
    let to = link.address(to);
    LoadCommand::new("udp-sink").with("at", &to).with("buffer", 1 << 20).in_netns(&link.far)?.start(bed)?;
    let source = LoadCommand::new("udp-source").with("to", &to).with("size", size).with("burst", 1);
    source.with("rate", bed.range(20..=200)).in_netns(&link.near)?.start(bed)?;
    Ok(())
}

/// Starts a program that reads one kernel message every `pause_us`, and at least `rate` changes of an interface per
/// second.
fn start_link_changes(bed: &mut Testbed, buffer: u64, pause_us: u64, rate: u64) -> Result<LoadProcess> {
    let ns = NetNs::new(bed, "near")?;
    let listener = LoadCommand::new("netlink-listener").with("buffer", buffer).with("every-us", pause_us);
    let listener = listener.in_netns(&ns)?.start(bed)?;
    let rate = bed.range(rate..=2 * rate);
    LoadCommand::new("link-changes").with("rate", rate).in_netns(&ns)?.start(bed)?;
    Ok(listener)
}

/// Limits a namespace to a few hundred local ports for connections, and returns how many.
fn limit_ports(bed: &mut Testbed, ns: &NetNs) -> Result<u64> {
    let (first, ports) = (bed.range(33_000..=50_000), bed.range(200..=600));
    ns.set("net.ipv4.ip_local_port_range", format!("{first} {}", first + ports - 1))?;
    Ok(ports)
}

/// Opens flows in a namespace that tracks them, in which whyslow runs, until the table is filled to this percentage of
/// its maximum.
fn open_flows(bed: &mut Testbed, percent: u64) -> Result<()> {
    let link = veth_pair(bed)?;
    track_connections(bed, &link.near)?;
    bed.netns = Some(link.near.path());
    // Nothing has joined the multicast groups, so nothing answers.
    link.near.ip(&["route", "add", "239.0.0.0/8", "dev", "veth0"])?;
    let max = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max")?;
    let max: u64 = max.trim().parse().map_err(|_| Error::failed("nf_conntrack_max is no number"))?;
    let flows = LoadCommand::new("udp-flows").with("to", "239.1.0.1").with("flows", max * percent / 100);
    flows.with("rate", bed.range(20..=200)).in_netns(&link.near)?.start(bed)?;
    Ok(())
}

/// Opens connections from the near end to a port of the far end, and keeps them open.
fn hold_connections(bed: &mut Testbed, link: &Link, port: u16, connections: u64) -> Result<LoadProcess> {
    let to = link.address(port);
    LoadCommand::new("sink").with("at", &to).in_netns(&link.far)?.start(bed)?;
    let clients = LoadCommand::new("hold-conns").with("to", &to).with("connections", connections);
    clients.in_netns(&link.near)?.start(bed)
}

/// Starts tiny datagrams over a veth pair, `rate` per second or as many as possible (0).
fn start_multicast(bed: &mut Testbed, rate: u64) -> Result<LoadProcess> {
    let (link, size) = (veth_pair(bed)?, bed.range(16..=200));
    start_datagrams(bed, &link, size, rate, 10)
}

/// Starts datagrams over a link, `rate` per second in bursts. Nothing has joined the multicast group, so only sending
/// costs CPU time.
fn start_datagrams(bed: &mut Testbed, link: &Link, size: u64, rate: u64, burst: u64) -> Result<LoadProcess> {
    link.near.ip(&["route", "add", "239.0.0.0/8", "dev", "veth0"])?;
    let to = format!("239.{}.0.1:{}", bed.range(1..=250), bed.port());
    let source = LoadCommand::new("udp-source").with("to", to).with("rate", rate).with("size", size);
    source.with("burst", burst).in_netns(&link.near)?.start(bed)
}
