#pragma once

#include <string_view>

#include "unisono/export.h"

namespace unisono {

/// The program that started this process, as far as its environment tells.
///
/// If launchers are nested, it is the innermost one that tells each process its rank: `unisono
/// run`, torchrun (or anything else that sets RANK and WORLD_SIZE), Open MPI, PMI (MPICH,
/// MVAPICH2), Slurm, Horovod.
enum class Launcher { none, unisono, torchrun, slurm, openmpi, pmi, horovod };

/// Returns the name of the enumerator: "torchrun".
UNISONO_API std::string_view to_string(Launcher launcher) noexcept;

}  // namespace unisono
