#pragma once

#include <cstdint>
#include <filesystem>

// The names in the folder of a sharded checkpoint. Its files carry the number of their generation. The index is written last and names the valid
// generation.

namespace unisono::libtorch {

std::filesystem::path index_path(const std::filesystem::path& folder);
std::filesystem::path shard_path(const std::filesystem::path& folder, std::uint64_t generation, int rank, int world_size);
/// Makes the folder if it is missing and returns the number of the generation to be written. Throws CheckpointError, or InvalidArgument where the
/// path is a file.
std::uint64_t open_folder(const std::filesystem::path& folder);
/// Removes the files of all other generations, as far as possible.
void forget_others(const std::filesystem::path& folder, std::uint64_t generation);

}  // namespace unisono::libtorch
