#include "unisono/torch/checkpoint.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include "torch/checkpoint_file.h"
#include "torch/optimizer_state.h"
#include "torch/zero_partition.h"
#include "unisono/collectives.h"
#include "unisono/context.h"
#include "unisono/detail/bytes.h"
#include "unisono/torch/optimizer.h"
#include "unisono/torch/tensor.h"

namespace unisono {
namespace {

namespace fs = std::filesystem;
using libtorch::CheckpointContents;
using libtorch::CheckpointTable;
using libtorch::StoredShard;
using libtorch::StoredTensor;

struct Named {
  std::string name;
  at::Tensor tensor;
};

/// Returns parameters and buffers, each once, in an order that is the same on all ranks.
std::vector<Named> tensors_of(const torch::nn::Module& model) {
  std::vector<Named> all;
  for (const auto& entry : model.named_parameters()) all.push_back({entry.key(), entry.value()});
  for (const auto& entry : model.named_buffers()) all.push_back({entry.key(), entry.value()});
  std::erase_if(all, [](const Named& each) { return !each.tensor.defined(); });
  return all;
}

/// Returns the state of the processor's generator, followed by that of the device that the model lives on.
at::Tensor generators_of(const std::vector<Named>& model) {
  std::vector<at::Tensor> states;
  const auto add = [&](at::Generator generator) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    states.push_back(generator.get_state());
  };
  add(at::detail::getDefaultCPUGenerator());
  const bool on_device = !model.empty() && model.front().tensor.is_cuda();
  if (on_device) add(at::globalContext().defaultGenerator(model.front().tensor.device()));
  return at::cat(states);
}
void set_generators(const at::Tensor& state, const std::vector<Named>& model) {
  std::int64_t at = 0;
  const auto set = [&](at::Generator generator) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    const std::int64_t n = generator.get_state().numel();
    if (at + n > state.numel()) return;  // saved without this device
    generator.set_state(state.narrow(0, at, n).clone());
    at += n;
  };
  set(at::detail::getDefaultCPUGenerator());
  if (!model.empty() && model.front().tensor.is_cuda()) set(at::globalContext().defaultGenerator(model.front().tensor.device()));
}

DistributedOptimizer* sharded(torch::optim::Optimizer* optimizer) {
  auto* distributed = dynamic_cast<DistributedOptimizer*>(optimizer);
  return distributed != nullptr && distributed->is_sharded() ? distributed : nullptr;
}
/// Returns the wrapped optimizer of a DistributedOptimizer, else the optimizer itself.
torch::optim::Optimizer& core_of(torch::optim::Optimizer& optimizer) {
  auto* distributed = dynamic_cast<DistributedOptimizer*>(&optimizer);
  return distributed != nullptr ? distributed->local() : optimizer;
}

void describe(CheckpointTable& table, torch::optim::Optimizer* optimizer) {
  if (optimizer == nullptr) return;
  table.optimizer_type = libtorch::type_of(core_of(*optimizer));
  table.optimizer_parameters = libtorch::descriptions_of(*optimizer);
}
std::vector<std::int32_t> owners_of(const DistributedOptimizer& optimizer) {
  std::vector<std::int32_t> owners;
  for (const auto& group : optimizer.param_groups()) {
    for (std::size_t i = 0; i < group.params().size(); ++i) owners.push_back(optimizer.owner(owners.size()));
  }
  return owners;
}
void store_optimizer(CheckpointTable& table, std::vector<at::Tensor>& data, const torch::optim::Optimizer& optimizer) {
  const at::Tensor bytes = libtorch::bytes_of(optimizer);
  const auto& core = core_of(const_cast<torch::optim::Optimizer&>(optimizer));  // NOLINT: it is only read
  if (bytes.numel() == 0 && !core.state().empty()) {
    throw InvalidArgument(fmt::format("{} has state but does not write it", libtorch::type_of(core)), {.hint = "override its save and load"});
  }
  libtorch::store("the optimizer's state", bytes, table.optimizer, data);
}

void save_whole(const fs::path& path, const std::vector<Named>& model, torch::optim::Optimizer* optimizer, const TrainingState& state,
                const CheckpointOptions& options, const ProcessGroup& group) {
  if (sharded(optimizer) != nullptr) consolidate_state(*optimizer, 0);
  std::vector<std::vector<std::uint8_t>> generators;
  if (options.generators) {
    const at::Tensor own = generators_of(model);
    const auto* bytes = own.data_ptr<std::uint8_t>();
    generators = gather_object(std::vector<std::uint8_t>(bytes, bytes + own.numel()), 0, group).value_or(generators);
  }
  libtorch::for_all(group, "save_checkpoint", [&] {
    if (group.rank() != 0) return;
    CheckpointTable table{.world_size = group.size(), .state = state};
    std::vector<at::Tensor> data;
    for (const Named& each : model) libtorch::store(each.name, each.tensor, table.model, data);
    for (std::vector<std::uint8_t>& bytes : generators) {
      const auto n = static_cast<std::int64_t>(bytes.size());
      libtorch::store("generators", at::from_blob(bytes.data(), {n}, at::kByte), table.generators, data);
    }
    describe(table, optimizer);
    if (optimizer != nullptr) store_optimizer(table, data, *optimizer);
    libtorch::write_checkpoint(path, table, data);
  });
}

void save_sharded(const fs::path& path, const std::vector<Named>& model, torch::optim::Optimizer* optimizer, const TrainingState& state,
                  const CheckpointOptions& options, const ProcessGroup& group) {
  std::uint64_t generation = 0;
  libtorch::for_all(group, "save_checkpoint", [&] {
    if (group.rank() == 0) generation = libtorch::open_folder(path);
  });
  generation = broadcast(generation, 0, group);
  StoredShard own;
  libtorch::for_all(group, "save_checkpoint", [&] {
    CheckpointTable table{.kind = CheckpointTable::Kind::shard, .generation = generation, .rank = group.rank(), .world_size = group.size()};
    std::vector<at::Tensor> all, data;
    for (const Named& each : model) all.push_back(each.tensor);
    std::vector<int> owners;
    libtorch::share_out(all, group.size(), owners);
    for (std::size_t i = 0; i < model.size(); ++i) {
      if (owners[i] == group.rank()) libtorch::store(model[i].name, model[i].tensor, table.model, data);
    }
    if (options.generators) libtorch::store("generators", generators_of(model), table.generators, data);
    if (DistributedOptimizer* distributed = sharded(optimizer)) {
      table.optimizer_is_share = true;
      store_optimizer(table, data, distributed->local());
    } else if (optimizer != nullptr && group.rank() == 0) {
      store_optimizer(table, data, *optimizer);
    }
    own = libtorch::write_checkpoint(libtorch::shard_path(path, generation, group.rank(), group.size()), table, data);
  });
  const std::vector<StoredShard> shards = all_gather_object(own, group);
  libtorch::for_all(group, "save_checkpoint", [&] {
    if (group.rank() != 0) return;
    CheckpointTable index{.kind = CheckpointTable::Kind::index, .generation = generation, .world_size = group.size(), .shards = shards};
    index.optimizer_is_share = sharded(optimizer) != nullptr;
    if (index.optimizer_is_share) index.optimizer_owners = owners_of(*sharded(optimizer));
    index.state = state;
    describe(index, optimizer);
    libtorch::write_checkpoint(libtorch::index_path(path), index, {});
    libtorch::forget_others(path, generation);
  });
}

[[noreturn]] void differs(const std::string& message, std::string hint = {}) {
  throw InvalidArgument(message, {.operation = "load_checkpoint", .hint = std::move(hint)});
}

/// The contents read from a checkpoint: the first table, which describes it, and the file with this rank's tensors.
struct Reading {
  CheckpointTable first = {};
  CheckpointContents own = {};
  std::vector<std::pair<int, StoredTensor>> model = {};  // with the rank that read it
};

Reading read(const fs::path& path, const ProcessGroup& group) {
  Reading reading;
  libtorch::for_all(group, "load_checkpoint", [&] {
    if (group.rank() != 0) return;
    std::error_code ignored;
    const bool is_folder = fs::is_directory(path, ignored);
    reading.own = libtorch::read_checkpoint(is_folder ? libtorch::index_path(path) : path);
    reading.first = reading.own.table;
    if ((reading.first.kind == CheckpointTable::Kind::index) == is_folder && reading.first.kind != CheckpointTable::Kind::shard) return;
    throw CheckpointError(path, is_folder ? "has no index of its own" : "is one file of a sharded one",
                          {.hint = "name the folder that it was saved to"});
  });
  broadcast_object(reading.first, 0, group);
  const CheckpointTable& first = reading.first;
  if (first.kind == CheckpointTable::Kind::index) {
    if (first.world_size != group.size()) {
      differs(fmt::format("the checkpoint {} was written by {} ranks, and this is a job of {}", path.string(), first.world_size, group.size()),
              "load it with as many ranks, and save it there with sharded = false: that loads with any number");
    }
    libtorch::for_all(group, "load_checkpoint", [&] {
      const fs::path file = libtorch::shard_path(path, first.generation, group.rank(), group.size());
      reading.own = libtorch::read_checkpoint(file);
      const StoredShard& expected = first.shards.at(static_cast<std::size_t>(group.rank()));
      if (reading.own.file.bytes != expected.bytes || reading.own.file.checksum != expected.checksum) {
        throw CheckpointError(file, "is not the one that the index speaks of");
      }
    });
    const auto tables = all_gather_object(reading.own.table.model, group);
    for (std::size_t r = 0; r < tables.size(); ++r) {
      for (const StoredTensor& entry : tables[r]) reading.model.emplace_back(static_cast<int>(r), entry);
    }
  } else {
    for (const StoredTensor& entry : first.model) reading.model.emplace_back(0, entry);
  }
  return reading;
}

std::string described(std::int32_t dtype, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} {}", c10::toString(static_cast<at::ScalarType>(dtype)), c10::str(at::IntArrayRef(shape)));
}

/// Returns the entries in the order of the model's tensors.
std::vector<std::pair<int, StoredTensor>> match(const fs::path& path, const Reading& reading, const std::vector<Named>& model) {
  std::vector<std::pair<int, StoredTensor>> matched;
  for (const Named& each : model) {
    const auto at = std::ranges::find_if(reading.model, [&](const auto& entry) { return entry.second.name == each.name; });
    if (at == reading.model.end()) differs(fmt::format("the model has {}, and the checkpoint {} has not", each.name, path.string()));
    const StoredTensor& entry = at->second;
    if (entry.dtype != static_cast<std::int32_t>(each.tensor.scalar_type()) || entry.shape != each.tensor.sizes().vec()) {
      differs(fmt::format("{} is {} in the checkpoint {}, and {} in the model", each.name, described(entry.dtype, entry.shape), path.string(),
                          described(static_cast<std::int32_t>(each.tensor.scalar_type()), each.tensor.sizes().vec())));
    }
    if (entry.bytes != each.tensor.nbytes()) throw CheckpointError(path, fmt::format("is damaged: {} has {} bytes", each.name, entry.bytes));
    matched.push_back(*at);
  }
  for (const auto& [rank, entry] : reading.model) {
    if (std::ranges::none_of(model, [&](const Named& each) { return each.name == entry.name; })) {
      differs(fmt::format("the checkpoint {} has {}, and the model has not", path.string(), entry.name));
    }
  }
  return matched;
}

void match_optimizer(const fs::path& path, const CheckpointTable& table, torch::optim::Optimizer* optimizer) {
  if (optimizer == nullptr) return;
  if (table.optimizer_type.empty()) differs(fmt::format("the checkpoint {} has no optimizer", path.string()), "load it without one");
  const std::string type = libtorch::type_of(core_of(*optimizer));
  if (type != table.optimizer_type)
    differs(fmt::format("the optimizer is {}, and that of the checkpoint {} is {}", type, path.string(), table.optimizer_type));
  if (table.optimizer_is_share && sharded(optimizer) == nullptr) {
    differs(fmt::format("the checkpoint {} holds the shares of an optimizer with sharded state, and this one's is not", path.string()),
            "make it with auto_optim(…, {.shard_state = true})");
  }
  const std::vector<std::string> own = libtorch::descriptions_of(*optimizer);
  const auto [ours, theirs] = std::ranges::mismatch(own, table.optimizer_parameters);
  if (ours == own.end() && theirs == table.optimizer_parameters.end()) {
    // A parameter added later by add_param_group went to the rank with the least bytes at that time, so the owners may differ.
    if (!table.optimizer_is_share || owners_of(*sharded(optimizer)) == table.optimizer_owners) return;
    differs(fmt::format("the optimizer's state is shared out in another way than that of the checkpoint {}", path.string()),
            "give it its parameter groups in the same way: at once, or one after the other");
  }
  differs(fmt::format("the optimizer has {}, and that of the checkpoint {} has {}", ours == own.end() ? "no more parameters" : *ours, path.string(),
                      theirs == table.optimizer_parameters.end() ? "no more parameters" : *theirs));
}

}  // namespace

void detail::save_training(const fs::path& path, const torch::nn::Module& model, torch::optim::Optimizer* optimizer, const TrainingState& state,
                           const CheckpointOptions& options) {
  const ProcessGroup group = options.group ? *options.group : world();
  const at::NoGradGuard no_grad;
  const std::vector<Named> tensors = tensors_of(model);
  if (options.sharded) save_sharded(path, tensors, optimizer, state, options, group);
  else save_whole(path, tensors, optimizer, state, options, group);
}

TrainingState detail::load_training(const fs::path& path, const torch::nn::Module& model, torch::optim::Optimizer* optimizer,
                                    const CheckpointOptions& options) {
  const ProcessGroup group = options.group ? *options.group : world();
  const at::NoGradGuard no_grad;
  const std::vector<Named> tensors = tensors_of(model);
  const Reading reading = read(path, group);
  const CheckpointTable& table = reading.first;
  std::vector<std::pair<int, StoredTensor>> entries;
  libtorch::for_all(group, "load_checkpoint", [&] {
    entries = match(path, reading, tensors);
    match_optimizer(path, table, optimizer);
  });

  // All values are read before anything is changed.
  std::vector<at::Tensor> values;
  for (const auto& [owner, entry] : entries) {
    values.push_back(group.rank() == owner ? reading.own.bytes_of(entry) : at::empty({static_cast<std::int64_t>(entry.bytes)}, at::kByte));
    broadcast(values.back(), owner, group);
  }
  at::Tensor optimizer_bytes;
  if (optimizer != nullptr) {
    if (!reading.own.table.optimizer.empty()) optimizer_bytes = reading.own.bytes_of(reading.own.table.optimizer.front());
    if (!table.optimizer_is_share) optimizer_bytes = libtorch::broadcast_bytes(optimizer_bytes, 0, group);
  }
  at::Tensor generators;
  if (options.generators && table.world_size == group.size()) {
    const std::vector<StoredTensor>& own = reading.own.table.generators;
    if (table.kind == CheckpointTable::Kind::index) {
      if (!own.empty()) generators = reading.own.bytes_of(own.front());
    } else if (!table.generators.empty()) {
      for (std::size_t r = 0; r < table.generators.size(); ++r) {
        const at::Tensor state = libtorch::broadcast_bytes(group.rank() == 0 ? reading.own.bytes_of(table.generators[r]) : at::Tensor(), 0, group);
        if (static_cast<int>(r) == group.rank()) generators = state;
      }
    }
  }
  libtorch::for_all(group, "load_checkpoint", [&] {
    if (optimizer != nullptr && table.optimizer_is_share) {
      torch::serialize::InputArchive archive;
      archive.load_from(static_cast<const char*>(optimizer_bytes.data_ptr()), static_cast<std::size_t>(optimizer_bytes.numel()),
                        tensors.empty() ? at::Device(at::kCPU) : tensors.front().tensor.device());
      sharded(optimizer)->load_local(archive);
    } else if (optimizer != nullptr) {
      libtorch::load_bytes(*optimizer, optimizer_bytes);
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor& tensor = tensors[i].tensor;
      if (tensor.numel() == 0) continue;
      tensor.copy_(values[i].clone().view(tensor.scalar_type()).view(tensor.sizes()));
    }
    if (generators.defined()) set_generators(generators, tensors);
  });
  return table.state;
}

bool checkpoint_exists(const fs::path& path, const CheckpointOptions& options) {
  const ProcessGroup group = options.group ? *options.group : world();
  std::error_code ignored;
  return broadcast(static_cast<std::uint8_t>(group.rank() == 0 && fs::exists(path, ignored)), 0, group) != 0;
}

}  // namespace unisono
