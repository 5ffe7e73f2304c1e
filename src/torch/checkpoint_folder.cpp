#include "torch/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "unisono/torch/checkpoint.h"

namespace unisono::libtorch {
namespace {

namespace fs = std::filesystem;

/// Returns the generation of a shard's file, or 0 for any other file.
std::uint64_t generation_of(const std::string& name) {
  std::uint64_t generation = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), generation);
  const bool is_ours = error == std::errc() && std::string_view(end).starts_with(".rank-") && name.find("-of-") != std::string::npos;
  return is_ours ? generation : 0;
}

}  // namespace

fs::path index_path(const fs::path& folder) { return folder / "index"; }
fs::path shard_path(const fs::path& folder, std::uint64_t generation, int rank, int world_size) {
  return folder / fmt::format("{}.rank-{}-of-{}", generation, rank, world_size);
}

std::uint64_t open_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error)) {
    throw InvalidArgument(fmt::format("{} is no folder", folder.string()),
                          {.operation = "save_checkpoint", .hint = "a sharded checkpoint is a folder"});
  }
  fs::create_directories(folder, error);
  std::uint64_t last = 0;
  if (!error) {
    // Files left by a job that was killed count as well, so that no file listed in an index is written to twice.
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      last = std::max(last, generation_of(it->path().filename().string()));
    }
  }
  if (error) throw CheckpointError(folder, fmt::format("cannot be written: {}", error.message()));
  return last + 1;
}

void forget_others(const fs::path& folder, std::uint64_t generation) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::uint64_t other = generation_of(it->path().filename().string());
    std::error_code ignored;
    if (other != 0 && other != generation) fs::remove(it->path(), ignored);
  }
}

}  // namespace unisono::libtorch
