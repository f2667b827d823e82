//! Tests that no log makes the decoders panic or find more than it contains.

use super::{LogMessage, array, notice, oom, storage};
use proptest::prelude::*;

/// Parts of kernel messages that get the decoders beyond their first word.
const PIECES: [&str; 64] = [
    "sd 0:0:0:0: [sda] ",
    "scsi0 (1:0): ",
    "ata1.00: ",
    "ata1: ",
    "nvme nvme0: ",
    "nvme0n1: ",
    "mmcblk0: ",
    "mmc0: ",
    "hda: ",
    "Sense Key : ",
    "Medium Error [current]",
    "0x",
    "Add. Sense: ",
    "ASC/ASCQ=",
    "0Ch/02h",
    "ASC=0x11 ",
    "ASCQ=",
    "SenseData[",
    "12h]: ",
    "70 00 03 ",
    "SCSI Error: Key=",
    "sns = f0 3",
    "hostbyte=",
    "DID_TIME_OUT",
    "return code = ",
    "I/O error, dev ",
    "sda",
    ", sector ",
    "Emask 0x4 (timeout)",
    "res 41/40:00:70:55:56/00:00:10:00:00/40",
    "error: { UNC }",
    "SErr ",
    "SError: { ",
    "PD 04(e0x08/s4) ",
    "mega",
    "3w-9xxx: scsi0: AEN: ",
    "port=",
    "(sct 0x2 / sc 0x81)",
    "CSTS=0x",
    "error -110 ",
    "LBA ",
    "md/raid1:md0: ",
    "Disk failure on ",
    "wd:1 rd:2",
    "conf printout",
    "not enough operational devices for md1 (",
    "2/4 failed)",
    "VD ",
    "task ",
    "blocked for more than",
    "EDAC MC0: ",
    " CE ",
    "label \"",
    "SYN flooding on port ",
    "eth0: ",
    "link down",
    "EXT3-fs error (device sd(",
    "8,3))",
    "device-mapper: multipath: 253:3: Failing path 8:32.",
    "[ pid ] uid rss name",
    "[ 12 ] 0 ",
    "memory: usage ",
    "Killed process ",
    "invoked oom-killer",
];

fn line() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => prop::sample::select(PIECES.to_vec()).prop_map(str::to_owned),
        1 => "[0-9a-fA-F]{1,18}",
        1 => "[ :,()\\[\\]{}/<>\"'.#-]{1,3}",
        1 => "\\PC{0,6}",
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_log_makes_it_panic(lines in prop::collection::vec(line(), 0..24)) {
        let log = || lines.iter().zip(0..).map(|(text, sequence)| LogMessage { sequence, text, times: 1.0 });
        let errors = storage::parse(log());
        // A line reports at most one error, and one of its link.
        prop_assert!(errors.events.len() <= 2 * lines.len());
        prop_assert!(errors.events.iter().all(|e| e.sequence < lines.len() as u64 && !e.target.contains('\n')));
        prop_assert!(notice::gather(log()).iter().all(|n| n.count.is_finite() && n.lines.0 <= n.lines.1));
        prop_assert!(oom::kills(log()).len() <= lines.len());
        array::parse(log());
    }
}
