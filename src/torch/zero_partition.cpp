#include "torch/zero_partition.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "unisono/collectives_v.h"
#include "unisono/torch/memory.h"
#include "unisono/torch/tensor.h"

namespace unisono::libtorch {

void share_out(const std::vector<at::Tensor>& parameters, int ranks, std::vector<int>& owners) {
  std::vector<std::size_t> load(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < owners.size(); ++i) load[static_cast<std::size_t>(owners[i])] += parameters[i].nbytes();
  std::vector<std::size_t> fresh(parameters.size() - owners.size());
  std::iota(fresh.begin(), fresh.end(), owners.size());
  std::ranges::stable_sort(fresh, [&](std::size_t a, std::size_t b) { return parameters[a].nbytes() > parameters[b].nbytes(); });
  owners.resize(parameters.size());
  for (const std::size_t i : fresh) {
    const auto least = std::ranges::min_element(load);
    owners[i] = static_cast<int>(least - load.begin());
    *least += parameters[i].nbytes();
  }
}

namespace {

/// Allocates one block of memory for each device, which all its buckets use in turn.
void give_memory(std::vector<ZeroBucket>& buckets) {
  const auto elements = [](const ZeroBucket& bucket) {
    return static_cast<std::int64_t>(std::accumulate(bucket.counts.begin(), bucket.counts.end(), std::size_t{0}));
  };
  std::map<std::string, std::int64_t> bytes;
  for (const ZeroBucket& bucket : buckets) {
    const at::Tensor& first = bucket.parameters.front();
    std::int64_t& most = bytes[first.device().str()];
    most = std::max(most, elements(bucket) * static_cast<std::int64_t>(first.element_size()));
  }
  std::map<std::string, at::Tensor> memory;
  for (ZeroBucket& bucket : buckets) {
    const at::Tensor& first = bucket.parameters.front();
    at::Tensor& whole = memory[first.device().str()];
    if (!whole.defined()) {
      const std::int64_t n = bytes[first.device().str()];
      whole = first.is_cpu() ? empty_shared({n}, at::kByte) : at::empty({n}, first.options().dtype(at::kByte).requires_grad(false));
    }
    bucket.flat = whole.narrow(0, 0, elements(bucket) * static_cast<std::int64_t>(first.element_size())).view(first.scalar_type());
  }
}

}  // namespace

std::vector<ZeroBucket> buckets_of(const std::vector<at::Tensor>& parameters, const std::vector<int>& owners, int ranks, std::size_t bucket_bytes) {
  const auto n = static_cast<std::size_t>(ranks);
  // The parameters that can share a buffer, for each rank in order.
  std::map<std::pair<at::ScalarType, std::string>, std::vector<std::vector<std::size_t>>> kinds;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].numel() == 0) continue;
    auto& of_ranks = kinds[{parameters[i].scalar_type(), parameters[i].device().str()}];
    of_ranks.resize(n);
    of_ranks[static_cast<std::size_t>(owners[i])].push_back(i);
  }
  std::vector<ZeroBucket> buckets;
  for (const auto& [kind, of_ranks] : kinds) {
    std::vector<std::size_t> next(n);
    const auto left = [&] {
      for (std::size_t r = 0; r < n; ++r) {
        if (next[r] < of_ranks[r].size()) return true;
      }
      return false;
    };
    while (left()) {
      ZeroBucket& bucket = buckets.emplace_back();
      bucket.counts.resize(n);
      for (std::size_t r = 0; r < n; ++r) {
        for (std::size_t bytes = 0; next[r] < of_ranks[r].size(); ++next[r]) {
          const at::Tensor& parameter = parameters[of_ranks[r][next[r]]];
          if (bytes > 0 && bytes + parameter.nbytes() > bucket_bytes / n) break;
          bytes += parameter.nbytes();
          bucket.counts[r] += static_cast<std::size_t>(parameter.numel());
          bucket.parameters.push_back(parameter);
        }
      }
    }
  }
  give_memory(buckets);
  return buckets;
}

void exchange(const std::vector<ZeroBucket>& buckets, const ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  for (const ZeroBucket& bucket : buckets) {
    const Counts counts(bucket.counts);
    const auto own = static_cast<std::int64_t>(counts.before(static_cast<std::size_t>(group.rank())));
    const auto own_end = own + static_cast<std::int64_t>(counts[static_cast<std::size_t>(group.rank())]);
    const at::Tensor& flat = bucket.flat;
    const auto each = [&](auto&& f) {
      std::int64_t at = 0;
      for (const at::Tensor& parameter : bucket.parameters) {
        f(parameter, flat.narrow(0, at, parameter.numel()).view(parameter.sizes()), at >= own && at < own_end);
        at += parameter.numel();
      }
    };
    each([](const at::Tensor& parameter, const at::Tensor& place, bool is_own) {
      if (is_own) place.copy_(parameter);
    });
    all_gather_v(flat.narrow(0, own, own_end - own), flat, counts, group);
    each([](const at::Tensor& parameter, const at::Tensor& place, bool is_own) {
      if (!is_own) parameter.copy_(place);
    });
  }
}

}  // namespace unisono::libtorch
