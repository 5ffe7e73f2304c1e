#include "launch/job/other_binder.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace unisono::launcher {
namespace {

/// Programs that decide where those run which they start.
constexpr std::array binders = {"taskset", "numactl", "hwloc-bind", "likwid-pin", "likwid-mpirun", "mpirun",  "mpiexec",
                                "orterun", "prterun", "srun",       "jsrun",      "aprun",         "torchrun"};

/// Returns a word's last part without an ending: "mpirun" of "/usr/bin/mpirun.openmpi".
std::string_view program_name(std::string_view word) {
  if (const auto slash = word.rfind('/'); slash != std::string_view::npos) word.remove_prefix(slash + 1);
  return word.substr(0, word.find('.'));
}

bool is_shell(std::string_view word) { return program_name(word).ends_with("sh"); }

/// Returns the first program in the text of a command, or of a shell script, that binds what it starts. Comments are left out.
std::string binder_in(std::string_view text) {
  constexpr std::string_view between = " \t\r\n;|&()`\"'=";
  bool is_ours = false;
  while (!text.empty()) {
    const bool begins_comment = text.front() == '#';
    const std::string_view word = text.substr(0, text.find_first_of(begins_comment ? "\n" : between));
    const std::string_view name = program_name(word);
    if (!begins_comment && std::ranges::find(binders, name) != binders.end()) return std::string(name);
    if (is_ours && (name == "run" || name == "bench")) return fmt::format("unisono {}", name);  // whose ranks are placed by themselves
    if (!word.empty()) is_ours = name == "unisono";
    text.remove_prefix(std::min(word.size() + (begins_comment ? 0 : 1), text.size()));
  }
  return {};
}

/// Returns the beginning of a file.
std::string beginning_of(const std::string& path) {
  constexpr std::size_t enough = 1U << 16;
  std::string text(enough, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(enough));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

/// Returns the text of a shell script, as its first line says that it is; empty for other files.
std::string script_at(const std::string& path) {
  std::string text = beginning_of(path);
  if (!text.starts_with("#!")) return {};
  std::istringstream interpreter(text.substr(2, text.find('\n') - 2));  // "/usr/bin/env bash", "/bin/sh -e"
  for (std::string word; interpreter >> word;) {
    if (is_shell(word)) return text;
  }
  return {};
}

}  // namespace

std::string other_binder(const std::string& program, const std::vector<std::string>& command, const base::Environment& environment) {
  for (const auto& [name, sign] : {std::pair("GOMP_CPU_AFFINITY", ""), std::pair("KMP_AFFINITY", "proclist"), std::pair("OMP_PLACES", "{")}) {
    const auto value = environment.get(name);
    if (value && !value->empty() && value->find(sign) != std::string::npos) return name;
  }
  std::string text;
  for (const std::string& word : command) text += word + "\n";
  std::string script = script_at(program);
  if (is_shell(program)) {  // sh script …
    for (std::size_t i = 1; i < command.size() && script.empty(); ++i) script = beginning_of(command[i]);
  }
  return binder_in(text + script);
}

}  // namespace unisono::launcher
