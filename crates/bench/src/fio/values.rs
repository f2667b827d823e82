//! What an option's text says.

use super::units::Base;
use crate::places::cpu_list;
use whyslow_model::bench::{Access, Block, Engine, Sync};

pub(super) fn kb_base(text: &str) -> Result<Base, String> {
    match text {
        "1024" => Ok(Base { k: 1024 }),
        "1000" => Ok(Base { k: 1000 }),
        _ => Err(format!("kb_base={text}: 1024 or 1000")),
    }
}

/// Variables are fio's, and those of its surroundings.
pub(super) fn path(text: &str) -> Result<String, String> {
    match text {
        "" => Err("an empty path".into()),
        _ if text.contains('$') => Err(format!("'{text}': variables are not known")),
        _ if text.contains(':') => Err(format!("'{text}': several files for one job are not known")),
        _ => Ok(text.to_owned()),
    }
}

pub(super) fn engine(text: &str) -> Result<Engine, String> {
    match text {
        // Both keep many requests in flight; what is measured is the device, not the interface.
        "io_uring" | "libaio" => Ok(Engine::IoUring),
        "psync" | "sync" => Ok(Engine::Psync),
        "mmap" => Ok(Engine::Mmap),
        _ => Err(format!("ioengine={text} is not known: io_uring, libaio, psync, sync and mmap are")),
    }
}

pub(super) fn distribution(text: &str) -> Result<Option<Access>, String> {
    match text.split_once(':') {
        None if text == "random" => Ok(None),
        Some(("zipf", theta)) => match theta.parse::<f64>() {
            Ok(theta) if theta > 0.0 && theta.is_finite() => Ok(Some(Access::Zipf(theta))),
            _ => Err(format!("'{text}': the exponent must be more than 0")),
        },
        _ => Err(format!("random_distribution={text} is not known: random and zipf:EXPONENT are")),
    }
}

pub(super) fn block(base: Base, text: &str) -> Result<u32, String> {
    let bytes = base.bytes(text)?;
    u32::try_from(bytes)
        .ok()
        .filter(|&bytes| bytes > 0 && bytes <= 1 << 30)
        .ok_or_else(|| format!("a block of '{text}' cannot be"))
}

pub(super) fn one_size(bytes: u32) -> Vec<Block> {
    vec![Block { bytes, share: 1.0 }]
}

/// `4k/60:64k/40`; those without a share have what is left, in equal parts.
pub(super) fn split_sizes(base: Base, text: &str) -> Result<Vec<Block>, String> {
    let mut sizes = Vec::new();
    for part in text.split(':') {
        let (size, share) = part.split_once('/').unwrap_or((part, ""));
        let share = if share.is_empty() { None } else { Some(percent(share)?) };
        sizes.push((block(base, size)?, share));
    }
    let given: f64 = sizes.iter().filter_map(|(_, share)| *share).sum();
    let open = sizes.iter().filter(|(_, share)| share.is_none()).count();
    if given > 1.0 + 1e-9 || (open == 0 && given < 1.0 - 1e-9) {
        return Err(format!("the shares of '{text}' do not add up to 100"));
    }
    let rest = (1.0 - given) / open.max(1) as f64;
    Ok(sizes.into_iter().map(|(bytes, share)| Block { bytes, share: share.unwrap_or(rest) }).collect())
}

/// `1k-4k`: each multiple of the smallest is as likely as any other.
pub(super) fn range_of_sizes(base: Base, text: &str) -> Result<Vec<Block>, String> {
    let (least, most) = text.split_once('-').ok_or_else(|| format!("'{text}' is no range"))?;
    let (least, most) = (block(base, least)?, block(base, most)?);
    let count = most / least;
    if count == 0 || count > 4096 {
        return Err(format!("'{text}' is no range that can be used"));
    }
    Ok((1..=count).map(|n| Block { bytes: least * n, share: 1.0 / f64::from(count) }).collect())
}

pub(super) fn yes(key: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("1" | "true") => Ok(true),
        Some("0" | "false") => Ok(false),
        Some(other) => Err(format!("{key}={other}: 0 or 1")),
    }
}

pub(super) fn only(key: &str, text: &str, allowed: &str) -> Result<(), String> {
    if text == allowed { Ok(()) } else { Err(format!("{key}={text} is not known: {allowed} is")) }
}

pub(super) fn count(key: &str, text: &str, most: u32) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|n| (1..=most).contains(n))
        .ok_or_else(|| format!("{key}={text}: a number from 1 to {most}"))
}

pub(super) fn count_or_none(key: &str, text: &str) -> Result<Option<u32>, String> {
    if text == "0" { Ok(None) } else { count(key, text, u32::MAX).map(Some) }
}

pub(super) fn every(writes: Option<u32>, data_only: bool) -> Option<Sync> {
    writes.map(|writes| Sync { every: Some(writes), data_only })
}

pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<u32>().ok().filter(|&n| n <= 100);
    number.map(|n| f64::from(n) / 100.0).ok_or_else(|| format!("'{text}' is no percentage"))
}

/// `0-3,8`.
pub(super) fn cpus(text: &str) -> Result<Vec<u32>, String> {
    /// What an affinity mask of the C library holds.
    const MOST: u32 = 1023;
    let cpus = cpu_list(text).filter(|cpus| cpus.iter().all(|&cpu| cpu <= MOST));
    cpus.ok_or_else(|| format!("'{text}' is no list of processors"))
}

/// `50:99:99.9`.
pub(super) fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let share = |part: &str| match part.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("'{part}' is no percentile")),
    };
    text.split(':').map(share).collect()
}
