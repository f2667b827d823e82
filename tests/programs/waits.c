/* What tests/why.rs explains: `waits compute MILLISECONDS`, or `waits KIND FOLDER`. The first process waits for what its child, wsl-holder, holds or sends: the child works
 * for 60 ms, then lets go. `KIND-forever`: it never does. Once both are there, the number of the child is printed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))

static const char *folder;
static volatile unsigned long sink;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void check(long result, const char *what)
{
	if (result < 0 && errno != EINTR)
		fail(what);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* Computes, so that the end of the chain is a program on a CPU. */
KEPT void work(double milliseconds)
{
	double end = now() + milliseconds / 1000;

	while (now() < end)
		for (int i = 0; i < 10000; i++)
			sink = sink * 6364136223846793005UL + 1;
}

KEPT void doze(long milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	nanosleep(&time, 0);
}

/* Locks: how to take and to release one. */
struct lock { void (*prepare)(void), (*open)(void), (*take)(void), (*release)(void); };

static void nothing(void) { }

static int set = -1;
static short undo;
static void change(short by)
{
	struct sembuf operation = { .sem_op = by, .sem_flg = undo };

	check(semop(set, &operation, 1), "semop");
}
static void new_set(void)
{
	check(set = semget(IPC_PRIVATE, 1, 0600), "semget");
	check(semctl(set, 0, SETVAL, 1), "semctl");
}
static void new_undone_set(void) { undo = SEM_UNDO; new_set(); }
static void take_set(void) { change(-1); }
static void release_set(void) { change(1); }

static sem_t *shared;
static void new_semaphore(void)
{
	shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(sem_init(shared, 1, 1), "sem_init");
}
static void take_semaphore(void) { check(sem_wait(shared), "sem_wait"); }
static void release_semaphore(void) { sem_post(shared); }

static int file;
static void open_file(void)
{
	char path[200];

	snprintf(path, sizeof path, "%s/file", folder);
	check(file = open(path, O_RDWR | O_CREAT, 0600), path);
}
static void take_flock(void) { check(flock(file, LOCK_EX), "flock"); }
static void release_flock(void) { flock(file, LOCK_UN); }
static void lock_record(int command, short type)
{
	struct flock record = { .l_type = type, .l_whence = SEEK_SET };

	check(fcntl(file, command, &record), "fcntl");
}
static void take_record(void) { lock_record(F_SETLKW, F_WRLCK); }
static void release_record(void) { lock_record(F_SETLKW, F_UNLCK); }
static void take_ofd(void) { lock_record(F_OFD_SETLKW, F_WRLCK); }
static void release_ofd(void) { lock_record(F_OFD_SETLKW, F_UNLCK); }

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static void take_to_read(void) { pthread_rwlock_rdlock(&rwlock); }
static void take_to_write(void) { pthread_rwlock_wrlock(&rwlock); }
static void release_rwlock(void) { pthread_rwlock_unlock(&rwlock); }

/* Messages: how to wait for one, and how to send one. */
struct channel { void (*prepare)(void), (*wait)(void), (*send)(void); };

static int messages = -1;
static void new_messages(void) { check(messages = msgget(IPC_PRIVATE, 0600), "msgget"); }
struct message { long type; char text[8]; };
static void wait_message(void) { struct message got; check(msgrcv(messages, &got, sizeof got.text, 0, 0), "msgrcv"); }
static void send_message(void) { struct message sent = { 1, "x" }; check(msgsnd(messages, &sent, sizeof sent.text, 0), "msgsnd"); }

static mqd_t queue;
static void new_queue(void)
{
	struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	char name[64];

	snprintf(name, sizeof name, "/wsl-%d", getpid());
	queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
	check(queue, "mq_open");
	mq_unlink(name);
}
static void wait_queue(void) { char got[8]; check(mq_receive(queue, got, sizeof got, 0), "mq_receive"); }
static void send_queue(void) { check(mq_send(queue, "x", 1, 0), "mq_send"); }

/* Both sides of a condition variable are threads. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ready;
static void wait_condition(void)
{
	pthread_mutex_lock(&mutex);
	while (!ready)
		pthread_cond_wait(&condition, &mutex);
	ready = 0;
	pthread_mutex_unlock(&mutex);
}
static void send_condition(void)
{
	pthread_mutex_lock(&mutex);
	ready = 1;
	pthread_cond_signal(&condition);
	pthread_mutex_unlock(&mutex);
}

/* Questions and answers over sockets: the child is the server. */
static int ours = -1, theirs = -1, polls;
static struct sockaddr_storage to;
static socklen_t length;         /* of the address, where the socket is not connected */
static void new_udp(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	theirs = socket(AF_INET, SOCK_DGRAM, 0);
	ours = socket(AF_INET, SOCK_DGRAM, 0);
	/* Not one of the ports that clients are given. */
	for (int port = 20000 + getpid() % 10000; address.sin_port = htons(port), bind(theirs, (void *)&address, sizeof address); port++)
		if (errno != EADDRINUSE)
			fail("bind");
	length = sizeof to;
	check(getsockname(theirs, (void *)&to, &length), "getsockname");
}
static void new_connected_udp(void)
{
	new_udp();
	check(connect(ours, (void *)&to, length), "connect");
	length = 0;
}
static void new_stream(void)
{
	int pair[2];

	check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	ours = pair[0];
	theirs = pair[1];
}
static void new_datagram(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	theirs = socket(AF_UNIX, SOCK_DGRAM, 0);
	ours = socket(AF_UNIX, SOCK_DGRAM, 0);
	snprintf(address.sun_path, sizeof address.sun_path, "%s/server", folder);
	check(bind(theirs, (void *)&address, sizeof address), "bind");
	check(connect(ours, (void *)&address, sizeof address), "connect");
	snprintf(address.sun_path, sizeof address.sun_path, "%s/client", folder);
	check(bind(ours, (void *)&address, sizeof address), "bind");
}
static void new_polled_stream(void) { polls = 1; new_stream(); }
static void new_polled_udp(void) { polls = 1; new_udp(); }
static void ask(void)
{
	struct pollfd answered = { .fd = ours, .events = POLLIN };
	char got[8];

	check(length ? sendto(ours, "?", 1, 0, (void *)&to, length) : send(ours, "?", 1, 0), "send");
	if (polls)
		check(poll(&answered, 1, -1), "poll");
	check(recv(ours, got, sizeof got, 0), "recv");
}
static void answer(void)
{
	struct sockaddr_storage from;
	socklen_t size = sizeof from;
	char got[8];

	check(recvfrom(theirs, got, sizeof got, 0, (void *)&from, &size), "recvfrom");
	work(60);
	check(size ? sendto(theirs, "!", 1, 0, (void *)&from, size) : send(theirs, "!", 1, 0), "sendto");
}

static const struct { const char *name; struct lock of; } locks[] = {
	{ "undone-semaphore", { new_undone_set, nothing, take_set, release_set } },
	{ "semaphore", { new_set, nothing, take_set, release_set } },
	{ "posix-semaphore", { new_semaphore, nothing, take_semaphore, release_semaphore } },
	{ "flock", { nothing, open_file, take_flock, release_flock } },
	{ "record", { nothing, open_file, take_record, release_record } },
	{ "ofd", { nothing, open_file, take_ofd, release_ofd } },
	{ "writer", { nothing, nothing, take_to_write, release_rwlock } },
	{ "reader", { nothing, nothing, take_to_read, release_rwlock } },
};
static const struct { const char *name; struct channel of; } channels[] = {
	{ "message", { new_messages, wait_message, send_message } },
	{ "queue", { new_queue, wait_queue, send_queue } },
	{ "full-queue", { new_queue, send_queue, wait_queue } },
	{ "condition", { nothing, wait_condition, send_condition } },
};
static const struct { const char *name; void (*prepare)(void); } sockets[] = {
	{ "udp", new_udp }, { "connected-udp", new_connected_udp }, { "polled-udp", new_polled_udp },
	{ "unix-stream", new_stream }, { "polled-stream", new_polled_stream }, { "unix-datagram", new_datagram },
};

static const struct lock *lock;
static const struct channel *channel;
static int forever, threads;

KEPT void hold(void)
{
	lock->take();
	if (forever)
		for (;;)
			pause();
	work(60);
	lock->release();
}

static void *holds(void *with)
{
	prctl(PR_SET_NAME, "wsl-holder");
	if (!threads) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		close(ours);
	}
	if (lock)
		lock->open();
	for (;;) {
		if (lock) {
			hold();
			doze(2);
		} else if (channel) {
			work(60);
			channel->send();
		} else {
			answer();
		}
	}
	return with;
}

/* The one that holds, in a thread or a process; it is there a while before it is waited for. */
static long start(void)
{
	pthread_t thread;
	long child;

	if (threads)
		return pthread_create(&thread, 0, holds, 0);
	child = fork();
	if (!child)
		holds(0);
	return child;
}

static void remove_all(int signal)
{
	if (set >= 0)
		semctl(set, 0, IPC_RMID);
	if (messages >= 0)
		msgctl(messages, IPC_RMID, 0);
	_exit(signal);
}

int main(int argc, char **argv)
{
	char kind[64];
	void (*waits)(void);
	int asks = 0;
	long child;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "compute")) {
		work(atof(argv[2]));
		return 0;
	}
	snprintf(kind, sizeof kind, "%s", argv[1]);
	folder = argv[2];
	if (strlen(kind) > 8 && !strcmp(kind + strlen(kind) - 8, "-forever")) {
		forever = 1;
		kind[strlen(kind) - 8] = 0;
	}
	threads = !strcmp(kind, "writer") || !strcmp(kind, "reader") || !strcmp(kind, "condition");
	for (unsigned i = 0; i < sizeof locks / sizeof *locks; i++)
		if (!strcmp(kind, locks[i].name))
			lock = &locks[i].of;
	for (unsigned i = 0; i < sizeof channels / sizeof *channels; i++)
		if (!strcmp(kind, channels[i].name))
			channel = &channels[i].of;
	for (unsigned i = 0; i < sizeof sockets / sizeof *sockets; i++)
		if (!strcmp(kind, sockets[i].name)) {
			sockets[i].prepare();
			asks = 1;
		}
	if (lock)
		lock->prepare();
	if (channel)
		channel->prepare();
	if (!lock && !channel && !asks)
		return 2;
	signal(SIGTERM, remove_all);
	prctl(PR_SET_NAME, "wsl-waiter");
	child = start();
	if (lock && !threads)
		lock->open();
	if (!threads)
		close(theirs);
	doze(100);
	printf("%ld\n", child);
	fflush(stdout);
	/* Who reads keeps a writer waiting, and the reverse. */
	waits = !lock ? 0 : lock->take == take_to_read ? take_to_write : lock->take == take_to_write ? take_to_read : lock->take;
	for (;;) {
		if (lock) {
			waits();
			lock->release();
			doze(1);
		} else if (channel) {
			channel->wait();
		} else {
			ask();
		}
	}
}
