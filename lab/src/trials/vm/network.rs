//! Trials with delay and loss on links (tc-netem(8)), bonds, bridges and network cards.

use crate::error::Result;
use crate::expect::EntityPattern::{self, Port, Process};
use crate::expect::Expect;
use crate::link::{Link, veth_pair};
use crate::load_process::LoadCommand;
use crate::netns::NetNs;
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
        name: "netem-reordering",
        what: "packets of a TCP stream overtake one another, as each is delayed by another time, and the sender waits for them",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = veth_pair(bed)?;
            netem("netns exec wslab-near", "veth0", &format!("delay {}ms 10ms", bed.range(15..=25)))?;
            start_stream(bed, &link)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "bond.reordering",
        what: "a bond sends the packets of a TCP stream by two ports in turn, one of which leads over a slower path",
        finding: Some("net.reordering"),
        never: &["net.loss", "net.link_saturated", "net.window_limited"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = two_way_bond(bed, "balance-rr")?;
            netem("netns exec wslab-near", "veth2", &format!("delay {}ms limit 10000", bed.range(10..=20)))?;
            let (port, source) = start_stream(bed, &link)?;
            Ok(Expect::subject([Port(port)]).culprit([Process(source.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "bond-ordered",
        what: "a bond sends all packets of a TCP stream by one of two ports, one of which leads over a slower path",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = two_way_bond(bed, "balance-xor xmit_hash_policy layer3+4")?;
            netem("netns exec wslab-near", "veth2", &format!("delay {}ms limit 10000", bed.range(10..=20)))?;
            paced_stream(bed, &link, 1 << 20)
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
        name: "vlan-paced",
        what: "a paced TCP stream crosses a VLAN",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = veth_pair(bed)?;
            modules(&["8021q"])?;
            shell(
                "for end in near:veth0 far:veth1; do n=wslab-${end%:*}; i=${end#*:}
                A=$(ip -n $n -o -4 addr show $i | awk '{print $4}'); ip -n $n addr flush dev $i
                ip -n $n link add link $i name $i.7 type vlan id 7; ip -n $n addr add $A dev $i.7; ip -n $n link set $i.7 up; done",
            )?;
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
        name: "nic-coalesced",
        what: "a paced stream arrives at a network card that waits up to a millisecond before it interrupts",
        vm: Some(&CARDS),
        setup: |bed| {
            let far = two_cards(bed)?;
            shell("ethtool -C eth0 rx-usecs 1000")?;
            let to = format!("10.219.0.1:{}", bed.port());
            LoadCommand::new("sink").with("at", &to).start(bed)?;
            LoadCommand::new("source").with("to", &to).with("rate", 1 << 20).in_netns(&far)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "vlan.mtu",
        what: "behind a bridge the path goes on by a VLAN of smaller MTU, which drops the large packets of a stream",
        finding: Some("net.mtu_mismatch"),
        never: &["net.link_saturated", "net.shaped"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = bridged(bed)?;
            modules(&["8021q"])?;
            shell(
                "ip -n wslab-mid link set port1 nomaster
                ip -n wslab-mid link add link port1 name port1.7 type vlan id 7; ip -n wslab-mid link set port1.7 master br0 up
                B=$(ip -n wslab-far -o -4 addr show veth1 | awk '{print $4}'); ip -n wslab-far addr flush dev veth1
                ip -n wslab-far link add link veth1 name veth1.7 type vlan id 7
                ip -n wslab-far addr add $B dev veth1.7; ip -n wslab-far link set veth1.7 up",
            )?;
            smaller_mtu(bed, &link, "port1.7")
        },
        ..Trial::IDLE
    },
    Trial {
        name: "bond.mtu",
        what: "behind a bridge the path goes on by a bond of smaller MTU, which drops the large packets of a stream",
        finding: Some("net.mtu_mismatch"),
        never: &["net.link_saturated", "net.shaped"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let link = bridged(bed)?;
            modules(&["bonding"])?;
            shell(
                "ip -n wslab-mid link set port1 nomaster; ip -n wslab-mid link set port1 down
                ip -n wslab-mid link add bond7 type bond mode active-backup miimon 100
                ip -n wslab-mid link set port1 master bond7; ip -n wslab-mid link set bond7 up
                ip -n wslab-mid link set bond7 master br0; sleep 1",
            )?;
            smaller_mtu(bed, &link, "bond7")
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
            smaller_mtu(bed, &link, "port1")
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

/// Adds netem with these settings to an interface.
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

/// Creates two ends, each with a bond of this mode over two veths: `veth0` to `veth1` and `veth2` to `veth3`.
fn two_way_bond(bed: &mut Testbed, mode: &str) -> Result<Link> {
    let link = veth_pair(bed)?;
    modules(&["bonding"])?;
    shell(&format!(
        "ip -n wslab-near link add veth2 type veth peer name veth3 netns wslab-far
        for end in near:veth0:veth2 far:veth1:veth3; do n=wslab-${{end%%:*}}; i=${{end#*:}}
        A=$(ip -n $n -o -4 addr show ${{i%:*}} | awk '{{print $4}}'); ip -n $n addr flush dev ${{i%:*}}
        ip -n $n link add bond7 type bond mode {mode} miimon 100
        for port in ${{i%:*}} ${{i#*:}}; do ip -n $n link set $port down; ip -n $n link set $port master bond7; done
        ip -n $n addr add $A dev bond7; ip -n $n link set bond7 up; done; sleep 1"
    ))?;
    Ok(link)
}

/// Sets up `eth0` with the address 10.219.0.1, and `eth1` in a namespace.
fn two_cards(bed: &mut Testbed) -> Result<NetNs> {
    let far = NetNs::new(bed, "far")?;
    modules(&["e1000e"])?;
    shell(
        "for i in $(seq 50); do [ -e /sys/class/net/eth1 ] && break; sleep 0.1; done
        ip link set eth1 netns wslab-far
        ip addr add 10.219.0.1/24 dev eth0; ip link set eth0 up
        ip -n wslab-far addr add 10.219.0.2/24 dev eth1; ip -n wslab-far link set eth1 up; sleep 4",
    )?;
    Ok(far)
}

/// Creates `bond0` over both cards, one of which is in use.
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

/// Makes the MTU of a bridge port smaller than the packets of a stream through it.
fn smaller_mtu(bed: &mut Testbed, link: &Link, interface: &str) -> Result<Expect> {
    shell(&format!(
        "ip -n wslab-mid link set {interface} mtu 1400; ip -n wslab-mid link set br0 mtu 1500
        # A bridge lets packets pass that are yet to be segmented.
        ip netns exec wslab-near ethtool -K veth0 tso off gso off"
    ))?;
    let (port, _) = start_stream(bed, link)?;
    Ok(Expect::subject([
        EntityPattern::Host,
        EntityPattern::interface(&format!("{interface}@wslab-mid")),
        EntityPattern::interface(interface),
        Port(port),
    ]))
}

/// Creates two ends whose veths are ports of a bridge in a third namespace.
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
