#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "unisono/torch/checkpoint.h"

// A file of a checkpoint: a head of fixed length (what it is, how long it is, and a checksum), a table, and what the table tells of: the bytes of
// tensors.

namespace unisono::libtorch {

struct StoredTensor {
  std::string name = {};
  std::int32_t dtype = 0;  ///< at::ScalarType
  std::vector<std::int64_t> shape = {};
  std::uint64_t offset = 0;  ///< behind the table
  std::uint64_t bytes = 0;
  UNISONO_FIELDS(name, dtype, shape, offset, bytes)
};

/// A file of a folder: what the index says of it.
struct StoredShard {
  std::uint64_t bytes = 0, checksum = 0;
  UNISONO_FIELDS(bytes, checksum)
};

struct CheckpointTable {
  enum class Kind : std::int32_t { whole, shard, index };
  Kind kind = Kind::whole;
  std::uint64_t generation = 0;  ///< of the folder: its files have this number in their names
  std::int32_t rank = 0, world_size = 1;
  std::vector<StoredShard> shards = {};  ///< of an index
  std::vector<StoredTensor> model = {};
  std::vector<StoredTensor> generators = {};           ///< by rank; of a shard its own
  std::vector<StoredTensor> optimizer = {};            ///< one where there is any
  bool optimizer_is_share = false;                     ///< of DistributedOptimizer, and of this rank
  std::string optimizer_type = {};                     ///< empty: there was none
  std::vector<std::string> optimizer_parameters = {};  ///< descriptions_of
  std::vector<std::int32_t> optimizer_owners = {};     ///< of an index whose optimizer is shared out: who has the state of which parameter
  TrainingState state = {};
  UNISONO_FIELDS(kind, generation, rank, world_size, shards, model, generators, optimizer, optimizer_is_share, optimizer_type, optimizer_parameters,
                 optimizer_owners, state)
};

/// Puts `name` and `tensor` behind what is there already; `data` is what write_table gets.
void store(const std::string& name, const at::Tensor& tensor, std::vector<StoredTensor>& entries, std::vector<at::Tensor>& data);

/// Whole or not at all; a file of this name that was there is replaced. CheckpointError.
StoredShard write_checkpoint(const std::filesystem::path& path, const CheckpointTable& table, const std::vector<at::Tensor>& data);

struct CheckpointContents {
  CheckpointTable table = {};
  at::Tensor data = {};
  StoredShard file = {};
  /// A view of the bytes.
  at::Tensor bytes_of(const StoredTensor& entry) const;
};
/// CheckpointError for what is not there, cannot be read, or is not as it was written.
CheckpointContents read_checkpoint(const std::filesystem::path& path);

}  // namespace unisono::libtorch
