//! The form of a job file: sections of options, those of `[global]` being defaults for the sections after it.

use super::options::{self, Options};

/// A job as its section says.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) name: String,
    /// The line it begins at.
    pub(super) line: usize,
    pub(super) options: Options,
}

/// Lines and their numbers.
type Lines = Vec<(usize, String)>;

/// The jobs of a file, in order.
///
/// # Errors
/// The line, and what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<Section>, (usize, String)> {
    let mut globals = Lines::new();
    let mut jobs: Vec<(String, usize, Lines)> = Vec::new();
    let mut in_global = false;
    for (line, text) in (1..).zip(text.lines()).map(|(line, text)| (line, text.trim())) {
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = text.strip_prefix('[') {
            let name = rest.split(']').next().filter(|_| rest.contains(']'));
            let name = name.ok_or_else(|| (line, format!("'{text}' is no section: it has no ]")))?;
            // fio takes for global whatever begins with that word.
            in_global = name.starts_with("global");
            if !in_global {
                jobs.push((name.to_owned(), line, globals.clone()));
            }
        } else if in_global {
            globals.push((line, text.to_owned()));
        } else if let Some((.., lines)) = jobs.last_mut() {
            lines.push((line, text.to_owned()));
        } else {
            return Err((line, "an option before the first section".into()));
        }
    }
    if jobs.is_empty() {
        return Err((1, "there is no job in it".into()));
    }
    jobs.into_iter().map(|(name, line, lines)| section(name, line, &lines)).collect()
}

fn section(name: String, line: usize, lines: &[(usize, String)]) -> Result<Section, (usize, String)> {
    let mut options = Options::default();
    // The bases of sizes hold for all sizes of the section, wherever they stand.
    for bases in [true, false] {
        for (line, text) in lines {
            let (key, value) =
                text.split_once('=').map_or((text.as_str(), None), |(key, value)| (key, Some(value.trim())));
            let key = key.trim().to_ascii_lowercase();
            if options::is_base(&key) == bases {
                options.set(&key, value).map_err(|why| (*line, why))?;
            }
        }
    }
    let name = options.name.clone().unwrap_or(name);
    Ok(Section { name, line, options })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn failure(text: &str) -> (usize, String) {
        parse(text).unwrap_err()
    }

    #[test]
    fn globals_are_defaults_for_what_comes_after_and_add_up() {
        let text = "; a comment\n[global]\nbs=8k\nrw=randread\n\n[one]\nsize=1m\n[global-more]\niodepth=4\n[two]\nbs = 16k\nsize=2m\n";
        let jobs = parse(text).unwrap();
        let of = |job: &Section| (job.name.clone(), job.options.blocks[0].clone(), job.options.depth, job.options.size);
        assert_eq!((of(&jobs[0]).0, of(&jobs[0]).2), ("one".into(), None));
        assert_eq!(jobs[0].options.blocks[0].as_ref().unwrap()[0].bytes, 8192);
        assert_eq!(jobs[1].options.blocks[0].as_ref().unwrap()[0].bytes, 16_384);
        assert_eq!(jobs[1].options.depth, Some(4));
    }

    #[test]
    fn what_is_not_known_is_refused_by_name_and_line() {
        assert_eq!(failure("[a]\nsize=1m\nzonesize=1m\n"), (3, "option 'zonesize' is not known".into()));
        assert_eq!(failure("[a]\nrw=trim\n").0, 2);
        assert_eq!(failure("bs=4k\n").0, 1);
        assert_eq!(failure("[a\nbs=4k\n").0, 1);
        assert_eq!(failure("[global]\nbs=4k\n").1, "there is no job in it");
    }

    #[test]
    fn the_base_of_sizes_holds_wherever_it_stands() {
        let blocks = |text: &str| parse(text).unwrap()[0].options.blocks[0].as_ref().unwrap()[0].bytes;
        assert_eq!(blocks("[a]\nbs=4kib\n"), 4000);
        assert_eq!(blocks("[a]\nbs=4k\n"), 4096);
        assert_eq!(blocks("[a]\nbs=4k\nkb_base=1000\n"), 4000);
        assert_eq!(blocks("[a]\nbs=4kib\nkb_base=1000\n"), 4096);
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(text in "(\\[[a-z]{0,8}\\]?\n|[a-z_]{1,12}=?[0-9a-z:/,.%-]{0,12}\n|.{0,20}\n){0,20}") {
            let _ = parse(&text);
        }

        #[test]
        fn no_value_makes_it_panic(
            key in prop::sample::select(&["rw", "bs", "bssplit", "bsrange", "size", "offset", "runtime", "cpus_allowed",
                "percentile_list", "random_distribution", "rate", "rate_iops", "iodepth", "numjobs", "kb_base"][..]),
            value in "[0-9a-z:/,.%-]{0,24}",
        ) {
            let _ = parse(&format!("[a]\n{key}={value}\n"));
        }
    }
}
