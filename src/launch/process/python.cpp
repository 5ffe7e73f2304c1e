#include "launch/process/python.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/code_file.h"
#include "launch/process/program.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

namespace fs = std::filesystem;

bool is_program(const std::string& name, const base::Environment& environment) {
  try {
    static_cast<void>(find_program(name, environment));
    return true;
  } catch (const StartFailed&) {
    return false;
  }
}

bool names_interpreter(const fs::path& file) {
  char begin[2] = {};
  std::ifstream(file, std::ios::binary).read(begin, sizeof begin);
  return begin[0] == '#' && begin[1] == '!';
}

/// Tells whether only Python can run this word.
bool is_for_python(const std::string& word, const std::string& folder, const base::Environment& environment) {
  if (!word.ends_with(".py")) return false;
  std::error_code error;
  const fs::path file = fs::path(folder) / word;  // an absolute word stays as it is
  if (!fs::is_regular_file(file, error)) return false;
  const bool is_name = word.find('/') == std::string::npos;
  return is_name ? !is_program(word, environment) : ::access(file.c_str(), X_OK) != 0 || !names_interpreter(file);
}

}  // namespace

std::string find_python(const base::Environment& environment, const std::string& own_file) {
  const std::string active = environment.get("VIRTUAL_ENV").value_or("");
  if (!active.empty() && is_program(active + "/bin/python3", environment)) return active + "/bin/python3";
  std::error_code error;
  for (fs::path folder = fs::path(own_file).parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    const std::string python = folder / "bin" / "python3";
    if (fs::exists(folder / "pyvenv.cfg", error) && is_program(python, environment)) return python;
  }
  return is_program("python3", environment) ? "python3" : "";
}

std::vector<std::string> with_python(std::vector<std::string> command, const std::string& folder, const base::Environment& environment) {
  const std::string first = command.empty() ? std::string() : command.front();
  const bool is_module = first == "-m";
  if (is_module && command.size() < 2) throw InvalidArgument("-m: a module of Python is missing");
  if (!is_module && !is_for_python(first, folder, environment)) return command;
  const std::string python = find_python(environment, base::own_code_file());
  if (python.empty()) {
    throw StartFailed("cannot run \"" + (is_module ? command[1] : first) +
                          "\": it takes Python, and there is no python3 along PATH; name one in front of it (PYTHON " + first + " …)",
                      exit_not_found);
  }
  command.insert(command.begin(), python);
  return command;
}

}  // namespace unisono::launcher
