#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "base/secret.h"

namespace unisono::testing {

/// Where the memory of a process has some bytes.
struct Places {
  std::vector<std::string> dumped;  ///< the mappings that a core dump of the process may hold, as /proc names them
  int kept_out = 0;                 ///< the number of mappings that no core dump holds (MADV_DONTDUMP)
};

/// Searches all that can be read of a process of this user, this one included. What it reads lies in memory that it does not search itself.
inline Places search_memory(pid_t process, std::string_view bytes) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  constexpr std::size_t most_of_a_program = std::size_t{1} << 40;  // a larger mapping is a sanitizer's own, which says what memory is valid
  static char* const buffer = [] {
    void* const made = ::mmap(nullptr, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED || ::madvise(made, piece, MADV_DONTDUMP) != 0) throw std::runtime_error("no memory that is left out of core dumps");
    return static_cast<char*>(made);
  }();
  const std::string folder = "/proc/" + std::to_string(process);
  const base::FileDescriptor memory(::open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  std::ifstream list(folder + "/smaps");
  if (!memory || !list) throw std::runtime_error("the memory of the process cannot be read");
  Places places;
  std::string mapping;
  const auto holds = [&] {
    std::size_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream(mapping) >> std::hex >> begin >> dash >> end;
    if (end - begin > most_of_a_program) return false;
    for (std::size_t at = begin; at < end; at += piece - bytes.size()) {  // pieces overlap
      const ssize_t got = ::pread(memory.get(), buffer, std::min(piece, end - at), static_cast<off_t>(at));
      if (got > 0 && ::memmem(buffer, static_cast<std::size_t>(got), bytes.data(), bytes.size()) != nullptr) return true;
    }
    return false;
  };
  for (std::string line; std::getline(list, line);) {
    if (line.find('-') < line.find(' ')) mapping = line;
    if (!line.starts_with("VmFlags:") || mapping.find(" r") == std::string::npos) continue;
    const bool is_kept_out = line.find(" dd") != std::string::npos;
    if (!holds()) continue;
    if (is_kept_out) ++places.kept_out;
    else places.dumped.push_back(mapping);
  }
  return places;
}

/// A secret that no program has in its text.
inline base::Secret random_secret(std::size_t size = 32) {
  return base::Secret::filled(size, [size](char* bytes) {
    if (::getrandom(bytes, size, 0) != static_cast<ssize_t>(size)) throw std::runtime_error("no random bytes");
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>('A' + static_cast<unsigned char>(bytes[i]) % 26);
    return size;
  });
}

}  // namespace unisono::testing
