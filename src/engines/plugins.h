#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/engine.h"

namespace unisono::engines {

/// A libunisono_<name>.so that was found, usable or not.
struct FoundPlugin {
  std::string name;
  std::string path;
  const Plugin* plugin = nullptr;  // never unloaded; null where it could not be loaded
  std::string why_not = {};        // the reason then
};

/// The names of this library's own plug-ins. Its own folders are searched for these alone.
inline constexpr std::string_view plugins_of_ours[] = {"gloo", "mpi", "nccl", "ucx"};

/// Returns the plug-in of that name from the first directory that has one: those of UNISONO_PLUGIN_PATH, then the library's own. Loads it, unless
/// other users could have put it there. Null: there is none.
const FoundPlugin* find_plugin(std::string_view name);
/// Returns the names of the files that look like plug-ins, in order. Loads none.
std::vector<std::string> plugin_names();
/// Returns all plug-ins, by name. Loads them.
std::vector<FoundPlugin> find_plugins();
/// Returns the directories that are searched.
std::vector<std::string> plugin_directories();
/// Returns a sentence about an invalid UNISONO_PLUGIN_PATH; empty: it is in order.
std::string plugin_path_remark();

/// Returns the answer of the first plug-in by which this process is part of a job of its library (`join`: or can become part of one).
std::optional<Bootstrap> bootstrap(bool join);
/// Returns the part of this process in the job that a library of the program's has formed, as an MPI has that is initialized; nothing: there is none.
/// A call is cheap while no library is loaded.
std::optional<Bootstrap> formed_job();

}  // namespace unisono::engines
