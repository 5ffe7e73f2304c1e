#pragma once

#include <string>
#include <string_view>

namespace unisono::base {

/// A plug-in of the library itself that is no engine: a file that is linked with a library of others, with one function that hands over the rest.
struct PlugIn {
  void* entry = nullptr;  ///< the function; null: there is none that can be used here
  std::string path = {};
  std::string why_not = {};
};

/// Looks for the file in the folders of UNISONO_PLUGIN_PATH and in those of the library, and loads the first one. It is never closed: libraries of
/// others have handlers that run when the process ends.
PlugIn find_plug_in(const std::string& file, std::string_view entry);

}  // namespace unisono::base
