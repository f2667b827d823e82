//! Delivers what leaves the host: the hours of a recording to the store of a fleet, and batches of metrics to receivers over HTTP.
//!
//! Both are for `whyslow` alone, and both must survive a receiver that cannot be reached for hours, at no cost in memory and with
//! fewer and fewer attempts. [`Pusher`] sends the batches, from a bounded queue.
//!
//! Hours are not queued: undelivered data is still in the recording, and an hour's rows follow from the recording alone, so that
//! a delivery can be repeated at any time. [`Shipper`] knows what was delivered ([`state`](mod@state) is one small file), decides
//! what is due, and puts each file in its place in the store ([`Destination`]). Spans of the recording itself leave the host only
//! if one of the configured keys has signed the request ([`Shipper::answering`]).

mod backoff;
mod destination;
mod due;
mod push;
mod raw;
mod shipper;
mod state;
#[cfg(test)]
mod tests;

pub use backoff::Backoff;
pub use destination::{Destination, ShipError};
pub use push::{Credentials, Endpoint, EndpointError, PushCounts, Pusher};
pub use raw::RawAnswer;
pub use shipper::{OpenFn, Pass, Shipper, roll_up};
