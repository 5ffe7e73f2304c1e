#pragma once

#include <string_view>

#include "unisono/export.h"

namespace unisono {

/// What started this process, as far as its environment tells.
enum class Launcher { none, unisono, torchrun, slurm, openmpi, pmi, horovod };

/// From the environment alone; may be called before initialize. Where several launchers are nested, the innermost that sets every rank's identity:
/// ours, torchrun (or anything else that sets RANK and WORLD_SIZE), Open MPI, PMI, Slurm, Horovod.
UNISONO_API Launcher infer_launcher();
UNISONO_API std::string_view to_string(Launcher launcher) noexcept;

}  // namespace unisono
