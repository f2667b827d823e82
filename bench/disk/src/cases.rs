//! The jobs that are run.

use crate::rig::Rig;

/// A job for both programs.
pub struct Case {
    /// Its name.
    pub name: String,
    /// Its options, the time aside.
    pub options: String,
    /// Whether it reads or writes.
    pub writes: bool,
}

/// Small random reads at several depths, and streams, on a file of a disk and on a loop device in memory.
pub fn all(rig: &Rig) -> Vec<Case> {
    let places = [("disk", rig.file()), ("loop", rig.device())];
    places.iter().flat_map(|(place, path)| on(place, path)).collect()
}

fn on(place: &str, path: &str) -> Vec<Case> {
    let reading =
        |name: String, options: &str| Case { name, options: format!("filename={path}\n{options}"), writes: false };
    let random = |depth: u32| {
        let options = format!("rw=randread\nbs=4k\niodepth={depth}\nnorandommap=1");
        reading(format!("{place}: randread 4k, depth {depth}"), &options)
    };
    let mut cases: Vec<Case> = [1, 8, 32, 128].map(random).into();
    cases.push(reading(format!("{place}: read 1m, depth 4"), "rw=read\nbs=1m\niodepth=4"));
    if place == "disk" {
        // Each program writes to a file of its own making.
        let options = "directory=/var/tmp\nsize=512m\nrw=write\nbs=1m\niodepth=4\noverwrite=1\nunlink=1".to_owned();
        cases.push(Case { name: format!("{place}: write 1m, depth 4"), options, writes: true });
    }
    cases
}
