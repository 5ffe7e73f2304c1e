#pragma once

#include <string_view>

#include "unisono/export.h"

namespace unisono {

/// What started this process, as far as its environment tells. Where launchers are nested, the innermost that says who each rank is: ours, torchrun
/// (or anything else that sets RANK and WORLD_SIZE), Open MPI, PMI (MPICH, MVAPICH2), Slurm, Horovod.
enum class Launcher { none, unisono, torchrun, slurm, openmpi, pmi, horovod };

UNISONO_API std::string_view to_string(Launcher launcher) noexcept;

}  // namespace unisono
