//! The syntax of a job file: sections of options; those of `[global]` are defaults for the sections after it.

use super::options::Options;
use std::collections::BTreeMap;

/// One job of the file.
#[derive(Clone, Debug)]
pub(super) struct JobSection {
    pub(super) name: String,
    /// Line number of its header.
    pub(super) line: usize,
    pub(super) options: Options,
    /// Line number that set each option.
    pub(super) lines: BTreeMap<String, usize>,
}

type OptionLines = Vec<(usize, String)>;

/// Parses the jobs of a file, in order. An error is a line number and what is wrong with the line.
pub(super) fn parse(text: &str) -> Result<Vec<JobSection>, (usize, String)> {
    let mut globals = OptionLines::new();
    let mut jobs: Vec<(String, usize, OptionLines)> = Vec::new();
    let mut in_global = false;
    for (line, text) in (1..).zip(text.lines()).map(|(line, text)| (line, text.trim())) {
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = text.strip_prefix('[') {
            let name = rest.split_once(']').map(|(name, _)| name);
            let name = name.ok_or_else(|| (line, format!("'{text}': the section header has no ']'")))?;
            // As in fio, any name that begins with this word.
            in_global = name.starts_with("global");
            if !in_global {
                jobs.push((name.to_owned(), line, globals.clone()));
            }
        } else if in_global {
            globals.push((line, text.to_owned()));
        } else if let Some((.., lines)) = jobs.last_mut() {
            lines.push((line, text.to_owned()));
        } else {
            return Err((line, format!("'{text}' stands before the first section: add a header such as [job1]")));
        }
    }
    if jobs.is_empty() {
        return Err((1, "the file has no job: add a section such as [job1]".into()));
    }
    jobs.into_iter().map(|(name, line, lines)| section(name, line, &lines)).collect()
}

fn section(name: String, line: usize, texts: &[(usize, String)]) -> Result<JobSection, (usize, String)> {
    let (mut options, mut lines) = (Options::fio_defaults(), BTreeMap::new());
    // kb_base applies to all sizes of the section, regardless of its position.
    for is_base in [true, false] {
        for (line, text) in texts {
            let (key, value) =
                text.split_once('=').map_or((text.as_str(), None), |(key, value)| (key, Some(value.trim())));
            let key = key.trim().to_ascii_lowercase();
            if (key == "kb_base") == is_base {
                options.set(&key, value).map_err(|why| (*line, format!("{text}: {why}")))?;
                lines.insert(key, *line);
            }
        }
    }
    let name = options.name.clone().unwrap_or(name);
    Ok(JobSection { name, line, options, lines })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn failure(text: &str) -> (usize, String) {
        parse(text).unwrap_err()
    }

    #[test]
    fn globals_are_defaults_for_later_sections_and_accumulate() {
        let text = "; a comment\n[global]\nbs=8k\nrw=randread\n\n[one]\nsize=1m\n[global-more]\niodepth=4\n[two]\nbs = 16k\nsize=2m\n";
        let jobs = parse(text).unwrap();
        let of =
            |job: &JobSection| (job.name.clone(), job.options.blocks[0].clone(), job.options.depth, job.options.size);
        assert_eq!((of(&jobs[0]).0, of(&jobs[0]).2), ("one".into(), None));
        assert_eq!(jobs[0].options.blocks[0].as_ref().unwrap()[0].bytes, 8192);
        assert_eq!(jobs[1].options.blocks[0].as_ref().unwrap()[0].bytes, 16_384);
        assert_eq!(jobs[1].options.depth, Some(4));
    }

    #[test]
    fn errors_name_the_line_and_the_option() {
        let unknown = "zonesize=1m: unknown or unsupported option; remove it, or run the job with fio";
        assert_eq!(failure("[a]\nsize=1m\nzonesize=1m\n"), (3, unknown.into()));
        let direction = "rw=trim: supported are read, write, randread, randwrite, rw and randrw";
        assert_eq!(failure("[a]\nrw=trim\n"), (2, direction.into()));
        assert_eq!(failure("[a]\n\nbs = 4q\n"), (3, "bs = 4q: not a size such as 4096, 4k, 1m or 2g".into()));
        assert_eq!(failure("bs=4k\n").0, 1);
        assert_eq!(failure("[a\nbs=4k\n").0, 1);
        assert_eq!(failure("[global]\nbs=4k\n").1, "the file has no job: add a section such as [job1]");
    }

    #[test]
    fn kb_base_applies_wherever_it_stands() {
        let blocks = |text: &str| parse(text).unwrap()[0].options.blocks[0].as_ref().unwrap()[0].bytes;
        assert_eq!(blocks("[a]\nbs=4kib\n"), 4000);
        assert_eq!(blocks("[a]\nbs=4k\n"), 4096);
        assert_eq!(blocks("[a]\nbs=4k\nkb_base=1000\n"), 4000);
        assert_eq!(blocks("[a]\nbs=4kib\nkb_base=1000\n"), 4096);
    }

    proptest! {
        #[test]
        fn no_file_panics(text in "(\\[[a-z]{0,8}\\]?\n|[a-z_]{1,12}=?[0-9a-z:/,.%-]{0,12}\n|.{0,20}\n){0,20}") {
            let _ = parse(&text);
        }

        #[test]
        fn no_value_panics(
            key in prop::sample::select(&["rw", "bs", "bssplit", "bsrange", "size", "offset", "runtime", "cpus_allowed",
                "percentile_list", "random_distribution", "rate", "rate_iops", "iodepth", "numjobs", "kb_base"][..]),
            value in "[0-9a-z:/,.%-]{0,24}",
        ) {
            let _ = parse(&format!("[a]\n{key}={value}\n"));
        }
    }
}
