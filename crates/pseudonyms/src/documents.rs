//! Names in existing documents: baselines, and the subjects of recorded findings.

use crate::known;
use crate::names::each_part;
use crate::{Pseudonyms, lock};
use whyslow_documents::baseline::Baseline;
use whyslow_documents::diagnosis::Subject;

impl Pseudonyms {
    /// Returns the name of a subject of this kind: the same as if it had been found in rows with pseudonyms.
    pub(crate) fn subject_name(&self, kind: &str, name: &str) -> String {
        match kind {
            "host" | "cpu" | "irq" | "limit" | "core" | "memory" | "node" | "zone" => name.to_owned(),
            "process" | "thread" => self.process_or_label(name),
            "guest" => self.host(name),
            "cgroup" => self.cgroups(name),
            "device" | "partition" | "array" => each_part(name, ' ', |word| self.device(word)),
            "volume" => self.volume(name),
            "interface" => self.interface_detail(name),
            // A netlink socket: `route:1234`.
            "socket" if !name.contains(['.', '[', '*']) => name.to_owned(),
            "connection" | "socket" => self.endpoints(name),
            "mount" if name.starts_with('/') => self.path(name),
            // A server, as named in a log.
            "mount" => self.source_or_host(name),
            _ => self.label(name),
        }
    }

    /// Returns the name of an inventory item. Packages that the user built cannot be distinguished from public ones.
    pub(crate) fn item_name(&self, kind: &str, name: &str) -> String {
        match (kind, name.split_once(' ')) {
            ("package", _) => self.alias("package", name),
            ("unit", _) => self.cgroups(name),
            ("limit", Some((unit, what))) if unit.contains('.') => format!("{} {what}", self.cgroups(unit)),
            _ => self.sentence(name),
        }
    }

    /// Names a process or a label, because measurements of other tools refer to processes too: `dd of /dev/zero, line 3`.
    fn process_or_label(&self, name: &str) -> String {
        // A process that runs a virtual machine is named after it.
        if let Some(guest) = name.strip_prefix("guest ") {
            return format!("guest {}", self.host(guest));
        }
        if name.contains(", line ") || name.contains(": ") { self.label(name) } else { self.process(name) }
    }

    fn source_or_host(&self, name: &str) -> String {
        if name.contains('/') || known::is_source(name) { self.source(name) } else { self.host(name) }
    }

    /// Replaces the names in a baseline: subjects, and the inventory.
    pub fn baseline(&self, baseline: &mut Baseline) {
        for series in &mut baseline.series {
            self.rename_subject(&mut series.subject);
        }
        let inventory = std::mem::take(&mut baseline.inventory);
        baseline.inventory = inventory
            .into_iter()
            .map(|(what, value)| {
                let value = self.inventory_value(&what, &value);
                (self.inventory_name(&what), value)
            })
            .collect();
    }

    fn rename_subject(&self, subject: &mut Subject) {
        subject.name = self.subject_name(&subject.kind, &subject.name);
        subject.netns = subject.netns.as_deref().map(|netns| self.namespace(netns));
        subject.capture = subject.capture.as_deref().map(|capture| self.path(capture));
    }

    /// Returns the name of an inventory entry `mount /srv/shop: options`: a kind of thing, its name, and a property.
    fn inventory_name(&self, what: &str) -> String {
        let (thing, property) = what.rsplit_once(": ").map_or((what, ""), |(thing, property)| (thing, property));
        let Some((kind, name)) = thing.split_once(' ') else { return what.to_owned() };
        let name = match kind {
            "mount" => self.path(name),
            "swap" => self.source(name),
            "disk" | "partition" | "array" => self.device(name),
            "layer" => name.split(" on ").map(|device| self.device(device)).collect::<Vec<_>>().join(" on "),
            "interface" | "card" | "link" => self.interface(name),
            "package" => self.item_name(kind, name),
            _ => self.sentence(name),
        };
        if property.is_empty() { format!("{kind} {name}") } else { format!("{kind} {name}: {property}") }
    }

    fn inventory_value(&self, what: &str, value: &str) -> String {
        let is_of_mount = what.starts_with("mount ");
        match what.rsplit_once(": ").map(|(_, property)| property) {
            Some("device") if is_of_mount => self.source(value),
            Some("options") if is_of_mount => self.options(value),
            _ => self.sentence(value),
        }
    }

    /// Returns the name of a command line argument that a document repeats: a file, a folder, a baseline or a period.
    pub fn argument(&self, name: &str) -> String {
        let is_period = name.contains("..") && name.bytes().all(|b| b.is_ascii_digit() || b"-:.TZ +@".contains(&b));
        if is_period || name == "default" { name.to_owned() } else { self.path(name) }
    }

    /// Returns the name of a file with captures, which starts the notes about it.
    pub fn file(&self, name: &str) -> String {
        let new = self.path(name);
        let mut files = lock(&self.files);
        if new != name && files.iter().all(|(known, _)| known != name) {
            files.push((name.to_owned(), new.clone()));
        }
        new
    }

    /// Returns the name of a host.
    pub fn host_name(&self, name: &str) -> String {
        self.host(name)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pseudonyms;
    use whyslow_documents::baseline::{Baseline, BaselineKind, BaselineSeries, Better};
    use whyslow_documents::diagnosis::Subject;

    #[test]
    fn a_subject_is_named_as_its_rows_are() {
        let names = pseudonyms();
        assert_eq!(names.subject_name("host", "host"), "host");
        assert_eq!(names.subject_name("process", "shopd"), names.process("shopd"));
        assert_eq!(
            names.subject_name("process", "guest web1"),
            format!("guest {}", names.subject_name("guest", "web1"))
        );
        assert_eq!(names.subject_name("cgroup", "/shop"), names.cgroups("/shop"));
        assert_eq!(names.subject_name("mount", "/srv/shop"), names.path("/srv/shop"));
        assert_eq!(names.subject_name("mount", "filer"), names.host("filer"));
        assert_eq!(names.subject_name("device", "sda"), "sda");
        assert_eq!(names.subject_name("limit", "net.ipv4.tcp_mem"), "net.ipv4.tcp_mem");
        assert_eq!(names.subject_name("database", "Redis"), "Redis");
    }

    #[test]
    fn a_thing_of_the_inventory_is_replaced_as_far_as_people_named_it() {
        let names = pseudonyms();
        assert!(!names.item_name("package", "shop-server").contains("shop"));
        assert_eq!(names.item_name("unit", "shop.service"), names.cgroups("shop.service"));
        assert_eq!(
            names.item_name("limit", "shop.service memory.max"),
            format!("{} memory.max", names.cgroups("shop.service"))
        );
        let kept = [
            ("limit", "open files"),
            ("sysctl", "vm.swappiness"),
            ("kernel", "cmdline.quiet"),
            ("disk", "SSD 980 scheduler"),
        ];
        for (kind, name) in kept {
            assert_eq!(names.item_name(kind, name), name);
        }
    }

    #[test]
    fn a_baseline_has_no_names_left() {
        let series = |subject| BaselineSeries::of_repeats("disk.queue", subject, "count", Better::Lower, vec![1.0]);
        let inventory = [
            ("mount /srv/shop: device", "/dev/mapper/shop-data"),
            ("mount /srv/shop: options", "rw,subvol=/@shop"),
            ("disk sda: scheduler", "none"),
            ("setting vm.swappiness: value", "60"),
        ];
        let inventory = inventory.map(|(what, value)| (what.to_owned(), value.to_owned())).into();
        let all = vec![series(Subject::new("mount", "/srv/shop")), series(Subject::new("device", "sda"))];
        let mut baseline = Baseline::new(BaselineKind::Period, inventory, all);
        pseudonyms().baseline(&mut baseline);
        let json = format!("{baseline:?}");
        assert!(!json.contains("shop"), "{json}");
        assert_eq!(baseline.inventory["disk sda: scheduler"], "none");
        assert_eq!(baseline.inventory["setting vm.swappiness: value"], "60");
    }

    #[test]
    fn names_of_sides_are_files_or_periods() {
        let names = pseudonyms();
        assert_eq!(names.argument("03:00..04:00"), "03:00..04:00");
        assert_eq!(names.argument("default"), "default");
        assert!(!names.argument("shop.json").contains("shop"));
    }
}
