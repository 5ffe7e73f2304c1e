#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/engine.h"

namespace unisono::engines {

/// A libunisono_<name>.so that was found, be it usable or not.
struct FoundPlugin {
  std::string name;
  std::string path;
  const Plugin* plugin = nullptr;  // loaded for good; null where it could not be
  std::string why_not = {};        // then: why
};

/// Names that programs may ask for, of engines that come as plug-ins. The library's own folders are searched for these alone.
inline constexpr std::string_view plugins_of_ours[] = {"gloo", "mpi", "nccl"};

/// The one of that name in the first directory that has one: those of UNISONO_PLUGIN_PATH, then the library's own. Loads it, unless others could have
/// put it there. Null: there is none.
const FoundPlugin* find_plugin(std::string_view name);
/// The names of the files that look like plug-ins, in order. Loads none.
std::vector<std::string> plugin_names();
/// All of them, by name. Loads them.
std::vector<FoundPlugin> find_plugins();
/// Where they are looked for.
std::vector<std::string> plugin_directories();
/// Says in a sentence what is odd about UNISONO_PLUGIN_PATH; empty: nothing.
std::string plugin_path_remark();

/// The first of the plug-ins that says that this process is part of a job of its library's (`join`: or that can make it so).
std::optional<Bootstrap> bootstrap(bool join);

}  // namespace unisono::engines
