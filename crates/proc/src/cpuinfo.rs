//! /proc/cpuinfo: a block of lines for each CPU (proc(5); arch/x86/kernel/cpu/proc.c).

/// Splits a line into name and value: `model name : AMD EPYC`.
pub fn entry(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim(), value.trim()))
}

/// Returns the number of a CPU, from the line that begins its block.
pub fn cpu(line: &str) -> Option<u32> {
    entry(line).filter(|(name, _)| *name == "processor")?.1.parse().ok()
}

/// Counts the CPUs that a text lists; `None` if it begins or ends within the list: numbers are missing, or a package
/// has fewer CPUs than `siblings` says. `is_whole` means that nothing was cut off at the end.
pub fn count<'t>(lines: impl Iterator<Item = &'t str>, is_whole: bool) -> Option<u32> {
    let (mut count, mut siblings) = (0, None);
    for line in lines {
        if let Some(number) = cpu(line) {
            // CPUs that are offline have no block, and the others keep their numbers.
            if !is_whole && number != count {
                return None;
            }
            count += 1;
        } else if let Some(("siblings", value)) = entry(line) {
            siblings = value.parse::<u32>().ok().filter(|siblings| *siblings > 0);
        }
    }
    // A single block with one sibling may be the first of a guest's many CPUs.
    let fits = siblings.is_some_and(|siblings| count > 1 && count % siblings == 0);
    (count > 0 && (is_whole || fits)).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(cpu: u32, siblings: u32) -> String {
        format!("processor\t: {cpu}\nmodel name\t: A: b\nsiblings\t: {siblings}\n\n")
    }

    fn count_of(text: &str, is_whole: bool) -> Option<u32> {
        count(text.lines(), is_whole)
    }

    #[test]
    fn a_list_that_was_cut_has_no_count() {
        let four: String = (0..4).map(|cpu| block(cpu, 4)).collect();
        assert_eq!(count_of(&four, false), Some(4));
        assert_eq!(count_of(&four[..four.len() / 2], false), None);
        assert_eq!(count_of(&block(3, 1), false), None);
        assert_eq!(count_of(&block(0, 1), false), None);
        assert_eq!(count_of(&block(0, 1), true), Some(1));
        assert_eq!(count_of("processor\t: 0\nBogoMIPS\t: 50\n\nprocessor\t: 1\n", false), None);
        assert_eq!(count_of(&format!("{}{}", block(0, 2), block(2, 2)), true), Some(2));
        assert_eq!(count_of("", true), None);
    }
}
