// What `unisono bench` makes of results: table, summary, --fail-below, --baseline and --plot. Most of it is read from files with given figures
// (--from), so that every word of it is known.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>

#include "running_command.h"

namespace unisono::testing {
namespace {

using nlohmann::json;

/// A result of 2 ranks whose interval is a tenth to either side. A ratio makes it that of another implementation.
json result(const std::string& op, const std::string& impl, std::size_t bytes, double us, std::optional<double> ratio = {}) {
  json row = {{"op", op},
              {"impl", impl},
              {"backend", impl == "unisono" ? "native" : impl},
              {"ranks", 2},
              {"hosts", 1},
              {"bytes", bytes},
              {"dtype", "f32"},
              {"buffers", "private"},
              {"data", "static"},
              {"median_us", us},
              {"median_low_us", us * 0.9},
              {"median_high_us", us * 1.1},
              {"p99_us", us * 2},
              {"min_us", us * 0.8},
              {"algbw_gbs", 1},
              {"busbw_gbs", 1},
              {"verified", true},
              {"set", "openmpi"},
              {"switches", {{"voluntary", 0}, {"involuntary", 0}}},
              {"processor_us", us},
              {"iqr_us", us / 20}};
  if (ratio) row["ratio"] = {{"median", *ratio}, {"low", *ratio * 0.9}, {"high", *ratio * 1.1}};
  return row;
}

/// Two operations at two sizes and a barrier. Open MPI is faster once; Gloo has no reduce_scatter, and nobody has a barrier.
json usual_results() {
  return {result("all_reduce", "unisono", 8, 1),           result("all_reduce", "openmpi", 8, 2, 2.0),
          result("all_reduce", "gloo", 8, 16, 16.0),       result("all_reduce", "roofline", 8, 0.1, 0.1),
          result("all_reduce", "unisono", 1 << 20, 100),   result("all_reduce", "openmpi", 1 << 20, 50, 0.5),
          result("all_reduce", "gloo", 1 << 20, 400, 4.0), result("reduce_scatter", "unisono", 8, 1),
          result("reduce_scatter", "openmpi", 8, 1, 1.0),  result("barrier", "unisono", 0, 0.2)};
}

class BenchReport : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  std::string write(const std::string& name, const json& results) const { return write(name, results.dump()); }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  struct Said {
    int code;
    std::string out, err;
  };
  static Said bench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "bench");
    RunningCommand command(unisono_command(std::move(arguments)));
    const int code = command.wait(std::chrono::seconds(100));
    for (const std::string& line : lines_of(command.out() + "\n" + command.err())) EXPECT_LE(width_of(line), 80U) << line;
    return {.code = code, .out = command.out(), .err = command.err()};
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(BenchReport, TheSummaryCountsTheCellsInWhichAPeerIsFaster) {
  const Said said = bench({"--from", write("a.json", usual_results())});
  EXPECT_EQ(said.code, 0) << said.err;
  const std::string summary = said.out.substr(said.out.find("summary:"));
  EXPECT_EQ(unwrapped(summary),
            "summary: 9 results verified; unisono takes 0.200 us at least (barrier), and reaches 10.5 bus GB/s (all_reduce of 1 MiB)\n"
            "slower than a peer in 1 of 3 cells; geometric mean 1.00 (against the fastest peer of each cell)"
            " gloo: slower than it in 0 of 2 cells; geometric mean 8.00 (4.00 to 16.0)"
            " openmpi: slower than it in 1 of 3 cells; geometric mean 1.00 (0.50 to 2.00)"
            " worst: all_reduce of 1 MiB 0.50 [0.45–0.55] beside openmpi"
            " no peer was measured in 1 of 4 cells: barrier\n");
  EXPECT_EQ(said.err, "");

  const Said alone = bench({"--from", write("b.json", json{result("all_reduce", "unisono", 8, 1), result("all_reduce", "roofline", 8, 0.1, 0.1)})});
  EXPECT_NE(alone.out.find("\nno peer was measured; --peers names other libraries\n"), std::string::npos) << alone.out;
  EXPECT_EQ(alone.out.find("slower"), std::string::npos) << alone.out;
}

TEST_F(BenchReport, APeerCountsByUnisonoInItsOwnSet) {
  // The second set ran slower as a whole. Its library needs more time than the first one's, but is the faster one beside unisono.
  json results = {result("all_reduce", "unisono", 8, 1), result("all_reduce", "openmpi", 8, 2, 2.0), result("all_reduce", "unisono", 8, 10),
                  result("all_reduce", "mpich", 8, 5, 0.5)};
  results[2]["set"] = results[3]["set"] = "mpich";
  const Said said = bench({"--from", write("a.json", results)});
  EXPECT_NE(said.out.find("slower than a peer in 1 of 1 cell; geometric mean 0.50"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("worst: all_reduce of 8 B 0.50 [0.45–0.55] beside mpich"), std::string::npos) << said.out;
}

TEST_F(BenchReport, EachConditionsHaveASummaryOfTheirOwn) {
  json results = usual_results(), shared = usual_results();
  for (json& row : results) row["cores"] = "near";
  for (json& row : shared) {
    row["buffers"] = "shared";
    if (row.contains("ratio")) row["ratio"] = {{"median", 3}, {"low", 3}, {"high", 3}};
    if (row.at("impl") == "openmpi") row["version"] = "Open MPI v5.0.11";
    results.push_back(row);
  }
  const Said said = bench({"--from", write("a.json", results)});
  const std::string summary = unwrapped(said.out.substr(said.out.find("summary:")));
  EXPECT_NE(summary.find("\n\n2 ranks, f32, private buffers, static data, near cores\nslower than a peer in 1 of 3 cells; geometric mean 1.00 "),
            std::string::npos)
      << summary;
  EXPECT_NE(summary.find("\n\n2 ranks, f32, shared buffers, static data\nslower than a peer in 0 of 3 cells; geometric mean 3.00 "),
            std::string::npos)
      << summary;
  EXPECT_NE(summary.find(" openmpi (Open MPI v5.0.11): slower than it in 0 of 3 cells"), std::string::npos) << summary;
}

TEST_F(BenchReport, AllCellsThatAreBehindAreNamed) {
  json results;
  for (std::size_t bytes = 1; bytes <= 8; ++bytes) {
    results.push_back(result("gather", "unisono", bytes, 2));
    results.push_back(result("gather", "mpich-5", bytes, 1, bytes == 8 ? 1.5 : 0.1 * static_cast<double>(bytes)));
  }
  const std::string summary = unwrapped(bench({"--from", write("a.json", results)}).out);
  EXPECT_NE(summary.find("slower than a peer in 7 of 8 cells"), std::string::npos) << summary;
  for (std::size_t bytes = 1; bytes <= 7; ++bytes)
    EXPECT_NE(summary.find("gather of " + std::to_string(bytes) + " B 0." + std::to_string(bytes) + "0 ["), std::string::npos) << bytes << summary;
  EXPECT_EQ(summary.find("gather of 8 B 1.50"), std::string::npos) << summary;
}

TEST_F(BenchReport, TheBaselineTellsOfOtherCoresAndVersions) {
  json before = usual_results(), now = usual_results();
  for (json& row : before) row["cores"] = "near";
  for (json& row : now) row["cores"] = "distant";
  before[1]["version"] = "Open MPI v5.0.10";
  now[1]["version"] = "Open MPI v5.0.11";
  const Said said = bench({"--from", write("now.json", now), "--baseline", write("before.json", before)});
  const std::string text = unwrapped(said.out.substr(said.out.find("baseline ")));
  EXPECT_NE(text.find("openmpi was Open MPI v5.0.10 and is Open MPI v5.0.11"), std::string::npos) << text;
  EXPECT_NE(text.find("10 of 10 results come from cores that are nearer to each other or more distant than before"), std::string::npos) << text;
  const Said same = bench({"--from", path("now.json"), "--baseline", path("now.json")});
  for (const char* word : {"more distant", " was Open MPI"}) EXPECT_EQ(unwrapped(same.out).find(word), std::string::npos) << same.out;
}

TEST_F(BenchReport, PartsOfUnisonoAreNoPeers) {
  const Said said = bench({"--from", write("a.json", json{result("all_reduce", "unisono", 8, 1), result("all_reduce", "ucx-engine", 8, 0.5, 0.5),
                                                          result("all_reduce", "unisono-unchecked", 8, 0.9, 0.9)})});
  EXPECT_NE(said.out.find("no peer was measured"), std::string::npos) << said.out;
  EXPECT_NE(unwrapped(said.out).find("ucx-engine takes 0.50 × unisono's time"), std::string::npos) << said.out;
}

TEST_F(BenchReport, FailBelowIsTheExitCodeOfACheck) {
  const std::string file = write("a.json", usual_results());
  const Said below = bench({"--from", file, "--fail-below", "1.0"});
  EXPECT_EQ(below.code, 1);
  EXPECT_EQ(unwrapped(below.err), "unisono bench: 1 of 3 cells below --fail-below 1: all_reduce of 1 MiB 0.50 [0.45–0.55] beside openmpi\n");
  EXPECT_NE(below.out.find("summary:"), std::string::npos) << "the report comes in any case";
  const Said none = bench({"--from", file, "--fail-below", "0.5"});
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_EQ(none.err, "");
  EXPECT_EQ(bench({"--from", file, "--fail-below", "0.51"}).code, 1);
  const Said two = bench({"--from", file, "--fail-below", "1.01"});
  EXPECT_NE(unwrapped(two.err).find("2 of 3 cells below --fail-below 1.01: all_reduce of 1 MiB 0.50"), std::string::npos) << two.err;
  EXPECT_EQ(bench({"reduce_scatter", "--from", file, "--fail-below", "1.0"}).code, 0) << "of the operations that are named";

  // A check that has compared nothing does not pass.
  const Said nothing = bench({"--from", write("b.json", json{result("barrier", "unisono", 0, 1)}), "--fail-below", "1.0"});
  EXPECT_EQ(nothing.code, 1);
  EXPECT_EQ(nothing.err, "unisono bench: --fail-below found no cell in which a peer was measured\n");
  const Said useless = bench({"all_reduce", "-n", "2", "--sizes", "8", "--quick", "--fail-below", "1.0"});
  EXPECT_EQ(useless.code, 2);
  EXPECT_EQ(useless.out, "") << "nothing is measured";
  EXPECT_TRUE(unwrapped(useless.err).starts_with("unisono bench: --fail-below compares with other libraries, and --peers names none")) << useless.err;
}

TEST_F(BenchReport, TheBaselineShowsWhatChangedBeyondTheIntervals) {
  const std::string before = write("before.json", usual_results());
  const Said same = bench({"--from", before, "--baseline", before});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_NE(unwrapped(same.out).find("before.json: 0 of 9 figures changed. A figure has changed if the 95 % intervals of the two medians"),
            std::string::npos)
      << same.out;
  EXPECT_EQ(same.out.find("now/before"), std::string::npos) << same.out;

  json results = usual_results();
  results[0] = result("all_reduce", "unisono", 8, 1.2);            // 1.08 to 1.32 has values in common with 0.9 to 1.1
  results[4] = result("all_reduce", "unisono", 1 << 20, 130);      // 117 to 143 has none with 90 to 110
  results[5] = result("all_reduce", "openmpi", 1 << 20, 20, 0.2);  // its own time, and by unisono's
  results.push_back(result("broadcast", "unisono", 8, 1));         // not in the baseline
  const Said said = bench({"--from", write("now.json", results), "--baseline", before});
  EXPECT_EQ(said.code, 0) << said.err;
  const std::string text = said.out.substr(said.out.find("baseline "));
  EXPECT_NE(unwrapped(text).find("2 of 9 figures changed."), std::string::npos) << text;
  EXPECT_NE(unwrapped(text).find("1 of 11 results have no counterpart in it"), std::string::npos) << text;
  EXPECT_NE(unwrapped(text).find("1 of 6 times of others changed as well"), std::string::npos) << text;
  EXPECT_NE(text.find("\n\nall_reduce: 2 ranks, f32, private buffers, static data\n"
                      "    size                               before                  now  now/before\n"
                      "   1 MiB  unisono, us          100 [90.0–110]        130 [117–143]        1.30\n"
                      "   1 MiB  openmpi ×          0.50 [0.45–0.55]     0.20 [0.18–0.22]        0.40\n"),
            std::string::npos)
      << text;
}

TEST_F(BenchReport, ABaselineThatIsNoneIsWrongUseBeforeAnythingIsMeasured) {
  json lacks = usual_results(), odd = usual_results(), text = usual_results(), other = usual_results();
  lacks[3].erase("median_low_us");
  odd[1]["op"] = "all_redcue";
  text[0]["median_us"] = "fast";
  for (json& row : other) row["ranks"] = 4;
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {write("a", std::string("all_reduce 8 1.0\n")), "a is not a result of unisono bench --json: it is not JSON"},
      {write("b", json::object()), "b is not a result of unisono bench --json: it is not a list"},
      {write("c", json::array()), "c is not a result of unisono bench --json: it is an empty list"},
      {write("d", json{1, 2}), "d is not a result of unisono bench --json: entry 0: "},
      {write("e", lacks), "e is not a result of unisono bench --json: entry 3: key 'median_low_us' not found"},
      {write("f", odd), "f is not a result of unisono bench --json: entry 1: unknown operation 'all_redcue'"},
      {write("g", text), "g is not a result of unisono bench --json: entry 0: type must be number, but is string"},
      {write("h", other), "h has no result of 2 ranks, f32, private buffers, static data in the set plain"},
      {path("absent"), "cannot read "},
      {path(""), "cannot read "}};  // which is a folder
  for (const auto& [file, why] : wrong) {
    const Said said = bench({"all_reduce", "-n", "2", "--sizes", "8", "--quick", "--baseline", file, "--json", path("kept.json")});
    EXPECT_EQ(said.code, 2) << why << said.out;
    EXPECT_EQ(said.out, "") << why;
    const std::string flat = std::regex_replace(said.err, std::regex("\n +"), " ");
    EXPECT_NE(std::regex_replace(flat, std::regex("/ "), "/").find(why), std::string::npos) << why << "\n" << said.err;
    EXPECT_FALSE(std::ifstream(path("kept.json")).is_open()) << "no file is emptied for a measurement that does not begin";
  }
  EXPECT_EQ(bench({"--from", wrong[4].first}).code, 2);
  const std::string once = write("once", usual_results());
  const Said twice = bench({"--from", once + "," + once});
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(unwrapped(twice.err).find("once has a second result of unisono: all_reduce of 8 B, 2 ranks"), std::string::npos) << twice.err;
  EXPECT_EQ(bench({"broadcast", "--from", write("i", usual_results())}).code, 2) << "there is nothing of it in the file";
}

TEST_F(BenchReport, AllTablesFitInto80Columns) {
  // The longest names with the largest figures: `bench` looks at the width of every line.
  json now = json::array(), before = json::array();
  for (const char* op : {"all_reduce", "reduce_scatter", "all_to_all"}) {
    for (const auto& [impl, ratio] : std::vector<std::pair<std::string, std::optional<double>>>{{"unisono", {}},
                                                                                                {"unisono-unchecked", 98765.4},
                                                                                                {"roofline", 1.234e-5},
                                                                                                {"openmpi", 12345678.9},
                                                                                                {"ucx-engine", 9999.9},
                                                                                                {"gloo", 1234.5}}) {
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{1023} << 20, std::size_t{1000} << 30, std::size_t{123'456'789'011}}) {
        now.push_back(result(op, impl, bytes, 123'456'789.0, ratio));
        before.push_back(result(op, impl, bytes, 0.0123, ratio ? std::optional(*ratio / 1e4) : std::nullopt));
      }
    }
  }
  const Said said = bench({"--from", write("now.json", now), "--baseline", write("before.json", before)});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("1.23e+08"), std::string::npos);
  EXPECT_NE(said.out.find("now/before"), std::string::npos);
}

TEST_F(BenchReport, ThePlotHasAPanelForEachOperationAndItsConditions) {
  json shared = usual_results();
  for (json& row : shared) row["buffers"] = "shared";
  const Said said = bench({"--from", write("private.json", usual_results()), write("shared.json", shared), "--plot", path("all.svg")});
  EXPECT_EQ(said.code, 0) << said.err;
  const std::string svg = contents(path("all.svg"));
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << svg.substr(0, 100);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* foreign : {"href", "<style", "<image", "<script", "url("}) EXPECT_EQ(svg.find(foreign), std::string::npos) << foreign;
  for (const char* op : {"all_reduce", "reduce_scatter", "barrier"})
    for (const char* buffers : {"private", "shared"})
      EXPECT_EQ(count(svg, ">" + std::string(op) + ": 2 ranks, f32, " + buffers + " buffers, static data</text>"), 1) << op << buffers;
  EXPECT_EQ(count(svg, ">time</text>"), 6);
  EXPECT_EQ(count(svg, ">bandwidth: bytes by time</text>"), 4) << "a barrier has none";
  for (const char* label : {">unisono</text>", ">openmpi</text>", ">gloo</text>", ">roofline: every rank copies the same number of bytes</text>"})
    EXPECT_EQ(count(svg, label), 1) << label;
  // By buffers: times and bandwidths of three implementations at 8 B and 1 MiB, of the roofline at 8 B; of two in reduce_scatter; and the barrier.
  EXPECT_EQ(count(svg, "<polyline"), 2 * (2 * (3 + 1 + 2) + 1));
  // The curves differ without colours: in their dashes, and in the marks of their points.
  std::set<std::string> dashes;
  const std::regex line("<polyline [^>]*stroke-width=\"2\"( stroke-dasharray=\"[^\"]*\")?/>");
  for (std::sregex_iterator it(svg.begin(), svg.end(), line), end; it != end; ++it) dashes.insert((*it)[1].str());
  EXPECT_EQ(dashes.size(), 4U);
  const int background = 1, legend = 1, points_of_openmpi = 2 * (2 * (2 + 1));
  EXPECT_EQ(count(svg, "<rect"), background + legend + points_of_openmpi);
}

TEST_F(BenchReport, AMeasurementIsDrawnAndComparedWithAnEarlierOne) {
  const std::vector<std::string> what = {"all_reduce", "barrier", "-n", "2", "--sizes", "8,1KiB", "--quick"};
  std::vector<std::string> words = what;
  words.insert(words.end(), {"--json", path("same.json"), "--plot", path("plot.svg")});
  const Said first = bench(words);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(count(contents(path("plot.svg")), ">bandwidth: bytes by time</text>"), 1);
  words.insert(words.end(), {"--baseline", path("same.json")});  // which is read before it is written anew
  const Said second = bench(words);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(unwrapped(second.out).find("/same.json: "), std::string::npos) << second.out;
  EXPECT_NE(unwrapped(second.out).find(" of 3 figures changed."), std::string::npos) << second.out;
  EXPECT_EQ(unwrapped(second.out).find("no counterpart"), std::string::npos) << second.out;
}

}  // namespace
}  // namespace unisono::testing
