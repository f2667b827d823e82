//! Arrays and striped volumes whose chunks are smaller than the reads, and look-alikes.

use crate::{SECOND, disk, found, key, machine, pressure, two_cpus};
use whyslow_documents::diagnosis::{Confidence, Diagnosis};
use whyslow_model::catalogue::*;
use whyslow_model::key::{LinkKey, OperationKey, RequesterKey};
use whyslow_model::value::Name;

const MEMBERS: [&str; 4] = ["sda", "sdb", "sdc", "sdd"];
/// Reads per second, and bytes of each.
const READS: u64 = 100;
const SIZE: u64 = 64 << 10;

/// A volume over four disks.
#[derive(Clone, Copy)]
struct Striped {
    /// Whether it is a volume of md, which counts the pieces, or of the device mapper, which counts the requests.
    md: bool,
    chunk: u64,
    /// Share of the members' reads that begin where another ended, in per cent.
    sequential: u64,
    /// Per cent of the time in which each member was busy.
    busy: u64,
}

/// Each read uses all members, with two pieces on each of them.
const SMALL: Striped = Striped { md: true, chunk: 8 << 10, sequential: 50, busy: 100 };

impl Striped {
    fn diagnosis(self) -> Diagnosis {
        let piece = self.chunk.min(SIZE);
        let pieces = SIZE / piece;
        machine(move |t, s| {
            two_cpus(t, s, 5, 0);
            pressure(t, s, 0, 0, 99);
            let name: Name = if self.md { "md0" } else { "dm-0" }.into();
            let of_members = READS * pieces / MEMBERS.len() as u64;
            for member in MEMBERS {
                let link = LinkKey { upper: name.clone(), lower: member.into() };
                let kind = if self.md { "md" } else { "dm" };
                s.block.layer.push(Layer { kind: kind.into(), ..Layer::new(link) });
                let busy = (t * SECOND / 100 * self.busy).into();
                s.block.disk.push(Disk { busy_time: busy, ..disk(t, member, of_members, piece, 1.0) });
                let on = OperationKey { device: member.into(), operation: "read".into() };
                s.block.request.push(Request {
                    requests: (t * of_members).into(),
                    sequential: (t * of_members * self.sequential / 100).into(),
                    ..Request::new(on.clone())
                });
                s.block.requester.push(Requester {
                    command: "reader".into(),
                    requests: (t * of_members).into(),
                    queue_time: 0.into(),
                    device_time: (t * SECOND).into(),
                    ..Requester::new(RequesterKey { on, task: key(20), cgroup: Name::default() })
                });
            }
            let counted = if self.md { pieces } else { 1 };
            s.block.disk.push(disk(t, &name, READS * counted, SIZE / counted, 8.0));
            if self.md {
                s.block.array.push(Array { level: "raid0".into(), chunk: self.chunk.into(), ..Array::new(name) });
            } else {
                s.block.mapped.push(MappedDevice { chunk: self.chunk.into(), ..MappedDevice::new(name) });
            }
            s.task.process.push(Process::from(ProcessRow {
                command: "reader".into(),
                state: "D".into(),
                user: (t * SECOND / 50).into(),
                system: 0.into(),
                read_bytes: (t * READS * SIZE).into(),
                write_bytes: 0.into(),
                read_chars: (t * READS * SIZE).into(),
                read_calls: (t * READS).into(),
                kernel_thread: 0.0.into(),
                ..ProcessRow::new(key(20))
            }));
        })
    }
}

#[test]
fn a_chunk_that_is_too_small_is_the_cause_and_its_reader_the_culprit() {
    for md in [true, false] {
        let d = Striped { md, ..SMALL }.diagnosis();
        let first = &d.findings[0];
        assert_eq!((&*first.id, first.confidence), ("disk.request_split", Confidence::High), "{:#?}", d.findings);
        assert_eq!(first.subject.name, if md { "md0" } else { "dm-0" });
        assert_eq!(first.culprits.first().map(|culprit| &*culprit.name), Some("reader"));
        assert!(first.summary.contains("a read of 64 KiB occupies 4 of its members"), "{}", first.summary);
    }
}

#[test]
fn a_large_chunk_a_stream_and_idle_members_are_no_such_cause() {
    for (striped, why) in [
        (Striped { chunk: 512 << 10, sequential: 0, ..SMALL }, "nothing is cut"),
        (Striped { sequential: 99, ..SMALL }, "each member reads on"),
        (Striped { busy: 40, ..SMALL }, "members have time left"),
    ] {
        for md in [true, false] {
            let d = Striped { md, ..striped }.diagnosis();
            assert!(found(&d, "disk.request_split").is_none(), "{why}: {:#?}", d.findings);
        }
    }
}
