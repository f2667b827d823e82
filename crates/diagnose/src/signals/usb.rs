//! USB devices: their speed, and that of the hubs above them.

use crate::signal::{Entity, over, signals};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::UsbLink;
use whyslow_model::window::Window;

signals! { l: UsbLink;
    "usb.what" "text" "class and driver of the device", "as printed", "lsusb -t" => l.what.get();
    "usb.speed" "bit/s" "speed of its connection", "as printed", "lsusb -t", normal "5 Gbit/s or more, if the device supports USB 3" => l.speed.get();
    "usb.hub_speed" "bit/s" "speed of the hub above it", "as printed", "lsusb -t", normal "as fast as the device" => l.hub_speed.get();
    "usb.fastest" "bit/s" "speed of the fastest bus of the machine", "maximum over root hubs", "lsusb -t", normal "as fast as the device" => l.fastest.get();
    "usb.share_of_hub" "ratio" "its speed out of the hub's", "speed / hub's speed", "lsusb -t" => over(l.speed.get(), l.hub_speed.get());
    "usb.share_of_fastest" "ratio" "its speed out of that of the fastest bus", "speed / maximum over root hubs", "lsusb -t" => over(l.speed.get(), l.fastest.get());
}

/// Returns every listed USB device.
pub fn entities(window: &Window) -> Vec<Entity> {
    let links = window.newest::<UsbLink>();
    links.into_values().map(|l| Entity::from_subject(Subject::new("device", l.device.to_string()), l)).collect()
}
