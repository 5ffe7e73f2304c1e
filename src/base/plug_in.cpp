#include "base/plug_in.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "base/code_file.h"
#include "base/odd_variables.h"

namespace unisono::base {
namespace {

namespace fs = std::filesystem;

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
