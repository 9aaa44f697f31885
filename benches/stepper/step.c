// Counts the instructions that one thread takes in user space, by single steps.
//
//     step TID FILE
//
// FILE is a table of pairs of 64-bit numbers, which the caller has made and reads while this runs: an address and how often its
// instruction was taken; the first pair has all of them, at address 0. A turn of the thread's event loop in which it makes no system
// call but to wait for events is left out: it woke for nothing. The iterations of a `rep` instruction count as one. Ends by a signal
// or with the thread.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

struct pair {
  uint64_t address, count;
};

static struct pair *table;
static uint64_t pairs;

// The turn of the event loop, until it is known to count.
static uint64_t turn[1 << 16], taken;
static int counts;

static void count(uint64_t at) {
  uint64_t slot = 1 + at * 0x9E3779B97F4A7C15u % (pairs - 1);
  while (table[slot].address && table[slot].address != at) slot = slot % (pairs - 1) + 1;
  table[slot].address = at;
  table[slot].count++;
  table->count++;
}

static void step(uint64_t at, int is_call, int is_wait) {
  if (is_wait) counts = taken = 0;
  if (is_call || taken == sizeof turn / sizeof *turn) {
    counts = 1;
    for (uint64_t i = 0; i < taken; i++) count(turn[i]);
    taken = 0;
  }
  if (counts)
    count(at);
  else
    turn[taken++] = at;
}

static struct pair *open_table(const char *path) {
  int file = open(path, O_RDWR);
  struct stat stat;
  if (file < 0 || fstat(file, &stat)) return NULL;
  pairs = stat.st_size / sizeof(struct pair);
  void *mapped = mmap(NULL, stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return mapped == MAP_FAILED ? NULL : mapped;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "step TID FILE\n");
    return 2;
  }
  pid_t thread = atoi(argv[1]);
  if (!(table = open_table(argv[2])) || pairs < 2) {
    perror(argv[2]);
    return 1;
  }
  if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) || ptrace(PTRACE_INTERRUPT, thread, NULL, NULL)) {
    perror("ptrace");
    return 1;
  }
  uint64_t last = 0;
  int status;
  while (waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status)) {
    // Stops of ptrace itself carry an event; what is left is a step, or a signal for the thread.
    int is_step = status >> 16 == 0 && WSTOPSIG(status) == SIGTRAP;
    if (is_step) {
      struct user_regs_struct registers;
      ptrace(PTRACE_GETREGS, thread, NULL, &registers);
      // After a system call its number is still there.
      long call = registers.orig_rax;
      int is_wait = call == SYS_epoll_wait || call == SYS_epoll_pwait;
      if (registers.rip != last) step(registers.rip, call >= 0 && !is_wait, is_wait);
      last = registers.rip;
    }
    int signal = is_step || status >> 16 ? 0 : WSTOPSIG(status);
    if (ptrace(PTRACE_SINGLESTEP, thread, NULL, signal)) break;
  }
  return 0;
}
