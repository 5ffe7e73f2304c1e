#include "engines/shm/segment.h"

#include <sys/mman.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/socket.h"
#include "unisono/error.h"

namespace unisono::engines::shm {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Segment::Offsets Segment::offsets_for(const Shape& shape) {
  const auto n = static_cast<std::size_t>(shape.ranks);
  Offsets o{};
  o.lines = round_up(sizeof(FailureRecord), page);
  o.members = round_up(o.lines + 2 * n * sizeof(Line), page);
  o.slots = round_up(o.members + n * sizeof(Member), page);
  o.rings = round_up(o.slots + slots_per_rank * n * shape.slot_bytes, page);
  o.envelopes = round_up(o.rings + n * n * sizeof(RingControl), page);
  o.lent_data = round_up(o.envelopes + n * n * Envelope::count * sizeof(Envelope), page);
  o.ring_data = o.lent_data + n * n * RingControl::backed * base::eager_bytes;
  o.end = o.ring_data + n * n * shape.ring_bytes;
  return o;
}

std::vector<HostMember*> Segment::members_in(std::byte* memory, const Shape& shape) {
  auto* const first = reinterpret_cast<Member*>(memory + offsets_for(shape).members);
  std::vector<HostMember*> members;
  for (int r = 0; r < shape.ranks; ++r) members.push_back(first + r);
  return members;
}

Segment::Segment(const Shape& shape, std::byte* memory, std::shared_ptr<void> keep_alive, std::vector<base::Notifier*> notifiers)
    : HostMemory(*reinterpret_cast<FailureRecord*>(memory), members_in(memory, shape), std::move(notifiers)),
      shape_(shape),
      at_(offsets_for(shape)),
      memory_(memory),
      keep_alive_(std::move(keep_alive)) {}

std::shared_ptr<std::byte> private_memory(std::size_t bytes) {
  // The memory is mapped, not allocated: it is zeroed at no cost, and only touched pages take memory.
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw BackendUnavailable(fmt::format("there is no memory for {} bytes that the ranks share: {}", bytes, base::error_text(errno)));
  return {static_cast<std::byte*>(memory), [bytes](std::byte* p) { ::munmap(p, bytes); }};
}

}  // namespace unisono::engines::shm
