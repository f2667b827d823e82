//! BPF: observes what /proc does not show.
//!
//! Each concern has one object, which a source made with [`loaded`](crate::source::loaded) loads, attaches and detaches on its
//! own. If the object cannot be loaded, the source is a blind spot with reason and remedy. Nothing is pinned: programs are
//! attached through file descriptors, which close with the process however it ends.

mod calls;
pub(crate) mod enums;
mod errors;
mod functions;
mod object;

pub(crate) use calls::entries;
#[cfg(test)]
pub(crate) use errors::check;
pub(crate) use object::{Attached, KernelBtf, Object, Tracepoints, include_object};

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

/// Reads the structure at the start of these bytes; `None` if there are too few.
pub(crate) fn from_bytes<T: aya::Pod>(bytes: &[u8]) -> Option<T> {
    // SAFETY: there are enough bytes, and any bytes make a `Pod`.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Reads a C string from a fixed array, up to its first zero byte; `None` if it is empty.
pub(crate) fn c_string(bytes: &[u8]) -> Option<String> {
    let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}
