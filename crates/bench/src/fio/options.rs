//! The options that are known, each with what it sets.

use super::units::{Amount, Base, seconds};
use super::values::{
    block, count, count_or_none, cpus, distribution, engine, every, kb_base, one_size, only, path, percent,
    percentiles, range_of_sizes, split_sizes, yes,
};
use whyslow_model::bench::{Access, Block, Engine, Sync};

/// What a section says; none where it does not.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) base: Base,
    pub(super) name: Option<String>,
    pub(super) filename: Option<String>,
    pub(super) directory: Option<String>,
    pub(super) engine: Option<Engine>,
    pub(super) direct: bool,
    pub(super) invalidate: bool,
    /// Whether it reads, writes, or both.
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) random: bool,
    /// Bytes between sequential requests.
    pub(super) gap: i64,
    /// The share of reads where it does both.
    pub(super) read_share: f64,
    pub(super) distribution: Option<Access>,
    pub(super) with_repeats: bool,
    /// Of reads and of writes.
    pub(super) blocks: [Option<Vec<Block>>; 2],
    pub(super) size: Option<Amount>,
    pub(super) file_size: Option<Amount>,
    pub(super) io_size: Option<Amount>,
    pub(super) offset: Option<Amount>,
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
    pub(super) sync: Option<Sync>,
    pub(super) rate: Option<u64>,
    pub(super) rate_iops: Option<u64>,
    pub(super) pause: f64,
    pub(super) cpus: Vec<u32>,
    pub(super) percentiles: Option<Vec<f64>>,
    pub(super) read_only: bool,
    /// Whether completions are polled for.
    pub(super) poll: bool,
    /// Whether blocks carry their offset, and are checked for it.
    pub(super) verify: bool,
}

impl Default for Options {
    /// fio's own defaults.
    fn default() -> Self {
        Self {
            base: Base { k: 1024 },
            name: None,
            filename: None,
            directory: None,
            engine: None,
            direct: false,
            invalidate: true,
            reads: true,
            writes: false,
            random: false,
            gap: 0,
            read_share: 0.5,
            distribution: None,
            with_repeats: false,
            blocks: [None, None],
            size: None,
            file_size: None,
            io_size: None,
            offset: None,
            depth: None,
            jobs: 1,
            seconds: None,
            time_based: false,
            ramp: 0.0,
            delay: 0.0,
            loops: 1,
            stonewall: false,
            group: false,
            same_seed: true,
            seed: None,
            overwrite: false,
            sync: None,
            rate: None,
            rate_iops: None,
            pause: 0.0,
            cpus: Vec::new(),
            percentiles: None,
            read_only: false,
            poll: false,
            verify: false,
        }
    }
}

/// Whether an option says how others are read.
pub(super) fn is_base(key: &str) -> bool {
    key == "kb_base"
}

impl Options {
    /// Takes in one option. One without a value is a yes.
    pub(super) fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), String> {
        let base = self.base;
        let text = || value.ok_or_else(|| format!("option '{key}' wants a value"));
        match key {
            "kb_base" => self.base = kb_base(text()?)?,
            "name" => self.name = Some(text()?.to_owned()),
            "description" => {}
            "filename" => self.filename = Some(path(text()?)?),
            "directory" => self.directory = Some(path(text()?)?),
            "rw" | "readwrite" => self.set_direction(text()?)?,
            "bs" | "blocksize" => self.set_blocks(text()?, |text| Ok(one_size(block(base, text)?)))?,
            "bssplit" => self.set_blocks(text()?, |text| split_sizes(base, text))?,
            "bsrange" | "blocksize_range" => self.set_blocks(text()?, |text| range_of_sizes(base, text))?,
            "rwmixread" => self.read_share = percent(text()?)?,
            "rwmixwrite" => self.read_share = 1.0 - percent(text()?)?,
            "size" => self.size = Some(base.amount(text()?)?),
            "filesize" => self.file_size = Some(base.amount(text()?)?),
            "io_size" | "io_limit" => self.io_size = Some(base.amount(text()?)?),
            "offset" => self.offset = Some(base.amount(text()?)?),
            "nrfiles" => only(key, text()?, "1")?,
            "ioengine" => self.engine = Some(engine(text()?)?),
            "iodepth" => self.depth = Some(count(key, text()?, 4096)?),
            "direct" => self.direct = yes(key, value)?,
            "buffered" => self.direct = !yes(key, value)?,
            "numjobs" => self.jobs = count(key, text()?, 1024)?,
            "thread" => drop(yes(key, value)?),
            "runtime" | "timeout" => self.seconds = Some(seconds(text()?, 1e6)?).filter(|&seconds| seconds > 0.0),
            "time_based" => self.time_based = yes(key, value)?,
            "ramp_time" => self.ramp = seconds(text()?, 1e6)?,
            "startdelay" => self.delay = seconds(text()?, 1e6)?,
            "loops" => self.loops = count(key, text()?, u32::MAX)?.into(),
            "stonewall" | "wait_for_previous" => self.stonewall = yes(key, value)?,
            "group_reporting" => self.group = yes(key, value)?,
            "randrepeat" => self.same_seed = yes(key, value)?,
            "randseed" => {
                self.seed = Some(text()?.parse().map_err(|_| format!("'{}' is no seed", text().unwrap_or("")))?)
            }
            "norandommap" => self.with_repeats = yes(key, value)?,
            "random_distribution" => self.distribution = distribution(text()?)?,
            "refill_buffers" | "scramble_buffers" => drop(yes(key, value)?),
            "overwrite" => self.overwrite = yes(key, value)?,
            "invalidate" => self.invalidate = yes(key, value)?,
            "fsync" => self.sync = every(count_or_none(key, text()?)?, false),
            "fdatasync" => self.sync = every(count_or_none(key, text()?)?, true),
            "end_fsync" if yes(key, value)? && self.sync.is_none() => {
                self.sync = Some(Sync { every: None, data_only: false })
            }
            "end_fsync" => drop(yes(key, value)?),
            "rate" => self.rate = Some(base.bytes(text()?)?),
            "rate_iops" => self.rate_iops = Some(count(key, text()?, u32::MAX)?.into()),
            "thinktime" => self.pause = seconds(text()?, 1.0)?,
            "cpus_allowed" => self.cpus = cpus(text()?)?,
            "percentile_list" => self.percentiles = Some(percentiles(text()?)?),
            // The course is always kept, and always in intervals of the same length.
            "log_avg_msec" => drop(count(key, text()?, u32::MAX)?),
            // Files are always gone afterwards.
            "unlink" => drop(yes(key, value)?),
            "verify" => {
                only(key, text()?, "pattern")?;
                self.verify = true;
            }
            "verify_pattern" => only(key, text()?, "%o")?,
            // Buffers and files are registered wherever the kernel lets them be.
            "fixedbufs" | "registerfiles" => only(key, value.unwrap_or("1"), "1")?,
            // Whoever wants what was written read back says so in a job of its own.
            "do_verify" => only(key, text()?, "0")?,
            "hipri" => self.poll = yes(key, value)?,
            "readonly" => self.read_only = yes(key, value)?,
            _ => return Err(format!("option '{key}' is not known")),
        }
        Ok(())
    }

    /// `randread`, or `read:64k` for gaps of so many bytes between sequential requests.
    fn set_direction(&mut self, text: &str) -> Result<(), String> {
        let (kind, modifier) = text.split_once(':').map_or((text, None), |(kind, modifier)| (kind, Some(modifier)));
        (self.reads, self.writes, self.random) = match kind {
            "read" => (true, false, false),
            "write" => (false, true, false),
            "randread" => (true, false, true),
            "randwrite" => (false, true, true),
            "rw" | "readwrite" => (true, true, false),
            "randrw" => (true, true, true),
            _ => return Err(format!("rw={kind} is not known: read, write, randread, randwrite, rw and randrw are")),
        };
        self.gap = match modifier {
            None => 0,
            Some("1") if self.random => 0,
            Some(_) if self.random => return Err(format!("rw={text}: runs of sequential requests are not known")),
            Some(gap) => {
                let bytes = self.base.bytes(gap.trim_start_matches('-'))?;
                let bytes = i64::try_from(bytes).map_err(|_| format!("'{gap}' is too large"))?;
                if gap.starts_with('-') { -bytes } else { bytes }
            }
        };
        Ok(())
    }

    /// Sizes of reads and, after a comma, of writes; those of trims come third and are left out.
    fn set_blocks(&mut self, text: &str, read: impl Fn(&str) -> Result<Vec<Block>, String>) -> Result<(), String> {
        let parts: Vec<&str> = text.split(',').collect();
        let of = |part: &str| if part.is_empty() { Ok(None) } else { read(part).map(Some) };
        match parts[..] {
            [both] => self.blocks = [of(both)?, of(both)?],
            [reads, writes] | [reads, writes, _] => {
                for (place, part) in [reads, writes].into_iter().enumerate() {
                    self.blocks[place] = of(part)?.or(self.blocks[place].take());
                }
            }
            _ => return Err(format!("'{text}' has too many parts")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &str) -> Result<Options, String> {
        let mut options = Options::default();
        options.set(key, Some(value)).map(|()| options)
    }

    #[test]
    fn blocks_are_of_reads_and_of_writes() {
        let sizes = |key, value| {
            let of =
                |blocks: &Option<Vec<Block>>| blocks.as_ref().map(|b| b.iter().map(|b| b.bytes).collect::<Vec<_>>());
            let options = set(key, value).unwrap();
            [of(&options.blocks[0]), of(&options.blocks[1])]
        };
        assert_eq!(sizes("bs", "4k"), [Some(vec![4096]), Some(vec![4096])]);
        assert_eq!(sizes("bs", "4k,8k"), [Some(vec![4096]), Some(vec![8192])]);
        assert_eq!(sizes("bs", ",8k"), [None, Some(vec![8192])]);
        assert_eq!(sizes("bsrange", "1k-3k")[0], Some(vec![1024, 2048, 3072]));
        assert!(set("bs", "0").is_err() && set("bs", "1,2,3,4").is_err() && set("bsrange", "4k-1k").is_err());
    }

    #[test]
    fn shares_left_out_have_the_rest() {
        let options = set("bssplit", "4k/50:64k/:128k/").unwrap();
        let shares: Vec<f64> = options.blocks[0].as_ref().unwrap().iter().map(|b| b.share).collect();
        assert_eq!(shares, [0.5, 0.25, 0.25]);
        assert!(set("bssplit", "4k/50:64k/40").is_err());
        assert!(set("bssplit", "4k/80:64k/40").is_err());
    }

    #[test]
    fn directions_and_their_modifiers() {
        let of = |text| set("rw", text).map(|o| (o.reads, o.writes, o.random, o.gap));
        assert_eq!(of("randrw"), Ok((true, true, true, 0)));
        assert_eq!(of("read:8k"), Ok((true, false, false, 8192)));
        assert_eq!(of("read:-8k"), Ok((true, false, false, -8192)));
        assert!(of("randread:8").is_err() && of("randtrim").is_err());
    }

    #[test]
    fn the_rest_is_read_as_fio_does() {
        assert_eq!(set("cpus_allowed", "0-2,5").unwrap().cpus, [0, 1, 2, 5]);
        assert_eq!(set("percentile_list", "50:99.9").unwrap().percentiles, Some(vec![0.5, 0.9990000000000001]));
        assert_eq!(set("rwmixwrite", "30").unwrap().read_share, 0.7);
        assert_eq!(set("thinktime", "100").unwrap().pause, 1e-4);
        assert!(set("buffered", "0").unwrap().direct);
        assert_eq!(set("fsync", "0").unwrap().sync, None);
        assert!(set("iodepth", "0").is_err() && set("nrfiles", "4").is_err() && set("filename", "a:b").is_err());
        let mut bare = Options::default();
        bare.set("time_based", None).unwrap();
        assert!(bare.time_based && bare.set("bs", None).is_err());
    }
}
