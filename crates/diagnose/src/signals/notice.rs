//! What the kernel's log says again and again of one thing.

use crate::kernel_log::{self, notice::Notice};
use crate::signal::{Entity, signals};
use std::collections::BTreeMap;
use whyslow_model::catalogue::LogLine;
use whyslow_model::window::Window;

/// A notice, and the log it stands in.
pub struct Noticed<'a> {
    notice: &'a Notice,
    log: &'a BTreeMap<u64, &'a LogLine>,
}

impl Noticed<'_> {
    fn time(&self, line: u64) -> Option<String> {
        kernel_log::time(self.log.get(&line)?)
    }

    fn details(&self) -> Option<String> {
        (!self.notice.details.is_empty()).then(|| self.notice.details.join("; "))
    }
}

signals! { n: &Noticed<'_>;
    "notice.topic" "text" "what the message is about, in a word of ours", "the message's words", "/dev/kmsg" => n.notice.topic;
    "notice.count" "count" "how often it was logged, messages held back included", "lines + 'suppressed'", "/dev/kmsg" => n.notice.count;
    "notice.stands" "flag" "1 where the log does not say that it is over", "no message that ends it after the last that begins it", "/dev/kmsg" => n.notice.stands;
    "notice.ended" "flag" "1 where the log said at least once that it is over", "a message that ends it", "/dev/kmsg" => n.notice.ended;
    "notice.details" "text" "what differs from message to message", "as logged", "/dev/kmsg" => n.details().as_deref();
    "notice.first" "text" "when it was first logged", "as printed", "/dev/kmsg" => n.time(n.notice.lines.0).as_deref();
    "notice.last" "text" "when it was last logged", "as printed", "/dev/kmsg" => n.time(n.notice.lines.1).as_deref();
}

/// Every notice of the log.
pub fn entities(window: &Window) -> Vec<Entity> {
    let log = kernel_log::rows(window);
    let notices = kernel_log::notice::gather(kernel_log::lines(window).into_iter());
    let entity = |notice: &Notice| {
        Entity::new(notice.subject.clone(), read(&Noticed { notice, log: &log }))
            .of_rows([notice.lines.0, notice.lines.1])
            .also_named(notice.aliases.clone())
    };
    notices.iter().map(entity).collect()
}
