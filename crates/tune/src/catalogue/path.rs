//! Names of settings and the files that they are.

/// The file, from the root, that an absolute path or the name of a sysctl leads to.
pub(super) fn file_of(name: &str) -> Result<String, String> {
    let path = match name.strip_prefix('/') {
        Some(path) => path.to_owned(),
        None if name.contains(['.', '/']) => sysctl_path(name),
        None => return Err(format!("'{name}' is not in the catalogue; 'whyslow tune list' lists it")),
    };
    let is_plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !is_plain || !(path.starts_with("sys/") || path.starts_with("proc/sys/")) {
        return Err(format!("'{name}': only files under /sys and /proc/sys are settings"));
    }
    Ok(path)
}

/// sysctl(8): the first separator decides which of `.` and `/` parts the name; the other then stands for itself.
pub(crate) fn sysctl_path(name: &str) -> String {
    let is_path = name.find(['.', '/']).is_some_and(|at| name.as_bytes()[at] == b'/');
    format!("proc/sys/{}", if is_path { name.to_owned() } else { swapped(name) })
}

/// Dots for slashes, and slashes for dots.
fn swapped(text: &str) -> String {
    let swapped = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    text.chars().map(swapped).collect()
}

/// The name of a file that the catalogue does not have: of a sysctl, else its path.
pub(super) fn name_of(path: &str) -> String {
    match path.strip_prefix("proc/sys/") {
        Some(rest) => swapped(rest),
        None => format!("/{path}"),
    }
}

/// The file that a template comes to for a thing: `{}` is its name, `{0}` and `{1}` the parts of a name with a slash.
pub(crate) fn filled(template: &str, name: &str) -> String {
    let (first, second) = name.split_once('/').unwrap_or((name, ""));
    template.replace("{0}", first).replace("{1}", second).replace("{}", name)
}

/// What `{}`, or `{0}` and `{1}`, of a template stand for in a path: nothing, or the name of the thing.
pub(super) fn captured(template: &str, path: &str) -> Option<Option<String>> {
    let (mut parts, mut words) = (Vec::new(), path.split('/'));
    for part in template.split('/') {
        let word = words.next()?;
        match part {
            "{}" | "{0}" | "{1}" => parts.push(word),
            _ if part == word => {}
            _ => return None,
        }
    }
    words.next().is_none().then(|| (!parts.is_empty()).then(|| parts.join("/")))
}
