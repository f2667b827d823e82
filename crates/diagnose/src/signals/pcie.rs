//! PCIe links: their speed and width, and what their devices and the ports above them support.

use crate::signal::{Entity, over, signals};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::PcieLink;
use whyslow_model::window::Window;

const GIGA: f64 = 1e9;

signals! { l: PcieLink;
    "pcie.what" "text" "what the device is", "by its class, or as printed", "/sys/bus/pci/devices, lspci -vv" => l.what.get();
    "pcie.link" "text" "speed and width of the link", "current_link_speed, current_link_width; LnkSta", "/sys/bus/pci/devices, lspci -vv", normal "what the device supports" => words(l.speed.get(), l.width.get()).as_deref();
    "pcie.capability" "text" "speed and width that the device supports", "max_link_speed, max_link_width; LnkCap", "/sys/bus/pci/devices, lspci -vv", normal "as much as the port" => words(l.max_speed.get(), l.max_width.get()).as_deref();
    "pcie.port" "text" "speed and width that the port above it supports", "the same of the port", "/sys/bus/pci/devices, lspci -vv", normal "as much as the device" => words(l.port_speed.get(), l.port_width.get()).as_deref();
    "pcie.bandwidth" "ratio" "bandwidth of the link out of what the device supports", "speed x width / maximum", "/sys/bus/pci/devices, lspci -vv", normal "1" => over(product(l.speed.get(), l.width.get()), product(l.max_speed.get(), l.max_width.get()));
    "pcie.lanes" "ratio" "lanes in use out of those that the device has", "width / maximum", "/sys/bus/pci/devices, lspci -vv" => over(l.width.get(), l.max_width.get());
    "pcie.lanes_of_both" "ratio" "lanes in use out of those that device and port both have", "width / minimum of both", "/sys/bus/pci/devices, lspci -vv" => over(l.width.get(), least(l.max_width.get(), l.port_width.get()));
    "pcie.speed_of_both" "ratio" "speed of a lane out of what device and port both support", "speed / minimum of both", "/sys/bus/pci/devices, lspci -vv" => over(l.speed.get(), least(l.max_speed.get(), l.port_speed.get()));
}

fn product(speed: Option<f64>, width: Option<f64>) -> Option<f64> {
    Some(speed? * width?)
}

fn least(device: Option<f64>, port: Option<f64>) -> Option<f64> {
    Some(device?.min(port?))
}

fn words(speed: Option<f64>, width: Option<f64>) -> Option<String> {
    Some(format!("{} GT/s x{}", speed? / GIGA, width?))
}

/// Returns every device whose link is known.
pub fn entities(window: &Window) -> Vec<Entity> {
    let links = window.newest::<PcieLink>();
    links.into_values().map(|l| Entity::from_subject(Subject::new("device", l.device.to_string()), l)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_compared_with_what_its_device_and_port_support() {
        assert_eq!(words(Some(2.5e9), Some(1.0)).as_deref(), Some("2.5 GT/s x1"));
        assert_eq!(words(None, Some(1.0)), None);
        assert_eq!((least(Some(8.0), Some(4.0)), least(Some(8.0), None)), (Some(4.0), None));
        assert_eq!(product(Some(8e9), Some(2.0)), Some(16e9));
    }
}
