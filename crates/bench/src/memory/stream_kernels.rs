//! The kernels of STREAM (McCalpin, www.cs.virginia.edu/stream).
//!
//! Plain loops that the compiler vectorises; [`black_box`] keeps it from removing them.

use crate::memory_region::MemoryRegion;
use std::hint::black_box;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKernel {
    /// Sum of an array.
    Read,
    Write,
    Copy,
    /// Computes a = b + factor * c.
    Triad,
    /// With non-temporal stores.
    WriteNonTemporal,
    CopyNonTemporal,
    TriadNonTemporal,
}

impl StreamKernel {
    pub(super) const PLAIN: [Self; 4] = [Self::Read, Self::Write, Self::Copy, Self::Triad];
    /// Kernels with non-temporal stores; other architectures would need assembly.
    pub(super) const NON_TEMPORAL: &[Self] = if cfg!(target_arch = "x86_64") {
        &[Self::WriteNonTemporal, Self::CopyNonTemporal, Self::TriadNonTemporal]
    } else {
        &[]
    };

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Copy => "copy",
            Self::Triad => "triad",
            Self::WriteNonTemporal => "write, non-temporal",
            Self::CopyNonTemporal => "copy, non-temporal",
            Self::TriadNonTemporal => "triad, non-temporal",
        }
    }

    pub(super) fn arrays(self) -> u64 {
        match self {
            Self::Read | Self::Write | Self::WriteNonTemporal => 1,
            Self::Copy | Self::CopyNonTemporal => 2,
            Self::Triad | Self::TriadNonTemporal => 3,
        }
    }

    /// Returns the same kernel with ordinary stores.
    pub(super) fn plain(self) -> Self {
        match self {
            Self::WriteNonTemporal => Self::Write,
            Self::CopyNonTemporal => Self::Copy,
            Self::TriadNonTemporal => Self::Triad,
            plain => plain,
        }
    }
}

pub(super) struct StreamArrays {
    regions: [MemoryRegion; 3],
    length: usize,
}

/// Numbers per unrolled iteration; array lengths are multiples of it.
const WIDTH: usize = 64;

impl StreamArrays {
    /// Touches all pages of the arrays.
    pub(super) fn new(mut regions: [MemoryRegion; 3]) -> Self {
        regions.iter_mut().for_each(|region| region.as_f64().fill(1.0));
        let length = regions.iter().map(MemoryRegion::bytes).min().unwrap_or(0) / size_of::<f64>();
        Self { regions, length: length / WIDTH * WIDTH }
    }

    /// Limits the arrays of a kernel to `bytes` in total.
    pub(super) fn working_set(&mut self, bytes: u64, kernel: StreamKernel) {
        let each = usize::try_from(bytes / kernel.arrays()).unwrap_or(usize::MAX) / size_of::<f64>();
        let most = self.regions.iter().map(MemoryRegion::bytes).min().unwrap_or(0) / size_of::<f64>();
        self.length = each.clamp(WIDTH, most) / WIDTH * WIDTH;
    }

    /// Runs one kernel. Returns the bytes that STREAM counts: 8 per number read or written.
    pub(super) fn run(&mut self, kernel: StreamKernel) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, as just checked.
            unsafe { self.run_with_avx2(kernel) };
            return self.counted(kernel);
        }
        self.run_once(kernel);
        self.counted(kernel)
    }

    fn counted(&self, kernel: StreamKernel) -> u64 {
        kernel.arrays() * (self.length * size_of::<f64>()) as u64
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn run_with_avx2(&mut self, kernel: StreamKernel) {
        self.run_once(kernel);
    }

    /// Runs one kernel. Inlined, so that it is compiled with the caller's target features.
    #[inline(always)]
    fn run_once(&mut self, kernel: StreamKernel) {
        let length = self.length;
        let [a, b, c] = self.regions.each_mut().map(|region| &mut region.as_f64()[..length]);
        let factor = black_box(3.0);
        match kernel {
            StreamKernel::Read => drop(black_box(sum(a))),
            StreamKernel::Write => a.fill(factor),
            // The mask is 0, which the compiler cannot know: otherwise it would call memcpy.
            StreamKernel::Copy => copy(a, b, black_box(0)),
            StreamKernel::Triad => a.iter_mut().zip(&*b).zip(&*c).for_each(|((a, b), c)| *a = *b + factor * *c),
            #[cfg(target_arch = "x86_64")]
            StreamKernel::WriteNonTemporal => non_temporal::write(a, factor),
            #[cfg(target_arch = "x86_64")]
            StreamKernel::CopyNonTemporal => non_temporal::copy(a, b),
            #[cfg(target_arch = "x86_64")]
            StreamKernel::TriadNonTemporal => non_temporal::triad(a, b, c, factor),
            #[cfg(not(target_arch = "x86_64"))]
            StreamKernel::WriteNonTemporal | StreamKernel::CopyNonTemporal | StreamKernel::TriadNonTemporal => {}
        }
        black_box(a);
    }
}

#[inline(always)]
fn copy(to: &mut [f64], from: &[f64], mask: u64) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = f64::from_bits(from.to_bits() ^ mask));
}

/// Uses many partial sums, so that additions do not wait for each other.
#[inline(always)]
fn sum(from: &[f64]) -> f64 {
    let mut sums = [0.0; WIDTH];
    for chunk in from.as_chunks::<WIDTH>().0 {
        sums.iter_mut().zip(chunk).for_each(|(sum, number)| *sum += number);
    }
    sums.iter().sum()
}

/// Non-temporal stores neither read the cache line first nor leave it cached (Intel SDM, 10.4.6.2).
#[cfg(target_arch = "x86_64")]
mod non_temporal {
    use std::arch::x86_64::{__m128d, _mm_add_pd, _mm_loadu_pd, _mm_mul_pd, _mm_set1_pd, _mm_sfence, _mm_stream_pd};

    type Two = [f64; 2];

    #[inline(always)]
    pub(super) fn write(to: &mut [f64], value: f64) {
        each(to, |_| {
            // SAFETY: every x86_64 processor has SSE2.
            unsafe { _mm_set1_pd(value) }
        });
    }

    #[inline(always)]
    pub(super) fn copy(to: &mut [f64], from: &[f64]) {
        let from = from.as_chunks::<2>().0;
        each(to, |at| load(&from[at]));
    }

    #[inline(always)]
    pub(super) fn triad(to: &mut [f64], b: &[f64], c: &[f64], factor: f64) {
        let (b, c) = (b.as_chunks::<2>().0, c.as_chunks::<2>().0);
        each(to, |at| {
            // SAFETY: every x86_64 processor has SSE2.
            unsafe { _mm_add_pd(load(&b[at]), _mm_mul_pd(load(&c[at]), _mm_set1_pd(factor))) }
        });
    }

    #[inline(always)]
    fn load(two: &Two) -> __m128d {
        // SAFETY: `two` holds two numbers; they need not be aligned.
        unsafe { _mm_loadu_pd(two.as_ptr()) }
    }

    #[inline(always)]
    fn each(to: &mut [f64], value: impl Fn(usize) -> __m128d) {
        assert!(to.as_ptr().addr().is_multiple_of(size_of::<Two>()), "regions begin at pages");
        for (at, two) in to.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            // SAFETY: `two` holds two numbers, aligned as just checked.
            unsafe { _mm_stream_pd(two.as_mut_ptr(), value(at)) };
        }
        // SAFETY: every x86_64 processor has SSE. Non-temporal stores are ordered with others only by this fence.
        unsafe { _mm_sfence() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_region::PageKind;

    fn arrays() -> StreamArrays {
        StreamArrays::new([(); 3].map(|()| MemoryRegion::new(1 << 20, PageKind::Base, None).unwrap()))
    }

    #[test]
    fn each_kernel_computes_and_counts_what_it_should() {
        for &kernel in StreamKernel::PLAIN.iter().chain(StreamKernel::NON_TEMPORAL) {
            let mut arrays = arrays();
            arrays.regions[1].as_f64().fill(5.0);
            arrays.regions[2].as_f64().fill(7.0);
            arrays.working_set(96 << 10, kernel);
            assert_eq!(
                arrays.run(kernel),
                (96 << 10) / (kernel.arrays() * 512) * (kernel.arrays() * 512),
                "{kernel:?}"
            );
            let expected = match kernel.plain() {
                StreamKernel::Read => 1.0,
                StreamKernel::Write => 3.0,
                StreamKernel::Copy => 5.0,
                _ => 26.0,
            };
            let length = arrays.length;
            let (within, beyond) = arrays.regions[0].as_f64().split_at(length);
            assert!(within.iter().all(|&number| number == expected), "{kernel:?}");
            assert!(beyond.iter().all(|&number| number == 1.0), "{kernel:?} wrote beyond its working set");
        }
    }

    #[test]
    fn the_sum_is_exact() {
        let numbers: Vec<f64> = (0..256).map(f64::from).collect();
        assert_eq!(sum(&numbers), 255.0 * 128.0);
    }

    #[test]
    fn a_working_set_stays_within_the_arrays() {
        let mut arrays = arrays();
        arrays.working_set(u64::MAX, StreamKernel::Read);
        assert_eq!(arrays.run(StreamKernel::Read), 1 << 20);
        arrays.working_set(1, StreamKernel::Read);
        assert_eq!(arrays.run(StreamKernel::Read), 512);
    }
}
