//! Supported options of a job.

use super::values::{
    Parsed, SizeBase, SizeOrPercent, count, cpus, distribution, engine, flag, kb_base, only, path, percent,
    percentiles, seconds, sync_every,
};
use whyslow_documents::bench::{AccessPattern, BlockSize, Engine, SyncPolicy};

#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) base: SizeBase,
    pub(super) name: Option<String>,
    pub(super) filename: Option<String>,
    pub(super) directory: Option<String>,
    pub(super) engine: Option<Engine>,
    pub(super) direct: bool,
    pub(super) invalidate: bool,
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) random: bool,
    /// Bytes between sequential requests.
    pub(super) gap: i64,
    /// Share of reads in a mix.
    pub(super) read_share: f64,
    pub(super) distribution: Option<AccessPattern>,
    pub(super) norandommap: bool,
    /// Block sizes of reads and of writes.
    pub(super) blocks: [Option<Vec<BlockSize>>; 2],
    pub(super) size: Option<SizeOrPercent>,
    pub(super) file_size: Option<SizeOrPercent>,
    pub(super) io_size: Option<SizeOrPercent>,
    pub(super) offset: Option<SizeOrPercent>,
    pub(super) depth: Option<u32>,
    pub(super) jobs: u32,
    pub(super) seconds: Option<f64>,
    pub(super) time_based: bool,
    pub(super) ramp: f64,
    pub(super) delay: f64,
    pub(super) loops: u64,
    pub(super) stonewall: bool,
    pub(super) group: bool,
    pub(super) same_seed: bool,
    pub(super) seed: Option<u64>,
    pub(super) overwrite: bool,
    pub(super) sync: Option<SyncPolicy>,
    pub(super) rate: Option<u64>,
    pub(super) rate_iops: Option<u64>,
    pub(super) pause: f64,
    pub(super) cpus: Vec<u32>,
    pub(super) percentiles: Option<Vec<f64>>,
    pub(super) read_only: bool,
    pub(super) poll: bool,
    /// Blocks carry their offset and are checked for it (`verify_pattern=%o`).
    pub(super) verify: bool,
}

impl Options {
    pub(super) fn fio_defaults() -> Self {
        Self { invalidate: true, reads: true, read_share: 0.5, jobs: 1, loops: 1, same_seed: true, ..Self::default() }
    }

    /// Sets one option; an option without a value is a flag.
    pub(super) fn set(&mut self, key: &str, value: Option<&str>) -> Parsed<()> {
        let base = self.base;
        let text = || value.ok_or_else(|| "needs a value".to_owned());
        match key {
            "kb_base" => self.base = kb_base(text()?)?,
            "name" => self.name = Some(text()?.to_owned()),
            "description" => {}
            "filename" => self.filename = Some(path(text()?)?),
            "directory" => self.directory = Some(path(text()?)?),
            "rw" | "readwrite" => self.set_direction(text()?)?,
            "bs" | "blocksize" => {
                self.set_blocks(text()?, |text| Ok(vec![BlockSize { bytes: base.block(text)?, share: 1.0 }]))?
            }
            "bssplit" => self.set_blocks(text()?, |text| base.bssplit(text))?,
            "bsrange" | "blocksize_range" => self.set_blocks(text()?, |text| base.bsrange(text))?,
            "rwmixread" => self.read_share = percent(text()?)?,
            "rwmixwrite" => self.read_share = 1.0 - percent(text()?)?,
            "size" => self.size = Some(base.size_or_percent(text()?)?),
            "filesize" => self.file_size = Some(base.size_or_percent(text()?)?),
            "io_size" | "io_limit" => self.io_size = Some(base.size_or_percent(text()?)?),
            "offset" => self.offset = Some(base.size_or_percent(text()?)?),
            "nrfiles" => only(text()?, "1")?,
            "ioengine" => self.engine = Some(engine(text()?)?),
            "iodepth" => self.depth = Some(count(text()?, 4096)?),
            "direct" => self.direct = flag(value)?,
            "buffered" => self.direct = !flag(value)?,
            "numjobs" => self.jobs = count(text()?, 1024)?,
            "runtime" | "timeout" => self.seconds = Some(seconds(text()?, 1e6)?).filter(|&seconds| seconds > 0.0),
            "time_based" => self.time_based = flag(value)?,
            "ramp_time" => self.ramp = seconds(text()?, 1e6)?,
            "startdelay" => self.delay = seconds(text()?, 1e6)?,
            "loops" => self.loops = count(text()?, u32::MAX)?.into(),
            "stonewall" | "wait_for_previous" => self.stonewall = flag(value)?,
            "group_reporting" => self.group = flag(value)?,
            "randrepeat" => self.same_seed = flag(value)?,
            "randseed" => self.seed = Some(text()?.parse().map_err(|_| "must be a whole number")?),
            "norandommap" => self.norandommap = flag(value)?,
            "random_distribution" => self.distribution = distribution(text()?)?,
            "overwrite" => self.overwrite = flag(value)?,
            "invalidate" => self.invalidate = flag(value)?,
            "fsync" => self.sync = sync_every(text()?, false)?,
            "fdatasync" => self.sync = sync_every(text()?, true)?,
            "end_fsync" if flag(value)? && self.sync.is_none() => {
                self.sync = Some(SyncPolicy { every: None, data_only: false })
            }
            "rate" => self.rate = Some(base.bytes(text()?)?),
            "rate_iops" => self.rate_iops = Some(count(text()?, u32::MAX)?.into()),
            "thinktime" => self.pause = seconds(text()?, 1.0)?,
            "cpus_allowed" => self.cpus = cpus(text()?)?,
            "percentile_list" => self.percentiles = Some(percentiles(text()?)?),
            "hipri" => self.poll = flag(value)?,
            "readonly" => self.read_only = flag(value)?,
            "verify" => {
                only(text()?, "pattern")?;
                self.verify = true;
            }
            "verify_pattern" => only(text()?, "%o")?,
            // Reading back written data needs a separate job.
            "do_verify" => only(text()?, "0")?,
            // Always enabled where the kernel supports it.
            "fixedbufs" | "registerfiles" => only(value.unwrap_or("1"), "1")?,
            // Accepted without effect: jobs are threads, buffers always change from write to write, temporary files are
            // always removed, and the time series always has intervals of 100 ms.
            "thread" | "refill_buffers" | "scramble_buffers" | "unlink" | "end_fsync" => drop(flag(value)?),
            "log_avg_msec" => drop(count(text()?, u32::MAX)?),
            _ => return Err("unknown or unsupported option; remove it, or run the job with fio".into()),
        }
        Ok(())
    }

    /// Parses `randread`, or `read:64k` with gaps of 64 KiB between sequential requests.
    fn set_direction(&mut self, text: &str) -> Parsed<()> {
        let (kind, modifier) = text.split_once(':').map_or((text, None), |(kind, modifier)| (kind, Some(modifier)));
        (self.reads, self.writes, self.random) = match kind {
            "read" => (true, false, false),
            "write" => (false, true, false),
            "randread" => (true, false, true),
            "randwrite" => (false, true, true),
            "rw" | "readwrite" => (true, true, false),
            "randrw" => (true, true, true),
            _ => return Err("supported are read, write, randread, randwrite, rw and randrw".into()),
        };
        self.gap = match modifier {
            None => 0,
            Some("1") if self.random => 0,
            Some(_) if self.random => return Err("runs of sequential requests are not supported".into()),
            Some(gap) => {
                let bytes = self.base.bytes(gap.trim_start_matches('-'))?;
                let bytes = i64::try_from(bytes).map_err(|_| "the gap is too large")?;
                if gap.starts_with('-') { -bytes } else { bytes }
            }
        };
        Ok(())
    }

    /// Parses the sizes of reads and, after a comma, of writes; ignores a third one, of trims.
    fn set_blocks(&mut self, text: &str, read: impl Fn(&str) -> Parsed<Vec<BlockSize>>) -> Parsed<()> {
        let parts: Vec<&str> = text.split(',').collect();
        let of = |part: &str| if part.is_empty() { Ok(None) } else { read(part).map(Some) };
        match parts[..] {
            [both] => self.blocks = [of(both)?, of(both)?],
            [reads, writes] | [reads, writes, _] => {
                for (place, part) in [reads, writes].into_iter().enumerate() {
                    self.blocks[place] = of(part)?.or(self.blocks[place].take());
                }
            }
            _ => return Err("at most three sizes: of reads, writes and trims".into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &str) -> Parsed<Options> {
        let mut options = Options::fio_defaults();
        options.set(key, Some(value)).map(|()| options)
    }

    fn refusal(key: &str, value: &str) -> String {
        set(key, value).unwrap_err()
    }

    #[test]
    fn reads_and_writes_may_have_blocks_of_their_own() {
        let sizes = |key, value| {
            let of = |blocks: &Option<Vec<BlockSize>>| {
                blocks.as_ref().map(|b| b.iter().map(|b| b.bytes).collect::<Vec<_>>())
            };
            let options = set(key, value).unwrap();
            [of(&options.blocks[0]), of(&options.blocks[1])]
        };
        assert_eq!(sizes("bs", "4k"), [Some(vec![4096]), Some(vec![4096])]);
        assert_eq!(sizes("bs", "4k,8k"), [Some(vec![4096]), Some(vec![8192])]);
        assert_eq!(sizes("bs", ",8k"), [None, Some(vec![8192])]);
        assert_eq!(sizes("bsrange", "1k-3k")[0], Some(vec![1024, 2048, 3072]));
        assert_eq!(refusal("bs", "0"), "a block has 1 byte to 1 GiB");
        assert_eq!(refusal("bs", "1,2,3,4"), "at most three sizes: of reads, writes and trims");
        assert_eq!(refusal("bsrange", "4k-1k"), "the upper bound must be 1 to 4096 times the lower");
    }

    #[test]
    fn blocks_without_a_share_divide_the_rest() {
        let options = set("bssplit", "4k/50:64k/:128k/").unwrap();
        let shares: Vec<f64> = options.blocks[0].as_ref().unwrap().iter().map(|b| b.share).collect();
        assert_eq!(shares, [0.5, 0.25, 0.25]);
        for wrong in ["4k/50:64k/40", "4k/80:64k/40"] {
            assert_eq!(refusal("bssplit", wrong), "the shares must add up to 100");
        }
    }

    #[test]
    fn directions_may_have_gaps() {
        let of = |text| set("rw", text).map(|o| (o.reads, o.writes, o.random, o.gap));
        assert_eq!(of("randrw"), Ok((true, true, true, 0)));
        assert_eq!(of("read:8k"), Ok((true, false, false, 8192)));
        assert_eq!(of("read:-8k"), Ok((true, false, false, -8192)));
        assert_eq!(refusal("rw", "randread:8"), "runs of sequential requests are not supported");
        assert_eq!(refusal("rw", "randtrim"), "supported are read, write, randread, randwrite, rw and randrw");
    }

    #[test]
    fn other_values_are_read_as_fio_reads_them() {
        assert_eq!(set("cpus_allowed", "0-2,5").unwrap().cpus, [0, 1, 2, 5]);
        assert_eq!(set("percentile_list", "50:99.9").unwrap().percentiles, Some(vec![0.5, 0.9990000000000001]));
        assert_eq!(set("rwmixwrite", "30").unwrap().read_share, 0.7);
        assert_eq!(set("thinktime", "100").unwrap().pause, 1e-4);
        assert!(set("buffered", "0").unwrap().direct);
        assert_eq!(set("fsync", "0").unwrap().sync, None);
        assert_eq!(refusal("iodepth", "0"), "must be a number from 1 to 4096");
        assert_eq!(refusal("nrfiles", "4"), "only 1 is supported");
        assert_eq!(refusal("filename", "a:b"), "one file per job is supported: write a section for each");
        let mut bare = Options::fio_defaults();
        bare.set("time_based", None).unwrap();
        assert!(bare.time_based);
        assert_eq!(bare.set("bs", None), Err("needs a value".into()));
    }
}
