// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * rawcalls.c - what a `syscall` instruction must not change, whatever is in its place: registers, flags, the 128 bytes below the stack pointer, a second
 * return on the same stack (vfork), threads that have no libc and unmap their own stack, a thread pointer that is put away meanwhile. Argument: what. Ends
 * with status 0, or with the line of what went wrong in its output. `calls N`: the same calls from several threads, with handlers coming in between, N times.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { printf("line %d\n", __LINE__); fflush(stdout); _exit(1); } } while (0)

/* All registers and the red zone are filled, a call is made, and all is looked at. In: number, six arguments. Out: result; 0 in *bad if nothing changed. */
long careful(const long *in, long *bad);
__asm__(".text\n.globl careful\n.type careful, @function\ncareful:\n.cfi_startproc\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\n"
	"push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbp, 0\npush %r12\n.cfi_adjust_cfa_offset 8\n"
	"push %r13\n.cfi_adjust_cfa_offset 8\npush %r14\n.cfi_adjust_cfa_offset 8\npush %r15\n.cfi_adjust_cfa_offset 8\n"
	"push %rsi\n.cfi_adjust_cfa_offset 8\npush %rdi\n.cfi_adjust_cfa_offset 8\n"
	"mov $0x5a5a5a5a5a5a5a5a, %rcx\n"
	"mov %rcx, -8(%rsp)\nmov %rcx, -64(%rsp)\nmov %rcx, -120(%rsp)\nmov %rcx, -128(%rsp)\n"
	"mov %rdi, %rbx\nmov $0x1111, %rbp\nmov $0x2222, %r12\nmov $0x3333, %r13\nmov $0x4444, %r14\nmov $0x5555, %r15\n"
	"movq %rcx, %xmm7\n"
	"mov (%rbx), %rax\nmov 8(%rbx), %rdi\nmov 16(%rbx), %rsi\nmov 24(%rbx), %rdx\nmov 32(%rbx), %r10\nmov 40(%rbx), %r8\nmov 48(%rbx), %r9\n"
	"stc\n"
	"syscall\n"
	"jnc 1f\n"
	"cmp 8(%rbx), %rdi\njne 1f\ncmp 16(%rbx), %rsi\njne 1f\ncmp 24(%rbx), %rdx\njne 1f\n"
	"cmp 32(%rbx), %r10\njne 1f\ncmp 40(%rbx), %r8\njne 1f\ncmp 48(%rbx), %r9\njne 1f\n"
	"cmp (%rsp), %rbx\njne 1f\ncmp $0x1111, %rbp\njne 1f\ncmp $0x2222, %r12\njne 1f\ncmp $0x3333, %r13\njne 1f\ncmp $0x4444, %r14\njne 1f\ncmp $0x5555, %r15\njne 1f\n"
	"mov $0x5a5a5a5a5a5a5a5a, %rcx\nmovq %xmm7, %r11\ncmp %rcx, %r11\njne 1f\n"
	"cmp %rcx, -8(%rsp)\njne 1f\ncmp %rcx, -64(%rsp)\njne 1f\ncmp %rcx, -120(%rsp)\njne 1f\ncmp %rcx, -128(%rsp)\njne 1f\n"
	"xor %ecx, %ecx\njmp 2f\n"
	"1: mov $1, %ecx\n"
	"2: pop %rdi\n.cfi_adjust_cfa_offset -8\npop %rsi\n.cfi_adjust_cfa_offset -8\nmov %rcx, (%rsi)\n"
	"pop %r15\n.cfi_adjust_cfa_offset -8\npop %r14\n.cfi_adjust_cfa_offset -8\npop %r13\n.cfi_adjust_cfa_offset -8\n"
	"pop %r12\n.cfi_adjust_cfa_offset -8\npop %rbp\n.cfi_adjust_cfa_offset -8\npop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size careful, .-careful\n");

/* A thread without libc's help: FN(ARG) on the stack that ends at TOP; then it unmaps that stack, of LEN bytes from LOW, and ends. Returns its id. */
long thread_make(unsigned long flags, void *top, int *tid, void (*fn)(void *), void *arg, void *low, size_t len);
__asm__(".text\n.globl thread_make\n.type thread_make, @function\nthread_make:\n.cfi_startproc\n"
	"mov 8(%rsp), %r11\n"
	"sub $32, %rsi\nmov %rcx, (%rsi)\nmov %r8, 8(%rsi)\nmov %r9, 16(%rsi)\nmov %r11, 24(%rsi)\n"
	"mov %rdx, %r10\nxor %edx, %edx\nxor %r8d, %r8d\nmov $56, %eax\n"
	"syscall\n"
	"test %eax, %eax\njz 1f\nret\n"
	"1: .cfi_undefined rip\nxor %ebp, %ebp\nmov 8(%rsp), %rdi\ncall *(%rsp)\n"
	"mov 16(%rsp), %rdi\nmov 24(%rsp), %rsi\nmov $11, %eax\nsyscall\n"
	"xor %edi, %edi\nmov $60, %al\nsyscall\nhlt\n.cfi_endproc\n.size thread_make, .-thread_make\n");

/* vfork, by the instruction: the child writes to *CELL and leaves by it. Returns the child's id. */
long vfork_and_leave(int *cell);
__asm__(".text\n.globl vfork_and_leave\n.type vfork_and_leave, @function\nvfork_and_leave:\n.cfi_startproc\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\nmov %rdi, %rbx\nmov $58, %eax\nsyscall\n"
	"test %eax, %eax\njnz 1f\nmovl $7, (%rbx)\nmov $3, %edi\nmov $60, %eax\nsyscall\nhlt\n"
	"1: pop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size vfork_and_leave, .-vfork_and_leave\n");

static long any(long n, long a, long b, long c, long d, long e, long f)
{
	const long in[7] = { n, a, b, c, d, e, f };
	long bad = 1, r = careful(in, &bad);

	CHECK(!bad);
	return r;
}

static void calls(void)
{
	char *p = (char *)any(SYS_mmap, 0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;
	long brk;

	CHECK((unsigned long)p < -4095ul);
	memset(p, 1, 65536);
	CHECK(any(SYS_getppid, 0, 0, 0, 0, 0, 0) == getppid());
	CHECK(any(SYS_mprotect, (long)p, 4096, PROT_READ, 0, 0, 0) == 0);
	CHECK(any(SYS_mprotect, (long)p + 1, 4096, PROT_READ, 0, 0, 0) == -22);
	CHECK(any(SYS_mprotect, (long)p, 4096, PROT_READ | PROT_WRITE, 0, 0, 0) == 0);
	q = (char *)any(SYS_mremap, (long)p, 65536, 131072, MREMAP_MAYMOVE, 0, 0);
	CHECK((unsigned long)q < -4095ul && q[65535] == 1);
	CHECK(any(SYS_munmap, (long)q, 131072, 0, 0, 0, 0) == 0);
	CHECK(any(SYS_munmap, (long)q + 1, 4096, 0, 0, 0, 0) == -22);
	CHECK(any(SYS_mmap, 0, 1l << 60, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == -12);
	brk = any(SYS_brk, 0, 0, 0, 0, 0, 0);
	CHECK(brk > 0 && any(SYS_brk, 1, 0, 0, 0, 0, 0) >= brk);	/* it is not moved: libc's malloc may do that at any time */
	CHECK(any(SYS_prctl, 15 /* PR_SET_NAME */, (long)"raw", 0, 0, 0, 0) == 0);
	CHECK(any(SYS_prctl, 22 /* PR_SET_SECCOMP */, 77, 0, 0, 0, 0) == -22);
	CHECK(any(SYS_seccomp, 77, 0, 0, 0, 0, 0) == -22);
}

static volatile int handled;

static void handler(int sig)
{
	int saved = handled;

	(void)sig;
	calls();
	handled = saved + 1;
}

static volatile long rounds;

static void *worker(void *arg)
{
	for (long i = 0; i < rounds; i++) {
		calls();
		free(malloc((size_t)i % 3000));
	}
	return arg;
}

static void many(long n, int us)
{
	struct itimerval every = { { 0, us }, { 0, us } };
	pthread_t t[3];

	rounds = n;
	signal(SIGPROF, handler);
	setitimer(ITIMER_PROF, &every, NULL);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&t[i], NULL, worker, NULL) == 0);
	worker(NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	memset(&every, 0, sizeof(every));
	setitimer(ITIMER_PROF, &every, NULL);
}

static int told;

static void set(void *arg)
{
	*(int *)arg = 42;
}

static void threads(void)
{
	for (int i = 0; i < 20; i++) {
		static volatile int tid;
		char *low = (char *)any(SYS_mmap, 0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		told = 0;
		tid = 1;
		CHECK(thread_make(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID, low + 65536,
				  (int *)&tid, set, &told, low, 65536) > 0);
		while (tid)
			sched_yield();
		CHECK(told == 42);
		CHECK(any(SYS_munmap, (long)low, 65536, 0, 0, 0, 0) == 0);	/* of nothing */
	}
}

/* The thread pointer is put away meanwhile, as runtimes do that switch stacks of their own: no system call needs it. Nothing of libc's is called before it is back. */
static void pointers(long n)
{
	static const long nothing[8];
	const long elsewhere[] = { 0, 4096, 1l << 46, (long)nothing };
	long own, p = 0, q = 0, bad = 0;

	CHECK(any(SYS_arch_prctl, 0x1003 /* ARCH_GET_FS */, (long)&own, 0, 0, 0, 0) == 0);
	for (long i = 0; i < n && !bad; i++) {
		any(SYS_arch_prctl, 0x1002 /* ARCH_SET_FS */, elsewhere[i % 4], 0, 0, 0, 0);
		p = any(SYS_mmap, 0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		bad |= any(SYS_mprotect, p, 4096, PROT_READ, 0, 0, 0);
		q = any(SYS_mremap, p, 8192, 4096, 0, 0, 0);
		bad |= any(SYS_munmap, q, 4096, 0, 0, 0, 0);
		any(SYS_arch_prctl, 0x1002, own, 0, 0, 0, 0);
		CHECK(!bad && p == q && p > 0);
		free(malloc((size_t)i));
	}
}

static void children(void)
{
	int cell = 0, status;
	long pid = vfork_and_leave(&cell);

	CHECK(pid > 0 && cell == 7 && waitpid((pid_t)pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
	pid = any(SYS_fork, 0, 0, 0, 0, 0, 0);
	if (!pid) {
		calls();
		any(SYS_exit_group, 5, 0, 0, 0, 0, 0);
	}
	CHECK(waitpid((pid_t)pid, &status, 0) == pid && WEXITSTATUS(status) == 5);
	pid = any(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
	if (!pid) {
		char *const argv[] = { "true", NULL };

		any(SYS_execve, (long)"/bin/true", (long)argv, 0, 0, 0, 0);
		_exit(9);
	}
	CHECK(waitpid((pid_t)pid, &status, 0) == pid && WEXITSTATUS(status) == 0);
}

/* mmap by code that is made at run time: nobody can know of it. The arguments are where mmap has them. */
static void generated(size_t bytes)
{
	static const unsigned char code[] = { 0xb8, 9, 0, 0, 0, 0x49, 0x89, 0xca, 0x0f, 5, 0xc3 };	/* mov eax, 9; mov r10, rcx; syscall; ret */
	unsigned char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *got;

	CHECK(p != MAP_FAILED);
	memcpy(p, code, sizeof(code));
	got = ((char *(*)(void *, size_t, long, long, long, long))(uintptr_t)p)(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK((unsigned long)got < -4095ul);
	memset(got, 1, bytes);
	sleep(2);
}

/* The filter stands: who makes a forbidden call is killed. */
static void enforced(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		void *volatile p = malloc(100);

		free(p);
		syscall(SYS_memfd_create, "x", 0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

static void allocate(void)
{
	for (int i = 0; i < 20000; i++) {
		void *volatile p = malloc(1000);

		free(p);
	}
	calls();
}

/* A filter that kills for calls which this program never makes, and mtrun likes to; then a child, and another program. */
static void inherited(char *self)
{
	static const unsigned kills[] = { SYS_memfd_create, SYS_membarrier, SYS_pselect6, SYS_gettid, SYS_sched_yield, SYS_futex };
	struct sock_filter f[2 * sizeof(kills) / sizeof(*kills) + 2] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
	struct sock_fprog p = { sizeof(f) / sizeof(*f), f };
	int status;
	pid_t pid;

	for (unsigned i = 0; i < sizeof(kills) / sizeof(*kills); i++) {
		f[2 * i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kills[i], 0, 1);
		f[2 * i + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	}
	f[p.len - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	CHECK(any(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0) == 0);
	CHECK(any(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&p, 0, 0, 0) == 0);
	allocate();
	pid = fork();
	if (!pid) {
		allocate();
		enforced();
		_exit(5);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 5);
	enforced();
	execl("/proc/self/exe", self, "heir", NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "calls"))
		many(argc > 2 ? atol(argv[2]) : 200, 2000);
	else if (!strcmp(what, "threads"))
		threads();
	else if (!strcmp(what, "children"))
		children();
	else if (!strcmp(what, "pointers"))
		pointers(argc > 2 ? atol(argv[2]) : 100);
	else if (!strcmp(what, "inherited"))
		inherited(argv[0]);
	else if (!strcmp(what, "heir")) {
		allocate();
		enforced();
	} else if (!strcmp(what, "generated"))
		generated((size_t)atol(argv[2]));
	else if (!strcmp(what, "block")) {	/* sleeps in a call, until it is told to end; handlers come and the call goes on */
		struct sigaction again = { .sa_handler = handler, .sa_flags = SA_RESTART };
		char c;

		sigaction(SIGUSR1, &again, NULL);
		puts("ready");
		fflush(stdout);
		CHECK(any(SYS_read, 0, (long)&c, 1, 0, 0, 0) == 1);
		calls();
	} else if (!strcmp(what, "spin")) {	/* calls until the end of its input */
		puts("ready");
		fflush(stdout);
		many(1l << 30, 50000);
	} else
		return 2;
	puts("fine");
	return 0;
}
