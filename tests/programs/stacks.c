/* What tests/profile.rs profiles: `burn [MILLISECONDS]`, `split`, `doze`, `jit`. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))

static volatile unsigned long sink;

static inline __attribute__((always_inline)) unsigned long inner(unsigned long x)
{
	for (int i = 0; i < 100000; i++)
		x = x * 6364136223846793005UL + 1;
	return x;
}

/* A function that calls nothing has no frame, even when asked for: each of these calls the next. */
KEPT void count(void) { sink++; }
KEPT void middle(void) { sink = inner(sink); count(); }
KEPT void outer(void) { middle(); count(); }

/* The same work three times here for once there. */
KEPT void light(void) { sink = inner(sink); count(); }
KEPT void heavy(void) { sink = inner(inner(inner(sink))); count(); }
KEPT void split(void)
{
	for (;; sink++) {
		light();
		heavy();
	}
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

KEPT void burn(double seconds)
{
	for (double end = now() + seconds; now() < end; sink++)
		outer();
}

/* The C library has no frame pointers: its own function would hide this one. */
KEPT long nap(void)
{
	struct timespec time = { .tv_nsec = 20000000 };
	long result;

#ifdef __x86_64__
	__asm__ volatile("syscall" : "=a"(result) : "0"(35L), "D"(&time), "S"(0L) : "rcx", "r11", "memory");
#else
	result = nanosleep(&time, 0);
#endif
	count();
	return result;
}

KEPT void doze(void)
{
	for (;;)
		sink += nap();
}

/* An endless loop (jmp .) in memory that no file backs, named as a just-in-time compiler names its code. */
KEPT void jit(void)
{
	unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char name[64];
	FILE *map;

	memcpy(code, "\xeb\xfe", 2);
	snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
	map = fopen(name, "w");
	fprintf(map, "%lx 2 made_at_run_time\n", (unsigned long)code);
	fclose(map);
	((void (*)(void))code)();
}

int main(int count, char **words)
{
	if (count > 1 && !strcmp(words[1], "doze"))
		doze();
	if (count > 1 && !strcmp(words[1], "split"))
		split();
	if (count > 1 && !strcmp(words[1], "jit"))
		jit();
	burn(count > 2 ? atof(words[2]) / 1000 : 60);
	return sink == 42;
}
