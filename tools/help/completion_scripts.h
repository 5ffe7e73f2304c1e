#pragma once

#include <string_view>

namespace unisono::tools {

// The files of completions/, compiled in.
extern const std::string_view bash_script, zsh_script, fish_script;

}  // namespace unisono::tools
