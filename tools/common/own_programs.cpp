#include "common/own_programs.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/code_file.h"

namespace unisono::tools {
namespace {

namespace fs = std::filesystem;

/// Returns an empty path if the system does not tell.
fs::path own_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

bool is_helper(const fs::path& program) {
  const fs::path folder = program.parent_path();
  return folder.filename() == "unisono" && folder.parent_path().filename() == "libexec";
}

}  // namespace

std::string path_of_command() {
  const fs::path own = own_program();
  return is_helper(own) ? own.parent_path().parent_path().parent_path() / "bin" / "unisono" : own;
}

Helper helper(const std::string& name) {
  const fs::path path = fs::path(path_of_command()).parent_path().parent_path() / "libexec" / "unisono" / name;
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  std::string objection = base::why_not_to_run(path);
  if (!objection.empty()) return {.objection = fmt::format("{} is not used: {}", path.string(), objection)};
  return {.path = path.string()};
}

}  // namespace unisono::tools
