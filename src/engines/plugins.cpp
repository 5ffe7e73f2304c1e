#include "engines/plugins.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "base/code_file.h"
#include "base/environment.h"
#include "engines/mpi/loaded.h"

namespace unisono::engines {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view file_prefix = "libunisono_";
constexpr std::string_view suffix = ".so";
constexpr std::string_view path_variable = "UNISONO_PLUGIN_PATH";
/// A part of this library whose file is named like a plug-in's. It would load all of LibTorch.
constexpr std::string_view no_plugin = "torch";

// The plug-ins, loaded once and never closed, since foreign libraries may have threads and exit handlers.
struct Loaded {
  std::mutex mutex;
  std::map<std::string, FoundPlugin, std::less<>> by_name;
};
Loaded& loaded() {
  static auto& instance = *new Loaded;
  return instance;
}

bool is_name(std::string_view text) {
  return !text.empty() && text != no_plugin &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_' || c == '-'; });
}

// Returns "gloo" for ".../libunisono_gloo.so"; empty for any other file.
std::string name_of(const fs::path& path) {
  const std::string file = path.filename().string();
  if (!file.starts_with(file_prefix) || !file.ends_with(suffix) || file.size() < file_prefix.size() + suffix.size()) return {};
  const std::string name = file.substr(file_prefix.size(), file.size() - file_prefix.size() - suffix.size());
  return is_name(name) ? name : std::string();
}

// Returns the dynamic linker's message, without the path, which the caller knows.
std::string last_error(const std::string& path) {
  const char* text = ::dlerror();
  std::string error = text != nullptr ? text : "unknown error";
  if (error.starts_with(path + ": ")) error.erase(0, path.size() + 2);
  return error;
}

FoundPlugin load(const std::string& name, const std::string& path) {
  FoundPlugin found{.name = name, .path = path};
#ifdef UNISONO_STATIC
  found.why_not = "this program has the static library of unisono, which takes no plug-ins: link the shared one (without BUILD_SHARED_LIBS=OFF)";
  return found;
#endif
  if (const std::string danger = base::why_not_to_run(path); !danger.empty()) {
    found.why_not = fmt::format("{} is not loaded: {}", path, danger);
    return found;
  }
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    found.why_not = fmt::format("{} cannot be loaded: {}", path, last_error(path));
    return found;
  }
  using Entry = const Plugin* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(handle, "unisono_plugin"));
  if (entry == nullptr) {
    found.why_not = fmt::format("{} has no unisono_plugin()", path);
    return found;
  }
  const Plugin* plugin = entry();
  if (plugin == nullptr || plugin->abi != plugin_abi) {
    found.why_not = fmt::format("{} is for plug-in ABI {}, and this library has {}", path, plugin == nullptr ? 0 : plugin->abi, plugin_abi);
    return found;
  }
  if (plugin->name == nullptr || plugin->name != name || plugin->make == nullptr) {
    found.why_not = fmt::format("{} calls itself {}, or makes no engine", path, plugin->name == nullptr ? "nothing" : plugin->name);
    return found;
  }
  found.plugin = plugin;
  return found;
}

bool is_ours(std::string_view name) { return std::ranges::find(plugins_of_ours, name) != std::end(plugins_of_ours); }

struct SearchedFolder {
  std::string directory;
  bool is_own = false;  ///< the library's, which holds other libraries as well
};

std::vector<SearchedFolder> searched_folders() {
  std::vector<SearchedFolder> all;
  const auto add = [&](const std::string& directory, bool is_own) {
    if (std::ranges::find(all, directory, &SearchedFolder::directory) == all.end()) all.push_back({directory, is_own});
  };
  for (const std::string& folder : base::folders_of(base::variable_of_code(path_variable).value_or(""))) {
    if (folder.starts_with('/')) add(folder, false);
  }
  for (const fs::path& folder : base::folders_of_plugins()) add(folder.string(), true);
  return all;
}

fs::path file_of(const SearchedFolder& folder, std::string_view name) {
  return fs::path(folder.directory) / fmt::format("{}{}{}", file_prefix, name, suffix);
}

const FoundPlugin* find_locked(std::string_view name) {
  auto& known = loaded().by_name;
  if (const auto found = known.find(name); found != known.end()) return &found->second;
  if (!is_name(name)) return nullptr;
#ifdef UNISONO_STATIC
  if (is_ours(name)) return &known.emplace(std::string(name), load(std::string(name), "")).first->second;
#endif
  for (const SearchedFolder& folder : searched_folders()) {
    const fs::path path = file_of(folder, name);
    std::error_code ignored;
    if ((folder.is_own && !is_ours(name)) || !fs::exists(path, ignored)) continue;
    return &known.emplace(std::string(name), load(std::string(name), path.string())).first->second;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> plugin_directories() {
  std::vector<std::string> directories;
  for (SearchedFolder& folder : searched_folders()) directories.push_back(std::move(folder.directory));
  return directories;
}

std::string plugin_path_remark() {
  const auto text = base::Environment::process().get(path_variable);
  return text ? base::odd_folders(path_variable, *text) : std::string();
}

const FoundPlugin* find_plugin(std::string_view name) {
  const std::lock_guard lock(loaded().mutex);
  return find_locked(name);
}

std::vector<std::string> plugin_names() {
  std::set<std::string> names;
  for (const SearchedFolder& folder : searched_folders()) {
    std::error_code error;
    if (folder.is_own) {  // it may be one of the system's, with thousands of files
      for (const std::string_view name : plugins_of_ours)
        if (fs::exists(file_of(folder, name), error)) names.emplace(name);
      continue;
    }
    for (fs::directory_iterator it(folder.directory, error), end; !error && it != end; it.increment(error)) {
      if (const std::string name = name_of(it->path()); !name.empty()) names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

std::vector<FoundPlugin> find_plugins() {
  const std::vector<std::string> names = plugin_names();
  std::vector<FoundPlugin> found;
  const std::lock_guard lock(loaded().mutex);
  for (const std::string& name : names) {
    if (const FoundPlugin* plugin = find_locked(name)) found.push_back(*plugin);
  }
  return found;
}

std::optional<Bootstrap> bootstrap(bool join) {
  for (const FoundPlugin& found : find_plugins()) {
    if (found.plugin == nullptr || found.plugin->bootstrap == nullptr) continue;
    if (auto bootstrap = found.plugin->bootstrap(join)) return bootstrap;
  }
  return std::nullopt;
}

std::optional<Bootstrap> formed_job() { return mpi::is_in_use() ? bootstrap(false) : std::nullopt; }

}  // namespace unisono::engines
