// failing_ranks: ranks, one of which hangs or fails outside of a step, for test_failures.cpp.
//   failing_ranks EVENT RANK TIMEOUT
// EVENT is when rank RANK stops: late (before it has a World), absent (after its last exchange),
// finalize (in MPI_Finalize), beside (while rank 0 fails), large (while rank 0 sends it more than
// one message can hold). Or broken: RANK and its MPI fail. Or doze: all ranks are stopped for
// longer than the timeout while they wait, RANK a little longer.
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "tern/dist/world.h"

using namespace tern;

namespace {

// The behaviour of the functions below, which replace those of MPI.
bool stops_in_finalize = false, fails_in_probe = false;

// Stops again whenever it is woken: mpirun wakes a stopped process before it ends it, and a process
// that then enters MPI_Finalize may crash mpirun (Open MPI 4.1.4, with a program in C, too).
[[noreturn]] void hang() {
  for (;;) std::raise(SIGSTOP);
}

}  // namespace

extern "C" {
int PMPI_Finalize();
int PMPI_Iprobe(int source, int tag, std::uintptr_t communicator, int* there, void* status);

int MPI_Finalize() {
  if (stops_in_finalize) hang();
  return PMPI_Finalize();
}

int MPI_Iprobe(int source, int tag, std::uintptr_t communicator, int* there, void* status) {
  constexpr int kSomeError = 16;
  return fails_in_probe ? kSomeError : PMPI_Iprobe(source, tag, communicator, there, status);
}
}

namespace {

// Makes a child process that stops this one for a number of seconds.
void doze(unsigned seconds) {
  const pid_t sleeper = ::getpid();
  if (::fork() != 0) return;
  ::usleep(500'000);
  ::kill(sleeper, SIGSTOP);
  ::sleep(seconds);
  ::usleep(500'000);
  ::kill(sleeper, SIGCONT);
  ::_exit(0);
}

// The memory is never touched, since the message waits for a receiver.
void send_large(dist::World& world, int64_t to) {
  constexpr size_t kBytes = (size_t{1} << 30) + 1;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(memory != MAP_FAILED, "no memory");
  world.exchange("a large message", {{to, {static_cast<const std::byte*>(memory), kBytes}, {}}})
      .wait();
}

int run(const std::string& event, int64_t rank, int timeout) {
  const bool mine = dist::launched_rank() == rank;
  if (mine && event == "late") hang();
  dist::World world({.timeout = static_cast<double>(timeout)});
  world.barrier("the first meeting");
  stops_in_finalize = mine && event == "finalize";
  if (mine && (event == "absent" || event == "beside" || event == "large")) hang();
  if (event == "large" && world.first()) send_large(world, rank);
  if (event == "beside" && world.first()) world.together([] { fail("rank 0 fails"); });
  if (event == "broken" && mine) {
    fails_in_probe = true;
    world.together([] { fail("no network"); });
  }
  if (event == "doze") {
    doze(static_cast<unsigned>(timeout) + (mine ? 3 : 2));
    if (mine) ::sleep(1);  // so that the others are stopped while they wait for it
  }
  if (event != "absent") world.barrier("the last meeting");
  return 0;
}

}  // namespace

int main(int, char** argv) {
  try {
    return run(argv[1], std::atoll(argv[2]), std::atoi(argv[3]));
  } catch (const std::exception& e) {
    fmt::print(stderr, "ERROR {}\n", e.what());
    return 1;
  }
}
