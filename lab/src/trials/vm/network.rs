//! Links with delay and loss (tc-netem(8)), bonds, bridges and network cards.

use crate::error::Result;
use crate::expect::EntityPattern::{self, Port, Process};
use crate::expect::Expect;
use crate::link::{Link, veth_pair};
use crate::load_process::LoadCommand;
use crate::testbed::Testbed;
use crate::trial::Trial;
use crate::trials::network::{start_stream, streams_over};
use crate::vm::{VmSpec, modules, shell};

/// Two network cards on one hub.
const CARDS: VmSpec = VmSpec {
    qemu: &[
        "-netdev",
        "hubport,id=n0,hubid=0",
        "-device",
        "e1000e,netdev=n0,mac=52:54:00:00:00:01",
        "-netdev",
        "hubport,id=n1,hubid=0",
        "-device",
        "e1000e,netdev=n1,mac=52:54:00:00:00:02",
    ],
    ..VmSpec::PLAIN
};

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "netem.loss",
        what: "a TCP stream crosses a link that loses one packet in a hundred or two",
        finding: Some("net.loss"),
        never: &["net.window_limited", "net.link_saturated", "net.shaped", "net.nic_drops"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = veth_pair(bed)?;
            // At the other end, so that this machine's own queue does not show it.
            netem("netns exec wslab-far", "veth1", &format!("delay 5ms loss {}%", bed.range(1..=2)))?;
            netem("netns exec wslab-near", "veth0", &format!("delay 5ms loss {}%", bed.range(1..=2)))?;
            let (port, source) = start_stream(bed, &link)?;
            Ok(Expect::subject([Port(port)]).culprit([Process(source.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "netem.window",
        what: "a link delays packets, and the receive buffer of a TCP stream is far too small for that",
        finding: Some("net.window_limited"),
        never: &["net.loss", "net.link_saturated", "net.shaped"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = veth_pair(bed)?;
            netem("netns exec wslab-near", "veth0", &format!("delay {}ms", bed.range(20..=40)))?;
            let port = bed.port();
            let to = link.address(port);
            LoadCommand::new("sink").with("at", &to).with("buffer", 32 << 10).in_netns(&link.far)?.start(bed)?;
            LoadCommand::new("source").with("to", &to).with("congestion", "reno").in_netns(&link.near)?.start(bed)?;
            Ok(Expect::subject([Port(port)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "netem.rate",
        what: "TCP streams fill a link that netem limits to a rate",
        finding: Some("net.link_saturated"),
        never: &["net.loss", "net.window_limited", "cpu.saturated"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = veth_pair(bed)?;
            netem("netns exec wslab-near", "veth0", &format!("rate {}mbit limit 200", bed.range(20..=60)))?;
            streams_over(bed, &link)
        },
        ..Trial::IDLE
    },
    Trial {
        name: "netem-delay",
        what: "a paced TCP stream crosses a link that delays each packet and swaps a few",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = veth_pair(bed)?;
            netem("netns exec wslab-near", "veth0", "delay 5ms reorder 1% 50%")?;
            paced_stream(bed, &link, 1 << 20)
        },
        ..Trial::IDLE
    },
    Trial {
        name: "bond.degraded",
        what: "one of the two ports of a bond has no link",
        finding: Some("net.bond_degraded"),
        never: &["net.loss", "net.link_saturated"],
        vm: Some(&CARDS),
        setup: |_| {
            bond()?;
            shell("ip link set eth1 down")?;
            Ok(Expect::subject(["eth1", "bond0"].map(EntityPattern::interface)))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "bond-spare",
        what: "a bond has one port in use and a spare",
        vm: Some(&CARDS),
        setup: |_| {
            bond()?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "nic.small_ring",
        what: "datagrams come faster than a network card with a small receive ring, whose driver waits long, is emptied",
        finding: Some("net.nic_drops"),
        never: &["net.loss", "net.errors", "net.udp_overflow"],
        vm: Some(&CARDS),
        setup: |bed| {
            cards()?;
            shell(
                "ip netns exec wslab-far ethtool -G eth1 rx 80; ip netns exec wslab-far ethtool -C eth1 rx-usecs 10000 || true",
            )?;
            let port = bed.port();
            shell(
                "ip netns exec wslab-near ip neigh replace 10.9.0.2 lladdr 52:54:00:00:00:02 dev eth0 nud permanent",
            )?;
            crate::vm::background(
                bed,
                &format!("exec ip netns exec wslab-far /lab/whyslow-lab load udp-sink --at 10.9.0.2:{port}"),
            )?;
            crate::vm::background(
                bed,
                &format!(
                    "exec ip netns exec wslab-near /lab/whyslow-lab load udp-source --to 10.9.0.2:{port} --size 200 --rate 20000 --burst 400"
                ),
            )?;
            Ok(Expect::subject(["eth1", "eth1@wslab-far"].map(EntityPattern::interface)))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "bridge.mtu",
        what: "a bridge with a port of smaller MTU drops the large packets of a stream",
        finding: Some("net.mtu_mismatch"),
        never: &["net.link_saturated", "net.shaped"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = bridged(bed)?;
            shell("ip -n wslab-mid link set port1 mtu 1400; ip -n wslab-mid link set br0 mtu 1500")?;
            let (port, source) = start_stream(bed, &link)?;
            let _ = (port, source);
            Ok(Expect::subject([
                EntityPattern::Host,
                EntityPattern::interface("port1@wslab-mid"),
                EntityPattern::interface("port1"),
                Port(port),
            ]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "bridge-paced",
        what: "a paced stream crosses a bridge whose ports have one MTU",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = bridged(bed)?;
            paced_stream(bed, &link, 1 << 20)
        },
        ..Trial::IDLE
    },
];

/// Gives an interface netem with these settings.
fn netem(within: &str, interface: &str, settings: &str) -> Result<()> {
    modules(&["sch_netem"])?;
    shell(&format!("ip {within} tc qdisc add dev {interface} root netem {settings}")).map(drop)
}

fn paced_stream(bed: &mut Testbed, link: &Link, rate: u64) -> Result<Expect> {
    let to = link.address(bed.port());
    LoadCommand::new("sink").with("at", &to).in_netns(&link.far)?.start(bed)?;
    LoadCommand::new("source").with("to", &to).with("rate", rate).in_netns(&link.near)?.start(bed)?;
    Ok(Expect::healthy())
}

/// The cards, each in a network namespace of its own.
fn cards() -> Result<()> {
    modules(&["e1000e"])?;
    shell(
        "for i in $(seq 50); do [ -e /sys/class/net/eth1 ] && break; sleep 0.1; done
        for n in near far; do ip netns add wslab-$n; ip -n wslab-$n link set lo up; done
        ip link set eth0 netns wslab-near; ip link set eth1 netns wslab-far
        ip -n wslab-near addr add 10.9.0.1/24 dev eth0; ip -n wslab-far addr add 10.9.0.2/24 dev eth1
        ip -n wslab-near link set eth0 up; ip -n wslab-far link set eth1 up; sleep 3",
    )
    .map(drop)
}

/// `bond0` over both cards, one of which is in use.
fn bond() -> Result<()> {
    modules(&["e1000e", "bonding"])?;
    shell(
        "for i in $(seq 50); do [ -e /sys/class/net/eth1 ] && break; sleep 0.1; done
        ip link show bond0 >/dev/null 2>&1 && ip link del bond0
        ip link add bond0 type bond mode active-backup miimon 100
        ip link set eth0 master bond0; ip link set eth1 master bond0; ip link set bond0 up
        ip addr add 10.9.0.1/24 dev bond0; sleep 5",
    )
    .map(drop)
}

/// Two ends whose veths are ports of a bridge in a third namespace.
fn bridged(bed: &mut Testbed) -> Result<Link> {
    let link = veth_pair(bed)?;
    modules(&["bridge"])?;
    shell(
        "ip netns add wslab-mid; ip -n wslab-mid link set lo up
        A=$(ip -n wslab-near -o -4 addr show veth0 | awk '{print $4}'); B=$(ip -n wslab-far -o -4 addr show veth1 | awk '{print $4}')
        ip -n wslab-near link del veth0; ip -n wslab-mid link add br0 type bridge; ip -n wslab-mid link set br0 up
        ip -n wslab-near link add veth0 type veth peer name port0 netns wslab-mid
        ip -n wslab-far link add veth1 type veth peer name port1 netns wslab-mid
        ip -n wslab-mid link set port0 master br0 up; ip -n wslab-mid link set port1 master br0 up
        ip -n wslab-near addr add $A dev veth0; ip -n wslab-near link set veth0 up
        ip -n wslab-far addr add $B dev veth1; ip -n wslab-far link set veth1 up; sleep 1",
    )?;
    Ok(link)
}
