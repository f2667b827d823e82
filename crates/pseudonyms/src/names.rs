//! Names that stand alone, by kind. Parts that show the kind of thing (a container in a scope, a VLAN, the depth of a path) stay,
//! because the diagnosis uses them.

use crate::Pseudonyms;
use crate::known;

/// Length of a container id.
const CONTAINER_ID: usize = 64;
/// Prefixes that container runtimes put before the id in a control group's name.
const RUNTIMES: [&str; 9] = [
    "",
    "docker-",
    "libpod-",
    "libpod-conmon-",
    "crio-",
    "crio-conmon-",
    "cri-containerd-",
    "containerd-",
    "lxc.payload.",
];
/// Suffixes of systemd unit names.
const UNITS: [&str; 11] = [
    ".service",
    ".scope",
    ".slice",
    ".mount",
    ".automount",
    ".socket",
    ".swap",
    ".timer",
    ".device",
    ".target",
    ".path",
];
/// Prefixes of the UUIDs of mapped devices (Documentation/admin-guide/device-mapper, libdevmapper).
const MAPPED: [&str; 12] = [
    "LVM-",
    "CRYPT-LUKS1-",
    "CRYPT-LUKS2-",
    "CRYPT-PLAIN-",
    "CRYPT-VERITY-",
    "CRYPT-",
    "mpath-",
    "DMRAID-",
    "part",
    "STRATIS-1-",
    "VDO-",
    "SUBDEV-",
];

impl Pseudonyms {
    pub(crate) fn process(&self, name: &str) -> String {
        if known::is_no_process(name)
            || known::is_kernel_thread(name)
            || whyslow_model::polling::is_polling_thread(name)
        {
            return name.to_owned();
        }
        if name.starts_with('/') { self.path(name) } else { self.alias("process", name) }
    }

    pub(crate) fn device(&self, name: &str) -> String {
        if known::is_device(name) {
            return name.to_owned();
        }
        if name.starts_with('/') { self.path(name) } else { self.volume(name) }
    }

    /// Replaces each part of `group/volume`.
    pub(crate) fn volume(&self, name: &str) -> String {
        let part = |part: &str| if known::is_device(part) { part.to_owned() } else { self.alias("volume", part) };
        if name.starts_with('/') { self.path(name) } else { each_part(name, '/', part) }
    }

    pub(crate) fn interface(&self, name: &str) -> String {
        if known::is_interface(name) {
            return name.to_owned();
        }
        if let Some(members) = name.contains('+').then(|| each_part(name, '+', |member| self.interface(member))) {
            return members;
        }
        if let Some((base, vlan)) = name.rsplit_once('.')
            && !vlan.is_empty()
            && vlan.bytes().all(|b| b.is_ascii_digit())
        {
            return format!("{}.{vlan}", self.interface(base));
        }
        // `eth0@if7`: the peer is given by its index.
        if let Some((base, peer)) = name.split_once('@') {
            let is_index = peer.strip_prefix("if").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
            let peer = if is_index { peer.to_owned() } else { self.interface(peer) };
            return format!("{}@{peer}", self.interface(base));
        }
        self.alias(known::interface_kind(name).unwrap_or("if"), name)
    }

    /// Replaces the interface in `eth0/rx_missed`, `eth0 fq_codel 8001:`; the rest are words of the kernel.
    pub(crate) fn interface_detail(&self, name: &str) -> String {
        let end = name.find(['/', ' ']).unwrap_or(name.len());
        format!("{}{}", self.interface(&name[..end]), &name[end..])
    }

    /// Replaces a namespace's name. Keeps the number of one without a name, which the kernel assigns.
    pub(crate) fn namespace(&self, name: &str) -> String {
        let number = name.strip_prefix("net:[").and_then(|rest| rest.strip_suffix(']'));
        if name.is_empty() || number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())) {
            return name.to_owned();
        }
        self.alias("netns", name)
    }

    /// Replaces control groups, one per line.
    pub(crate) fn cgroups(&self, paths: &str) -> String {
        each_part(paths, '\n', |path| each_part(path, '/', |part| self.group(part)))
    }

    /// Replaces a component of a control group's path.
    fn group(&self, part: &str) -> String {
        if known::is_group(part) || is_number(part) {
            return part.to_owned();
        }
        if let Some(container) = self.container(part) {
            return container;
        }
        let Some(ending) = UNITS.iter().find(|ending| part.ends_with(**ending)) else {
            return match part.strip_prefix("pod") {
                Some(id) if looks_like_uuid(id) => format!("pod{}", self.uuid_like(id)),
                _ => self.alias("group", part),
            };
        };
        let stem = &part[..part.len() - ending.len()];
        if let Some(session) = stem.strip_prefix("session-")
            && is_number(session.trim_start_matches('c'))
        {
            return part.to_owned();
        }
        if let Some(at) = stem.find("-pod").filter(|_| stem.starts_with("kubepods")) {
            let (class, id) = stem.split_at(at + "-pod".len());
            return format!("{class}{}{ending}", self.alias_of(id, None));
        }
        for user in ["user-runtime-dir@", "user@", "user-"] {
            if let Some(id) = stem.strip_prefix(user) {
                return format!("{user}{}{ending}", self.alias_of(id, None));
            }
        }
        let kind = match *ending {
            ".slice" => "slice",
            ".scope" => "scope",
            ".service" => "unit",
            _ => "item",
        };
        match stem.split_once('@') {
            Some((template, instance)) if is_number(instance) => {
                format!("{}@{instance}{ending}", self.alias(kind, template))
            }
            Some((template, instance)) => {
                format!("{}@{}{ending}", self.alias(kind, template), self.alias_of(instance, None))
            }
            None => format!("{}{ending}", self.alias(kind, stem)),
        }
    }

    /// Replaces `docker-ID.scope`, or an id alone.
    fn container(&self, part: &str) -> Option<String> {
        let scope = part.strip_suffix(".scope").unwrap_or(part);
        let start = scope.len().checked_sub(CONTAINER_ID).filter(|start| scope.is_char_boundary(*start))?;
        let (runtime, id) = scope.split_at(start);
        let is_id = id.bytes().all(|b| b.is_ascii_hexdigit()) && RUNTIMES.contains(&runtime);
        is_id.then(|| {
            let new = self.key.hexadecimal(id, CONTAINER_ID);
            self.note(id, &new, true);
            // The short form that tools print.
            self.note(&id[..12], &new[..12], true);
            format!("{runtime}{new}{}", &part[scope.len()..])
        })
    }

    /// Replaces files, folders and mount points component by component, so that the hierarchy is preserved.
    pub(crate) fn path(&self, path: &str) -> String {
        if path.contains(":[") && !path.contains('/') {
            // `socket:[1234]`, `anon_inode:[eventpoll]`
            return path.to_owned();
        }
        let (path, deleted) = match path.strip_suffix(" (deleted)") {
            Some(path) => (path, " (deleted)"),
            None => (path, ""),
        };
        if let Some(group) = path.strip_prefix("/sys/fs/cgroup/") {
            return format!("/sys/fs/cgroup/{}{deleted}", self.cgroups(group));
        }
        let is_of_kernel = ["/proc/", "/sys/"].iter().any(|folder| path.starts_with(folder));
        let mut folder = "";
        let new = each_part(path, '/', |part| {
            let new = if is_of_kernel { self.kernel_path_part(part, folder) } else { self.path_part(part, folder) };
            folder = part;
            new
        });
        new + deleted
    }

    /// Replaces a component of a kernel path: only the folders of interfaces have names chosen by users.
    fn kernel_path_part(&self, part: &str, folder: &str) -> String {
        match folder {
            "conf" | "neigh" => self.interface(part),
            "net" if known::interface_kind(part).is_some() || self.is_met_interface(part) => self.interface(part),
            _ => part.to_owned(),
        }
    }

    fn path_part(&self, part: &str, folder: &str) -> String {
        if part.is_empty() || known::is_folder(part) || is_number(part) {
            return part.to_owned();
        }
        match folder {
            "dev" | "block" if known::is_device(part) => return part.to_owned(),
            "mapper" => return self.volume(part),
            "home" | "user" | "users" => return self.alias("user", part),
            "netns" => return self.namespace(part),
            _ => {}
        }
        if [".service", ".scope", ".slice"].iter().any(|ending| part.ends_with(ending)) {
            return self.group(part);
        }
        if looks_like_uuid(part) {
            return self.uuid_like(part);
        }
        if part.len() == CONTAINER_ID && part.bytes().all(|b| b.is_ascii_hexdigit()) {
            return self.key.hexadecimal(part, CONTAINER_ID);
        }
        let (stem, ending) = match part.rsplit_once('.') {
            Some((stem, ending)) if known::is_ending(ending) && !stem.is_empty() => part.split_at(stem.len()),
            _ => (part, ""),
        };
        if known::is_file(stem) { part.to_owned() } else { format!("{}{ending}", self.alias("path", stem)) }
    }

    /// Replaces the source of a mount: `sda1`, `/dev/mapper/vg-lv`, `server:/path`, `//server/share`, `tank/home`, `tmpfs`.
    pub(crate) fn source(&self, source: &str) -> String {
        if known::is_source(source) || known::is_device(source) {
            return source.to_owned();
        }
        if let Some((server, path)) = source.strip_prefix("//").and_then(|rest| rest.split_once('/')) {
            return format!("//{}/{}", self.host(server), self.path(path));
        }
        if let Some((server, path)) = source.split_once(":/") {
            let servers = each_part(server, ',', |server| match server.strip_prefix('[') {
                Some(inner) => format!("[{}]", self.host(inner.trim_end_matches(']'))),
                None => self.host(server),
            });
            return format!("{servers}:{}", self.path(&format!("/{path}")));
        }
        self.device(source)
    }

    /// Replaces the values of mount options that name something. Keeps numbers and single words of the kernel.
    pub(crate) fn options(&self, options: &str) -> String {
        each_part(options, ',', |option| {
            let Some((name, value)) = option.split_once('=') else {
                let is_word = option.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b));
                return if is_word { option.to_owned() } else { self.sentence(option) };
            };
            let value = match name {
                "addr" | "clientaddr" | "mountaddr" | "srcaddr" | "mon_addr" => self.host(value),
                "user" | "username" => self.alias("user", value),
                "subvol" | "lowerdir" | "upperdir" | "workdir" | "logdev" | "rtdev" | "device" => {
                    each_part(value, ':', |path| self.device(path))
                }
                _ if value.starts_with('/') => self.path(value),
                _ if known::is_named_option(name) => self.alias("name", value),
                _ if value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.:_".contains(&b)) => {
                    // Also covers `errors=remount-ro`, `iocharset=utf8`, `vers=4.2`.
                    self.address_word(value).unwrap_or_else(|| value.to_owned())
                }
                _ => self.option_value(value),
            };
            format!("{name}={value}")
        })
    }

    fn option_value(&self, value: &str) -> String {
        let is_size =
            value.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T', '%']).bytes().all(|b| b.is_ascii_digit());
        if is_size { value.to_owned() } else { self.alias("value", value) }
    }

    /// Replaces a host given by its name, with or without its domain, or by its address.
    pub(crate) fn host(&self, host: &str) -> String {
        if ["", "localhost", "(none)", "host", "peer", "localhost.localdomain"].contains(&host) {
            return host.to_owned();
        }
        if let Some(address) = self.address_word(host) {
            return address;
        }
        match host.split_once('.').filter(|(name, domain)| !name.is_empty() && !domain.is_empty()) {
            Some((name, domain)) => {
                // Sentences also contain the complete name.
                let new = format!("{}.{}", self.alias("host", name), self.alias("domain", domain));
                self.note(host, &new, true);
                new
            }
            None => self.alias("host", host),
        }
    }

    /// Replaces addresses and connections, separated by spaces.
    pub(crate) fn endpoints(&self, text: &str) -> String {
        each_part(text, ' ', |word| {
            let ends: Vec<String> = word.split("->").map(|end| self.endpoint(end)).collect();
            ends.join("->")
        })
    }

    fn endpoint(&self, end: &str) -> String {
        let is_any = end.bytes().all(|b| b.is_ascii_digit() || b"*:?".contains(&b));
        if is_any || end == "unix" {
            return end.to_owned();
        }
        if let Some(address) = self.address_word(end).or_else(|| self.mac_word(end)) {
            return address;
        }
        if end.contains('/') {
            return self.path(end);
        }
        // A connection in a namespace: `10.0.0.1:80@web`.
        if let Some((end, namespace)) = end.split_once('@') {
            return format!("{}@{}", self.endpoint(end), self.namespace(namespace));
        }
        match end.rsplit_once(':') {
            Some((host, port)) => format!("{}:{port}", self.host(host)),
            None => self.host(end),
        }
    }

    /// Replaces the name in `LVM-…`, `CRYPT-LUKS2-…-name`, `part1-mpath-…`; keeps the prefix of the subsystem.
    pub(crate) fn mapped_uuid(&self, uuid: &str) -> String {
        if uuid.is_empty() {
            return String::new();
        }
        match MAPPED.iter().find_map(|prefix| uuid.strip_prefix(prefix).map(|rest| (*prefix, rest))) {
            Some(("part", rest)) => match rest.split_once('-').filter(|(number, _)| is_number(number)) {
                Some((number, rest)) => format!("part{number}-{}", self.mapped_uuid(rest)),
                None => self.alias("id", uuid),
            },
            Some((prefix, rest)) => format!("{prefix}{}", self.alias_of(rest, None)),
            None => self.alias("id", uuid),
        }
    }

    /// Replaces a serial number or another identity.
    pub(crate) fn id(&self, id: &str) -> String {
        match id {
            "" => String::new(),
            id if looks_like_uuid(id) => self.uuid_like(id),
            id => self.alias("id", id),
        }
    }

    /// Returns a UUID for a UUID.
    pub(crate) fn uuid_like(&self, uuid: &str) -> String {
        let digits = self.key.hexadecimal(uuid, 32);
        let mut digits = digits.chars();
        let new: String =
            uuid.chars().map(|c| if c.is_ascii_hexdigit() { digits.next().unwrap_or('0') } else { c }).collect();
        self.note(uuid, &new, true);
        new
    }

    /// Replaces words of a tool's or importer's label; keeps the tool's own words.
    pub fn label(&self, label: &str) -> String {
        let mut new = String::with_capacity(label.len());
        for piece in label.split_inclusive(char::is_whitespace) {
            let is_edge = |c: char| c.is_whitespace() || ",;:()[]\"'".contains(c);
            let word = piece.trim_matches(is_edge);
            let start = piece.len() - piece.trim_start_matches(is_edge).len();
            let start = if word.is_empty() { 0 } else { start };
            new.push_str(&piece[..start]);
            new.push_str(&self.label_word(word));
            new.push_str(&piece[start + word.len()..]);
        }
        new
    }

    fn label_word(&self, word: &str) -> String {
        let is_figure = word.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-')
            && word.bytes().all(|b| b.is_ascii_digit() || b"+-.,%xkKMGTiB/".contains(&b));
        if word.is_empty() || known::is_label_word(word) {
            return word.to_owned();
        }
        if let Some(address) = self.address_word(word).or_else(|| self.mac_word(word)) {
            return address;
        }
        if is_figure || known::is_device(word) || known::is_interface(word) || known::is_kernel_thread(word) {
            return word.to_owned();
        }
        if word.contains('/') {
            return self.path(word);
        }
        match word.split_once('=') {
            Some((name, value)) if !name.is_empty() => format!("{}={}", self.label_word(name), self.label_word(value)),
            _ if known::is_full_host_name(word) => self.host(word),
            _ => self.alias("name", word),
        }
    }
}

/// Replaces each part between separators.
pub fn each_part<'t>(text: &'t str, separator: char, new: impl FnMut(&'t str) -> String) -> String {
    let parts: Vec<String> = text.split(separator).map(new).collect();
    parts.join(separator.encode_utf8(&mut [0; 4]))
}

pub fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether the text looks like `01234567-89ab-cdef-0123-456789abcdef`, with dashes or underscores.
pub fn looks_like_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-' || b == b'_',
            _ => b.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use crate::testing::pseudonyms;

    fn token(name: &str) -> String {
        pseudonyms().key.token(name)
    }

    #[test]
    fn a_path_keeps_its_depth_and_what_is_below_what() {
        let names = pseudonyms();
        let mount = names.path("/mnt/customers");
        assert_eq!(mount, format!("/mnt/path-{}", token("customers")));
        assert_eq!(names.path("/mnt/customers/db.log"), format!("{mount}/path-{}.log", token("db")));
        assert_eq!(names.path("/home/alice"), format!("/home/user-{}", token("alice")));
        for kept in
            ["/", "/var/lib/docker/overlay2", "/dev/sda1", "/proc/1234/fd/3", "/swapfile", "iostat.txt", "socket:[12]"]
        {
            assert_eq!(names.path(kept), kept);
        }
        assert_eq!(names.path("/dev/mapper/shop"), format!("/dev/mapper/{}", names.volume("shop")));
    }

    #[test]
    fn a_control_group_stays_a_unit_a_container_or_a_user() {
        let names = pseudonyms();
        let unit = |name: &str| format!("unit-{}", token(name));
        assert_eq!(names.cgroups("/system.slice/shop.service"), format!("/system.slice/{}.service", unit("shop")));
        assert_eq!(
            names.cgroups("/system.slice/postgresql@15-main.service\n/"),
            format!("/system.slice/{}@{}.service\n/", unit("postgresql"), token("15-main"))
        );
        assert_eq!(
            names.cgroups("/user.slice/user-1000.slice/session-3.scope"),
            format!("/user.slice/user-{}.slice/session-3.scope", token("1000"))
        );
        let id = "0123456789abcdef".repeat(4);
        let new = names.cgroups(&format!("/system.slice/docker-{id}.scope"));
        assert!(whyslow_model::cgroup::container(&new).is_some() && !new.contains(&id), "{new}");
        let pod = names.cgroups("/kubepods.slice/kubepods-burstable-podabc.slice");
        assert_eq!(pod, format!("/kubepods.slice/kubepods-burstable-pod{}.slice", token("abc")));
        assert_eq!(names.cgroups("/shop"), format!("/group-{}", token("shop")));
    }

    #[test]
    fn an_interface_keeps_its_kind_and_its_vlan() {
        let names = pseudonyms();
        for (name, new) in [
            ("eth0", "eth0".to_owned()),
            ("uplink", format!("if-{}", token("uplink"))),
            ("uplink.100", format!("if-{}.100", token("uplink"))),
            ("tun-office", format!("tun-{}", token("tun-office"))),
            ("eth0+uplink", format!("eth0+if-{}", token("uplink"))),
            ("eth0@if7", "eth0@if7".to_owned()),
        ] {
            assert_eq!(names.interface(name), new);
        }
        assert_eq!(names.interface_detail("uplink/rx_missed"), format!("if-{}/rx_missed", token("uplink")));
        assert_eq!(names.interface_detail("eth0 fq_codel 8001:"), "eth0 fq_codel 8001:");
    }

    #[test]
    fn a_source_is_a_device_a_server_or_a_type() {
        let names = pseudonyms();
        let host = names.host("filer");
        assert_eq!(
            names.source("filer:/export/shop"),
            format!("{host}:/path-{}/path-{}", token("export"), token("shop"))
        );
        assert_eq!(names.source("//filer/shop"), format!("//{host}/path-{}", token("shop")));
        for kept in ["sda1", "tmpfs", "/dev/sda1", "overlay", ""] {
            assert_eq!(names.source(kept), kept);
        }
        assert_eq!(names.source("tank/shop"), format!("volume-{}/volume-{}", token("tank"), token("shop")));
    }

    #[test]
    fn options_that_name_something_lose_the_name_only() {
        let names = pseudonyms();
        let kept = "rw,relatime,errors=remount-ro,size=512m,vers=4.2,mode=755,uid=0,data=ordered";
        assert_eq!(names.options(kept), kept);
        let new = names.options("rw,addr=192.0.2.7,subvol=/@shop,lowerdir=/srv/shop:/srv/base,fsname=Shop");
        for name in ["192.0.2.7", "shop", "base", "Shop"] {
            assert!(!new.contains(name), "{new}");
        }
        assert!(new.starts_with("rw,addr=") && new.contains(",lowerdir=/srv/path-"), "{new}");
    }

    #[test]
    fn hosts_endpoints_and_identities() {
        let names = pseudonyms();
        assert_eq!(names.host("db1"), format!("host-{}", token("db1")));
        assert_eq!(names.host("db1.corp"), format!("host-{}.domain-{}", token("db1"), token("corp")));
        assert_eq!(names.host("localhost"), "localhost");
        assert_eq!(names.endpoints("*:443"), "*:443");
        assert_eq!(names.endpoints("127.0.0.1:5->127.0.0.1:80"), "127.0.0.1:5->127.0.0.1:80");
        assert_eq!(names.endpoints("db1:5432"), format!("host-{}:5432", token("db1")));
        assert!(
            names.mapped_uuid("LVM-abcdef").starts_with("LVM-")
                && names.mapped_uuid("part1-mpath-36").starts_with("part1-mpath-")
        );
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        assert!(super::looks_like_uuid(&names.id(uuid)) && names.id(uuid) != uuid);
    }

    #[test]
    fn words_of_tools_in_a_label_stay() {
        let names = pseudonyms();
        let kept = "dd of /dev/zero bs=1024k, line 3";
        assert_eq!(names.label(kept), kept);
        assert_eq!(names.label("to backup7, line 12"), format!("to name-{}, line 12", token("backup7")));
        assert_eq!(names.label("mysqld (1234) 7"), format!("name-{} (1234) 7", token("mysqld")));
        assert_eq!(names.label(""), "");
    }
}
