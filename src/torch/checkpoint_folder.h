#pragma once

#include <cstdint>
#include <filesystem>

// The names in the folder of a sharded checkpoint. Its files carry the number of their generation, and the index, written last, says which it is.

namespace unisono::libtorch {

std::filesystem::path index_path(const std::filesystem::path& folder);
std::filesystem::path shard_path(const std::filesystem::path& folder, std::uint64_t generation, int rank, int world_size);
/// Makes the folder if there is none, and returns the number of the generation to be written. CheckpointError; InvalidArgument where it is a file.
std::uint64_t open_folder(const std::filesystem::path& folder);
/// Removes the files of all generations but this, as far as it can.
void forget_others(const std::filesystem::path& folder, std::uint64_t generation);

}  // namespace unisono::libtorch
