//! Generates logs of any size.

use clap::ValueEnum;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// What a log is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A syslog file as it is.
    Quiet,
    /// Nothing but errors.
    Flood,
    /// Without any prefix.
    Bare,
    /// From `journalctl -o json`.
    Json,
    /// Long lines that all look like errors, no two of them alike.
    Hostile,
}

/// Ordinary lines from several programs.
const ORDINARY: [(&str, &str); 6] = [
    ("systemd[1]", "Started Session 1234 of user backup."),
    ("kernel", "usb 1-1.2: new high-speed USB device number 7 using xhci_hcd"),
    ("sshd[31337]", "Accepted publickey for deploy from 192.0.2.17 port 50022 ssh2: ED25519 SHA256:abcdefghijklmnop"),
    ("kernel", "audit: type=1400 audit(1717236000.123:456): apparmor=\"ALLOWED\" operation=\"open\" profile=\"snap\""),
    ("CRON[4242]", "(root) CMD (/usr/local/bin/collect --all --quiet)"),
    ("kernel", "IPv6: ADDRCONF(NETDEV_CHANGE): veth1a2b3c4: link becomes ready"),
];
/// One line in this many is about a failing disk, in an otherwise quiet log.
const SELDOM: u64 = 1000;

/// Padding of a hostile line, in bytes.
const HOSTILE: usize = 2000;

/// Writes a log of at least this many bytes, up to a line more.
pub fn write(kind: Kind, path: &Path, bytes: u64) -> io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut written = 0;
    for at in 0.. {
        if written >= bytes {
            break;
        }
        let line = line(kind, at);
        out.write_all(line.as_bytes())?;
        written += line.len() as u64;
    }
    out.flush()?;
    Ok(written)
}

fn line(kind: Kind, at: u64) -> String {
    if kind == Kind::Hostile {
        let word: String = at.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
        return format!("[{at}.000000] I/O error, dev {word}, sector {at} {}\n", "x".repeat(HOSTILE));
    }
    let disk = at % 100;
    let failing = kind == Kind::Flood || at % SELDOM == SELDOM - 1;
    let (speaker, words) = if failing {
        let sector = at.wrapping_mul(2_654_435_761) % 1_953_525_168;
        ("kernel", format!("blk_update_request: I/O error, dev sd{}, sector {sector}", letters(disk)))
    } else {
        let (speaker, words) = ORDINARY[(at % ORDINARY.len() as u64) as usize];
        (speaker, words.to_owned())
    };
    let (hour, minute, second) = (at / 3_600_000 % 24, at / 60_000 % 60, at / 1000 % 60);
    match kind {
        Kind::Bare => format!("{words}\n"),
        Kind::Json => {
            let micros = 1_717_236_000_000_000 + at * 1000;
            let escaped = words.replace('"', "\\\"");
            format!(
                "{{\"__REALTIME_TIMESTAMP\":\"{micros}\",\"_TRANSPORT\":\"kernel\",\"PRIORITY\":\"6\",\"SYSLOG_IDENTIFIER\":\"{}\",\"MESSAGE\":\"{escaped}\"}}\n",
                speaker.split('[').next().unwrap_or(speaker)
            )
        }
        _ => format!("Jun  1 {hour:02}:{minute:02}:{second:02} web17 {speaker}: {words}\n"),
    }
}

/// Returns `a` to `z`, then two letters.
fn letters(number: u64) -> String {
    let letter = |n: u64| char::from(b'a' + (n % 26) as u8);
    if number < 26 { letter(number).into() } else { [letter(number / 26 - 1), letter(number)].iter().collect() }
}
