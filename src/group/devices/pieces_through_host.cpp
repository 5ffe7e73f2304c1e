#include "group/devices/device_memory_task.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "group/calls/check.h"
#include "group/calls/packing.h"
#include "group/devices/device_group.h"

namespace unisono::group {
namespace {

using Direction = HostStaging::Direction;

// A copy that is much shorter costs as much as its beginning; a longer piece leaves the others idle at the begin and the end, and the caches.
constexpr std::size_t least_piece = std::size_t{256} << 10, largest_piece = std::size_t{2} << 20, pieces_of_short_calls = 4;

/// The elements of a call on one side, as they lie: `blocks` blocks of `call.count` elements, one behind the other.
struct Side {
  TensorView view;
  std::size_t blocks;
  bool is_copied;  // to the host, or from there
};

class PiecesThroughHost final : public DeviceTask {
 public:
  PiecesThroughHost(DeviceGroup& group, const CollectiveCall& call, LastOnDevice last)
      : DeviceTask(group, {call.in}, {call.out}, std::move(last)),
        call_(call),
        in_{call.in, blocks_of(traits_of(call.operation).in), takes_part(traits_of(call.operation).senders, call.root == group.rank())},
        out_{call.out, blocks_of(traits_of(call.operation).out), takes_part(traits_of(call.operation).receivers, call.root == group.rank())},
        is_in_place_(call.in.data() == call.out.data() && call.in.numel() == call.out.numel()) {
    call_.device.reset();
    if (call.operation == Operation::broadcast && is_in_place_ && call.root == group.rank()) out_.is_copied = false;
    if (call.operation == Operation::exscan && group.rank() == 0) out_.is_copied = false;  // it gets nothing
    const std::size_t unit = size_of(call.in.dtype()) * std::max(in_.blocks, out_.blocks);
    const std::size_t piece = std::clamp(call.count * unit / pieces_of_short_calls, least_piece, largest_piece);
    of_piece_ = std::clamp<std::size_t>(piece / unit, 1, std::max<std::size_t>(call.count, 1));
    pieces_ = std::max<std::size_t>((call.count + of_piece_ - 1) / of_piece_, 1);
    room_ = of_piece_ * unit;
  }

  bool advance() override {
    return attribution_.guard([&] {
      if (!is_begun_ && !begin()) return false;
      while (step()) {
      }
      return written_ == pieces_;
    });
  }
  bool wakes_waiter() const override { return task_ && task_->wakes_waiter(); }

 private:
  std::size_t blocks_of(Layout layout) const { return layout == Layout::blocks ? static_cast<std::size_t>(group_.size()) : 1; }
  HostStaging& staging() const { return group_.staging(*runtime_); }
  /// A rank that gives nothing, or gets nothing, has memory on one side alone.
  Device device() const { return is_on_device(in_.view) ? in_.view.device() : out_.view.device(); }

  bool begin() {
    if (pieces_ > 1 && group_.size() > 1 && !is_agreed_) {
      if (!task_) {
        terms_ = schedule::device_terms(call_);
        task_ = group_.core().executor().start(schedule::agreement_on(call_, terms_));
      }
      if (!task_->advance()) return false;
      task_.reset();
      is_agreed_ = true;
    }
    if (!staging().is_idle()) return false;
    staging().reserve(room_);
    // What is copied back comes after the exchange, which comes after what is copied here.
    const Direction first = in_.is_copied && call_.in.numel() > 0 ? Direction::to_host : Direction::to_device;
    for (const auto& event : after()) event->order(staging().stream(device(), first).handle());
    is_begun_ = true;
    return true;
  }

  /// Goes on with whatever can go on; returns false where nothing can.
  bool step() {
    bool any = false;
    if (read_ < pieces_ && read_ < written_ + HostStaging::slots) {
      reads_[slot(read_)] = copy(read_, Direction::to_host);
      ++read_;
      any = true;
    }
    if (!task_ && exchanged_ < read_ && is_reached(reads_[slot(exchanged_)])) task_ = exchange(exchanged_);
    if (task_ && task_->advance()) {
      task_.reset();
      writes_[slot(exchanged_)] = copy(exchanged_, Direction::to_device);
      ++exchanged_;
      any = true;
    }
    if (written_ < exchanged_ && is_reached(writes_[slot(written_)])) {
      ++written_;
      any = true;
    }
    return any;
  }
  static std::size_t slot(std::size_t piece) { return piece % HostStaging::slots; }
  static bool is_reached(const std::shared_ptr<DeviceEvent>& event) { return !event || event->reached(); }
  std::size_t length(std::size_t piece) const { return std::min(of_piece_, call_.count - std::min(call_.count, piece * of_piece_)); }
  std::byte* memory(std::size_t piece, Direction direction) const {
    return staging().memory(slot(piece), is_in_place_ ? Direction::to_host : direction);
  }

  /// Puts the copies of a piece on the stream of their direction; returns their end, null where there are none.
  std::shared_ptr<DeviceEvent> copy(std::size_t piece, Direction direction) {
    const Side& side = direction == Direction::to_host ? in_ : out_;
    const std::size_t element = size_of(call_.in.dtype()), bytes = length(piece) * element;
    if (!side.is_copied || side.view.numel() == 0 || bytes == 0) return nullptr;
    DeviceStream& stream = staging().stream(device(), direction);
    for (std::size_t block = 0; block < side.blocks; ++block) {
      std::byte* const there = static_cast<std::byte*>(side.view.data()) + (block * call_.count + piece * of_piece_) * element;
      std::byte* const here = memory(piece, direction) + block * bytes;
      const bool to_host = direction == Direction::to_host;
      stream.copy({.to = to_host ? here : there, .from = to_host ? there : here, .bytes = bytes});
    }
    return staging().end(device(), direction);
  }
  /// Starts the exchange of a piece among the ranks.
  std::unique_ptr<Task> exchange(std::size_t piece) {
    const auto view = [&](const Side& side, Direction direction) {
      if (side.view.numel() == 0) return TensorView(nullptr, side.view.dtype(), std::size_t{0});
      return TensorView(memory(piece, direction), side.view.dtype(), side.blocks * length(piece));
    };
    CollectiveCall part = call_;
    part.count = length(piece);
    part.in = view(in_, Direction::to_host);
    part.out = view(out_, Direction::to_device);
    const auto product = product_of(part);
    return packed_task(group_.core(), part, product);
  }

  CollectiveCall call_;
  Side in_, out_;
  bool is_in_place_;
  std::size_t of_piece_ = 1, pieces_ = 1, room_ = 0;  // elements of a block in a piece, and the bytes of a piece
  std::string terms_;
  bool is_agreed_ = false, is_begun_ = false;
  std::size_t read_ = 0, exchanged_ = 0, written_ = 0;  // pieces
  std::array<std::shared_ptr<DeviceEvent>, HostStaging::slots> reads_, writes_;
};

}  // namespace

bool goes_in_pieces(const CollectiveCall& call, const detail::Request& request) {
  return !request.on_host && !request.lists && !has_counts(call.operation) && !sizes_its_output(request);
}

std::unique_ptr<Task> pieces_through_host(DeviceGroup& group, const CollectiveCall& call, LastOnDevice last) {
  return std::make_unique<PiecesThroughHost>(group, call, std::move(last));
}

}  // namespace unisono::group
