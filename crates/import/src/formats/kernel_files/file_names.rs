//! Names of files on the lines of their contents, or above them.

use crate::kernel_file::{file_path, is_one_line};
use crate::shell_session::OutputContext;

/// Messages that a program or shell prints instead of a file's content.
const ERRORS: [&str; 6] = [
    "No such file or directory",
    "Permission denied",
    "Is a directory",
    "Invalid argument",
    "Input/output error",
    "Operation not permitted",
];

/// Returns the name in `==> memory.max <==`.
pub fn relative_heading(text: &str) -> Option<&str> {
    text.strip_prefix("==> ")?.strip_suffix(" <==").filter(|name| !name.starts_with('/'))
}

/// Splits `memory.max:max`, as grep prints it.
pub fn relative_line(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b));
    (is_name && !name.starts_with('/') && !value.is_empty() && !value.starts_with(' ')).then_some((name, value))
}

/// Returns true if a line names a file by its path below the folder of the last command.
pub fn is_relative(text: &str, context: OutputContext<'_>) -> bool {
    relative_heading(text).is_some() || context.command_of("grep").is_some() && relative_line(text).is_some()
}

/// Splits `/sys/block/sda/queue/nr_requests:128` into the file and a line of it.
pub fn named_line(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with("/proc/") && !text.starts_with("/sys/") {
        return None;
    }
    let (path, value) = split_name(text)?;
    let value = value.strip_prefix([' ', '\t']).filter(|_| is_one_line(path)).unwrap_or(value);
    let is_error = ERRORS.iter().any(|error| value.trim() == *error);
    (!value.trim().is_empty() && !is_error).then_some((file_path(path)?, value))
}

/// Splits text at the first colon, or ` = `, that is not part of a bus address; bus addresses are enclosed by slashes.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    for component in text.split('/') {
        let to = from + component.len();
        if let Some(colon) = component.find(':').filter(|_| to == text.len() || !is_bus_address(component)) {
            return Some((&text[..from + colon], &text[from + colon + 1..]));
        }
        if component.contains(char::is_whitespace) {
            break;
        }
        from = to + 1;
    }
    text.split_once(" = ")
}

/// Returns true for `0000:00:1f.2`, `pci0000:00`, `2:0:0:1`, `1-1:1.0`.
fn is_bus_address(component: &str) -> bool {
    let numbers = component.strip_prefix("pci").unwrap_or(component).split([':', '.', '-']);
    let mut count = 0;
    let all_hexadecimal =
        numbers.inspect(|_| count += 1).all(|n| (1..=4).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_hexdigit()));
    all_hexadecimal && (count >= 3 || component.starts_with("pci"))
}

/// Returns the path in `==> /sys/block/sda/queue/nr_requests <==`, as head and tail print it.
pub fn heading(text: &str) -> Option<&str> {
    file_path(text.strip_prefix("==> ")?.strip_suffix(" <==")?)
}
