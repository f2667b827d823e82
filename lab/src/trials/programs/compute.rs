//! Trials with gcc and ffmpeg.

use crate::cgroup::{Cgroup, Controller};
use crate::error::{Context, Result};
use crate::expect::EntityPattern::{self, Command, Host, Process};
use crate::expect::Expect;
use crate::program::{ProgramCommand, home};
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::fmt::Write;
use std::fs;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "gcc-many",
        what: "sixteen compilers at a time are more than there are CPUs",
        finding: Some("cpu.saturated"),
        never: &["cpu.single_thread", "cpu.throttled", "cpu.short_lived"],
        setup: |bed| {
            compile(bed, 16, "")?;
            Ok(Expect::subject([Host]).culprit([Command("cc1")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "ffmpeg-quota",
        what: "ffmpeg encodes a video in a cgroup whose quota is too small",
        finding: Some("cpu.throttled"),
        never: &["cpu.saturated", "cpu.single_thread"],
        setup: |bed| {
            let group = Cgroup::new(bed, "video", &[Controller::Cpu])?;
            group.set_cpu_quota(100_000 * bed.range(20..=60) / 100, 100_000)?;
            let ffmpeg = encode(bed, "", Some(&group))?;
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone()]).culprit([Process(ffmpeg), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "gcc",
        what: "one compiler at a time runs at the lowest priority",
        setup: |bed| {
            compile(bed, 1, "nice -n 19 ")?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "ffmpeg",
        what: "ffmpeg encodes a small video as fast as it would be played",
        setup: |bed| {
            encode(bed, "-re", None)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Compiles a file of a few hundred functions again and again.
fn compile(bed: &mut Testbed, at_once: u64, before: &str) -> Result<u32> {
    let home = home(bed)?;
    let mut text = String::new();
    for n in 0..bed.range(300..=500) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "int f{n}(int a, int b) {{ for (int i = 0; i < a; i++) b ^= (b << {}) + i * a; return b; }}",
            n % 7
        );
    }
    fs::write(home.join("unit.c"), text).context("unit.c")?;
    ProgramCommand::new(&home, "gcc", "gcc")?.args(["-fsyntax-only", "unit.c"]).run()?;
    let script =
        format!("while :; do seq 256 | xargs -P {at_once} -I {{}} {before}gcc -O2 -S unit.c -o /dev/null; done");
    ProgramCommand::new(&home, "sh", "dash")?.args(["-c", &script]).start(bed)
}

/// Encodes a test picture endlessly.
fn encode(bed: &mut Testbed, pace: &str, group: Option<&Cgroup>) -> Result<u32> {
    let home = home(bed)?;
    let mut ffmpeg = ProgramCommand::new(&home, "ffmpeg", "ffmpeg")?.args(["-nostats", "-loglevel", "error"]);
    ffmpeg = ffmpeg.args(pace.split_whitespace()).args(["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25"]);
    ffmpeg = ffmpeg.args(["-c:v", "mpeg4", "-f", "null", "-"]);
    if let Some(group) = group {
        ffmpeg = ffmpeg.in_cgroup(group)?;
    }
    ffmpeg.start(bed)
}
