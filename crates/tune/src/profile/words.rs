//! Converts values and names of tuned's options to those of the kernel.

use crate::request::RequestedValue;

/// Parses bounds: `>N` and `<N` only raise and only lower; `>N M` applies to each of several numbers, and `<N >M` has a bound for
/// each.
pub(super) fn bound(value: &str) -> RequestedValue {
    let words: Vec<&str> = value.split_whitespace().collect();
    if words.len() > 1 && words.iter().skip(1).any(|word| word.starts_with(['>', '<'])) {
        return RequestedValue::Each(words.into_iter().map(bound).collect());
    }
    let numbers = |text: &str| {
        let numbers: Option<Vec<i128>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        let words: Vec<String> = numbers?.iter().map(ToString::to_string).collect();
        (!words.is_empty()).then(|| words.join(" "))
    };
    match (value.strip_prefix('>').and_then(numbers), value.strip_prefix('<').and_then(numbers)) {
        (Some(least), _) => RequestedValue::AtLeast(least),
        (_, Some(most)) => RequestedValue::AtMost(most),
        _ => RequestedValue::Exactly(value.to_owned()),
    }
}

/// Parses a read-ahead in KiB, or in sectors of 512 bytes with the suffix `s`.
pub(super) fn read_ahead(value: &str) -> Option<RequestedValue> {
    let (sign, rest) = match value.strip_prefix(['>', '<']) {
        Some(rest) => (&value[..1], rest),
        None => ("", value),
    };
    let mut words = rest.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let is_sectors = words.next().is_some_and(|unit| unit.starts_with('s'));
    let kib = if is_sectors { number / 2 } else { number };
    Some(bound(&format!("{sign}{kib}")))
}

/// Converts words of x86_energy_perf_policy(8) to the kernel's numbers; uses the first of `a|b` that is valid.
pub(super) fn bias(value: &str) -> String {
    let number = |word: &str| match word.trim() {
        "performance" => Some("0"),
        "balance-performance" => Some("4"),
        "normal" | "default" => Some("6"),
        "balance-power" => Some("8"),
        "power" | "powersave" => Some("15"),
        _ => None,
    };
    value.split('|').find_map(number).unwrap_or(value).to_owned()
}

pub(super) fn flag(value: &str) -> &str {
    match value {
        "true" | "True" => "1",
        "false" | "False" => "0",
        other => other,
    }
}

/// Returns the tunable of an ethtool parameter.
pub(super) fn tunable_of(group: &str, parameter: &str) -> Option<String> {
    let name = parameter.replace('-', "_");
    Some(match (group, name.as_str()) {
        ("features", "tso" | "tcp_segmentation_offload") => "nic.offload.tso".into(),
        ("features", "gso" | "generic_segmentation_offload") => "nic.offload.gso".into(),
        ("features", "gro" | "generic_receive_offload") => "nic.offload.gro".into(),
        ("features", "rx" | "rx_checksumming") => "nic.offload.rx_checksum".into(),
        ("features", "tx" | "tx_checksumming") => "nic.offload.tx_checksum".into(),
        ("features", "sg" | "scatter_gather") => "nic.offload.scatter_gather".into(),
        ("features", "lro" | "large_receive_offload") => "nic.offload.lro".into(),
        ("features", "rxvlan" | "rx_vlan_offload") => "nic.offload.rx_vlan".into(),
        ("features", "txvlan" | "tx_vlan_offload") => "nic.offload.tx_vlan".into(),
        ("features", "ntuple" | "ntuple_filters") => "nic.offload.ntuple".into(),
        ("features", "rxhash" | "receive_hashing") => "nic.offload.rx_hash".into(),
        (
            "coalesce",
            "rx_usecs" | "rx_frames" | "rx_usecs_irq" | "rx_frames_irq" | "tx_usecs" | "tx_frames" | "tx_usecs_irq"
            | "tx_frames_irq" | "adaptive_rx" | "adaptive_tx",
        ) => format!("nic.coalesce.{name}"),
        ("pause", "autoneg" | "rx" | "tx") => format!("nic.pause.{name}"),
        ("ring", "rx" | "tx") => format!("nic.ring.{name}"),
        ("channels", "rx" | "tx" | "combined") => format!("nic.channels.{name}"),
        _ => return None,
    })
}

/// Returns advice for a plugin's option that is not a setting of the running kernel.
pub(super) fn instead(kind: &str) -> String {
    match kind {
        "bootloader" => {
            "it is for the kernel's command line: write it into the boot loader's configuration, and reboot"
        }
        "modules" => "it is for a module: write it into /etc/modprobe.d",
        "script" => "it is a script: what it changes cannot be undone; read it, and run it yourself",
        "service" => "it is for systemctl",
        "systemd" => "it is for /etc/systemd/system.conf",
        "irqbalance" => "it is for /etc/default/irqbalance",
        "mounts" => "write the option into /etc/fstab, or set mount.barrier@POINT",
        "irq" => "set irq.affinity@LINE for the lines that matter",
        _ => "it has no meaning outside of tuned's daemon, or is not known here",
    }
    .into()
}
