#include "store_trap.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace unisono::testing {
namespace {

// Read in handlers of signals, which may run in any thread.
std::byte* page = nullptr;
std::size_t page_bytes = 0;
const std::byte *first = nullptr, *last = nullptr;
std::atomic<int> left{0};

#ifdef __x86_64__
constexpr long single_step = 0x100;  // the trap flag

long long& flags_of(void* context) { return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL]; }

void on_write(int, siginfo_t* info, void* context) {
  const auto* const where = static_cast<const std::byte*>(info->si_addr);
  if (where < page || where >= page + page_bytes) {  // a crash of its own
    ::signal(SIGSEGV, SIG_DFL);
    return;
  }
  if (where >= first && where < last && left.fetch_sub(1) == 1) ::kill(::getpid(), SIGKILL);
  ::mprotect(page, page_bytes, PROT_READ | PROT_WRITE);
  flags_of(context) |= single_step;
}

void after_write(int, siginfo_t*, void* context) {
  flags_of(context) &= ~static_cast<long long>(single_step);
  ::mprotect(page, page_bytes, PROT_READ);
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigfillset(&action.sa_mask);
  if (::sigaction(signal, &action, nullptr) != 0) std::abort();
}
#endif

}  // namespace

bool has_store_traps() {
#ifdef __x86_64__
  return true;
#else
  return false;
#endif
}

void die_at_write(const std::byte* begin, std::size_t bytes, int nth) {
#ifdef __x86_64__
  const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<std::uintptr_t>(begin) / size * size;
  const auto to = (reinterpret_cast<std::uintptr_t>(begin) + bytes + size - 1) / size * size;
  page = reinterpret_cast<std::byte*>(from);
  page_bytes = to - from;
  first = begin;
  last = begin + bytes;
  left.store(nth);
  handle(SIGSEGV, on_write);
  handle(SIGTRAP, after_write);
  if (::mprotect(page, page_bytes, PROT_READ) != 0) std::abort();
#else
  static_cast<void>(begin), static_cast<void>(bytes), static_cast<void>(nth);
  std::abort();
#endif
}

SharedRange find_segment(std::size_t bytes) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:unisono") == std::string::npos) continue;
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    if (end - begin >= bytes && end - begin < bytes + 65536) return {reinterpret_cast<std::byte*>(begin), end - begin};
  }
  return {};
}

}  // namespace unisono::testing

// The threads of the library hold all signals back, and a trap that is held back ends the process by its own signal.
extern "C" int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  sigset_t own;
  if (set != nullptr && how != SIG_UNBLOCK) {
    own = *set;
    ::sigdelset(&own, SIGSEGV);
    ::sigdelset(&own, SIGTRAP);
    set = &own;
  }
  return ::sigprocmask(how, set, before) == 0 ? 0 : errno;
}
