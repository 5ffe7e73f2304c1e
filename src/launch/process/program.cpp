#include "launch/process/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/code_file.h"
#include "base/log.h"

namespace unisono::launcher {
namespace {

/// Returns 0 if the file can be executed, else the errno that says why not.
int obstacle(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return errno;
  if (S_ISDIR(about.st_mode)) return EISDIR;
  if (!S_ISREG(about.st_mode)) return EACCES;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

[[noreturn]] void refuse(const std::string& path, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  throw StartFailed("cannot run \"" + path + "\": " + error_text(error), missing ? exit_not_found : exit_not_executable);
}

}  // namespace

std::string error_text(int error) { return std::generic_category().message(error); }

std::string find_program(const std::string& name, const base::Environment& environment) {
  if (name.empty()) throw StartFailed("cannot run \"\": the program has no name", exit_not_found);
  if (name.find('/') != std::string::npos) {
    if (const int error = obstacle(name); error != 0) refuse(name, error);
    return name;
  }
  const std::string path = environment.get("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  std::string found_but_refused;
  int refusal = 0;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    const std::string candidate = folder.empty() ? "./" + name : folder + "/" + name;  // an empty entry is the current folder
    const int error = obstacle(candidate);
    if (error == 0) return candidate;
    if (error != ENOENT && error != ENOTDIR && error != EISDIR && refusal == 0) {
      refusal = error;
      found_but_refused = candidate;
    }
    begin = end + 1;
  }
  if (refusal != 0) refuse(found_but_refused, refusal);
  std::string hint = obstacle("./" + name) == 0 ? "; there is one in the current folder: ./" + name : "";
  throw StartFailed("cannot run \"" + name + "\": not found along PATH" + hint, exit_not_found);
}

std::string find_helper(std::string_view name) {
  namespace fs = std::filesystem;
  const fs::path file = base::own_code_file();
  std::error_code error;
  // The library lies in bin/, lib/ or lib/<architecture>/ of a prefix, beside libexec/.
  for (fs::path folder = file.parent_path().parent_path(); !folder.empty(); folder = folder.parent_path()) {
    const fs::path candidate = folder / "libexec" / "unisono" / name;
    if (fs::exists(candidate, error)) {
      const std::string danger = base::why_not_to_run(candidate);
      if (danger.empty()) return candidate.string();
      base::warn(fmt::format("{} is not used: {}", candidate.string(), danger));
      return {};
    }
    if (folder == folder.root_path() || folder.filename() != "lib") break;
  }
  return {};
}

}  // namespace unisono::launcher
