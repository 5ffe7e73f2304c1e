#include "common/own_programs.h"

#include <filesystem>

#include "base/code_file.h"

namespace unisono::tools {
namespace {

namespace fs = std::filesystem;

fs::path own_program() { return fs::read_symlink("/proc/self/exe"); }

bool is_helper(const fs::path& program) { return program.parent_path().parent_path().filename() == "libexec"; }

}  // namespace

std::string path_of_command() {
  const fs::path own = own_program();
  return is_helper(own) ? own.parent_path().parent_path().parent_path() / "bin" / "unisono" : own;
}

std::string path_of_helper(const std::string& name) {
  const fs::path path = fs::path(path_of_command()).parent_path().parent_path() / "libexec" / "unisono" / name;
  return fs::exists(path) && base::why_not_to_run(path).empty() ? path.string() : std::string();
}

}  // namespace unisono::tools
