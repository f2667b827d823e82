/* The buckets of distributions: the arithmetic of crates/model/src/histogram.rs. */
#pragma once
#include "kernel.h"

/* Position of the highest bit set; 0 for 0. */
INLINE u32 log2_of(u64 value)
{
	u32 log = 0;

	if (value >> 32) { value >>= 32; log += 32; }
	if (value >> 16) { value >>= 16; log += 16; }
	if (value >> 8)  { value >>= 8;  log += 8; }
	if (value >> 4)  { value >>= 4;  log += 4; }
	if (value >> 2)  { value >>= 2;  log += 2; }
	return log + (value >> 1);
}

/* The bucket of a value, 32 to an octave. Apart, or the verifier would go on separately with each power of two. */
APART u64 bucket_of(u64 value)
{
	if (value < 64)
		return value;
	u64 shift = log2_of(value) - 5;

	return shift * 32 + (value >> shift);
}

/* Buckets for values up to 2^bits - 1. */
#define BUCKETS(bits) (((bits) - 4) * 32)
