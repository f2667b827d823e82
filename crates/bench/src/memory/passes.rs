//! Ways to go through memory, as STREAM does (McCalpin, www.cs.virginia.edu/stream).
//!
//! Plain loops that the compiler makes vectors of. Each ends in [`black_box`], so that none of it can be left out.

use super::region::Region;
use std::hint::black_box;

/// A way to go through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Sums up one array.
    Read,
    /// Fills one.
    Write,
    /// One into another.
    Copy,
    /// One plus a multiple of another into a third.
    Triad,
    /// `Write`, with stores that pass the cache by.
    WritePast,
    /// `Copy`, likewise.
    CopyPast,
    /// `Triad`, likewise.
    TriadPast,
}

impl Pass {
    /// Those that go by way of the cache.
    pub(super) const PLAIN: [Self; 4] = [Self::Read, Self::Write, Self::Copy, Self::Triad];
    /// Those that pass it by; other processors have no such stores that could be had without assembly.
    pub(super) const PAST: &[Self] =
        if cfg!(target_arch = "x86_64") { &[Self::WritePast, Self::CopyPast, Self::TriadPast] } else { &[] };

    /// In words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Copy => "copy",
            Self::Triad => "triad",
            Self::WritePast => "write, non-temporal",
            Self::CopyPast => "copy, non-temporal",
            Self::TriadPast => "triad, non-temporal",
        }
    }

    /// How many arrays it uses.
    pub(super) fn arrays(self) -> u64 {
        match self {
            Self::Read | Self::Write | Self::WritePast => 1,
            Self::Copy | Self::CopyPast => 2,
            Self::Triad | Self::TriadPast => 3,
        }
    }

    /// The way by way of the cache that this one is an alternative to.
    pub(super) fn plain(self) -> Self {
        match self {
            Self::WritePast => Self::Write,
            Self::CopyPast => Self::Copy,
            Self::TriadPast => Self::Triad,
            plain => plain,
        }
    }
}

/// Three arrays of one length.
pub(super) struct Arrays {
    regions: [Region; 3],
    length: usize,
}

/// Floating-point numbers of a vector of the widest kind that is used; lengths are whole multiples.
const WIDTH: usize = 64;

impl Arrays {
    /// With pages that are there, and numbers that are no trouble to calculate with.
    pub(super) fn new(mut regions: [Region; 3]) -> Self {
        regions.iter_mut().for_each(|region| region.floats().fill(1.0));
        let length = regions.iter().map(Region::bytes).min().unwrap_or(0) / size_of::<f64>();
        Self { regions, length: length / WIDTH * WIDTH }
    }

    /// Uses as much of each as makes `bytes` bytes of all that a way uses, within what there is.
    pub(super) fn working_set(&mut self, bytes: u64, pass: Pass) {
        let each = usize::try_from(bytes / pass.arrays()).unwrap_or(usize::MAX) / size_of::<f64>();
        let most = self.regions.iter().map(Region::bytes).min().unwrap_or(0) / size_of::<f64>();
        self.length = each.clamp(WIDTH, most) / WIDTH * WIDTH;
    }

    /// Goes through them once. The bytes that counts for: eight for each number read and for each number written.
    pub(super) fn go_through(&mut self, pass: Pass) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: this processor has AVX2, as just seen.
            unsafe { self.go_through_with_avx2(pass) };
            return self.counted(pass);
        }
        self.once(pass);
        self.counted(pass)
    }

    fn counted(&self, pass: Pass) -> u64 {
        pass.arrays() * (self.length * size_of::<f64>()) as u64
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn go_through_with_avx2(&mut self, pass: Pass) {
        self.once(pass);
    }

    /// Inlined, so that it is compiled for the vectors of whoever calls it.
    #[inline(always)]
    fn once(&mut self, pass: Pass) {
        let length = self.length;
        let [a, b, c] = self.regions.each_mut().map(|region| &mut region.floats()[..length]);
        let factor = black_box(3.0);
        match pass {
            Pass::Read => drop(black_box(sum(a))),
            Pass::Write => a.fill(factor),
            // Unknown to the compiler the mask is nothing: it must not make a call of memcpy of the loop.
            Pass::Copy => copy(a, b, black_box(0)),
            Pass::Triad => a.iter_mut().zip(&*b).zip(&*c).for_each(|((a, b), c)| *a = *b + factor * *c),
            #[cfg(target_arch = "x86_64")]
            Pass::WritePast => past::write(a, factor),
            #[cfg(target_arch = "x86_64")]
            Pass::CopyPast => past::copy(a, b),
            #[cfg(target_arch = "x86_64")]
            Pass::TriadPast => past::triad(a, b, c, factor),
            #[cfg(not(target_arch = "x86_64"))]
            Pass::WritePast | Pass::CopyPast | Pass::TriadPast => {}
        }
        black_box(a);
    }
}

#[inline(always)]
fn copy(to: &mut [f64], from: &[f64], mask: u64) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = f64::from_bits(from.to_bits() ^ mask));
}

/// In many partial sums: one sum would wait for each addition.
#[inline(always)]
fn sum(from: &[f64]) -> f64 {
    let mut sums = [0.0; WIDTH];
    for chunk in from.as_chunks::<WIDTH>().0 {
        sums.iter_mut().zip(chunk).for_each(|(sum, number)| *sum += number);
    }
    sums.iter().sum()
}

/// Stores that do not read the line they write to first, and leave nothing in the cache (Intel SDM, 10.4.6.2).
#[cfg(target_arch = "x86_64")]
mod past {
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
        // SAFETY: two numbers are there, and need not be aligned.
        unsafe { _mm_loadu_pd(two.as_ptr()) }
    }

    #[inline(always)]
    fn each(to: &mut [f64], value: impl Fn(usize) -> __m128d) {
        assert!(to.as_ptr().addr().is_multiple_of(size_of::<Two>()), "regions begin at pages");
        for (at, two) in to.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            // SAFETY: two numbers are there, aligned to their size as just seen.
            unsafe { _mm_stream_pd(two.as_mut_ptr(), value(at)) };
        }
        // SAFETY: every x86_64 processor has SSE. What passed the cache by is not in order with other stores until this.
        unsafe { _mm_sfence() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Pages;

    fn arrays() -> Arrays {
        Arrays::new([(); 3].map(|()| Region::map(1 << 20, Pages::Base, None).unwrap()))
    }

    #[test]
    fn every_way_does_what_it_says_and_counts_what_it_does() {
        for &pass in Pass::PLAIN.iter().chain(Pass::PAST) {
            let mut arrays = arrays();
            arrays.regions[1].floats().fill(5.0);
            arrays.regions[2].floats().fill(7.0);
            arrays.working_set(96 << 10, pass);
            assert_eq!(arrays.go_through(pass), (96 << 10) / (pass.arrays() * 512) * (pass.arrays() * 512), "{pass:?}");
            let expected = match pass.plain() {
                Pass::Read => 1.0,
                Pass::Write => 3.0,
                Pass::Copy => 5.0,
                _ => 26.0,
            };
            let length = arrays.length;
            let (within, beyond) = arrays.regions[0].floats().split_at(length);
            assert!(within.iter().all(|&number| number == expected), "{pass:?}");
            assert!(beyond.iter().all(|&number| number == 1.0), "{pass:?} went too far");
        }
    }

    #[test]
    fn sums_are_sums() {
        let numbers: Vec<f64> = (0..256).map(f64::from).collect();
        assert_eq!(sum(&numbers), 255.0 * 128.0);
    }

    #[test]
    fn a_working_set_is_no_larger_than_what_there_is() {
        let mut arrays = arrays();
        arrays.working_set(u64::MAX, Pass::Read);
        assert_eq!(arrays.go_through(Pass::Read), 1 << 20);
        arrays.working_set(1, Pass::Read);
        assert_eq!(arrays.go_through(Pass::Read), 512);
    }
}
