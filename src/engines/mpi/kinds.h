#pragma once

#include <array>
#include <string>
#include <string_view>

#include "engines/mpi/loaded.h"

namespace unisono::engines::mpi {

/// An MPI that parts of ours are compiled for.
struct Kind {
  Abi abi;
  std::string_view name;
  std::string_view readable;
  std::array<const char*, 2> libraries;  ///< the names of the system's own, of which the first that there is is opened
};
inline constexpr std::array kinds = {
    Kind{Abi::openmpi, "openmpi", "Open MPI", {"libmpi.so.40", nullptr}},
    Kind{Abi::mpich, "mpich", "MPICH", {"libmpich.so.12", "libmpi.so.12"}},
};

/// Return null for another MPI.
const Kind* find_kind(std::string_view name);
const Kind* find_kind(Abi abi);

/// Returns "/usr/lib/libmpi.so.40 (Open MPI)".
std::string describe(const LoadedMpi& mpi);

/// Opens the system's own MPI of a kind, for a program that has none. Returns why that is not possible; empty: it is loaded.
std::string open_system(const Kind& kind);

}  // namespace unisono::engines::mpi
