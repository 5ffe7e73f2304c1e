#include "launch/output/line_buffering.h"

#include <elf.h>
#include <sys/stat.h>

#include <array>
#include <fstream>

#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

/// Returns class, byte order and machine of an ELF file; empty text for any other file, such as a script.
std::string architecture(const std::string& file) {
  std::array<char, EI_NIDENT + 4> head{};
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(head.data(), head.size()) || std::string_view(head.data(), SELFMAG) != ELFMAG) return {};
  return {head[EI_CLASS], head[EI_DATA], head[EI_NIDENT + 2], head[EI_NIDENT + 3]};
}

/// Tells whether the loader accepts our library. It would print a message for a library of another architecture, once for each process.
bool can_load(const std::string& program) {
  const std::string other = architecture(program);
  static const auto& own = *new const std::string(architecture("/proc/self/exe"));
  return other.empty() || other == own;
}

void append(EnvironmentBlock& environment, std::string_view name, const std::string& value) {
  const std::string before = environment.get(name);
  environment.set(name, before.empty() ? value : before + ":" + value);
}

}  // namespace

void write_line_by_line(EnvironmentBlock& environment, int pipe, const std::string& program) {
  if (!environment.has("PYTHONUNBUFFERED")) environment.set("PYTHONUNBUFFERED", 1);
  static const auto& library = *new const std::string(find_helper("libunisono-lines.so"));
  struct stat about {};
  // LD_PRELOAD separates libraries by colons and blanks, without quoting.
  if (library.empty() || library.find_first_of(": ") != std::string::npos || ::fstat(pipe, &about) != 0) return;
  if (environment.has("_STDBUF_O") || !can_load(program)) return;
  environment.set("UNISONO_OUTPUT_PIPE", "pipe:[" + std::to_string(about.st_ino) + "]");
  append(environment, "LD_PRELOAD", library);
  // AddressSanitizer refuses to run after an unknown library. This one replaces no function, so its check is switched off.
  append(environment, "ASAN_OPTIONS", "verify_asan_link_order=0");
}

}  // namespace unisono::launcher
