#include "recorder/call_ring.h"

#include <cstddef>

#include "recorder/trace_file.h"

namespace unisono::recorder {

CallRing::CallRing(RecordHeader& header, int trace, std::atomic<std::uint32_t>& size, std::uint32_t most, CallEntry* entries)
    : header_(header), trace_(trace), said_(size), most_(most), entries_(entries), size_(trace >= 0 ? trace_chunk : most) {
  said_.store(size_);
}

void CallRing::extend() noexcept {
  header_.note_clock();
  const auto* const end = reinterpret_cast<const std::byte*>(entries_ + size_);
  const bool grows = trace_ >= 0 && size_ < most_ &&
                     get_space(trace_, static_cast<std::size_t>(end - reinterpret_cast<const std::byte*>(&header_)), trace_chunk * sizeof(CallEntry));
  if (grows) {
    size_ += trace_chunk;
    said_.store(size_, std::memory_order_release);
    return;
  }
  trace_ = -1;
  position_ = 0;
}

}  // namespace unisono::recorder
