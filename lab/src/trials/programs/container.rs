//! Trials with programs in containers of a runtime.

use crate::container::ContainerSpec;
use crate::disk::{DiskSpec, SimulatedDisk, write_file};
use crate::error::Result;
use crate::expect::EntityPattern::Command;
use crate::expect::Expect;
use crate::interrupt;
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::path::PathBuf;
use std::time::Duration;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "container-quota",
        what: "ffmpeg encodes a video in a container of runc whose quota is too small",
        finding: Some("cpu.throttled"),
        never: &["cpu.saturated", "cpu.single_thread"],
        setup: |bed| {
            let quota = 1000 * bed.range(20..=60);
            let container = encode(&[]).cpu_quota(quota).start(bed)?;
            let group = container.pattern();
            Ok(Expect::subject([group.clone()]).culprit([Command("ffmpeg"), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "container-memory",
        what: "tar reads files again and again in a container of runc whose memory is too small for their page cache",
        finding: Some("mem.cache_thrash"),
        never: &["mem.thrashing", "mem.leak", "disk.depth_one"],
        setup: |bed| {
            let limit = bed.range(48..=80) << 20;
            let files = bed.range(3..=5);
            let (mut disk, data) = data_disk(bed, files, limit)?;
            disk.enable_delays()?;
            let container = pack(":").memory(limit).data(&data).start(bed)?;
            // There are no refaults until the cache has filled up.
            interrupt::sleep(Duration::from_secs(3))?;
            let group = container.pattern();
            Ok(Expect::subject([group.clone()]).culprit([Command("tar"), Command("cat"), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "container",
        what: "ffmpeg encodes a video as fast as it would be played, in a container of runc with room to spare",
        setup: |bed| {
            let quota = 1000 * bed.range(150..=190);
            encode(&["-re"]).cpu_quota(quota).memory(512 << 20).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "container-cache",
        what: "tar reads files now and then in a container of runc whose memory is large enough for their page cache",
        setup: |bed| {
            let bytes = bed.range(16..=32) << 20;
            let (mut disk, data) = data_disk(bed, 1, bytes)?;
            disk.enable_delays()?;
            pack("sleep 1").memory(8 * bytes).data(&data).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Returns a container that encodes a test picture endlessly.
fn encode(pace: &[&str]) -> ContainerSpec {
    let before = ["ffmpeg", "-nostats", "-loglevel", "error"];
    let picture = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-c:v", "mpeg4", "-f", "null", "-"];
    ContainerSpec::new(before.iter().chain(pace).chain(&picture))
}

/// Returns a container that archives `/data` again and again. tar itself would not read data that it writes to
/// /dev/null.
fn pack(pause: &str) -> ContainerSpec {
    ContainerSpec::new(["sh", "-c", &format!("while :; do tar -C /data -cf - . | cat >/dev/null; {pause}; done")])
}

/// Creates a file system with this many files of this size.
fn data_disk(bed: &mut Testbed, files: u64, bytes: u64) -> Result<(SimulatedDisk, PathBuf)> {
    let latency = Duration::from_micros(bed.range(2000..=4000));
    let disk = SimulatedDisk::new(bed, 1 << 30, DiskSpec::new(latency, 2))?;
    let data = disk.device.ext4(bed, "fs", &[])?;
    for n in 0..files {
        write_file(&data.join(format!("file{n}")), bytes)?;
    }
    Ok((disk, data))
}
