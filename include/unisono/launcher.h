#pragma once

namespace unisono {

/// Who started this process.
enum class Launcher { none, unisono, torchrun, slurm, openmpi, pmi, horovod };

}  // namespace unisono
