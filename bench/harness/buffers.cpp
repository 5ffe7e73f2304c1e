#include "harness/buffers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <system_error>

#include "harness/device.h"
#include "harness/statistics.h"
#include "unisono/shared_memory.h"

namespace unisono::bench {

namespace {

constexpr std::size_t guard_bytes = 64;
constexpr std::byte guard_value{0xA5};

std::size_t largest_prime_up_to(std::size_t limit) {
  const auto is_prime = [](std::size_t n) {
    for (std::size_t d = 2; d * d <= n; ++d)
      if (n % d == 0) return false;
    return n >= 2;
  };
  while (limit > 2 && !is_prime(limit)) --limit;
  return std::max<std::size_t>(limit, 2);
}

// 16-bit floats must hold the sum of all ranks exactly, and bfloat16 holds all whole numbers only up to 256. Sums of 8-bit integers stay in range,
// because libraries differ in what happens beyond it.
constexpr std::size_t bfloat16_limit = 256, int8_limit = 127;
constexpr std::size_t longest_short_period = 61, longest_period = 8191;  // primes

std::size_t period_of(DType dtype, int ranks) {
  switch (dtype) {
    case DType::float16:
    case DType::bfloat16: return largest_prime_up_to(std::min(longest_short_period, bfloat16_limit / static_cast<std::size_t>(ranks)));
    case DType::int8:
    case DType::uint8: return largest_prime_up_to(int8_limit / static_cast<std::size_t>(ranks));
    default: return longest_period;
  }
}

void copy_tiled(std::byte* out, std::size_t bytes, const std::vector<std::byte>& tile, std::size_t start) {
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, tile.size() - start);
    std::memcpy(out, tile.data() + start, part);
    out += part;
    bytes -= part;
    start = 0;
  }
}

double real(std::size_t index, int rank, std::uint64_t seed) {
  constexpr std::uint64_t mix_index = 0x9e3779b97f4a7c15U, mix_rank = 0x632be59bd9b4e019U;  // odd numbers with well mixed bits
  Draws draws(index * mix_index + static_cast<std::uint64_t>(rank) * mix_rank + seed);
  return static_cast<double>(static_cast<std::int64_t>(draws.next())) * 0x1p-63;
}

template <class T>
std::optional<std::string> wrong_sum(const T* out, std::size_t count, int ranks, std::uint64_t seed) {
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0;
    double size = 0;
    for (int r = 0; r < ranks; ++r) {
      const double x = static_cast<T>(real(i, r, seed));  // NOLINT(modernize-use-auto): summed as double whatever T is
      sum += x;
      size += std::abs(x);
    }
    const double bound = ranks * static_cast<double>(std::numeric_limits<T>::epsilon()) * size;
    if (!(std::abs(static_cast<double>(out[i]) - sum) <= bound))
      return "element " + std::to_string(i) + " is " + std::to_string(out[i]) + " where the sum is " + std::to_string(sum);
  }
  return std::nullopt;
}

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t capacity, bool shared, BenchDevice* device) : shared_(shared), device_(device) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  mapped_ = (capacity + page - 1) / page * page + 2 * page;
  void* map =
      shared ? shared_resource()->allocate(mapped_, page) : ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "no memory for a buffer of " + std::to_string(capacity) + " bytes");
  map_ = static_cast<std::byte*>(map);
  data_ = map_ + page;
  if (device != nullptr) on_device_ = device->allocate(mapped_) + page;
  guard(capacity);
}

GuardedBuffer::~GuardedBuffer() {
  if (shared_) shared_resource()->deallocate(map_, mapped_, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  else ::munmap(map_, mapped_);
}

void GuardedBuffer::guard(std::size_t used) noexcept {
  used_ = used;
  std::fill_n(data_ - guard_bytes, guard_bytes, guard_value);
  std::fill_n(data_ + used, guard_bytes, guard_value);
}

void GuardedBuffer::to_device() {
  if (device_ == nullptr) return;
  device_->copy(on_device_ - guard_bytes, data_ - guard_bytes, used_ + 2 * guard_bytes);
  device_->synchronise();
}

void GuardedBuffer::from_device() {
  if (device_ == nullptr) return;
  device_->copy(data_ - guard_bytes, on_device_ - guard_bytes, used_ + 2 * guard_bytes);
  device_->synchronise();
}

bool GuardedBuffer::guards_intact() const noexcept {
  const auto is_guard = [](std::byte b) { return b == guard_value; };
  return std::all_of(data_ - guard_bytes, data_, is_guard) && std::all_of(data_ + used_, data_ + used_ + guard_bytes, is_guard);
}

Pattern::Pattern(DType dtype, int ranks) : dtype_(dtype), element_size_(size_of(dtype)), ranks_(ranks), period_(period_of(dtype, ranks)) {}

std::int64_t Pattern::value(std::size_t index, int rank, std::uint64_t seed) const noexcept {
  return static_cast<std::int64_t>((index * 7 + static_cast<std::size_t>(rank) * 13 + seed % period_ * 29) % period_);
}

void Pattern::store(Table& table, std::size_t index, std::int64_t value) const {
  const auto put = [&](auto typed) { std::memcpy(table.data() + index * element_size_, &typed, sizeof typed); };
  switch (dtype_) {
    case DType::float32: return put(static_cast<float>(value));
    case DType::float64: return put(static_cast<double>(value));
    case DType::float16: return put(float16(static_cast<float>(value)).bits);
    case DType::bfloat16: return put(bfloat16(static_cast<float>(value)).bits);
    case DType::int8:
    case DType::uint8: return put(static_cast<std::uint8_t>(value));
    case DType::int32: return put(static_cast<std::int32_t>(value));
    default: return put(value);
  }
}

Pattern::Table Pattern::input_table(int rank, std::uint64_t seed) const {
  Table table(period_ * element_size_);
  for (std::size_t i = 0; i < period_; ++i) store(table, i, value(i, rank, seed));
  return table;
}

Pattern::Table Pattern::sum_table(int ranks, std::uint64_t seed) const {
  Table table(period_ * element_size_);
  for (std::size_t i = 0; i < period_; ++i) {
    std::int64_t sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value(i, r, seed);
    store(table, i, sum);
  }
  return table;
}

void Pattern::fill(void* buffer, std::size_t count, int rank, std::uint64_t seed) const {
  copy_tiled(static_cast<std::byte*>(buffer), count * element_size_, input_table(rank, seed), 0);
}

std::optional<std::string> Pattern::compare(const std::byte* out, std::size_t count, const Table& table, std::size_t start,
                                            std::size_t offset) const {
  std::size_t done = 0;
  std::size_t position = start % period_;
  while (done < count) {
    const std::size_t part = std::min(count - done, period_ - position);
    const std::byte* actual = out + (offset + done) * element_size_;
    const std::byte* expected = table.data() + position * element_size_;
    if (std::memcmp(actual, expected, part * element_size_) != 0) {
      std::size_t i = 0;
      while (std::memcmp(actual + i * element_size_, expected + i * element_size_, element_size_) == 0) ++i;
      return "element " + std::to_string(offset + done + i) + " of the output is wrong";
    }
    done += part;
    position = 0;
  }
  return std::nullopt;
}

Pattern::Block Pattern::block_of(const OperationTraits& traits, const Shape& shape, int from, int to) const {
  if (traits.in == Layout::whole) return {.count = shape.out};
  std::vector<std::size_t> lengths = counts_of(traits.operation, shape.size, ranks_, from);
  if (lengths.empty()) lengths.assign(static_cast<std::size_t>(ranks_), shape.size / static_cast<std::size_t>(ranks_));
  if (traits.in == Layout::block) return {.count = lengths[static_cast<std::size_t>(from)]};
  return {.start = std::accumulate(lengths.begin(), lengths.begin() + to, std::size_t{0}), .count = lengths[static_cast<std::size_t>(to)]};
}

std::optional<std::string> Pattern::wrong(Operation operation, const void* out, const Shape& shape, int rank, std::uint64_t seed) const {
  const auto* bytes = static_cast<const std::byte*>(out);
  const OperationTraits* const traits = operation.traits();
  if (traits == nullptr) {
    const std::optional<int> sender = sender_to(operation, rank, ranks_);
    return sender ? compare(bytes, shape.out, input_table(*sender, seed), 0, 0) : std::nullopt;
  }
  std::vector<int> senders;
  for (int r = 0; r < ranks_; ++r)
    if (contributes(*traits, r, rank, {ranks_, 0})) senders.push_back(r);
  if (senders.empty() || traits->in == Layout::nothing) return std::nullopt;
  if (traits->reduces)  // the senders are the first ranks
    return compare(bytes, shape.out, sum_table(static_cast<int>(senders.size()), seed), block_of(*traits, shape, 0, rank).start, 0);
  std::size_t offset = 0;
  for (const int sender : senders) {
    const Block block = block_of(*traits, shape, sender, rank);
    if (auto difference = compare(bytes, block.count, input_table(sender, seed), block.start, offset)) return difference;
    offset += block.count;
  }
  return std::nullopt;
}

Rewriter::Rewriter(DType dtype, int rank, int ranks) : element_size_(size_of(dtype)) {
  const std::size_t period = period_of(dtype, ranks);
  tile_.resize(period * element_size_);
  Pattern(dtype, ranks).fill(tile_.data(), period, rank, 0);
}

void Rewriter::rewrite(std::byte* buffer, std::size_t bytes) noexcept {
  start_ = (start_ + element_size_) % tile_.size();
  copy_tiled(buffer, bytes, tile_, start_);
}

std::uint64_t consume(const std::byte* buffer, std::size_t bytes) noexcept {
  std::array<std::uint64_t, 8> sums{};
  std::size_t i = 0;
  for (; i + sizeof sums <= bytes; i += sizeof sums) {
    std::array<std::uint64_t, 8> words;
    std::memcpy(words.data(), buffer + i, sizeof words);
    for (std::size_t k = 0; k < words.size(); ++k) sums[k] += words[k];
  }
  std::uint64_t sum = 0;
  for (; i < bytes; ++i) sum += static_cast<std::uint64_t>(buffer[i]);
  for (std::uint64_t part : sums) sum += part;
  return sum;
}

std::uint64_t hash_of(const std::byte* buffer, std::size_t bytes) noexcept {
  constexpr std::uint64_t basis = 0xcbf29ce484222325U, prime = 0x100000001b3U;  // of FNV-1a
  std::uint64_t hash = basis;
  std::size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, buffer + i, 8);
    hash = (hash ^ word) * prime;
    hash ^= hash >> 29;
  }
  for (; i < bytes; ++i) hash = (hash ^ static_cast<std::uint64_t>(buffer[i])) * prime;
  return hash;
}

void fill_reals(DType dtype, void* buffer, std::size_t count, int rank, std::uint64_t seed) {
  for (std::size_t i = 0; i < count; ++i) {
    const double x = real(i, rank, seed);
    if (dtype == DType::float32) static_cast<float*>(buffer)[i] = static_cast<float>(x);
    else static_cast<double*>(buffer)[i] = x;
  }
}

std::optional<std::string> wrong_real_sum(DType dtype, const void* out, std::size_t count, int ranks, std::uint64_t seed) {
  if (dtype == DType::float32) return wrong_sum(static_cast<const float*>(out), count, ranks, seed);
  return wrong_sum(static_cast<const double*>(out), count, ranks, seed);
}

}  // namespace unisono::bench
