//! Device numbers and the names the kernel gives them.

/// The majors of SCSI disks in their order, sixteen disks of sixteen numbers each.
const SCSI: [u32; 16] = [8, 65, 66, 67, 68, 69, 70, 71, 128, 129, 130, 131, 132, 133, 134, 135];

/// The name of a device whose major number is fixed (Documentation/admin-guide/devices.txt); `None` for those whose
/// major is given out at boot.
pub fn by_number(major: u32, minor: u32) -> Option<String> {
    match major {
        3 if minor < 128 => Some(disk("hd", minor / 64, minor % 64)),
        22 if minor < 128 => Some(disk("hd", 2 + minor / 64, minor % 64)),
        7 => Some(format!("loop{minor}")),
        9 => Some(format!("md{minor}")),
        _ if minor < 256 => {
            let group = u32::try_from(SCSI.iter().position(|m| *m == major)?).ok()?;
            Some(disk("sd", group * 16 + minor / 16, minor % 16))
        }
        _ => None,
    }
}

fn disk(kind: &str, number: u32, partition: u32) -> String {
    let partition = if partition == 0 { String::new() } else { partition.to_string() };
    format!("{kind}{}{partition}", letters(number))
}

/// `a` to `z`, then `aa` and on.
fn letters(number: u32) -> String {
    let last = char::from(b'a' + (number % 26) as u8);
    if number < 26 { last.to_string() } else { format!("{}{last}", letters(number / 26 - 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_names_where_they_are_fixed() {
        let name = |major, minor| by_number(major, minor).unwrap_or_default();
        assert_eq!((name(8, 144), name(8, 23), name(65, 161)), ("sdj".into(), "sdb7".into(), "sdaa1".into()));
        assert_eq!((name(3, 65), name(9, 1), name(252, 2)), ("hdb1".into(), "md1".into(), String::new()));
    }
}
