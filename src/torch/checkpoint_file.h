#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "unisono/process_group.h"
#include "unisono/torch/checkpoint.h"

// A file of a checkpoint has a head of fixed length (magic, length and checksum), a table, and the bytes of the tensors that the table describes.

namespace unisono::libtorch {

struct StoredTensor {
  std::string name = {};
  std::int32_t dtype = 0;  ///< at::ScalarType
  std::vector<std::int64_t> shape = {};
  std::uint64_t offset = 0;  ///< counted from the end of the table
  std::uint64_t bytes = 0;
  UNISONO_FIELDS(name, dtype, shape, offset, bytes)
};

/// The entry of an index for one file of its folder.
struct StoredShard {
  std::uint64_t bytes = 0, checksum = 0;
  UNISONO_FIELDS(bytes, checksum)
};

struct CheckpointTable {
  enum class Kind : std::int32_t { whole, shard, index };
  Kind kind = Kind::whole;
  std::uint64_t generation = 0;  ///< of the folder: its files carry this number in their names
  std::int32_t rank = 0, world_size = 1;
  std::vector<StoredShard> shards = {};  ///< only in an index
  std::vector<StoredTensor> model = {};
  std::vector<StoredTensor> generators = {};           ///< by rank; a shard has its own only
  std::vector<StoredTensor> optimizer = {};            ///< one entry if there is an optimizer
  bool optimizer_is_share = false;                     ///< true for this rank's part of a DistributedOptimizer
  std::string optimizer_type = {};                     ///< empty if there was no optimizer
  std::vector<std::string> optimizer_parameters = {};  ///< from descriptions_of
  std::vector<std::int32_t> optimizer_owners = {};     ///< only in an index with a distributed optimizer: the rank that has each parameter's state
  TrainingState state = {};
  UNISONO_FIELDS(kind, generation, rank, world_size, shards, model, generators, optimizer, optimizer_is_share, optimizer_type, optimizer_parameters,
                 optimizer_owners, state)
};

/// Appends `name` and `tensor` to the entries. `data` is passed to write_table.
void store(const std::string& name, const at::Tensor& tensor, std::vector<StoredTensor>& entries, std::vector<at::Tensor>& data);

/// Writes the whole file or nothing, and replaces a file of this name. Throws CheckpointError.
StoredShard write_checkpoint(const std::filesystem::path& path, const CheckpointTable& table, const std::vector<at::Tensor>& data);

struct CheckpointContents {
  CheckpointTable table = {};
  at::Tensor data = {};
  StoredShard file = {};
  /// Returns a view of the bytes.
  at::Tensor bytes_of(const StoredTensor& entry) const;
};
/// Throws CheckpointError for a file that is missing, cannot be read, or differs from what was written.
CheckpointContents read_checkpoint(const std::filesystem::path& path);

// The folder of a sharded checkpoint. Its files carry the number of their generation. The index is written last and names the valid generation.

std::filesystem::path index_path(const std::filesystem::path& folder);
std::filesystem::path shard_path(const std::filesystem::path& folder, std::uint64_t generation, int rank, int world_size);
/// Makes the folder if it is missing and returns the number of the generation to be written. Throws CheckpointError, or InvalidArgument where the
/// path is a file.
std::uint64_t open_folder(const std::filesystem::path& folder);
/// Removes the files of all other generations, as far as possible.
void forget_others(const std::filesystem::path& folder, std::uint64_t generation);

/// Makes all ranks throw if any of them has an error. Collective. A rank with an error throws its own, as InvalidArgument or CheckpointError; the
/// others throw that of the lowest rank with an error. The group stays usable.
void share_outcome(const ProcessGroup& group, std::string_view operation, const std::exception_ptr& own);

/// Runs f; an error of any rank is thrown on all of them.
template <class F>
void for_all(const ProcessGroup& group, std::string_view operation, F&& f) {
  std::exception_ptr error;
  try {
    std::forward<F>(f)();
  } catch (...) {
    error = std::current_exception();
  }
  share_outcome(group, operation, error);
}

}  // namespace unisono::libtorch
