#include "engines/signature.h"

#include "base/hash.h"
#include "engines/choices.h"

namespace unisono::engines {
namespace {

// The bits of the word `what`: 0-7 operation, 8-15 dtype, 16-23 reduce op, 24 custom, 25 labelled, 26 deterministic, 27 the callable is to be
// tried, 28 the callable has a name, 32-63 root + 1.
constexpr std::uint64_t custom_bit = std::uint64_t{1} << 24;
constexpr std::uint64_t label_bit = std::uint64_t{1} << 25;
constexpr std::uint64_t deterministic_bit = std::uint64_t{1} << 26;
constexpr std::uint64_t tried_bit = std::uint64_t{1} << 27;
constexpr std::uint64_t named_bit = std::uint64_t{1} << 28;

// The lower half of the word `extra` is the tag. The upper half is a hash of the label or of the callable. Where a call has both, each has a quarter.
std::uint64_t upper_half(std::string_view name) { return base::stable_hash(name) << 32; }

std::uint64_t bits_of_callable(const Signature& s) {
  if ((s.what & custom_bit) == 0) return 0;
  return (has_label(s) ? std::uint64_t{0xffff} : std::uint64_t{0xffffffff}) << 32;
}

std::uint64_t hash_of(const detail::CustomReduction& custom) {
  if (!custom.name.empty()) return base::stable_hash(custom.name);
  base::StableHash hash;
  hash.add(custom.code);
  hash.add(custom.captured.value_or(0));
  return hash.value();
}

}  // namespace

// A callable of the library is known by its name, and never tried: its elements are no numbers.
Signature without_callable(Signature s) noexcept {
  if ((s.what & named_bit) != 0) return s;
  s.extra &= ~bits_of_callable(s);
  s.what &= ~tried_bit;
  return s;
}

bool fit(const Signature& a, const Signature& b) noexcept { return without_callable(a) == without_callable(b); }
bool is_to_be_tried(const Signature& s) noexcept { return (s.what & tried_bit) != 0; }

Signature signature_of(const CollectiveCall& call) noexcept {
  Signature s;
  s.what = static_cast<std::uint64_t>(call.operation) | (static_cast<std::uint64_t>(call.in.dtype()) << 8) |
           (static_cast<std::uint64_t>(call.op) << 16) | (static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root + 1)) << 32);
  s.count = call.count;
  if (call.deterministic) s.what |= deterministic_bit;
  s.extra = static_cast<std::uint32_t>(call.tag);
  if (!call.label.empty()) {
    s.what |= label_bit;
    s.extra ^= upper_half(call.label);
    if (!call.also.empty()) s.extra ^= upper_half(call.also) * 3;  // the factor keeps two names apart that change places
  }
  if (call.custom) {
    s.what |= custom_bit;
    if (!call.custom->name.empty()) s.what |= named_bit;
    else if (!call.custom->captured) s.what |= tried_bit;
    const std::uint64_t bits = bits_of_callable(s);
    s.extra = (s.extra & ~bits) | ((hash_of(*call.custom) << 32) & bits);
  }
  return s;
}

std::string label_of(const CollectiveCall& call) {
  std::string text(call.label);
  if (!call.also.empty()) text.append(" of ").append(call.also);
  return text;
}

bool has_label(const Signature& s) noexcept { return (s.what & label_bit) != 0; }

std::string describe(const Signature& s, std::string_view label) {
  const auto operation = static_cast<Operation>(s.what & 0xff);
  const bool is_known =
      operation >= operation_table.front().operation && operation <= operation_table.back().operation;  // another rank may say anything
  // A label may repeat the operation of the user's call; then its rest ("of [2, 3]") is put behind the call.
  const std::string_view name = to_string(operation);
  const bool repeats = label.starts_with(name) && label.substr(name.size()).starts_with(" of ");
  std::string text(repeats ? std::string_view() : label);
  if (!text.empty()) text += ": ";
  text += name;
  text += '(';
  if (operation != Operation::barrier) {
    const std::string_view choice = (s.what & named_bit) != 0 ? choice_of_hash(static_cast<std::uint32_t>(s.extra >> 32)) : std::string_view();
    text += choice.empty() ? to_string(static_cast<DType>((s.what >> 8) & 0xff)) : "pairs";
    text += " × " + std::to_string(s.count);
    if (is_known && reduces(operation)) {
      text += ", ";
      if (!choice.empty()) text += choice;
      else text += (s.what & custom_bit) != 0 ? "custom operation" : std::string(to_string(static_cast<ReduceOp>((s.what >> 16) & 0xff)));
    }
  }
  if ((s.what & deterministic_bit) != 0) text += ", deterministic";
  if (const auto root = static_cast<std::uint32_t>(s.what >> 32); root != 0) text += ", root " + std::to_string(root - 1);
  if (const auto tag = static_cast<std::int32_t>(s.extra & 0xffffffffU); tag != 0) text += ", tag " + std::to_string(tag);
  text += ')';
  if (repeats) text += label.substr(name.size());
  return text;
}

}  // namespace unisono::engines
