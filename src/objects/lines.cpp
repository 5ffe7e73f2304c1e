#include "objects/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engines/decision.h"
#include "base/error_text.h"
#include "unisono/detail/request.h"
#include "unisono/error.h"
#include "unisono/tensor.h"

namespace unisono::objects {
namespace {

template <class T>
std::vector<T> all_gather(group::Composed& call, std::span<const T> own) {
  std::vector<T> all(own.size() * static_cast<std::size_t>(call.group().size()));
  const detail::Request request{.operation = Operation::all_gather, .in = detail::view_of(own), .out = detail::view_of(all), .label = call.name()};
  detail::run(request, call.group(), call.options());
  return all;
}

}  // namespace

Lines::Lines(group::Composed& call, std::vector<std::uint64_t> own, const std::exception_ptr& error)
    : call_(call), error_(error), items_(own.size() + 1) {
  own.push_back(error ? 1 : 0);
  numbers_ = all_gather<std::uint64_t>(call, own);
}

std::optional<group::Difference> Lines::difference_in(std::size_t item) const {
  std::vector<engines::Ballot> ballots;
  for (int r = 0; r < call_.group().size(); ++r) ballots.push_back({.rank = r, .key = std::to_string(of(r, item))});
  const auto other = first([&](int r) { return of(r, item) != mine(item); });
  if (!other) return std::nullopt;
  const engines::Decision decision = engines::decide(ballots);
  group::Difference found{
      .culprit = decision.culprit(), .own_is_blamed = decision.blames(call_.group().rank()), .other = decision.culprit().value_or(*other)};
  // A rank that differs from the majority compares itself with one of the majority.
  if (found.own_is_blamed) found.other = *first([&](int r) { return !decision.blames(r); });
  return found;
}

std::string Lines::text_from(int rank, std::string_view own) const {
  constexpr std::size_t longest_text = 255;
  std::array<char, longest_text + 1> text{};
  std::copy_n(own.begin(), std::min(own.size(), text.size() - 1), text.begin());
  const auto all = all_gather<char>(call_, text);
  return all.data() + static_cast<std::size_t>(rank) * text.size();
}

void Lines::nothing_too_large(std::size_t bytes, std::size_t limit) const {
  std::uint64_t most = mine(limit);
  for (int r = 0; r < call_.group().size(); ++r) most = std::min(most, of(r, limit));
  if (const auto large = first([&](int r) { return of(r, bytes) > most; })) {
    call_.throw_invalid(*large,
                        fmt::format("the object of rank {} has {} bytes, the limit is {} (set_object_limits)", *large, of(*large, bytes), most));
  }
}

void Lines::nobody_failed() const {
  const auto rank = first([&](int r) { return of(r, items_ - 1) != 0; });
  if (!rank) return;
  const std::string text = text_from(*rank, base::message_of(error_));
  if (!error_) call_.throw_invalid(*rank, fmt::format("rank {} cannot take part: {}", *rank, text));
  try {
    std::rethrow_exception(error_);
  } catch (const InvalidArgument& error) {
    call_.throw_invalid(call_.group().rank(), error.message());
  }
}

}  // namespace unisono::objects
