use super::*;
use crate::load::sample;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn load(access: AccessPattern, size: u64) -> Workload {
    Workload { access, size, ..sample() }
}

fn offsets(load: &Workload, count: usize) -> Vec<u64> {
    let mut stream = RequestStream::new(load, 0);
    (0..count).map(|_| stream.next().unwrap().offset).collect()
}

#[test]
fn sequential_offsets_wrap_around() {
    let load = load(AccessPattern::Sequential, 3 * 4096);
    assert_eq!(offsets(&load, 5), [0, 4096, 8192, 0, 4096]);
}

#[test]
fn a_rewrite_reads_each_block_and_writes_it_back() {
    let load = Workload { rewrite: true, bytes: Some(4 * 4096), ..load(AccessPattern::Sequential, 3 * 4096) };
    let mut stream = RequestStream::new(&load, 0);
    let all: Vec<_> = std::iter::from_fn(|| stream.next()).map(|r| (r.action, r.offset)).collect();
    assert_eq!(all, [(IoOp::Read, 0), (IoOp::Write, 0), (IoOp::Read, 4096), (IoOp::Write, 4096)]);
}

#[test]
fn a_stride_leaves_gaps_and_backward_goes_from_the_end() {
    assert_eq!(offsets(&load(AccessPattern::Strided(8192), 10 * 4096), 5), [0, 12_288, 24_576, 36_864, 0]);
    assert_eq!(offsets(&load(AccessPattern::Strided(-8192), 3 * 4096), 5), [8192, 4096, 0, 8192, 4096]);
}

#[test]
fn shuffled_reads_every_block_once_then_in_another_order() {
    let load = load(AccessPattern::Shuffled, 64 * 4096);
    let all = offsets(&load, 128);
    let whole: BTreeSet<u64> = (0..64).map(|i| i * 4096).collect();
    let (first, second) = all.split_at(64);
    assert_eq!(first.iter().copied().collect::<BTreeSet<_>>(), whole);
    assert_eq!(second.iter().copied().collect::<BTreeSet<_>>(), whole);
    assert_ne!(first, second);
}

#[test]
fn uniform_offsets_are_spread_evenly() {
    let mut hits = BTreeMap::new();
    for offset in offsets(&load(AccessPattern::Uniform, 10 * 4096), 100_000) {
        *hits.entry(offset).or_insert(0_u32) += 1;
    }
    assert_eq!(hits.len(), 10);
    // Four standard deviations of a binomial count: 4·sqrt(100000·0.1·0.9).
    assert!(hits.values().all(|&n| n.abs_diff(10_000) < 380), "{hits:?}");
}

#[test]
fn zipf_ranks_follow_their_exponent() {
    let mut hits = BTreeMap::new();
    for offset in offsets(&load(AccessPattern::Zipf(1.2), 1000 * 4096), 200_000) {
        *hits.entry(offset).or_insert(0_u32) += 1;
    }
    let mut counts: Vec<f64> = hits.values().map(|&n| f64::from(n)).collect();
    counts.sort_by(|a, b| b.total_cmp(a));
    let zeta: f64 = (1..=1000).map(|k| f64::from(k).powf(-1.2)).sum();
    for rank in [1_usize, 2, 4, 8] {
        let expected = 200_000.0 * (rank as f64).powf(-1.2) / zeta;
        assert!((counts[rank - 1] / expected - 1.0).abs() < 0.05, "rank {rank}: {} for {expected}", counts[rank - 1]);
    }
}

#[test]
fn sequential_jobs_split_the_region() {
    let load = Workload { jobs: 4, ..load(AccessPattern::Sequential, 1 << 20) };
    let starts: Vec<u64> = (0..4).map(|job| RequestStream::new(&load, job).next().unwrap().offset).collect();
    assert_eq!(starts, [0, 1 << 18, 2 << 18, 3 << 18]);
}

#[test]
fn a_mix_has_its_shares_and_syncs_after_every_few_writes() {
    let sync = whyslow_documents::bench::SyncPolicy { every: Some(4), data_only: false };
    let blocks = vec![BlockSize { bytes: 4096, share: 0.6 }, BlockSize { bytes: 65_536, share: 0.4 }];
    let load = Workload {
        reads: 0.7,
        read_blocks: blocks.clone(),
        write_blocks: blocks,
        sync: Some(sync),
        ..load(AccessPattern::Uniform, 1 << 30)
    };
    let mut stream = RequestStream::new(&load, 0);
    let all: Vec<IoRequest> = (0..50_000).map(|_| stream.next().unwrap()).collect();
    let count = |what: &dyn Fn(&IoRequest) -> bool| all.iter().filter(|r| what(r)).count() as f64;
    let (reads, writes) = (count(&|r| r.action == IoOp::Read), count(&|r| r.action == IoOp::Write));
    let syncs = count(&|r| r.action == IoOp::Sync);
    assert!((reads / (reads + writes) - 0.7).abs() < 0.01, "{reads} reads, {writes} writes");
    assert_eq!(syncs, (writes / 4.0).floor());
    let large = count(&|r| r.bytes == 65_536);
    assert!((large / (reads + writes) - 0.4).abs() < 0.01, "{large} large ones");
}

#[test]
fn no_more_than_the_given_bytes_are_requested() {
    let load = Workload { bytes: Some(10 * 4096), ..load(AccessPattern::Uniform, 1 << 30) };
    let mut stream = RequestStream::new(&load, 0);
    assert_eq!(std::iter::from_fn(|| stream.next()).count(), 10);
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    let load = load(AccessPattern::Uniform, 1 << 30);
    assert_eq!(offsets(&load, 100), offsets(&load, 100));
    let other = Workload { seed: load.seed + 1, ..load.clone() };
    assert_ne!(offsets(&load, 100), offsets(&other, 100));
}

proptest! {
    #[test]
    fn no_request_leaves_the_region(
        access in prop_oneof![
            Just(AccessPattern::Sequential), Just(AccessPattern::Uniform), Just(AccessPattern::Shuffled),
            (-3000_i64..3000).prop_map(|gap| AccessPattern::Strided(gap * 512)),
            any::<i32>().prop_map(|gap| AccessPattern::Strided(i64::from(gap) * 512)),
            (0.1_f64..5.0).prop_map(AccessPattern::Zipf),
        ],
        sizes in prop::collection::vec((1_u32..20, 0.1_f64..1.0), 1..4),
        start in 0_u64..1000, blocks in 20_u64..2000, jobs in 1_u32..5, reads in 0.0_f64..=1.0,
    ) {
        let sizes: Vec<BlockSize> = sizes.iter().map(|&(n, share)| BlockSize { bytes: n * 512, share }).collect();
        let load = Workload {
            access, jobs, reads, start: start * 512, size: blocks * 512,
            read_blocks: sizes.clone(), write_blocks: sizes, ..sample()
        };
        for job in 0..jobs {
            let mut stream = RequestStream::new(&load, job);
            for _ in 0..200 {
                let request = stream.next().unwrap();
                prop_assert!(request.offset >= load.start && request.bytes > 0);
                prop_assert!(request.offset + u64::from(request.bytes) <= load.start + load.size, "{:?}", request);
                prop_assert_eq!(request.offset % 512, 0);
            }
        }
    }
}
