//! Disks of virtual machines, and the host devices that contain them.

use super::heading;
use crate::canvas::{Canvas, bold, dim, plain};
use crate::human;
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::{Subject, VirtualDisk};
use whyslow_model::human::quantity;

/// Busy share from which on requests to a device wait for others.
const BUSY: f64 = 0.5;
/// Share of a device's requests from which on one guest makes the others wait.
const MOSTLY: f64 = 0.5;
/// Maximum number of sentences on the first screen.
const MOST: usize = 2;

/// Draws guests that make others wait, for the first screen.
pub(super) fn worst(canvas: &mut Canvas, disks: &[VirtualDisk]) {
    let sentences: Vec<String> = by_device(disks).into_values().filter_map(|disks| shared(&disks)).take(MOST).collect();
    if !sentences.is_empty() {
        canvas.at_most(MOST + 1, 0, 2, &[bold("Virtual machines: "), plain(sentences.join(" "))]);
    }
}

/// Draws all disks, by device of the host.
pub(super) fn table(canvas: &mut Canvas, disks: &[VirtualDisk]) {
    if disks.is_empty() {
        return;
    }
    heading(canvas, "Virtual disks");
    for disks in by_device(disks).into_values() {
        for disk in &disks {
            canvas.paragraph(2, 4, &[plain(place(disk)), dim(figures(disk))]);
        }
        if let Some(sentence) = shared(&disks) {
            canvas.paragraph(2, 4, &[plain(sentence)]);
        }
    }
}

fn by_device(disks: &[VirtualDisk]) -> BTreeMap<(Option<&str>, &str), Vec<&VirtualDisk>> {
    let mut devices: BTreeMap<(Option<&str>, &str), Vec<&VirtualDisk>> = BTreeMap::new();
    for disk in disks {
        devices.entry((disk.device.capture.as_deref(), &disk.device.name)).or_default().push(disk);
    }
    devices
}

fn named(subject: &Subject) -> String {
    match &subject.capture {
        Some(capture) => format!("{} in {capture}", subject.name),
        None => subject.name.clone(),
    }
}

fn requests_per_second(rate: f64) -> String {
    format!("{} requests a second", quantity(rate, "count"))
}

fn place(disk: &VirtualDisk) -> String {
    let VirtualDisk { name, guest, known_by, .. } = disk;
    format!("{} is {name} of guest {guest} ({known_by}), on {}.", named(&disk.disk), named(&disk.device))
}

fn figures(disk: &VirtualDisk) -> String {
    let mut words = String::new();
    if let Some((own, all)) = disk.requests.zip(disk.device_requests.filter(|all| *all > 0.0)) {
        let of_all = human::share((own / all).min(1.0));
        words += &format!(" It makes {} of the {} there ({of_all}).", quantity(own, "count"), requests_per_second(all));
    }
    if let Some((wait, below)) = disk.wait.zip(disk.device_wait) {
        words += &format!(" A request takes {}, {} of them on the host.", human::seconds(wait), human::seconds(below));
    }
    words
}

/// Describes the share of the guests in the activity of a busy device, and the guest with the largest share.
fn shared(disks: &[&VirtualDisk]) -> Option<String> {
    let device = &disks.first()?.device.name;
    let (busy, all) = (disks[0].device_busy.filter(|busy| *busy >= BUSY)?, disks[0].device_requests?);
    let mut made: Vec<(&str, f64)> = disks.iter().filter_map(|disk| Some((&*disk.guest, disk.requests?))).collect();
    made.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (most, requests) = *made.first()?;
    let sum: f64 = made.iter().map(|(_, requests)| requests).sum();
    let others: Vec<&str> = made[1..].iter().map(|(guest, _)| *guest).collect();
    let of = |part: f64| human::share((part / all).min(1.0));
    let shares = format!("{device} of the host is {} busy with {}", human::share(busy), requests_per_second(all));
    if others.is_empty() {
        return Some(format!("{shares}; guest {most} makes {} of them.", of(requests)));
    }
    let behind = match &others[..] {
        _ if requests < MOSTLY * all => String::new(),
        [one] => format!(": {one} waits behind it"),
        _ => format!(": {} wait behind it", others.join(", ")),
    };
    Some(format!("{shares}; the guests make {} of them, {most} alone {}{behind}.", of(sum), of(requests)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_on_one_device_are_shown_with_what_each_does() {
        let subject =
            |name: &str, capture: &str| Subject { capture: Some(capture.into()), ..Subject::new("device", name) };
        let disk = |guest: &str, requests: f64| VirtualDisk {
            disk: subject("vda", &format!("{guest}.tar")),
            guest: guest.into(),
            name: "disk0".into(),
            known_by: "serial number S1".into(),
            device: subject("sdb", "host.tar"),
            below: vec![],
            requests: Some(requests),
            device_requests: Some(200.0),
            wait: Some(0.05),
            device_wait: Some(0.04),
            device_busy: Some(0.99),
        };
        let disks = [disk("db", 40.0), disk("batch", 150.0)];
        let mut canvas = Canvas::new(100, false);
        table(&mut canvas, &disks);
        worst(&mut canvas, &disks[..1]);
        assert_eq!(
            canvas.finish(),
            "\nVirtual disks\n  \
             vda in db.tar is disk0 of guest db (serial number S1), on sdb in host.tar. It makes 40 of the 200\n    \
             requests a second there (20 %). A request takes 50 ms, 40 ms of them on the host.\n  \
             vda in batch.tar is disk0 of guest batch (serial number S1), on sdb in host.tar. It makes 150 of\n    \
             the 200 requests a second there (75 %). A request takes 50 ms, 40 ms of them on the host.\n  \
             sdb of the host is 99 % busy with 200 requests a second; the guests make 95 % of them, batch alone\n    \
             75 %: db waits behind it.\n\
             Virtual machines: sdb of the host is 99 % busy with 200 requests a second; guest db makes 20 % of\n  \
             them.\n"
        );
    }
}
