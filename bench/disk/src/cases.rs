//! The jobs that are run.

use crate::peer::Peer;
use crate::rig::Rig;

/// A job for both programs.
pub struct Case {
    /// Its name.
    pub name: String,
    /// Its options, the time aside.
    pub options: String,
    /// Whether it reads or writes.
    pub writes: bool,
    /// Whom whyslow is held against.
    pub peer: Peer,
}

/// Small random reads at several depths, and streams, on a file of a disk and on a loop device in memory; then streams as
/// dd and bonnie++ have them, on the disk.
pub fn all(rig: &Rig) -> Vec<Case> {
    let places = [("disk", rig.file()), ("loop", rig.device())];
    let mut cases: Vec<Case> = places.iter().flat_map(|(place, path)| on(place, path)).collect();
    cases.extend(streams(rig));
    cases
}

fn on(place: &str, path: &str) -> Vec<Case> {
    let reading = |name: String, options: &str| Case {
        name,
        options: format!("filename={path}\n{options}"),
        writes: false,
        peer: Peer::Fio,
    };
    let random = |depth: u32| {
        let options = format!("rw=randread\nbs=4k\niodepth={depth}\nnorandommap=1");
        reading(format!("{place}: randread 4k, depth {depth}"), &options)
    };
    let mut cases: Vec<Case> = [1, 8, 32, 128].map(random).into();
    cases.push(reading(format!("{place}: read 1m, depth 4"), "rw=read\nbs=1m\niodepth=4"));
    if place == "disk" {
        // Each program writes to a file of its own making.
        let options = "directory=/var/tmp\nsize=512m\nrw=write\nbs=1m\niodepth=4\noverwrite=1\nunlink=1".to_owned();
        cases.push(Case { name: format!("{place}: write 1m, depth 4"), options, writes: true, peer: Peer::Fio });
    }
    cases
}

/// The same phases: as large requests, as much of a file, the same way past the page cache or through it, synced alike.
fn streams(rig: &Rig) -> Vec<Case> {
    let new_file = |size: &str, block: &str| {
        format!("directory={}\nsize={size}\nrw=write\nbs={block}\ndirect=0\nend_fsync=1", rig.folder())
    };
    let case = |name: &str, options, writes, peer| Case { name: name.into(), options, writes, peer };
    let past_cache = format!("filename={}\nrw=read\nbs=1m\ndirect=1", rig.file());
    // Written first, and so in the page cache when it is read, as bonnie++'s is.
    let warm = format!("directory={}\nsize=1g\nrw=read\nbs=8k\ndirect=0\ninvalidate=0", rig.folder());
    vec![
        case("dd: write 1m, fsync", new_file("512m", "1m"), true, Peer::DdWrite),
        case("dd: read 1m, direct", past_cache, false, Peer::DdRead),
        case("bonnie++: write 8k, fsync", new_file("1g", "8k"), true, Peer::BonnieWrite),
        case("bonnie++: read 8k, cached", warm, false, Peer::BonnieRead),
    ]
}
