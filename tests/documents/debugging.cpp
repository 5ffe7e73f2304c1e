// The blocks of docs/troubleshooting/debugging.md, as they stand there.
#include "debugging.h"

int main() {
  const unisono::Context context;
  static_cast<void>(unisono::all_reduce(1));
  run_fragments();
  const auto calls = unisono::record();
  if (calls.empty() || calls.back().operation != "all_reduce") {
    std::cerr << "the last call is not the one that was made\n";
    return 1;
  }
  return 0;
}
