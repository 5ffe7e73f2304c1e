// A blocking all_reduce of 8 bytes, which scripts/check/count-hops follows in a debugger: `hop_calls shm` among two threads, `hop_calls tcp` as one
// of two processes that take themselves for two hosts.

#include <array>
#include <string_view>

#include "unisono/detail/switches.h"
#include "unisono/unisono.h"

namespace {

void call() {
  std::array<float, 2> x = {1.0F + static_cast<float>(unisono::rank()), 3};
  for (int again = 0; again < 3; ++again) unisono::all_reduce(x);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && arguments[1] == std::string_view("tcp")) {
    unisono::detail::set_presented_hosts({"first", "second"});
    const unisono::Context context({.backend = "tcp"});
    call();
  } else {
    unisono::run_threads(2, call);
  }
  return 0;
}
