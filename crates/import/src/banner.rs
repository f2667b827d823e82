//! The line sysstat's tools begin with: `Linux 2.6.18-92.el5 (host) 01/14/2010 _x86_64_ (4 CPU)`.

use crate::clock::date;
use crate::run::Run;
use jiff::civil::Date;
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::key::Machine;

/// What it tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Banner {
    /// The day the output begins on.
    pub date: Option<Date>,
    release: String,
    host: String,
    processors: Option<f64>,
}

impl Banner {
    /// Reads it, where the line is one.
    pub fn read(line: &str) -> Option<Self> {
        let rest = line.trim_start().strip_prefix("Linux ")?;
        let (release, rest) = rest.split_once(" (")?;
        let (host, rest) = rest.split_once(')')?;
        let processors = rest.rsplit_once('(').and_then(|(_, count)| count.strip_suffix(" CPU)")?.parse().ok());
        Some(Self {
            date: rest.split_whitespace().find_map(date),
            release: release.trim().to_owned(),
            host: host.to_owned(),
            processors,
        })
    }

    /// Tells the machine.
    pub fn tell(&self, run: &mut Run, line: u32) {
        let machine = run.row::<MachineInfo>(0.0, line, Machine);
        machine.name = self.host.as_str().into();
        machine.release = self.release.as_str().into();
        machine.processors = self.processors.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners_of_all_ages() {
        let old = Banner::read("Linux 2.6.5-7.97-default (atlorca2)    05/09/05").unwrap();
        assert_eq!((old.host.as_str(), old.date, old.processors), ("atlorca2", Some(Date::constant(2005, 5, 9)), None));
        let new = Banner::read("Linux 5.10.62 (large1) 09/04/2021 _x86_64_ (48 CPU)").unwrap();
        assert_eq!((new.release.as_str(), new.processors), ("5.10.62", Some(48.0)));
        assert_eq!(Banner::read("Linux version 5.10.62 booted"), None);
    }
}
