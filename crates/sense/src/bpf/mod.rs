//! BPF: observing what /proc does not show.
//!
//! One object per concern, loaded, attached and detached on its own. A concern is an ordinary [`Source`](crate::Source) that
//! holds a [`LazyObject`]; if the object cannot be loaded, the source is a blind spot with reason and remedy. Nothing is pinned:
//! programs are attached through file descriptors, which close with the process however it ends.

mod calls;
pub(crate) mod enums;
mod errors;
mod functions;
mod object;
mod prerequisites;
mod tracepoints;

pub(crate) use calls::entries;
pub(crate) use object::{KernelBtf, LazyObject, Object, include_object};
#[cfg(test)]
pub(crate) use prerequisites::check;
pub(crate) use tracepoints::{Attached, Tracepoints};

/// Declares structures that a BPF program and its reader share, field by field.
macro_rules! c_struct {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        $vis struct $name { $($(#[$field_meta])* $field_vis $field: $type,)* }

        const _: () = {
            const fn is_pod<T: aya::Pod>() {}
            $(is_pod::<$type>();)*
            assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*, "there is padding between the fields");
        };
        // SAFETY: `repr(C)`; the assertions above hold that all fields are Pod and that there is no padding.
        unsafe impl aya::Pod for $name {}
    )*};
}
pub(crate) use c_struct;

/// A C string in a fixed array, up to its first zero byte; `None` if it is empty.
pub(crate) fn c_string(bytes: &[u8]) -> Option<String> {
    let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}
