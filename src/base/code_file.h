#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/export.h"

// Files of code that are looked for at run time and not linked: plug-ins, libraries that a variable names, helpers of the launcher. The functions are
// exported for the plug-ins.
namespace unisono::base {

/// Returns the file of this code: the library, or the program that contains it. Empty where the system does not say.
UNISONO_API std::filesystem::path own_code_file();

/// Returns the folders in which the plug-ins of this library itself are looked for, as far as they exist.
std::vector<std::filesystem::path> folders_of_plugins();

/// Says why the file must not be run: somebody who is neither root, nor this user, nor the owner of this code could have put it there or can change
/// it. Symbolic links are followed, and every folder above the file is checked. Empty: nobody can, or there is no such file.
UNISONO_API std::string why_not_to_run(const std::filesystem::path& file);

/// Returns a variable that says where code lies. It counts as unset in a program that runs with more rights than its user has (set-user-ID, file
/// capabilities).
UNISONO_API std::optional<std::string> variable_of_code(std::string_view name);

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
