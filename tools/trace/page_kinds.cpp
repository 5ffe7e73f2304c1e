#include "trace/page_kinds.h"

#include <fmt/format.h>

#include "trace/text_file.h"
#include "unisono/tensor.h"

namespace unisono::tools {

PageKinds::PageKinds(const JobTrace& trace, const Merge& merge) : trace_(trace), merge_(merge) {}

std::size_t PageKinds::index_of(const Slice& slice) {
  if (slice.rank != rank_) {
    rank_ = slice.rank;
    of_rank_.clear();
  }
  const recorder::TracedCall& call = *slice.call;
  const auto [known, is_new] = of_rank_.try_emplace(Key{call.bytes, call.group, call.place, call.operation, call.label, call.dtype, call.peer});
  if (!is_new) return known->second;
  std::string text = text_of(slice);
  const auto [found, is_first] = indices_.try_emplace(text, texts_.size());
  if (is_first) texts_.push_back(std::move(text));
  return known->second = found->second;
}

std::string PageKinds::text_of(const Slice& slice) const {
  const recorder::TracedCall& call = *slice.call;
  const TracedRank& rank = trace_.ranks[slice.rank];
  const recorder::TraceReader& reader = *rank.reader;
  return fmt::format("[{},{},{},{},{},{}]", json_string(reader.operation(call)), json_string(merge_.groups()[slice.group].name),
                     json_string(to_string(static_cast<DType>(call.dtype))), call.bytes, json_string(reader.place(call.place)),
                     trace_.number_of(rank.generation_of(call.group), call.peer));
}

}  // namespace unisono::tools
