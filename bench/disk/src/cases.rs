//! Cases that whyslow and another program both run.

use crate::rig::{Folder, Rig};

pub struct Case {
    pub name: String,
    /// Folder of its files.
    pub folder: Folder,
    /// CPUs that it is pinned to.
    pub held: Processors,
    pub work: Work,
}

/// Workload, and the program that runs it besides whyslow.
pub enum Work {
    /// A job that fio runs, too.
    Fio {
        /// Job options without times.
        options: String,
        flow: Flow,
        /// Unmeasured time before the run.
        ramp: &'static str,
    },
    /// A job with an equivalent for dd.
    Dd {
        options: String,
        flow: Flow,
        dd: Vec<String>,
        /// Bytes of page cache that it fills.
        cached: usize,
    },
    /// Streams of `whyslow bench fs` and the corresponding phases of bonnie++.
    Bonnie,
}

/// CPUs on which the programs and the kernel's workers may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processors {
    Any,
    /// All on one CPU.
    One,
    /// The programs on one CPU, the workers on another.
    Two,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Read,
    Write,
}

const RAMP: &str = "500ms";
/// Time until the placement of a program at depth 1 and of the loop device's worker has settled: in its first seconds
/// fio does about twice as many requests as after six.
const SETTLED: &str = "8s";

/// Returns random reads at several depths and streams, on a disk and on a loop device in memory (there also settled,
/// pinned to one CPU, and to two); then the streams of dd and bonnie++.
pub fn all(rig: &Rig) -> Vec<Case> {
    let places = [("disk", rig.disk()), ("memory", rig.memory())];
    let mut cases = reads("disk", rig.disk(), &rig.disk().file());
    cases.extend(reads("loop", rig.disk(), rig.device()));
    cases.push(random("loop, settled", rig.disk(), rig.device(), 1, SETTLED));
    for (name, held) in [("loop, one processor", Processors::One), ("loop, two processors", Processors::Two)] {
        cases.extend(reads(name, rig.disk(), rig.device()).into_iter().map(|case| Case { held, ..case }));
    }
    cases.extend(places.iter().map(|(place, folder)| write(place, folder)));
    cases.extend(places.iter().flat_map(|(place, folder)| streams(place, folder)));
    let (name, folder) = ("bonnie++, memory".to_owned(), rig.memory().clone());
    cases.push(Case { name, folder, held: Processors::Any, work: Work::Bonnie });
    cases
}

fn reads(place: &str, folder: &Folder, path: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = [1, 8, 32, 128].map(|depth| random(place, folder, path, depth, RAMP)).into();
    let options = format!("filename={path}\nrw=read\nbs=1m\niodepth=4");
    cases.push(job(format!("{place}: read 1m, depth 4"), folder, options, Flow::Read, RAMP));
    cases
}

fn random(place: &str, folder: &Folder, path: &str, depth: u32, ramp: &'static str) -> Case {
    let options = format!("filename={path}\nrw=randread\nbs=4k\niodepth={depth}\nnorandommap=1");
    job(format!("{place}: randread 4k, depth {depth}"), folder, options, Flow::Read, ramp)
}

/// Returns a write case; each program writes to its own file.
fn write(place: &str, folder: &Folder) -> Case {
    let options = format!("directory={}\nsize=512m\nrw=write\nbs=1m\niodepth=4\noverwrite=1\nunlink=1", folder.path());
    job(format!("{place}: write 1m, depth 4"), folder, options, Flow::Write, RAMP)
}

fn job(name: String, folder: &Folder, options: String, flow: Flow, ramp: &'static str) -> Case {
    Case { name, folder: folder.clone(), held: Processors::Any, work: Work::Fio { options, flow, ramp } }
}

/// Returns stream cases with the same request size, amount, caching and syncs as dd.
fn streams(place: &str, folder: &Folder) -> [Case; 3] {
    const MIB: usize = 1 << 20;
    let case = |name: &str, options, flow, dd: &str, cached| {
        let dd = format!("bs=1M {dd}").split(' ').map(str::to_owned).collect();
        let work = Work::Dd { options, flow, dd, cached };
        Case { name: format!("dd, {place}: {name}"), folder: folder.clone(), held: Processors::Any, work }
    };
    let new_file =
        |direct: u8| format!("directory={}\nsize=512m\nrw=write\nbs=1m\ndirect={direct}\nend_fsync=1", folder.path());
    let to = format!("if=/dev/zero of={} count=512 conv=fsync", folder.new_file());
    let past_cache = format!("filename={}\nrw=read\nbs=1m\ndirect=1", folder.file());
    let from = format!("if={} of=/dev/null iflag=direct", folder.file());
    [
        case("write 1m, fsync", new_file(0), Flow::Write, &to, 512 * MIB),
        case("write 1m, direct, fsync", new_file(1), Flow::Write, &format!("{to} oflag=direct"), 0),
        case("read 1m, direct", past_cache, Flow::Read, &from, 0),
    ]
}
