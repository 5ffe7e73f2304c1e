#pragma once

#include <string>
#include <vector>

namespace unisono::tools {

/// An MPI that lies in a folder of its own.
struct MpiFolder {
  std::vector<std::string> libraries = {};  ///< its files, one for each ABI that it has; that of its own kind before the standard one
  std::string launcher = {};
};

/// Finds the MPI in the prefix that it was installed into, or in a wheel that was unpacked. Throws InvalidArgument if there is none, or several, one
/// for other processors, or no launcher.
MpiFolder mpi_in(const std::string& folder);

}  // namespace unisono::tools
