#include "unisono/torch/compression.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "unisono/collectives.h"
#include "unisono/context.h"
#include "unisono/error.h"
#include "unisono/torch/memory.h"
#include "unisono/torch/tensor.h"
#include "unisono/work.h"

namespace unisono {
namespace {

/// The state of one parameter between two steps.
struct Memory {
  at::Tensor error;  // n x m
  at::Tensor right;  // m x rank, the same on all ranks
};

/// A gradient to be compressed: M is approximated by P Q^T.
struct Matrix {
  std::size_t parameter;
  at::Tensor gradient;               // lies in the bucket
  at::Tensor whole = {};             // M, n x m, with the error of the last step added
  at::Tensor left = {}, right = {};  // P: n x rank, Q: m x rank; views of the memory to be sent
};

/// Several tensors of one dtype that are averaged in one operation.
struct Sent {
  explicit Sent(const at::TensorOptions& o) : options(o) {}
  at::Tensor place(at::IntArrayRef sizes) {
    places.push_back(at::empty({0}, options));
    shapes.emplace_back(sizes.vec());
    elements += c10::multiply_integers(sizes);
    return places.back();
  }
  void allocate() {
    flat = options.device().is_cpu() ? empty_shared({elements}, options) : at::empty({elements}, options);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::int64_t n = c10::multiply_integers(shapes[i]);
      places[i].set_(flat.narrow(0, offset, n).view(shapes[i]));
      offset += n;
    }
  }
  void start(const ProcessGroup& group) {
    work = all_reduce_async(flat, ReduceOp::avg, group);
    work.on_completion([kept = flat] {});
  }
  at::TensorOptions options;
  std::vector<at::Tensor> places;
  std::vector<std::vector<std::int64_t>> shapes;
  std::int64_t elements = 0;
  at::Tensor flat;
  Work work;
};

/// Makes the columns orthonormal, by Gram-Schmidt with each projection taken twice. The order is fixed and the numbers are doubles, so that all ranks
/// get the same bits. A column that depends on earlier ones becomes zero.
void orthogonalize(const at::Tensor& matrix) {
  const at::Tensor columns = matrix.to(at::kCPU, at::kDouble).t().contiguous();  // a row each
  const std::int64_t count = columns.size(0), length = columns.size(1);
  auto* data = columns.mutable_data_ptr<double>();
  const auto dot = [length](const double* a, const double* b) {
    double sum = 0;
    for (std::int64_t i = 0; i < length; ++i) sum += a[i] * b[i];
    return sum;
  };
  for (std::int64_t c = 0; c < count; ++c) {
    double* column = data + c * length;
    const double before = std::sqrt(dot(column, column));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t k = 0; k < c; ++k) {
        const double* other = data + k * length;
        const double share = dot(column, other);
        for (std::int64_t i = 0; i < length; ++i) column[i] -= share * other[i];
      }
    }
    const double norm = std::sqrt(dot(column, column));
    const double scale = norm > before * 1e-10 ? 1 / norm : 0;
    for (std::int64_t i = 0; i < length; ++i) column[i] *= scale;
  }
  matrix.copy_(columns.t());
}

class PowerSgd : public std::enable_shared_from_this<PowerSgd> {
 public:
  explicit PowerSgd(const PowerSgdOptions& options) : options_(options) {}

  Compression::Finish start(const GradientBucket& bucket, const ProcessGroup& group) {
    const std::int64_t iteration = iteration_;
    if (bucket.is_last) ++iteration_;
    const at::ScalarType dtype = bucket.buffer.scalar_type();
    if (iteration < options_.start_iteration || !(at::isFloatingType(dtype))) return whole(bucket, group);

    const auto options = bucket.buffer.options().dtype(dtype == at::kDouble ? at::kDouble : at::kFloat);
    auto step = std::make_shared<Step>(options);
    for (std::size_t i = 0; i < bucket.gradients.size(); ++i) add(*step, bucket.parameters[i], bucket.gradients[i], iteration);
    step->lefts.allocate();
    step->as_they_are.allocate();
    for (std::size_t i = 0; i < step->small.size(); ++i) step->as_they_are.places[i].copy_(step->small[i]);
    for (std::size_t i = 0; i < step->matrices.size(); ++i) {
      Matrix& matrix = step->matrices[i];
      matrix.left = step->lefts.places[i];
      at::mm_out(matrix.left, matrix.whole, matrix.right);
    }
    step->lefts.start(group);
    step->as_they_are.start(group);
    return [self = shared_from_this(), step, group] { self->finish(*step, group); };
  }

 private:
  struct Step {
    explicit Step(const at::TensorOptions& options) : lefts(options), rights(options), as_they_are(options) {}
    Sent lefts, rights, as_they_are;
    std::vector<Matrix> matrices;
    std::vector<at::Tensor> small;
  };

  static Compression::Finish whole(const GradientBucket& bucket, const ProcessGroup& group) {
    Work work = all_reduce_async(bucket.buffer, ReduceOp::avg, group);
    work.on_completion([kept = bucket.buffer] {});
    return [work]() mutable { work.wait(); };
  }

  void add(Step& step, std::size_t parameter, const at::Tensor& gradient, std::int64_t iteration) {
    const std::int64_t n = gradient.dim() > 1 ? gradient.size(0) : 1;
    const std::int64_t m = n > 0 ? gradient.numel() / n : 0;
    const auto rank = std::min<std::int64_t>({n, m, options_.rank});
    const bool shrinks = static_cast<double>((n + m) * rank) * options_.min_compression_rate <= static_cast<double>(n * m);
    if (gradient.dim() < 2 || gradient.numel() == 0 || !shrinks) {
      step.small.push_back(gradient);
      step.as_they_are.place(gradient.sizes());
      return;
    }
    Memory& memory = memories_[parameter];
    Matrix matrix{.parameter = parameter, .gradient = gradient};
    matrix.whole = gradient.reshape({n, m}).to(step.lefts.options.dtype(), /*non_blocking=*/false, /*copy=*/true);
    if (memory.error.defined()) matrix.whole.add_(memory.error);
    matrix.right = memory.right;
    if (!options_.warm_start || !matrix.right.defined()) matrix.right = at::zeros({m, rank}, step.lefts.options);
    renew(matrix.right, parameter, iteration);
    step.lefts.place({n, rank});
    step.rights.place({m, rank});
    step.matrices.push_back(std::move(matrix));
  }

  /// Replaces columns that are zero, which carry no information, by random ones that are the same on all ranks.
  void renew(const at::Tensor& right, std::size_t parameter, std::int64_t iteration) const {
    const at::Tensor empty = right.abs().amax(0, true).eq(0);
    if (!empty.any().item<bool>()) return;
    constexpr std::uint64_t mix_seed = 0x9E3779B97F4A7C15U, mix_parameter = 0xBF58476D1CE4E5B9U;  // the constants of SplitMix64
    const std::uint64_t seed = options_.seed * mix_seed + parameter * mix_parameter + static_cast<std::uint64_t>(iteration);
    const at::Tensor random = at::randn(right.sizes(), at::detail::createCPUGenerator(seed), at::TensorOptions(at::kFloat));
    right.copy_(at::where(empty, random.to(right.options()), right));
  }

  void finish(Step& step, const ProcessGroup& group) {
    step.lefts.work.wait();
    step.rights.allocate();
    for (std::size_t i = 0; i < step.matrices.size(); ++i) {
      Matrix& matrix = step.matrices[i];
      orthogonalize(matrix.left);
      matrix.right = step.rights.places[i];
      at::mm_out(matrix.right, matrix.whole.t(), matrix.left);
    }
    step.rights.start(group);
    step.as_they_are.work.wait();
    for (std::size_t i = 0; i < step.small.size(); ++i) step.small[i].copy_(step.as_they_are.places[i]);
    step.rights.work.wait();
    for (Matrix& matrix : step.matrices) {
      const at::Tensor average = matrix.left.mm(matrix.right.t());
      matrix.gradient.copy_(average.view(matrix.gradient.sizes()));
      Memory& memory = memories_[matrix.parameter];
      if (options_.use_error_feedback) memory.error = matrix.whole.sub_(average);
      if (options_.warm_start) memory.right = matrix.right.clone();
    }
  }

  const PowerSgdOptions options_;
  std::int64_t iteration_ = 0;
  std::unordered_map<std::size_t, Memory> memories_;  // by parameter, because the buckets change after the first pass
};

/// Implements algorithms 1 and 2 of Vogels, Karimireddy, Jaggi: PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization,
/// NeurIPS 2019.
Compression::Hook power_sgd_hook(const PowerSgdOptions& options) {
  return
      [state = std::make_shared<PowerSgd>(options)](const GradientBucket& bucket, const ProcessGroup& group) { return state->start(bucket, group); };
}

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
          [options] { return power_sgd_hook(options); }};
}

Compression::Hook Compression::make_hook() const { return make_ ? make_() : Hook(); }

}  // namespace unisono
