//! The queueing discipline at the root of an interface (rtnetlink(7), tc(8)).
//!
//! The kernel's own qdisc is shown as `default`, and returns when ours is deleted. A qdisc that an administrator configured has
//! options that could not be rolled back, and is not touched; ours is identified by its handle.

use super::Handle;
use crate::machine::Machine;
use whyslow_documents::tune::Unavailable;
use whyslow_sense::SourceError;
use whyslow_sense::netlink::{Netlink, attribute, attributes_after, text, u32_at};

/// Size of struct tcmsg: family, interface, handle, parent, info.
const HEAD: usize = 20;
/// TC_H_ROOT of include/uapi/linux/pkt_sched.h.
const ROOT: u32 = 0xffff_ffff;
/// TCA_KIND of include/uapi/linux/rtnetlink.h.
const KIND: u16 = 1;
/// The handle of our qdiscs: `7773:`, 'ws'.
const OURS: u32 = 0x7773_0000;
const DEFAULT: &str = "default";

/// The root qdisc of an interface.
pub(super) struct RootQdisc {
    interface: String,
    number: u32,
}

impl RootQdisc {
    /// Returns the root qdisc of an interface.
    ///
    /// # Errors
    /// Absent if the interface no longer exists.
    pub(super) fn for_interface(machine: &Machine, interface: &str) -> Result<Self, Unavailable> {
        let number = machine.root().word(&format!("sys/class/net/{interface}/ifindex"));
        let number = number.and_then(|word| word.parse().ok());
        let absent = || Unavailable::Absent(format!("no interface '{interface}'"));
        Ok(Self { interface: interface.to_owned(), number: number.ok_or_else(absent)? })
    }

    fn message(&self, handle: u32) -> Vec<u8> {
        [0, self.number, handle, ROOT, 0].into_iter().flat_map(u32::to_ne_bytes).collect()
    }

    /// Returns handle and kind of the root qdisc; `None` if there is none (noqueue is not reported).
    fn present(&self) -> Result<Option<(u32, String)>, Unavailable> {
        let mut found = None;
        let mut netlink = Netlink::open(libc::NETLINK_ROUTE).map_err(|miss| self.sorted(miss))?;
        let each = |payload: &[u8]| {
            let at = |offset| u32_at(payload, offset);
            if (at(4), at(12)) == (Some(self.number), Some(ROOT)) {
                let kind = attributes_after(payload, HEAD).find(|(kind, _)| *kind == KIND);
                found = Some((at(8).unwrap_or(0), kind.map_or(String::new(), |(_, value)| text(value))));
            }
        };
        netlink.dump(libc::RTM_GETQDISC, &[0; HEAD], each).map_err(|miss| self.sorted(miss))?;
        Ok(found)
    }

    fn sorted(&self, miss: SourceError) -> Unavailable {
        let what = format!("queueing discipline of {}", self.interface);
        match miss {
            SourceError::Absent(why) => Unavailable::Unsupported(format!("{what}: {why}")),
            SourceError::NotPermitted { why, remedy } => {
                Unavailable::NotPermitted { why: format!("{what}: {why}"), remedy }
            }
            SourceError::Failed(why) => Unavailable::Failed(format!("{what}: {why}")),
        }
    }
}

impl Handle for RootQdisc {
    fn read(&self) -> Result<String, Unavailable> {
        match self.present()? {
            None | Some((0, _)) => Ok(DEFAULT.to_owned()),
            Some((OURS, kind)) => Ok(kind),
            Some((_, kind)) => Err(Unavailable::Unsupported(format!(
                "{} has a configured {kind}, whose options could not be restored: use tc(8) to change it",
                self.interface
            ))),
        }
    }

    fn write(&self, value: &str) -> Result<(), Unavailable> {
        let now = self.read()?;
        let mut netlink = Netlink::open(libc::NETLINK_ROUTE).map_err(|miss| self.sorted(miss))?;
        // A qdisc of another kind is not replaced in place: the kernel requires its deletion first if it has the same handle.
        let deleted = if now == DEFAULT { Ok(()) } else { netlink.tell(libc::RTM_DELQDISC, 0, &self.message(OURS)) };
        deleted.map_err(|miss| self.sorted(miss))?;
        if value == DEFAULT {
            return Ok(());
        }
        let kind = attribute(KIND, &[value.as_bytes(), b"\0"].concat());
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        netlink.tell(libc::RTM_NEWQDISC, flags, &[self.message(OURS), kind].concat()).map_err(|miss| match miss {
            SourceError::Absent(_) => Unavailable::Failed(format!("this kernel has no queueing discipline '{value}'")),
            other => self.sorted(other),
        })
    }
}
