#include "unisono/torch/compression.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "power_sgd.h"
#include "unisono/collectives.h"
#include "unisono/context.h"
#include "unisono/error.h"
#include "unisono/torch/memory.h"
#include "unisono/torch/tensor.h"
#include "unisono/work.h"

namespace unisono {
namespace {

bool pays(Compression::Where where, const at::Tensor& buffer) {
  if (where == Compression::Where::everywhere || !buffer.is_cpu() || nnodes() > 1) return true;
  if (rank() == 0) {
    TORCH_WARN_ONCE(
        "unisono: the gradients travel uncompressed, since all ranks are on one host, where making them narrower takes longer than it saves; "
        "Compression::Where::everywhere compresses them there as well");
  }
  return false;
}

/// Returns a hook that sends the bucket as `dtype` where that is smaller.
Compression::Hook narrowed(at::ScalarType dtype, Compression::Where where) {
  return [dtype, where](const GradientBucket& bucket, const ProcessGroup& group) -> Compression::Finish {
    const at::ScalarType own = bucket.buffer.scalar_type();
    const bool narrow = (own == at::kFloat || own == at::kDouble) && pays(where, bucket.buffer);
    at::Tensor sent = bucket.buffer;
    if (narrow) {
      const auto options = bucket.buffer.options().dtype(dtype);
      sent = options.device().is_cpu() ? empty_shared(bucket.buffer.sizes(), options) : at::empty(bucket.buffer.sizes(), options);
      sent.copy_(bucket.buffer);
    }
    Work work = all_reduce_async(sent, ReduceOp::avg, group);
    work.on_completion([sent] {});  // keeps the tensor until the operation is done
    return [buffer = bucket.buffer, sent, narrow, work]() mutable {
      work.wait();
      if (narrow) buffer.copy_(sent);
    };
  };
}

std::string name_of(const char* dtype, Compression::Where where) {
  return where == Compression::Where::everywhere ? fmt::format("{} everywhere", dtype) : dtype;
}

}  // namespace

Compression::Compression() : name_("none") {}

Compression::Compression(std::string name, std::function<Hook()> make) : name_(std::move(name)), make_(std::move(make)) {}

Compression Compression::float16(Where where) {
  return {name_of("float16", where), [where] { return narrowed(at::kHalf, where); }};
}

Compression Compression::bfloat16(Where where) {
  return {name_of("bfloat16", where), [where] { return narrowed(at::kBFloat16, where); }};
}

Compression Compression::power_sgd(const PowerSgdOptions& options) {
  const auto refuse = [](const std::string& what) { throw InvalidArgument(what, {.operation = "Compression::power_sgd"}); };
  if (options.rank < 1) refuse(fmt::format("factors of rank {}", options.rank));
  if (options.start_iteration < 0) refuse(fmt::format("a start at iteration {}", options.start_iteration));
  if (!(options.min_compression_rate > 0)) refuse(fmt::format("a compression rate of {}", options.min_compression_rate));
  return {fmt::format("PowerSGD of rank {} from iteration {}, rate {}, error feedback {}, warm start {}, seed {}", options.rank,
                      options.start_iteration, options.min_compression_rate, options.use_error_feedback, options.warm_start, options.seed),
          [options] { return libtorch::power_sgd_hook(options); }};
}

Compression::Hook Compression::make_hook() const { return make_ ? make_() : Hook(); }

}  // namespace unisono
