//! Where to look in a long recording: what stands out in a few columns.
//!
//! A rule about time lost cannot hold where nobody stalls, no processor and no task is busy, nothing waits for a lock or
//! sleeps uninterruptibly, nothing is dropped, killed, throttled or sent again, and the kernel logs nothing. These columns tell
//! that in a hundredth of the time it takes to judge. Each threshold is below those of the rules that need it, so that a cause
//! that fills a part of a window stands out, too.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use whyslow_model::course::Course;
use whyslow_model::course::Sought::{self, Is, Number};

/// Nanoseconds of a second.
const S: f64 = 1e9;
/// The stretches of time that stand out or do not, nanoseconds: as long as a diagnosis' window.
const BUCKET_NS: i64 = 10 * 1_000_000_000;
/// What an entity did in less time than this is taken for what it did in as much, seconds.
const SHORTEST: f64 = 5.0;
/// Readings that are so many intervals apart are not of one entity, or of one recorder, unless both are within the length of
/// a bucket: a machine that is busy enough to keep its recorder from sampling is what this looks for.
const GAP: f64 = 3.5;

/// Something to look out for.
#[derive(Debug)]
pub struct Lookout {
    /// The family.
    pub family: &'static str,
    /// Its columns; where there are several, their sum counts.
    pub columns: &'static [Sought],
    stands_out: Sign,
}

/// What stands out.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// It grows by this much a second or more.
    Grows(f64),
    /// It does not grow by more than this a second.
    Rests(f64),
    /// It is this much or more on average.
    Is(f64),
    /// All entities together are this much or more on average.
    Together(f64),
    /// The first column is no more than this part of the second.
    AtMost(f64),
    /// The first column is this part of the second, or more.
    AtLeast(f64),
    /// There is any.
    Any,
}

const fn lookout(family: &'static str, columns: &'static [Sought], stands_out: Sign) -> Lookout {
    Lookout { family, columns, stands_out }
}

/// What to look out for. Rules about time lost need 10 % of it and more.
pub const LOOKOUTS: &[Lookout] = &[
    lookout("pressure", &[Number("cpu_some")], Sign::Grows(0.02 * S)),
    lookout("pressure", &[Number("memory_some")], Sign::Grows(0.02 * S)),
    lookout("pressure", &[Number("io_some")], Sign::Grows(0.02 * S)),
    // A processor that is nearly full, whoever fills it.
    lookout("cpu", &[Number("idle"), Number("iowait")], Sign::Rests(0.2 * S)),
    lookout("cpu", &[Number("steal")], Sign::Grows(0.05 * S)),
    lookout("process", &[Number("user"), Number("system")], Sign::Grows(0.25 * S)),
    lookout("process", &[Is("state", "D")], Sign::Is(0.3)),
    lookout("process", &[Number("open_files"), Number("open_files_limit")], Sign::AtLeast(0.95)),
    lookout("thread", &[Is("state", "D")], Sign::Is(0.3)),
    // Half of one waiter is what rule lock.contention asks for.
    lookout("thread", &[Number("lock_wait")], Sign::Together(0.4)),
    lookout("group", &[Number("throttled_time")], Sign::Grows(0.01 * S)),
    lookout("group", &[Number("limit_events"), Number("high_events")], Sign::Grows(2.0)),
    lookout("group", &[Number("oom_kills")], Sign::Grows(0.01)),
    lookout("vmstat", &[Number("oom_kill")], Sign::Grows(0.01)),
    lookout("log", &[], Sign::Any),
    lookout("protocol", &[Number("tcp_retrans_segs")], Sign::Grows(0.2)),
    lookout("listener", &[Number("drops")], Sign::Grows(0.01)),
    lookout("datagram", &[Number("drops")], Sign::Grows(0.2)),
    lookout("connection", &[Number("rwnd_limited"), Number("sndbuf_limited")], Sign::Grows(0.1 * S)),
    lookout("interface", &[Number("rx_packets"), Number("tx_packets")], Sign::Grows(5000.0)),
    lookout("qdisc", &[Number("overlimits")], Sign::Grows(1.0)),
    lookout("mount", &[Number("available"), Number("size")], Sign::AtMost(0.01)),
    lookout("mount", &[Number("inodes_free"), Number("inodes")], Sign::AtMost(0.01)),
    lookout("meminfo", &[Number("mem_available"), Number("mem_total")], Sign::AtMost(0.15)),
    lookout("limits", &[Number("files"), Number("files_max")], Sign::AtLeast(0.9)),
    lookout("ipc", &[Number("shm_segments"), Number("shm_segments_max")], Sign::AtLeast(0.9)),
    lookout("ipc", &[Number("shm_bytes"), Number("shm_bytes_max")], Sign::AtLeast(0.9)),
    lookout("ipc", &[Number("sem_arrays"), Number("sem_arrays_max")], Sign::AtLeast(0.9)),
    lookout("ipc", &[Number("semaphores"), Number("semaphores_max")], Sign::AtLeast(0.9)),
    lookout("array", &[Number("degraded")], Sign::Is(0.5)),
    lookout("array", &[Is("action", "resync"), Is("action", "recover"), Is("action", "check")], Sign::Is(0.5)),
];

/// Where something stands out.
#[derive(Debug)]
pub struct Standout {
    interval: f64,
    buckets: BTreeSet<i64>,
    /// For each lookout that adds up, what there is in each bucket.
    together: BTreeMap<(usize, i64), f64>,
}

impl Standout {
    /// Nothing yet, of samples that are so many seconds apart.
    pub fn new(interval: f64) -> Self {
        Self { interval: interval.max(1e-3), buckets: BTreeSet::new(), together: BTreeMap::new() }
    }

    /// Looks through rows of what this lookout, by its place in [`LOOKOUTS`], is about.
    pub fn look(&mut self, number: usize, course: &Course) {
        let Some(lookout) = LOOKOUTS.get(number) else { return };
        match lookout.stands_out {
            Sign::Any => self.buckets.extend(course.at.iter().map(|at| bucket(*at))),
            Sign::AtMost(most) => self.parts(course, |part| part <= most),
            Sign::AtLeast(least) => self.parts(course, |part| part >= least),
            sign => self.by_entity(number, sign, course),
        }
    }

    /// The stretches of time in which something stands out, in order, nanoseconds since 1970.
    pub fn finish(mut self) -> Vec<RangeInclusive<i64>> {
        for ((number, bucket), sum) in std::mem::take(&mut self.together) {
            let mean = sum * self.interval / (BUCKET_NS as f64 / S);
            if matches!(LOOKOUTS[number].stands_out, Sign::Together(least) if mean >= least) {
                self.buckets.insert(bucket);
            }
        }
        let mut stretches: Vec<RangeInclusive<i64>> = Vec::new();
        for bucket in self.buckets {
            let (start, end) = (bucket * BUCKET_NS, (bucket + 1) * BUCKET_NS);
            match stretches.last_mut() {
                Some(last) if *last.end() == start => *last = *last.start()..=end,
                _ => stretches.push(start..=end),
            }
        }
        stretches
    }

    fn parts(&mut self, course: &Course, stands_out: impl Fn(f64) -> bool) {
        let [part, whole] = &course.columns[..] else { return };
        let shares = part.iter().zip(whole).map(|(part, whole)| part / whole);
        let found = course.at.iter().zip(shares).filter(|(_, share)| stands_out(*share));
        self.buckets.extend(found.map(|(at, _)| bucket(*at)));
    }

    fn by_entity(&mut self, number: usize, sign: Sign, course: &Course) {
        let value = |row: usize| course.columns.iter().map(|column| column[row]).sum::<f64>();
        let mut tally = Tally::default();
        let mut last: Option<(i64, f64)> = None;
        for (row, at) in course.at.iter().enumerate() {
            let now = value(row);
            let step = last.map(|(before, value)| ((at - before) as f64 / S, now - value));
            let longest = (GAP * self.interval).max(BUCKET_NS as f64 / S);
            let step = step.filter(|(seconds, _)| *seconds > 0.0 && *seconds < longest);
            if tally.bucket != bucket(*at) || step.is_none() {
                self.close(number, sign, &tally);
                tally = Tally { bucket: bucket(*at), ..Tally::default() };
            }
            tally.add(step, now);
            last = Some((*at, now));
        }
        self.close(number, sign, &tally);
    }

    /// Judges what one entity did in a bucket.
    fn close(&mut self, number: usize, sign: Sign, tally: &Tally) {
        let rate = || tally.grown / tally.seconds.max(SHORTEST);
        let stands_out = match sign {
            Sign::Grows(least) => tally.seconds > 0.0 && rate() >= least,
            // Of a processor that was not looked at nothing is known.
            Sign::Rests(most) => tally.seconds >= SHORTEST && rate() <= most,
            Sign::Is(least) => tally.count > 0 && tally.sum / tally.count as f64 >= least,
            Sign::Together(_) => {
                if tally.sum > 0.0 {
                    *self.together.entry((number, tally.bucket)).or_default() += tally.sum;
                }
                false
            }
            Sign::AtMost(_) | Sign::AtLeast(_) | Sign::Any => false,
        };
        if stands_out {
            self.buckets.insert(tally.bucket);
        }
    }
}

fn bucket(at: i64) -> i64 {
    at.div_euclid(BUCKET_NS)
}

/// What one entity did in a bucket.
#[derive(Default)]
struct Tally {
    bucket: i64,
    grown: f64,
    seconds: f64,
    sum: f64,
    count: usize,
}

impl Tally {
    fn add(&mut self, step: Option<(f64, f64)>, now: f64) {
        if let Some((seconds, grown)) = step.filter(|(_, grown)| *grown >= 0.0) {
            self.seconds += seconds;
            self.grown += grown;
        }
        if now.is_finite() {
            self.sum += now;
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::{Kind, families};

    const SECOND: i64 = 1_000_000_000;

    /// The place of a lookout by family and first column.
    fn number(family: &str, column: Sought) -> usize {
        LOOKOUTS.iter().position(|l| l.family == family && l.columns.first() == Some(&column)).unwrap()
    }

    /// Rows of one entity, a second apart from `from` on.
    fn course(from: i64, column: &[f64]) -> Course {
        Course { at: (0..column.len() as i64).map(|t| (from + t) * SECOND).collect(), columns: vec![column.to_vec()] }
    }

    /// The seconds that stand out.
    fn found(number: usize, courses: &[Course]) -> Vec<(i64, i64)> {
        let mut standout = Standout::new(1.0);
        courses.iter().for_each(|course| standout.look(number, course));
        standout.finish().into_iter().map(|s| (s.start() / SECOND, s.end() / SECOND)).collect()
    }

    #[test]
    fn what_is_looked_for_is_in_the_catalogue() {
        for lookout in LOOKOUTS {
            let family = families().into_iter().find(|family| family.name == lookout.family).expect(lookout.family);
            for column in lookout.columns {
                let (Number(name) | Is(name, _)) = column;
                let metric = family.metrics.iter().find(|metric| metric.name == *name).expect(name);
                assert_eq!(metric.kind == Kind::State, matches!(column, Is(..)), "{name}");
            }
        }
    }

    #[test]
    fn a_counter_stands_out_where_it_grows() {
        let stall = |from: usize, to: usize| {
            let grown = |t: usize| (t.clamp(from, to) - from) as f64 * 0.1 * S;
            course(0, &(0..60).map(grown).collect::<Vec<f64>>())
        };
        let pressure = number("pressure", Number("io_some"));
        assert_eq!(found(pressure, &[stall(23, 41)]), [(20, 50)]);
        assert_eq!(found(pressure, &[stall(0, 0)]), []);
        // Three seconds of a tenth are still 3 % of a window.
        assert_eq!(found(pressure, &[stall(31, 34)]), [(30, 40)]);
    }

    #[test]
    fn entities_and_recorders_that_follow_one_another_are_told_apart() {
        let pressure = number("pressure", Number("io_some"));
        let mut two = course(0, &[0.0; 20]);
        two.at.extend((0..20).map(|t| t * SECOND));
        two.columns[0].extend([1e12; 20]);
        assert_eq!(found(pressure, &[two]), []);
        let mut gap = course(0, &[0.0; 5]);
        gap.at.extend((300..305).map(|t| t * SECOND));
        gap.columns[0].extend([1e12; 5]);
        assert_eq!(found(pressure, &[gap]), []);
        assert_eq!(found(pressure, &[course(0, &[f64::NAN; 20])]), [], "absent is not zero");
    }

    #[test]
    fn what_happens_while_the_recorder_hardly_gets_to_sample_stands_out() {
        let pressure = number("pressure", Number("cpu_some"));
        let at: Vec<i64> = (0..31).chain([36, 41, 46, 51, 56]).chain(57..80).collect();
        let stalled = |t: i64| (t.clamp(31, 56) - 31) as f64 * S;
        let starved = Course {
            columns: vec![at.iter().map(|t| stalled(*t)).collect()],
            at: at.iter().map(|t| t * SECOND).collect(),
        };
        assert_eq!(found(pressure, &[starved]), [(30, 60)]);
    }

    #[test]
    fn a_processor_stands_out_where_it_does_not_rest() {
        let idle = number("cpu", Number("idle"));
        let rests = |busy_from: i64| {
            let mut rows = course(0, &(0..40).map(|t: i64| t.min(busy_from) as f64 * S).collect::<Vec<f64>>());
            rows.columns.push(vec![0.0; 40]);
            rows
        };
        assert_eq!(found(idle, &[rests(100), rests(20)]), [(20, 40)]);
    }

    #[test]
    fn many_that_wait_a_little_add_up() {
        let waits = number("thread", Number("lock_wait"));
        let one =
            |waiting: bool| course(0, &(0..10).map(|t| f64::from(u8::from(waiting && t == 3))).collect::<Vec<f64>>());
        assert_eq!(found(waits, &[one(true), one(false)]), []);
        assert_eq!(found(waits, &vec![one(true); 5]), [(0, 10)]);
    }

    #[test]
    fn shares_of_a_whole_stand_out_at_either_end() {
        let share = |a: f64, b: f64| Course { at: vec![5 * SECOND], columns: vec![vec![a], vec![b]] };
        let space = number("mount", Number("available"));
        assert_eq!(found(space, &[share(1.0, 1000.0)]), [(0, 10)]);
        assert_eq!(found(space, &[share(20.0, 1000.0), share(f64::NAN, 7.0), share(0.0, 0.0)]), []);
        let files = number("process", Number("open_files"));
        assert_eq!(found(files, &[share(1000.0, 1024.0)]), [(0, 10)]);
        assert_eq!(found(files, &[share(10.0, 1024.0)]), []);
    }

    #[test]
    fn a_line_of_the_log_stands_out() {
        let log = LOOKOUTS.iter().position(|l| l.family == "log").unwrap();
        assert_eq!(found(log, &[Course { at: vec![12 * SECOND], columns: vec![] }]), [(10, 20)]);
    }
}
