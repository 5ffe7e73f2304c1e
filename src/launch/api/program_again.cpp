#include "launch/api/program_again.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "launch/process/environment_block.h"
#include "launch/process/program.h"

namespace unisono::launcher {

ProgramAgain::ProgramAgain() {
  std::error_code error;
  path_ = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) throw StartFailed("the file of this program is not known: " + error.message(), 1);
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string argument; std::getline(file, argument, '\0');) arguments_.push_back(argument);
  if (arguments_.empty()) throw StartFailed("the arguments of this program are not known: /proc/self/cmdline is empty", 1);
}

int ProgramAgain::run(const base::Environment& environment) {
  EnvironmentBlock block(environment);
  std::vector<char*> arguments;
  for (std::string& argument : arguments_) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execve(path_.c_str(), arguments.data(), block.data());
  return errno;
}

}  // namespace unisono::launcher
