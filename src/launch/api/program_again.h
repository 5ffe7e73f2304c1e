#pragma once

#include <string>
#include <vector>

#include "base/environment.h"

namespace unisono::launcher {

/// The program of this process as it was started, which a rank may run once more.
class ProgramAgain {
 public:
  /// Reads its file and its arguments. Throws StartFailed where they are not known.
  ProgramAgain();
  /// Runs it in place of this process, with these variables. Returns the errno where it cannot be run.
  int run(const base::Environment& environment);

 private:
  std::string path_;
  std::vector<std::string> arguments_;
};

}  // namespace unisono::launcher
