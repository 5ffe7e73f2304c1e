#include "base/code_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/hash.h"
#include "base/variables.h"
#include "unisono/detail/callable.h"

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

std::vector<fs::path> searched_folders() {
  std::vector<fs::path> folders;
  for (const std::string& folder : folders_of(variable_of_code("UNISONO_PLUGIN_PATH").value_or(""))) {
    if (folder.starts_with('/')) folders.emplace_back(folder);
  }
  for (fs::path& folder : folders_of_plugins()) folders.push_back(std::move(folder));
  return folders;
}

PlugIn load(const std::string& path, std::string_view entry) {
  PlugIn found{.path = path};
  if (const std::string danger = why_not_to_run(path); !danger.empty()) {
    found.why_not = fmt::format("{} is not loaded: {}", path, danger);
    return found;
  }
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const error = ::dlerror();
    found.why_not = fmt::format("{} cannot be loaded: {}", path, error != nullptr ? error : "unknown error");
    return found;
  }
  found.entry = ::dlsym(handle, std::string(entry).c_str());
  if (found.entry == nullptr) found.why_not = fmt::format("{} has no {}", path, entry);
  return found;
}

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

PlugIn find_plug_in(const std::string& file, std::string_view entry) {
  std::string places;
  for (const fs::path& folder : searched_folders()) {
    std::error_code ignored;
    if (fs::exists(folder / file, ignored)) return load((folder / file).string(), entry);
    places.append(places.empty() ? "" : ", ").append(folder.string());
  }
  return {.why_not = fmt::format("there is no {} in {}", file, places)};
}

}  // namespace unisono::base

// Numbers by which processes find out that they run the same code.
namespace unisono::detail {
namespace {

struct Search {
  std::uintptr_t address;
  std::uint64_t number;
};

/// Returns the build ID in a segment of notes; empty where there is none.
std::string_view build_id_in(std::string_view notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes.data(), sizeof head);
    const auto padded = [](std::size_t n) { return (n + 3) / 4 * 4; };
    const std::size_t content = sizeof head + padded(head.n_namesz), end = content + padded(head.n_descsz);
    if (end > notes.size()) return {};
    if (head.n_type == NT_GNU_BUILD_ID && notes.substr(sizeof head, head.n_namesz) == std::string_view("GNU\0", 4))
      return notes.substr(content, head.n_descsz);
    notes.remove_prefix(end);
  }
  return {};
}

int look_at(dl_phdr_info* file, std::size_t, void* argument) {
  Search& search = *static_cast<Search*>(argument);
  std::string_view build_id, code;
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = file->dlpi_phdr[i];
    const std::string_view content(reinterpret_cast<const char*>(file->dlpi_addr + segment.p_vaddr), segment.p_memsz);
    if (segment.p_type == PT_NOTE && build_id.empty()) build_id = build_id_in(content);
    const std::uintptr_t begin = file->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && begin <= search.address && search.address < begin + segment.p_memsz) code = content;
  }
  if (code.empty()) return 0;
  base::StableHash hash;
  hash.add(build_id.empty() ? code : build_id);  // a file without a build ID is known by its instructions
  hash.add(static_cast<std::uint64_t>(search.address - file->dlpi_addr));
  search.number = hash.value();
  return 1;
}

}  // namespace

std::uint64_t number_of_code(const void* address) noexcept {
  Search search{.address = reinterpret_cast<std::uintptr_t>(address), .number = reinterpret_cast<std::uintptr_t>(address)};
  thread_local Search last{};
  if (last.address == search.address) return last.number;
  dl_iterate_phdr(look_at, &search);
  last = search;
  return search.number;
}

std::uint64_t number_of_bytes(const void* bytes, std::size_t n) noexcept { return base::stable_hash({static_cast<const char*>(bytes), n}) | 1; }

}  // namespace unisono::detail
