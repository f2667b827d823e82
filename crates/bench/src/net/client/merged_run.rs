//! Merged results of both ends of a run.

use whyslow_documents::bench::{Datagrams, NetEnd, NetLoad, NetRun, Work};

/// Merges the results of both ends. Ending early because the run was `stopped` is not a failure.
pub(super) fn merge_ends(name: &str, load: &NetLoad, here: NetEnd, there: Option<NetEnd>, stopped: bool) -> NetRun {
    let remote = |end: &NetEnd| end.failed.as_ref().map(|why| format!("at the other end: {why}"));
    let failed = here.failed.clone().or_else(|| there.as_ref().and_then(remote)).filter(|_| !stopped);
    let name = name.to_owned();
    let mut run =
        NetRun { name, asked: load.clone(), bandwidth: None, rate: None, datagrams: None, here, there, failed };
    match load.work {
        Work::Stream(_) => {
            run.bandwidth = run.receiver().and_then(NetEnd::bandwidth);
            run.datagrams = datagrams(run.sender(), run.receiver());
        }
        Work::Exchange => {
            let here = &run.here;
            run.rate = (here.seconds > 0.0).then(|| here.answers as f64 / here.seconds);
            run.datagrams = here.datagrams;
        }
    }
    run
}

fn datagrams(sender: Option<&NetEnd>, receiver: Option<&NetEnd>) -> Option<Datagrams> {
    let (sent, received) = (sender?.datagrams?.sent, receiver?.datagrams?);
    // Duplicates made by the network may outnumber the lost.
    Some(Datagrams { sent, lost: sent.saturating_sub(received.received), ..received })
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::bench::{Direction, Transport};

    fn end(bytes: u64, datagrams: Option<Datagrams>) -> NetEnd {
        NetEnd { seconds: 2.0, bytes, answers: 10, datagrams, ..NetEnd::default() }
    }

    #[test]
    fn bandwidth_is_counted_by_the_receiver() {
        let up = NetLoad::stream(Direction::Up, 2.0);
        let down = NetLoad::stream(Direction::Down, 2.0);
        assert_eq!(merge_ends("", &up, end(100, None), Some(end(80, None)), false).bandwidth, Some(40.0));
        assert_eq!(merge_ends("", &down, end(100, None), Some(end(80, None)), false).bandwidth, Some(50.0));
        assert_eq!(merge_ends("", &up, end(100, None), None, false).bandwidth, None);
        let exchange = merge_ends("", &NetLoad::exchange(Transport::Tcp, 2.0), end(0, None), Some(end(0, None)), false);
        assert_eq!((exchange.rate, exchange.bandwidth), (Some(5.0), None));
    }

    #[test]
    fn datagrams_sent_but_not_received_are_lost() {
        let sent = Datagrams { sent: 100, ..Datagrams::default() };
        let received = Datagrams { received: 97, lost_for_buffer: Some(2), ..Datagrams::default() };
        let load = NetLoad { transport: Transport::Udp, ..NetLoad::stream(Direction::Up, 2.0) };
        let run = merge_ends("", &load, end(0, Some(sent)), Some(end(0, Some(received))), false);
        let counts = run.datagrams.unwrap();
        assert_eq!((counts.sent, counts.received, counts.lost, counts.lost_for_buffer), (100, 97, 3, Some(2)));
    }

    #[test]
    fn ending_early_on_purpose_is_not_a_failure() {
        let broken = NetEnd { failed: Some("reset".into()), ..NetEnd::default() };
        let load = NetLoad::stream(Direction::Up, 2.0);
        assert_eq!(merge_ends("", &load, end(0, None), Some(broken.clone()), true).failed, None);
        let run = merge_ends("", &load, end(0, None), Some(broken), false);
        assert_eq!(run.failed.as_deref(), Some("at the other end: reset"));
    }
}
