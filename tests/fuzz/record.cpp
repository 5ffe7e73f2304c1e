// The record of a rank, which `unisono status` and `unisono trace` read out of the memory of other processes and out of files. A file is no record,
// or is read: no more calls than it has room for, and texts no longer than theirs.
#include "made_record.h"
#include "recorder/dump.h"
#include "recorder/reader.h"
#include "recorder/trace_reader.h"

namespace unisono::fuzz {
namespace {

constexpr std::size_t longest_text = 512;

void check_read(const recorder::RecordReader& reader, std::size_t bytes) {
  for (const std::size_t most : {std::size_t{0}, std::size_t{2}, SIZE_MAX}) {
    const recorder::RankSeen seen = reader.read(most);
    require(seen.recent.size() <= std::min(most, bytes / sizeof(recorder::CallEntry)), "no more calls are read than are there");
    require(seen.counts.size() <= recorder::CountTable::most_counts + 1, "no more is counted than there is room for");
    for (const std::string& text : {seen.host, seen.job, seen.program, seen.failure}) require(text.size() <= longest_text, "a text has its length");
    const std::string name = recorder::file_name_of(seen.job, seen.rank, seen.pid);
    require(name.find('/') == std::string::npos && name.find('\0') == std::string::npos && name != "." && name != "..", "a file stays in its folder");
  }
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  const bool is_made = in.flag();
  const std::string content = is_made ? made_record(in, 0, in.flag()) : std::string(in.rest());
  const MemoryFile file(content);
  if (const auto copy = recorder::RecordReader::open_copy(file.path())) check_read(*copy, content.size());
  if (const auto lives = recorder::RecordReader::open(file.fd())) check_read(*lives, content.size());
  const auto trace = recorder::TraceReader::open(file.path());
  if (!trace) return;
  trace->about();
  trace->lost();
  std::size_t calls = 0;
  trace->each([&](const recorder::TracedCall& call) {
    ++calls;
    require(trace->operation(call).size() <= longest_text && trace->place(call.place).size() <= longest_text, "a text has its length");
  });
  require(calls <= content.size() / sizeof(recorder::CallEntry), "no more calls are visited than are there");
  require(trace->groups().size() <= content.size() / sizeof(recorder::RecordHeader::GroupText), "no more groups are read than are there");
}

}  // namespace unisono::fuzz
