#include "group/calls/packing.h"

#include "kernels/pack.h"

namespace unisono {
detail::PrologueEpilogue::~PrologueEpilogue() = default;
}  // namespace unisono

namespace unisono::group {
namespace {

TensorView line_over(std::vector<std::byte>& memory, const TensorView& like) {
  return {memory.data(), like.dtype(), static_cast<std::size_t>(like.numel())};
}

class PackedCollective final : public Task {
 public:
  PackedCollective(GroupCore& core, const CollectiveCall& call, std::shared_ptr<detail::PrologueEpilogue> edges)
      : core_(core), call_(call), edges_(std::move(edges)) {}
  bool advance() override {
    if (!task_) {  // not before its turn: an earlier operation may be about to fill its input
      packing_.emplace(call_, edges_.get());
      task_ = start_collective(core_, call_);
    }
    if (!task_->advance()) return false;
    packing_->finish();
    return true;
  }
  std::vector<int> waiting_for() const override { return task_ ? task_->waiting_for() : std::vector<int>{}; }
  bool wakes_waiter() const override { return !task_ || task_->wakes_waiter(); }

 private:
  GroupCore& core_;
  CollectiveCall call_;
  std::shared_ptr<detail::PrologueEpilogue> edges_;
  std::optional<Packing> packing_;
  std::unique_ptr<Task> task_;
};

class PackedMessage final : public Task {
 public:
  PackedMessage(GroupCore& core, const MessageCall& call, bool sends) : target_(call.data), sends_(sends), memory_(call.data.bytes()) {
    MessageCall packed = call;
    packed.data = line_over(memory_, call.data);
    if (sends) kernels::pack(memory_.data(), call.data);
    task_ = sends ? core.start_send(packed) : core.start_recv(packed);
  }
  bool advance() override {
    if (!task_->advance()) return false;
    if (!sends_) kernels::unpack(target_, memory_.data());
    return true;
  }
  std::vector<int> waiting_for() const override { return task_->waiting_for(); }
  bool any_will_do() const override { return task_->any_will_do(); }
  bool wakes_waiter() const override { return task_->wakes_waiter(); }
  Arrival arrival() const override { return task_->arrival(); }
  bool detach() override { return true; }  // the task sends from its own memory
  bool cancel() override { return !sends_ && task_->cancel(); }
  std::string remark() const override { return task_->remark(); }

 private:
  TensorView target_;
  bool sends_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Task> task_;
};

template <class T, class Factor>
void multiply(std::byte* memory, std::size_t n, Factor factor) {
  T* x = reinterpret_cast<T*>(memory);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(x[i] * factor);
}

void multiply(std::byte* memory, const TensorView& like, double factor) {
  const auto n = static_cast<std::size_t>(like.numel());
  switch (like.dtype()) {
    case DType::float16: return multiply<float16>(memory, n, static_cast<float>(factor));
    case DType::bfloat16: return multiply<bfloat16>(memory, n, static_cast<float>(factor));
    case DType::float32: return multiply<float>(memory, n, static_cast<float>(factor));
    case DType::complex64: return multiply<float>(memory, 2 * n, static_cast<float>(factor));
    case DType::complex128: return multiply<double>(memory, 2 * n, factor);
    default: return multiply<double>(memory, n, factor);
  }
}

/// The product of this rank's input and the factor, in memory of its own.
class Multiplied final : public detail::PrologueEpilogue {
 public:
  Multiplied(const TensorView& in, double factor) : in_(in), factor_(factor), memory_(in.bytes()) {}
  TensorView product() { return line_over(memory_, in_); }
  void prologue() override {
    take(memory_.data(), in_);
    const detail::FixedFloatingPoint fixed;
    multiply(memory_.data(), in_, factor_);
  }
  void epilogue() override {}
  std::string_view terms() const override { return {}; }

 private:
  TensorView in_;
  double factor_;
  std::vector<std::byte> memory_;
};

}  // namespace

std::shared_ptr<detail::PrologueEpilogue> product_of(CollectiveCall& call) {
  if (!call.factor || call.in.device().type != Device::Type::cpu) return nullptr;
  auto multiplied = std::make_shared<Multiplied>(call.in, *call.factor);
  call.in = multiplied->product();
  call.factor.reset();
  return multiplied;
}

Packing::Packing(CollectiveCall& call, detail::PrologueEpilogue* edges) : edges_(edges) {
  if (edges != nullptr) edges->prologue();
  if (call.in.is_contiguous() && call.out.is_contiguous()) [[likely]]
    return;
  const bool in_place = call.in.data() == call.out.data() && call.in.numel() == call.out.numel();
  if (!call.in.is_contiguous()) {
    in_.resize(call.in.bytes());
    kernels::pack(in_.data(), call.in);
  }
  if (!call.out.is_contiguous()) {
    target_ = call.out;
    if (in_place) {
      call.out = line_over(in_, call.out);
    } else {
      // A rank that gets no result must find its memory unchanged.
      out_.resize(call.out.bytes());
      kernels::pack(out_.data(), call.out);
      call.out = line_over(out_, call.out);
    }
    result_ = static_cast<const std::byte*>(call.out.data());
  }
  if (!call.in.is_contiguous()) call.in = line_over(in_, call.in);
}

void Packing::finish() {
  if (target_) kernels::unpack(*target_, result_);
  if (edges_ != nullptr) edges_->epilogue();
}

std::unique_ptr<Task> packed_task(GroupCore& core, const CollectiveCall& call, const std::shared_ptr<detail::PrologueEpilogue>& edges) {
  if (call.in.is_contiguous() && call.out.is_contiguous() && !edges) return start_collective(core, call);
  return std::make_unique<PackedCollective>(core, call, edges);
}

std::unique_ptr<Task> packed_task(GroupCore& core, const MessageCall& call, bool sends) {
  if (call.data.is_contiguous()) return sends ? core.start_send(call) : core.start_recv(call);
  return std::make_unique<PackedMessage>(core, call, sends);
}

}  // namespace unisono::group
