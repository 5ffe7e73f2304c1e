#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "engines/shm/lockstep.h"

namespace unisono::engines::shm {

/// Returns the bytes that each of the numbers takes where all of them take the same: 1, 2, 4 or 8.
inline std::size_t narrowest(std::span<const std::size_t> numbers) {
  std::size_t bits = 0;
  for (const std::size_t number : numbers) bits |= number;
  if (bits <= 0xff) return 1;
  if (bits <= 0xffff) return 2;
  return bits <= 0xffffffff ? 4 : 8;
}

/// Writes the numbers one behind the other, in so many bytes each.
inline void write_counts(std::byte* to, std::span<const std::size_t> numbers, std::size_t each) {
  const auto write = [&]<class T>(T) {
    for (const std::size_t number : numbers) {
      const auto narrow = static_cast<T>(number);
      std::memcpy(to, &narrow, sizeof narrow);
      to += sizeof narrow;
    }
  };
  switch (each) {
    case 1: return write(std::uint8_t{});
    case 2: return write(std::uint16_t{});
    case 4: return write(std::uint32_t{});
    default: return write(std::uint64_t{});
  }
}

/// A view of counts as write_counts has written them.
class CountList {
 public:
  CountList(std::span<const std::size_t> counts)  // NOLINT(google-explicit-constructor): a view of a view
      : CountList(reinterpret_cast<const std::byte*>(counts.data()), sizeof(std::size_t), counts.size()) {}
  CountList(const std::byte* at, std::size_t each, std::size_t size) : at_(at), each_(each), size_(size) {}

  std::size_t size() const { return size_; }
  std::size_t operator[](std::size_t i) const {
    if (each_ == 1) [[likely]]
      return number<std::uint8_t>(i);
    switch (each_) {
      case 2: return number<std::uint16_t>(i);
      case 4: return number<std::uint32_t>(i);
      default: return number<std::uint64_t>(i);
    }
  }
  friend bool operator==(const CountList& a, const CountList& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  template <class T>
  std::size_t number(std::size_t i) const {
    T number;
    std::memcpy(&number, at_ + i * sizeof number, sizeof number);
    return number;
  }

  const std::byte* at_;
  std::size_t each_;
  std::size_t size_;
};

/// The way of a rank's counts, and of its elements in the first step.
struct BlockForm {
  std::size_t count_bytes = 0;  // of each count, in the line; 0: they are in the slot
  ElementsIn elements = ElementsIn::slot;
};

/// Returns where the elements begin in a line whose counts have so many bytes each.
inline std::size_t begin_in_line(const CollectiveCall& call, std::size_t count_bytes, std::size_t element) {
  return (count_bytes * (call.counts.size() + call.recv_counts.size()) + element - 1) & ~(element - 1);
}

/// Returns the form of a call in which a rank gives the others that many elements.
inline BlockForm form_of(const CollectiveCall& call, std::size_t travelling) {
  const std::size_t each = std::max(narrowest(call.counts.span()), narrowest(call.recv_counts.span()));
  if (each * (call.counts.size() + call.recv_counts.size()) > line_payload) return {};
  const std::size_t element = size_of(call.in.dtype()), begin = begin_in_line(call, each, element);
  const bool fit = begin <= line_payload && travelling <= (line_payload - begin) / element;
  return {each, fit ? ElementsIn::line : ElementsIn::slot};
}

/// A collective whose ranks compare their counts, number by number, in the first step, before anything is consumed. Without counts there is nothing
/// more to compare than the signature.
class CountedTask : public LockstepTask {
 protected:
  CountedTask(Lockstep& engine, const CollectiveCall& call, std::size_t steps, std::size_t step_bytes, const BlockForm& form = {})
      : LockstepTask(engine, call, steps, step_bytes), form_(form) {}

  const Counts& counts() const { return call().counts; }
  const BlockForm& form() const { return form_; }
  /// Returns where the block of a rank begins, and how many elements it has; without counts all have the same length.
  std::size_t block(int r) const {
    const auto index = static_cast<std::size_t>(r);
    return has_counts(call().operation) ? counts().before(index) : index * call().count;
  }
  std::size_t length(int r) const { return has_counts(call().operation) ? counts()[static_cast<std::size_t>(r)] : call().count; }
  Line& first_line(int rank) const { return segment().line(rank, step_number(0)); }
  /// Puts this rank's counts where the others find them. `elements`: where these find its elements.
  void give_counts(ElementsIn elements) {
    if (!has_counts(call().operation)) return;
    Line& line = first_line(rank());
    line.count_bytes = static_cast<std::uint8_t>(form_.count_bytes);
    line.elements = elements;
    const std::size_t each = form_.count_bytes > 0 ? form_.count_bytes : sizeof(std::size_t);
    std::byte* const to = form_.count_bytes > 0 ? line.payload : inbox(rank(), 0);
    write_counts(to, counts().span(), each);
    write_counts(to + counts().size() * each, call().recv_counts.span(), each);
  }
  /// Returns the counts of a rank that has arrived at the first step.
  CountList counts_given_by(int rank) const { return list_in(rank, 0); }
  CountList recv_counts_given_by(int rank) const { return list_in(rank, counts().size()); }

  bool disagrees(int other) const override { return !(CountList(counts().span()) == counts_given_by(other)); }
  Decision decide_between(const std::vector<int>& ranks) const override {
    std::vector<Ballot> ballots;
    for (const int r : ranks) {
      const CountList given = counts_given_by(r);
      ballots.push_back({.rank = segment().name_of(r), .key = list(given, given.size()), .call = "gives the counts " + list(given, 32)});
    }
    return decide(ballots);
  }

 private:
  static std::string list(const CountList& counts, std::size_t most) {
    std::string text = "[";
    for (std::size_t i = 0; i < std::min(counts.size(), most); ++i) {
      if (i > 0) text += ", ";
      text += std::to_string(counts[i]);
    }
    text += counts.size() > most ? ", …]" : "]";
    return text;
  }
  CountList list_in(int rank, std::size_t first) const {
    const Line& line = first_line(rank);
    const std::size_t each = line.count_bytes > 0 ? line.count_bytes : sizeof(std::size_t);
    return {(line.count_bytes > 0 ? line.payload : inbox(rank, 0)) + first * each, each, counts().size()};
  }

  BlockForm form_;
};

}  // namespace unisono::engines::shm
