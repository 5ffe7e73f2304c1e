#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "unisono/export.h"

// Files of code that are not linked but looked for: plug-ins, libraries that a variable names, helpers of the launcher. Exported for the plug-ins.
namespace unisono::base {

/// Where this code itself lies: the library, or the program that has it inside. Empty where the system does not say.
UNISONO_API std::filesystem::path own_code_file();

/// Why the file must not be run: somebody who is neither root, nor this user, nor the owner of this code itself could have put it there or can
/// change it. Looks at the file that is meant in the end, and at every folder above it. Empty: nobody can, or there is no such file.
UNISONO_API std::string why_not_to_run(const std::filesystem::path& file);

/// A variable that says where code lies. Unset in a program that runs with more rights than who started it (set-user-ID, capabilities of a file).
UNISONO_API std::optional<std::string> variable_of_code(std::string_view name);

}  // namespace unisono::base
