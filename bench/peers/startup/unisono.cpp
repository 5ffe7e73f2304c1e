// Joins the job and leaves it; with --facts PIPE it makes one call in between, says what a rank costs, and waits for PIPE.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <vector>

#include "facts.h"

int main(int argc, char** argv) {
  try {
    unisono::Context context;
    const char* const pipe = startup::pipe_of(argc, argv);
    if (pipe == nullptr) return 0;
    std::vector<float> data(startup::numbers, 1.0F);
    unisono::all_reduce(data);
    startup::write_facts(pipe);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
