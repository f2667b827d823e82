//! Kernel object caches: slabtop(1) -o and /proc/slabinfo (slabinfo(5)).

use crate::prelude::*;
use whyslow_model::catalogue::Slab;

pub const SLABTOP: Format = Format {
    name: "slabtop",
    versions: "procps 3 and 4: -o, sorted in any way",
    shows: "which object caches of the kernel hold most memory; with free or /proc/meminfo whether that is too much",
    lacks: "who allocates the objects; whether a cache grows",
    programs: &[program("slabtop")],
    files: &["slabtop"],
    starts: |lines| {
        lines.next_is(|line| line.trim_start().starts_with("Active / Total Objects (% used)") || is_header(line))
    },
    read: read_slabtop,
    ..Format::NEW
};

pub const SLABINFO: Format = Format {
    name: "/proc/slabinfo",
    versions: "2.0 and 2.1, pages of 4 KiB",
    shows: "which object caches of the kernel hold most memory; with free or /proc/meminfo whether that is too much",
    lacks: "who allocates the objects; whether a cache grows",
    files: &["slabinfo"],
    starts: |lines| lines.next_is(|line| line.starts_with("slabinfo - version: 2.") || cache(line).is_some()),
    read: read_slabinfo,
    ..Format::NEW
};

/// Assumed page size: no file of the kernel shows it.
const PAGE: f64 = 4.0 * KIB;

fn is_header(line: &str) -> bool {
    line.split_whitespace().eq("OBJS ACTIVE USE OBJ SIZE SLABS OBJ/SLAB CACHE SIZE NAME".split(' '))
}

/// Returns objects, objects in use, bytes and name: `3871491 3185369  82%    0.10K  99269       39    397076K buffer_head`.
fn slabtop_row(line: &str) -> Option<(f64, f64, f64, &str)> {
    let mut words = line.split_whitespace();
    let objects = number(words.next()?)?;
    let active = number(words.next()?)?;
    words.next()?.ends_with('%').then_some(())?;
    words.next()?.ends_with('K').then_some(())?;
    let (_slabs, _objects_per_slab) = (number(words.next()?)?, number(words.next()?)?);
    let size = words.next().filter(|size| size.ends_with(|c: char| c.is_ascii_alphabetic()))?;
    let name = words.next()?;
    words.next().is_none().then_some((objects, active, scaled(size, KIB, KIB)?, name))
}

fn read_slabtop(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    while lines.take_past_blanks_if(|line| line.trim_start().contains(" / ") && line.contains(" : ")).is_some() {}
    if lines.take_past_blanks_if(is_header).is_none() {
        return Err(lines.refuse("the header of slabtop: OBJS ACTIVE USE"));
    }
    let is_damaged = |line: &str| crate::table::is_table_row(line);
    while let Some(line) =
        lines.take_own(|line| slabtop_row(line).is_some(), is_damaged, "a cache: seven numbers and its name")?
    {
        if let Some((objects, active, bytes, name)) = slabtop_row(&line.text) {
            record(run, line.number, name, objects, active, bytes);
        }
    }
    Ok(())
}

/// Returns objects, objects in use, bytes and name:
/// `ext4_inode  275  275  160  25  1 : tunables  0  0  0 : slabdata  11  11  0`.
fn cache(line: &str) -> Option<(f64, f64, f64, &str)> {
    let (first, rest) = line.split_once(" : tunables ")?;
    let (tunables, slabs) = rest.split_once(" : slabdata ")?;
    let mut words = first.split_whitespace();
    let name = words.next().filter(|name| *name != "#")?;
    let numbers: Vec<f64> = words.map(number).collect::<Option<_>>()?;
    let [active, objects, _size, _per_slab, pages] = numbers[..] else { return None };
    let three = |text: &str| text.split_whitespace().map(number).collect::<Option<Vec<f64>>>().filter(|n| n.len() == 3);
    let (_, slabs) = (three(tunables)?, three(slabs)?[1]);
    Some((objects, active, slabs * pages * PAGE, name))
}

fn read_slabinfo(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let is_title = |line: &str| line.starts_with("slabinfo - version:") || line.starts_with("# name ");
    let is_own = |line: &str| is_title(line) || cache(line).is_some();
    let is_damaged = |line: &str| line.contains(" : ");
    while let Some(line) = lines.take_own(is_own, is_damaged, "a cache: name, five numbers, tunables and slabdata")? {
        if let Some((objects, active, bytes, name)) = cache(&line.text) {
            record(run, line.number, name, objects, active, bytes);
        }
    }
    Ok(())
}

fn record(run: &mut ToolRun, line: u32, name: &str, objects: f64, active: f64, bytes: f64) {
    let row = run.row::<Slab>(0.0, line, name.into());
    (row.objects, row.active_objects, row.bytes) = (objects.into(), active.into(), bytes.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    fn largest(file: &str) -> (String, f64, f64) {
        let window = window_of(&fixture(file));
        let rows = window.newest::<Slab>();
        let row = rows.into_values().max_by(|a, b| a.bytes.get().partial_cmp(&b.bytes.get()).unwrap()).unwrap();
        (row.cache.to_string(), row.bytes.get().unwrap(), row.active_objects.get().unwrap())
    }

    #[test]
    fn caches_of_both_are_read() {
        assert_eq!(largest("layouts/slabtop-o.txt"), ("buffer_head".to_owned(), 382_484.0 * KIB, 1_600_926.0));
        assert_eq!(largest("layouts/proc-slabinfo.txt"), ("buffer_head".to_owned(), 391_663_616.0, 1_600_926.0));
    }

    #[test]
    fn what_is_no_row_is_none() {
        assert_eq!(slabtop_row("3871491 3185369  82%    0.10K  99269       39    397076 buffer_head"), None, "no unit");
        assert_eq!(
            cache("# name            <active_objs> <num_objs> : tunables <limit> : slabdata <active_slabs>"),
            None
        );
        let row = cache("kmalloc-64 10 20 64 64 1 : tunables 0 0 0 : slabdata 3 4 0");
        assert_eq!(row, Some((20.0, 10.0, 16384.0, "kmalloc-64")));
    }
}
