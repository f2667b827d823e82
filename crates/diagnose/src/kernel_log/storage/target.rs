//! Finds the device that a line is about, in the spelling of each generation of drivers.

use crate::kernel_log::words::{between, find_after, has_word, is_number, leading_number, number_after};

/// Returns the host:channel:target:lun, or the ATA port, of a line.
pub fn target(text: &str) -> Option<String> {
    modern(text)
        .or_else(|| angled(text))
        .or_else(|| spelled_out(text))
        .or_else(|| short(text))
        .or_else(|| lettered(text))
        .or_else(|| port(text))
}

/// Returns true if a line is about removable media, whose errors are not faults of a disk.
pub fn is_removable(text: &str) -> bool {
    ["sr ", "sr0", "sr1", "fd0", "[st", "Medium not present", "MEDIUM NOT PRESENT"].iter().any(|w| has_word(text, w))
        || text.starts_with("st ")
}

/// Parses `sd 0:0:2:0: [sdc]`, `scsi(1:0:0:2): Abort command`.
fn modern(text: &str) -> Option<String> {
    let address = |rest: &str| {
        let address = rest.split([' ', ')']).next()?.trim_end_matches(':');
        is_address(address).then(|| address.to_owned())
    };
    ["sd ", "scsi ", "ses ", "scsi("].iter().find_map(|word| find_after(text, word, address))
}

fn is_address(text: &str) -> bool {
    text.split(':').count() == 4 && text.split(':').all(is_number)
}

/// Parses `SCSI error : <0 0 1 0> return code = 0x8000002`, which 2.6 printed for a while.
fn angled(text: &str) -> Option<String> {
    let numbers: Vec<&str> = between(text, '<', '>')?.split(' ').collect();
    (numbers.len() == 4 && numbers.iter().all(|n| is_number(n))).then(|| numbers.join(":"))
}

/// Parses `host 0 channel 0 id 1 lun 0`, `scsi0, channel 0, id 1, lun 0`, `scsi0: ERROR on channel 0, id 0, lun 0`.
fn spelled_out(text: &str) -> Option<String> {
    let channel: u32 = number_after(text, "channel ")?;
    // The host's number directly follows `scsi`; `scsi :` is followed by something else.
    let host: u32 = number_after(text, "host ").or_else(|| {
        find_after(text, "scsi", |rest| rest.starts_with(|c: char| c.is_ascii_digit()).then(|| leading_number(rest))?)
    })?;
    Some(format!("{host}:{channel}:{}:{}", number_after::<u32>(text, "id ")?, number_after::<u64>(text, "lun ")?))
}

/// Parses `(0:1:0)`, which is host, target and lun; `scsi0 (1:0)`, target and lun of that host.
fn short(text: &str) -> Option<String> {
    let (before, _) = text.split_once('(')?;
    let numbers: Vec<u32> = between(text, '(', ')')?.split(':').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    match numbers[..] {
        [host, id, lun] if before.contains("SCSI Error") => Some(format!("{host}:0:{id}:{lun}")),
        [id, lun] => {
            let host: u32 = before.trim().rsplit_once("scsi")?.1.parse().ok()?;
            Some(format!("{host}:0:{id}:{lun}"))
        }
        _ => None,
    }
}

/// Parses `scsi0:A:1:0: parity error`, `(scsi0:A:1:0):`: the aic7xxx drivers use letters for their channels; `scsi0:0:4:0:
/// Attempting`.
fn lettered(text: &str) -> Option<String> {
    find_after(text, "scsi", |rest| {
        let mut parts = rest.split([':', ')', ' ']);
        let host = parts.next().filter(|h| is_number(h))?;
        let channel = match parts.next()? {
            "A" => "0",
            "B" => "1",
            channel if is_number(channel) => channel,
            _ => return None,
        };
        let id = parts.next().filter(|id| is_number(id))?;
        let lun = parts.next().filter(|lun| is_number(lun)).unwrap_or("0");
        Some(format!("{host}:{channel}:{id}:{lun}"))
    })
}

/// Parses `ata2.00:`, `ata2:`.
fn port(text: &str) -> Option<String> {
    let word = text.split_whitespace().find(|w| w.starts_with("ata") && w.ends_with(':'))?.trim_end_matches(':');
    let number = &word[3..];
    match number.split_once('.') {
        Some((port, device)) if is_number(port) && is_number(device) => Some(word.to_owned()),
        None if is_number(number) => Some(format!("{word}.00")),
        _ => None,
    }
}

/// Parses `[sdc]`.
pub fn bracketed(text: &str) -> Option<&str> {
    let name = text.split_once(": [")?.1.split(']').next()?;
    (name.starts_with("sd") && name.bytes().all(|b| b.is_ascii_alphanumeric())).then_some(name)
}

/// Parses the device's number in hexadecimal: `Deferred sd08:02: sense key`, `Current sd08:11: sns = f0  3`; or its name:
/// `Current sda: sense key`, `sda: Current: sense key`.
pub fn old_device(text: &str) -> Option<String> {
    let before = text.split(": sense key").next()?.split(": sns =").next()?;
    let word = before.split_whitespace().find(|w| w.starts_with("sd"))?.trim_end_matches(':');
    match word[2..].split_once(':') {
        Some((major, minor)) => numbered(major, minor),
        None => word.bytes().all(|b| b.is_ascii_lowercase()).then(|| word.to_owned()),
    }
}

/// Returns the device with these numbers, which 2.4 printed in hexadecimal.
pub fn numbered(major: &str, minor: &str) -> Option<String> {
    let hex = |s: &str| u32::from_str_radix(s, 16).ok();
    whyslow_model::topology::device_by_number(hex(major)?, hex(minor)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generation_names_its_targets() {
        for (line, want) in [
            ("sd 0:0:2:0: [sdc] Sense Key : Medium Error [current]", "0:0:2:0"),
            ("SCSI error : <0 0 1 0> return code = 0x8000002", "0:0:1:0"),
            ("SCSI disk error : host 0 channel 0 id 1 lun 0 return code = 27010000", "0:0:1:0"),
            ("scsi0: ERROR on channel 0, id 4, lun 0, CDB: Write (10)", "0:0:4:0"),
            ("SCSI Error Report =-=-= (0:1:0)", "0:0:1:0"),
            ("scsi0 (1:0): rejecting I/O to offline device", "0:0:1:0"),
            ("Attached scsi disk sdb at scsi0, channel 0, id 1, lun 0", "0:0:1:0"),
            ("(scsi0:A:1:0): parity error detected in Data-in phase.", "0:0:1:0"),
            ("scsi0:0:4:0: Attempting to abort cmd", "0:0:4:0"),
            ("qla2xxx 0000:05:00.0: scsi(1:0:0:2): Abort command issued", "1:0:0:2"),
            (
                "scsi : aborting command due to timeout : pid 43891492, scsi0, channel 0, id 1, lun 0 Write (10)",
                "0:0:1:0",
            ),
            ("iscsi 3 said: host 0 vchannel 7 channel 0 lun_id 9 id 1 lun 0", "0:0:1:0"),
            ("ata2.00: failed command: READ DMA", "ata2.00"),
            ("ata2: hard resetting link", "ata2.00"),
        ] {
            assert_eq!(target(line).as_deref(), Some(want), "{line}");
        }
        for line in [
            "md: md0: data-check done.",
            "scsi0 : ahci",
            "see scsi",
            "ata: x",
            "<1 2 3>",
            "pid 7, scsi0, channel 0, lun 0",
            "ssd 0:0:1:0: x",
        ] {
            assert_eq!(target(line), None, "{line}");
        }
    }

    #[test]
    fn old_drivers_name_devices_by_number_or_name() {
        assert_eq!(old_device("Info fld=0x0, Deferred sd08:02: sense key Medium Error").as_deref(), Some("sda2"));
        assert_eq!(old_device("Current sda: sense key Medium Error").as_deref(), Some("sda"));
        assert_eq!(old_device("sdb: Current: sense key: Medium Error").as_deref(), Some("sdb"));
        assert_eq!(old_device("[valid=0] Info fld=0x0, Current sd08:11: sns = f0  3").as_deref(), Some("sdb1"));
    }
}
