// The stand-in as a library that is opened in place of NCCL, the CUDA runtime and the driver, for a program of one rank. What it has beside
// fake_vendor.cpp: what programs need to get at device memory.

#include <cstdlib>
#include <cstring>

#include "fake_vendor.h"

#define FAKE_EXPORT extern "C" [[gnu::visibility("default")]]

FAKE_EXPORT int cudaMalloc(void** address, std::size_t size) {
  *address = fake::allocate(fake::current_device(), size);
  return 0;
}
FAKE_EXPORT int cudaFree(void*) { return 0; }  // all of it goes with the process
FAKE_EXPORT int cudaMemcpy(void* to, const void* from, std::size_t size, int) {
  std::memcpy(to, from, size);
  return 0;
}

[[gnu::constructor]] static void switch_on() {
  const char* const devices = std::getenv("FAKE_DEVICES");
  fake::reset(devices == nullptr ? 2 : std::atoi(devices));
  fake::others(std::size_t{20} << 20);
}

// A program that misuses it ends badly.
[[gnu::destructor]] static void look_back() {
  if (!fake::misuse().empty() || fake::leftovers() != 0) std::abort();
}
