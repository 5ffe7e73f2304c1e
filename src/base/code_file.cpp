#include "base/code_file.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/environment.h"

namespace unisono::base {
namespace {

namespace fs = std::filesystem;

/// The users and groups that could change this process's code in any case.
class Trusted {
 public:
  Trusted() {
    // In a container root may have another number. The owner of the root folder has all rights there.
    struct stat root {
    }, own{};
    if (::stat("/", &root) != 0) root.st_uid = 0, root.st_gid = 0;
    if (::stat(own_code_file().c_str(), &own) != 0) own.st_uid = 0, own.st_gid = 0;
    users_ = {0, ::geteuid(), root.st_uid, own.st_uid};
    groups_ = {0, ::getegid(), root.st_gid, own.st_gid};
  }

  /// Describes what users that are not trusted could do to a file, or to what a folder holds; empty: nothing.
  std::string danger_of(const fs::path& path) const { return danger_of(path, false); }
  /// Does the same for a folder and all folders above it. A sticky one is accepted: everybody can add to it and nobody can replace a file of another
  /// user.
  std::string danger_of_folders(fs::path folder) const {
    std::string danger = danger_of(folder, false);
    while (danger.empty() && folder != folder.root_path()) {
      folder = folder.parent_path();
      danger = danger_of(folder, true);
    }
    return danger;
  }

 private:
  std::string danger_of(const fs::path& path, bool sticky_will_do) const {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return {};
    if (std::ranges::find(users_, status.st_uid) == users_.end()) return fmt::format("{} belongs to user {}", path.string(), status.st_uid);
    if (sticky_will_do && (status.st_mode & S_ISVTX) != 0) return {};
    if ((status.st_mode & S_IWOTH) != 0) return fmt::format("anybody can write to {}", path.string());
    if ((status.st_mode & S_IWGRP) != 0 && std::ranges::find(groups_, status.st_gid) == groups_.end()) {
      return fmt::format("group {} can write to {}", status.st_gid, path.string());
    }
    return {};
  }

  std::array<uid_t, 4> users_{};
  std::array<gid_t, 4> groups_{};
};

}  // namespace

fs::path own_code_file() {
  Dl_info info{};
  static const int here = 0;
  std::error_code error;
  fs::path file;
  if (::dladdr(&here, &info) != 0 && info.dli_fname != nullptr) file = fs::canonical(info.dli_fname, error);
  if (error || file.empty()) file = fs::canonical("/proc/self/exe", error);  // dladdr names a program as it was called
  return error ? fs::path() : file;
}

// This code is in the library, with which the plug-ins lie: in its folder where it was built, in unisono/ below it where it was installed. Or it is
// inside a program in bin/ or libexec/unisono/, beside the library's folder: lib/, or another name that the build was given.
std::vector<fs::path> folders_of_plugins() {
  std::vector<fs::path> folders;
  const fs::path file = own_code_file();
  if (file.empty()) return folders;
  const auto add_if_there = [&](const fs::path& folder) {
    std::error_code error;
    if (fs::is_directory(folder, error)) folders.push_back(folder.lexically_normal());
  };
  fs::path prefix = file.parent_path().parent_path();
  if (prefix.filename() == "libexec" && file.parent_path().filename() == "unisono") prefix = prefix.parent_path();
  for (const fs::path& folder : {file.parent_path(), prefix / "lib", prefix / UNISONO_LIBRARY_FOLDER}) {
    add_if_there(folder);
    add_if_there(folder / "unisono");
  }
  return folders;
}

std::string why_not_to_run(const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) return {};
  const fs::path named_in = fs::canonical(file.parent_path(), error);  // the folder of the symbolic link to it
  const Trusted trusted;
  std::string danger = trusted.danger_of(real);
  if (danger.empty()) danger = trusted.danger_of_folders(real.parent_path());
  if (danger.empty() && !error) danger = trusted.danger_of_folders(named_in);
  return danger;
}

std::optional<std::string> variable_of_code(std::string_view name) { return Environment::process().get(name); }

}  // namespace unisono::base
