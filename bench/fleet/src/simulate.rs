//! Realistic simulated fleets: roles have their kernels and packages, racks their model and firmware, updates come in
//! waves, and some hosts are sick for unrelated reasons.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use whyslow_compare::fleet::Feature;

const ROLES: [(&str, f64); 4] = [("web", 0.03), ("db", 0.08), ("cache", 0.04), ("batch", 0.07)];
const KERNELS: [&str; 4] = ["6.1.0-28-amd64", "6.8.0-31-generic", "6.8.0-45-generic", "6.12.9-cloud"];
const MODELS: [&str; 3] = ["R650", "R660", "DL360"];
const FIRMWARES: [&str; 3] = ["EDA5402Q", "EDA5602Q", "EDA7602Q"];
const HOSTS_IN_RACK: usize = 20;
const PACKAGES: usize = 200;
const ROLE_PACKAGES: usize = 15;
const SYSCTLS: usize = 40;
const DRIVERS: [&str; 8] = ["ixgbe", "nvme", "i40e", "mlx5_core", "megaraid_sas", "bnxt_en", "ice", "zfs"];
/// Number of drivers that come with the kernel; the others are installed separately.
const IN_TREE: usize = 5;

/// What makes hosts of a simulated fleet sick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A kernel with a bad scheduler.
    Kernel,
    /// A disk's firmware with slow flushes.
    Firmware,
    /// A kernel parameter.
    Sysctl,
    /// The switch of a rack.
    Rack,
}

impl Cause {
    /// All causes, in the order in which they are planted.
    pub const ALL: [Self; 4] = [Self::Kernel, Self::Firmware, Self::Sysctl, Self::Rack];

    /// Returns the finding on hosts that the cause makes sick.
    pub fn finding(self) -> &'static str {
        match self {
            Self::Kernel => "cpu.saturated",
            Self::Firmware => "disk.flush_bound",
            Self::Sysctl => "mem.reclaim",
            Self::Rack => "net.loss",
        }
    }

    /// Returns the other effects of the cause.
    pub fn effects(self) -> &'static [Effect] {
        match self {
            Self::Kernel => &OF_KERNEL,
            Self::Firmware => &OF_FIRMWARE,
            Self::Sysctl => &OF_SYSCTL,
            Self::Rack => &OF_RACK,
        }
    }
}

/// Amount that each second lost to a cause adds to a number of its minute.
pub struct Effect {
    /// Table of the store.
    pub table: &'static str,
    /// Column of the table.
    pub column: &'static str,
    /// Added amount.
    pub per_second: f64,
}

const fn effect(table: &'static str, column: &'static str, per_second: f64) -> Effect {
    Effect { table, column, per_second }
}

const SECOND_NS: f64 = 1e9;
/// Tasks wait although CPUs are idle.
const OF_KERNEL: [Effect; 2] =
    [effect("pressure", "cpu_some", SECOND_NS), effect("process", "run_delay", 3.0 * SECOND_NS)];
/// Flushes of 50 ms.
const OF_FIRMWARE: [Effect; 5] = [
    effect("disk", "writes", 20.0),
    effect("disk", "write_time", SECOND_NS),
    effect("disk", "weighted_time", SECOND_NS),
    effect("pressure", "io_some", SECOND_NS),
    effect("pressure", "io_full", 0.8 * SECOND_NS),
];
const OF_SYSCTL: [Effect; 3] = [
    effect("pressure", "memory_some", SECOND_NS),
    effect("pressure", "memory_full", 0.5 * SECOND_NS),
    effect("vmstat", "pgmajfault", 200.0),
];
const OF_RACK: [Effect; 2] = [effect("protocol", "tcp_retrans_segs", 50.0), effect("interface", "rx_dropped", 80.0)];

/// A simulated host.
pub struct Host {
    /// Name of the host.
    pub name: String,
    /// Features of the host.
    pub features: Vec<Feature>,
    /// Changes in the hour before the host became sick; for a healthy host, in a day.
    pub changes: Vec<Feature>,
    /// Whether the host is sick.
    pub is_sick: bool,
    /// Whether the planted cause made it sick.
    pub is_planted: bool,
    /// Share of the time after which it is sick.
    pub onset: f64,
}

impl Host {
    /// Returns deterministic random numbers of this host for a purpose.
    pub fn random(&self, what: &str) -> SmallRng {
        let bytes = self.name.bytes().chain([0]).chain(what.bytes());
        SmallRng::seed_from_u64(bytes.fold(0, |seed: u64, byte| seed.wrapping_mul(1_099_511_628_211) ^ u64::from(byte)))
    }
}

/// A simulated fleet.
pub struct Fleet {
    /// Hosts of the fleet.
    pub hosts: Vec<Host>,
    /// Cause that makes some of them sick.
    pub cause: Option<Cause>,
    /// Feature that these hosts have.
    pub planted: Option<Feature>,
    /// Share of the hosts with the feature that are sick.
    pub penetrance: f64,
}

/// Properties that most hosts of a rack have in common.
struct Rack {
    role: usize,
    model: usize,
    firmware: usize,
    network_firmware: usize,
}

/// Creates a fleet of this many hosts, deterministically from the seed.
pub fn simulate(seed: u64, count: usize, cause: Option<Cause>) -> Fleet {
    let random = &mut SmallRng::seed_from_u64(seed);
    let racks: Vec<Rack> = (0..count.div_ceil(HOSTS_IN_RACK)).map(|_| rack(random)).collect();
    let settings = Settings::new(random);
    let mut hosts: Vec<Host> = (0..count).map(|number| host(random, number, &racks, &settings)).collect();
    let planted = cause.map(|cause| plant(random, cause, &hosts));
    let penetrance = random.random_range(0.4..0.95);
    for host in &mut hosts {
        host.is_planted =
            planted.as_ref().is_some_and(|planted| host.features.contains(planted)) && random.random_bool(penetrance);
        let role = host.features.iter().find(|feature| &*feature.name == "role").and_then(|role| role.value.as_deref());
        let usual = ROLES.iter().find(|(name, _)| Some(*name) == role).map_or(0.05, |(_, usual)| *usual);
        host.is_sick = random.random_bool(usual) || host.is_planted;
        // For a healthy host the changes of a day count, for a sick one those of an hour.
        let share = if host.is_sick { 1.0 / 24.0 } else { 1.0 };
        host.changes.retain(|_| random.random_bool(share));
        host.onset = random.random_range(0.1..0.9);
    }
    Fleet { hosts, cause, planted, penetrance }
}

fn rack(random: &mut SmallRng) -> Rack {
    Rack {
        role: role(random),
        model: random.random_range(0..MODELS.len()),
        firmware: random.random_range(0..FIRMWARES.len()),
        network_firmware: random.random_range(0..FIRMWARES.len()),
    }
}

/// Returns a random role: nearly half of a fleet are web servers.
fn role(random: &mut SmallRng) -> usize {
    match random.random_range(0..100) {
        0..45 => 0,
        45..65 => 1,
        65..80 => 2,
        _ => 3,
    }
}

/// Probabilities that a host has a setting other than the default.
struct Settings {
    often: Vec<f64>,
    /// Number of the update that changes each package.
    changes_with: Vec<usize>,
}

impl Settings {
    fn new(random: &mut SmallRng) -> Self {
        let often = (0..SYSCTLS).map(|_| random.random_range(0.02..0.3)).collect();
        let changes_with = (0..PACKAGES).map(|_| random.random_range(0..2 * KERNELS.len())).collect();
        Self { often, changes_with }
    }
}

fn host(random: &mut SmallRng, number: usize, racks: &[Rack], settings: &Settings) -> Host {
    let rack_number = number / HOSTS_IN_RACK;
    let rack = &racks[rack_number];
    let role = if random.random_bool(0.6) { rack.role } else { role(random) };
    let model = mostly(random, 0.9, rack.model, MODELS.len());
    let kernel = mostly(random, 0.8, role % KERNELS.len(), KERNELS.len());
    let update = mostly(random, 0.7, kernel, KERNELS.len());
    let mut features = Vec::new();
    let mut add = |kind: &str, name: &str, value: &str| features.push(Feature::new(kind, name, value));
    add("label", "role", ROLES[role].0);
    add("label", "rack", &format!("r{rack_number}"));
    add("machine", "model", MODELS[model]);
    add("kernel", "release", KERNELS[kernel]);
    add("machine", "microcode", &format!("0x{:x}", 0x2b00 + 16 * model + kernel / 2));
    for (number, driver) in DRIVERS.iter().enumerate() {
        let own = random.random_range(0..2);
        add("driver", driver, &if number < IN_TREE { KERNELS[kernel].to_owned() } else { format!("{number}.{own}") });
    }
    let disk = format!("PM{}", 983 + 10 * model);
    add("firmware", &disk, FIRMWARES[mostly(random, 0.85, rack.firmware, FIRMWARES.len())]);
    add("firmware", "ixgbe", FIRMWARES[mostly(random, 0.85, rack.network_firmware, FIRMWARES.len())]);
    for (number, often) in settings.often.iter().enumerate() {
        let value = match number % 4 {
            0 => usize::from(random.random_bool(0.95)) * (1 + role),
            1 => usize::from(random.random_bool(0.95)) * (1 + update / 2),
            _ => usize::from(random.random_bool(*often)),
        };
        add("sysctl", &format!("vm.setting_{number}"), &value.to_string());
    }
    for (number, changes_with) in settings.changes_with.iter().enumerate() {
        let update = if random.random_bool(0.92) { update } else { random.random_range(0..KERNELS.len()) };
        let is_newer = update >= *changes_with;
        add("package", &format!("lib{number}"), if is_newer { "1.2" } else { "1.1" });
    }
    for (of_role, _) in ROLES.iter().enumerate() {
        for number in 0..ROLE_PACKAGES {
            if random.random_bool(if of_role == role { 0.97 } else { 0.02 }) {
                add("package", &format!("{}-{number}", ROLES[of_role].0), "2.0");
            }
        }
    }
    let change = |random: &mut SmallRng| {
        Feature::change("package", &format!("lib{}", random.random_range(0..PACKAGES)), Some("1.1"), Some("1.2"))
    };
    let changes = if random.random_bool(0.3) { random.random_range(1..6) } else { 0 };
    let changes = (0..changes).map(|_| change(random)).collect();
    Host { name: format!("host{number:05}"), features, changes, is_sick: false, is_planted: false, onset: 0.0 }
}

fn mostly(random: &mut SmallRng, how_often: f64, usual: usize, of: usize) -> usize {
    if random.random_bool(how_often) { usual } else { random.random_range(0..of) }
}

/// Picks a feature that between 3 and 40 % of the hosts have; the switch is that of any full rack.
fn plant(random: &mut SmallRng, cause: Cause, hosts: &[Host]) -> Feature {
    let is_of = |feature: &Feature| match cause {
        Cause::Kernel => &*feature.kind == "kernel",
        Cause::Firmware => &*feature.kind == "firmware" && feature.name.starts_with("PM"),
        Cause::Sysctl => &*feature.kind == "sysctl",
        Cause::Rack => &*feature.name == "rack",
    };
    let mut candidates: Vec<&Feature> = hosts.iter().flat_map(|host| &host.features).filter(|one| is_of(one)).collect();
    candidates.sort();
    let counted = candidates.chunk_by(|a, b| a == b).map(|same| (same[0], same.len()));
    let share = |count: usize| count as f64 / hosts.len() as f64;
    let fit = counted.filter(|(_, count)| {
        if cause == Cause::Rack { *count == HOSTS_IN_RACK } else { (0.03..0.4).contains(&share(*count)) }
    });
    let mut fit: Vec<&Feature> = fit.map(|(feature, _)| feature).collect();
    if fit.is_empty() {
        fit = candidates;
    }
    fit[random.random_range(0..fit.len())].clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_the_same_for_the_same_seed() {
        let sick = |seed: u64| {
            let fleet = simulate(seed, 200, Some(Cause::Kernel));
            (fleet.planted, fleet.hosts.iter().map(|host| host.is_sick).collect::<Vec<bool>>())
        };
        assert_eq!(sick(7), sick(7));
        assert_ne!(sick(7), sick(8));
    }

    #[test]
    fn the_planted_cause_makes_its_hosts_sick() {
        for (seed, cause) in Cause::ALL.into_iter().enumerate() {
            let fleet = simulate(seed as u64, 400, Some(cause));
            let planted = fleet.planted.as_ref().unwrap();
            let (with, without): (Vec<&Host>, Vec<&Host>) =
                fleet.hosts.iter().partition(|host| host.features.contains(planted));
            let share = |hosts: &[&Host]| hosts.iter().filter(|host| host.is_sick).count() as f64 / hosts.len() as f64;
            assert!((share(&with) - fleet.penetrance).abs() < 0.3 && share(&without) < 0.12, "{cause:?}");
        }
    }
}
