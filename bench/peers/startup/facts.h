#pragma once

// These functions read from /proc what a process costs its host, in the same way for a rank of any library.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace startup {

inline long entries(const char* folder) { return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()); }

/// Writes one line for scripts/bench/startup, and waits until that opens the named pipe `go`. Of the memory that processes share, a rank counts its
/// part (Pss), so that the ranks' figures add up; mapped files of programs and libraries are not shared memory here.
inline void write_facts(const char* go) {
  std::ifstream maps("/proc/self/smaps");
  long resident = 0, shared = 0, reserved = 0, size = 0;
  bool is_shared = false;
  for (std::string line; std::getline(maps, line);) {
    char permissions[5] = {};
    long value = 0;
    if (std::sscanf(line.c_str(), "%*x-%*x %4s", permissions) == 1) {
      is_shared = permissions[3] == 's';
    } else if (std::sscanf(line.c_str(), "Size: %ld kB", &value) == 1) {
      size = value;
    } else if (std::sscanf(line.c_str(), "Rss: %ld kB", &value) == 1) {
      resident += value;
    } else if (std::sscanf(line.c_str(), "Pss: %ld kB", &value) == 1 && is_shared) {
      shared += value;
      reserved += size;
    }
  }
  const std::string text = "startup-facts {\"pid\": " + std::to_string(::getpid()) + ", \"resident_kib\": " + std::to_string(resident) +
                           ", \"shared_kib\": " + std::to_string(shared) + ", \"reserved_kib\": " + std::to_string(reserved) +
                           ", \"descriptors\": " + std::to_string(entries("/proc/self/fd") - 1) +
                           ", \"threads\": " + std::to_string(entries("/proc/self/task")) + "}\n";
  std::fwrite(text.data(), 1, text.size(), stdout);  // one write, so that lines of several ranks do not mix
  std::fflush(stdout);
  const std::ifstream opened(go);
}

/// Returns the memory of this process that is no mapped file, in KiB; of what it shares with others, its part.
inline double own_kib() {
  std::ifstream sums("/proc/self/smaps_rollup");
  double sum = 0, value = 0;
  for (std::string line; std::getline(sums, line);) {
    for (const char* const kind : {"Pss_Anon: %lf kB", "Pss_Shmem: %lf kB"}) {
      if (std::sscanf(line.c_str(), kind, &value) == 1) sum += value;
    }
  }
  return sum;
}

/// Returns the named pipe behind `--facts`; null where none is asked for.
inline const char* pipe_of(int argc, char** argv) { return argc == 3 && std::strcmp(argv[1], "--facts") == 0 ? argv[2] : nullptr; }

constexpr int numbers = 1 << 18;  // of the all_reduce before the facts are read: 1 MiB of floats, so that buffers are in use

}  // namespace startup
