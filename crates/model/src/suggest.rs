//! 'Did you mean …?': the known name closest to one that does not exist.

/// Similarity (Jaro-Winkler, 0 to 1) below which names are not suggested.
const ALIKE: f64 = 0.8;
/// Number of typing errors (a letter inserted, deleted or changed, or two swapped) from which their number no longer
/// matters.
const MANY_ERRORS: usize = 3;

/// Formats the error for a name that does not exist, with the command that lists the known ones: `no rule 'x'; 'whyslow
/// rules' lists them; did you mean 'y'?`.
pub fn unknown<N: AsRef<str>>(what: &str, name: &str, lister: &str, known: impl IntoIterator<Item = N>) -> String {
    format!("no {what} '{name}'; '{lister}' lists them{}", did_you_mean(name, known))
}

/// Returns `; did you mean 'x'?`, to be appended to an error message; empty if no known name is similar.
pub fn did_you_mean<N: AsRef<str>>(name: &str, known: impl IntoIterator<Item = N>) -> String {
    closest(name, known).map_or_else(String::new, |known| question(&known))
}

/// Formats the end of an error message that suggests this name.
pub fn question(known: &str) -> String {
    format!("; did you mean '{known}'?")
}

/// Returns whether a name is another one with at most one typing error.
pub fn is_slip(name: &str, known: &str) -> bool {
    strsim::osa_distance(&name.to_lowercase(), known) <= 1
}

/// Returns the known name most similar to one that does not exist: fewer typing errors count more than a common prefix.
pub fn closest<N: AsRef<str>>(name: &str, known: impl IntoIterator<Item = N>) -> Option<String> {
    let name = name.to_lowercase();
    let score = |known: &str| {
        // Matches 'swappiness' with 'vm.swappiness'.
        let last = known.rsplit('.').next().unwrap_or(known);
        [known, last].map(|known| strsim::jaro_winkler(&name, known)).into_iter().fold(0.0, f64::max)
    };
    let errors = |known: &str| {
        let last = known.rsplit('.').next().unwrap_or(known);
        strsim::osa_distance(&name, known).min(strsim::osa_distance(&name, last)).min(MANY_ERRORS)
    };
    let scored = known.into_iter().map(|known| (score(known.as_ref()), known.as_ref().to_owned()));
    let alike = scored.filter(|(score, _)| *score >= ALIKE);
    alike
        .min_by(|(a, x), (b, y)| errors(x).cmp(&errors(y)).then(b.total_cmp(a)).then(x.len().cmp(&y.len())))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_named_and_a_stranger_is_not() {
        let known = ["disk.saturated", "cpu.saturated", "vm.swappiness"];
        assert_eq!(did_you_mean("disk.satured", known), "; did you mean 'disk.saturated'?");
        assert_eq!(did_you_mean("Swapiness", known), "; did you mean 'vm.swappiness'?");
        let groups_too = ["cgroup.memory.swappiness", "vm.swappiness", "cgroup.memory.swappiness"];
        assert_eq!(did_you_mean("swapiness", groups_too), "; did you mean 'vm.swappiness'?");
        assert_eq!(did_you_mean("raed", ["record", "read"]), "; did you mean 'read'?");
        assert_eq!(did_you_mean("frobnicate", known), "");
        assert_eq!(did_you_mean("x", Vec::<String>::new()), "");
    }
}
