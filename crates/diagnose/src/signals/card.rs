//! A card's counts since boot, where one look at them is all there is: how many of its frames were damaged.

use crate::signal::{Entity, over, signals};
use whyslow_model::catalogue::{Interface, Link};
use whyslow_model::diagnosis::Subject;
use whyslow_model::window::Window;

/// What the signals of a card are computed from.
pub struct Card<'w> {
    counts: &'w Interface,
    link: Option<&'w Link>,
}

impl Card<'_> {
    fn bad(&self) -> Option<f64> {
        self.counts.rx_frame.get().or(self.counts.rx_errors.get()).map(|n| n as f64)
    }

    fn received(&self) -> Option<f64> {
        self.counts.rx_packets.get().map(|n| n as f64)
    }
}

signals! { c: &Card<'_>;
    "card.bad_frames" "count" "frames that arrived damaged, since boot", "rx_frame, else rx_errors", "/proc/net/dev, ethtool" => c.bad();
    "card.bad_share" "ratio" "their share of all frames", "damaged / (packets + damaged)", "/proc/net/dev, ethtool" => over(c.bad(), c.received().zip(c.bad()).map(|(good, bad)| good + bad));
    "card.speed" "bit/s" "negotiated speed", "as the driver gives it", "ethtool" => c.link.and_then(|l| l.speed.get());
    "card.duplex" "text" "full or half", "as the driver gives it", "ethtool" => c.link.and_then(|l| l.duplex.get());
}

/// Every card that was looked at once; where there are two looks, the rates between them are judged.
pub fn entities(window: &Window) -> Vec<Entity> {
    let links = window.newest::<Link>();
    let changes = window.changes::<Interface>();
    let once = changes.iter().filter(|c| c.rows().count() == 1);
    once.map(|c| {
        let card = Card { counts: c.last(), link: links.get(c.key()).copied() };
        let subject =
            Subject { netns: super::netns(&c.key().ns), ..Subject::new("interface", c.key().name.to_string()) };
        Entity::new(subject, read(&card))
    })
    .collect()
}
