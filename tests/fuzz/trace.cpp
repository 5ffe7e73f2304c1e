// `unisono trace` gets the traces of two ranks and a file of torch.profiler, with anything in them: it refuses them with InvalidArgument, or writes
// events and a page that are JSON, in which no call ends before it begins.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "made_record.h"
#include "trace/page.h"
#include "trace/merge.h"
#include "trace/totals.h"
#include "unisono/error.h"

namespace unisono::fuzz {
namespace {

/// A folder for all inputs of this process.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/unisono-fuzz-XXXXXX";
    require(::mkdtemp(name) != nullptr, "there is a folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void put(const char* name, std::string_view content) const { std::ofstream(file(name), std::ios::binary | std::ios::trunc) << content; }
  std::string text(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(file(name), std::ios::binary).rdbuf();
    return text.str();
  }
  std::string file(const char* name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string profile(Input& in) {
  if (in.flag()) return std::string(in.rest());
  std::string text = "{\"baseTimeNanoseconds\":" + std::to_string(in.number<std::int64_t>()) + ",\"traceEvents\":[";
  while (in.has_more()) {
    const double ts = static_cast<double>(in.number<std::int64_t>()), factor = in.flag() ? 1e-6 : in.flag() ? 1e300 : 1;
    text +=
        "{\"ph\":\"X\",\"name\":\"x\",\"ts\":" + nlohmann::json(ts * factor).dump() + ",\"dur\":" + std::to_string(in.number<std::uint32_t>()) + "},";
  }
  text.back() = text.back() == ',' ? ' ' : text.back();
  return text + "]}";
}

}  // namespace

void check_input(std::string_view bytes) {
  static const Folder folder;
  Input in(bytes);
  for (const int rank : {0, 1}) folder.put(rank == 0 ? "made.0.0.trace" : "made.1.0.trace", made_record(in, rank, true));
  std::vector<tools::ProfilerFile> profiles;
  if (in.has_more()) {
    folder.put("profile.json", profile(in));
    profiles.push_back({.rank = 0, .path = folder.file("profile.json")});
  }
  refuses<InvalidArgument>([&] {
    tools::JobTrace trace = tools::open_traces(folder.path(), "");
    const tools::Merge merge(trace);
    merge.each([&](const tools::Slice& slice) {
      require(slice.begin <= slice.end && slice.waited <= slice.end - slice.begin, "a call ends, and waits within itself");
    });
    const tools::Totals totals = tools::totals_of(trace, merge);
    require(!tools::trace_text(trace, totals).empty(), "a trace has a text");
    tools::write_chrome_trace(trace, merge, profiles, folder.file("events.json"));
    require(nlohmann::json::accept(folder.text("events.json")), "the events are JSON");
    tools::write_page(trace, merge, totals, profiles, folder.file("page.html"));
    const std::string page = folder.text("page.html"), opening = "id=\"data\">";
    const auto begin = page.find(opening) + opening.size();
    require(nlohmann::json::accept(page.substr(begin, page.find("</script>", begin) - begin)), "the page's data are JSON");
  });
}

}  // namespace unisono::fuzz
