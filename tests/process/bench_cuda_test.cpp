// `unisono bench --device cuda`, on the stand-in of tests/nccl, which each process has for itself: NCCL has one rank there, and several go through
// the memory of the host.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "running_command.h"
#include "unisono/operation.h"

namespace unisono::testing {
namespace {

using nlohmann::json;

/// A measurement that succeeds: its results, and what it prints.
struct Measured {
  json rows;
  std::string out, err;
};
Measured measure(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/results.json";
  std::vector<std::string> words = {"bench", "--device", "cuda", "--quick", "--rounds", "1", "--json", file};
  words.insert(words.end(), arguments.begin(), arguments.end());
  RunningCommand command(unisono_command(words));
  EXPECT_EQ(command.wait(std::chrono::seconds(100)), 0) << command.out() << command.err();
  return {.rows = json::parse(contents(file), nullptr, false), .out = command.out(), .err = unwrapped(command.err())};
}

std::set<std::string> collectives_with_data() {
  std::set<std::string> names;
  for (const OperationTraits& row : operation_table)
    if (!is_message(row.operation) && row.in != Layout::nothing) names.emplace(row.name);
  return names;
}

/// The operations of each implementation. Every result tells that it is of a device, and how it was timed.
std::map<std::string, std::set<std::string>> operations_in(const json& rows) {
  std::map<std::string, std::set<std::string>> operations;
  for (const json& row : rows) {
    operations[row.at("impl")].insert(row.at("op").get<std::string>());
    EXPECT_EQ(row.at("buffers"), "cuda");
    EXPECT_EQ(row.at("timing"), "rows of calls, to the end of the device's work");
    EXPECT_EQ(row.at("verified"), true);
    EXPECT_GT(row.at("median_us").get<double>(), 0);
    if (row.at("impl") == "nccl") {
      EXPECT_EQ(row.at("version"), "NCCL 2.32.3");
    }
  }
  return operations;
}

TEST(BenchCuda, CollectivesOnADeviceAreMeasuredBesideNccl) {
  const Measured measured = measure({"all", "-n", "1", "--sizes", "8,64KiB", "--backend", "nccl", "--peers", "nccl"});
  auto operations = operations_in(measured.rows);
  EXPECT_EQ(operations["unisono"], collectives_with_data());
  EXPECT_EQ(operations["roofline"], collectives_with_data());
  EXPECT_EQ(operations["nccl"], (std::set<std::string>{"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "gather", "scatter",
                                                       "all_to_all", "gather_v", "scatter_v", "all_to_all_v"}));
  EXPECT_NE(measured.err.find("nccl has no scan, exscan, all_gather_v, reduce_scatter_v of float32"), std::string::npos) << measured.err;
  EXPECT_NE(measured.out.find("1 rank, f32, cuda buffers, static data"), std::string::npos) << measured.out;
  EXPECT_NE(measured.out.find("Calls are enqueued in rows"), std::string::npos) << measured.out;
}

TEST(BenchCuda, RanksWithoutNcclGoThroughTheHost) {
  const Measured measured = measure({"all_reduce", "all_to_all", "-n", "2", "--sizes", "1000,1MiB", "--backend", "native", "--data", "varying"});
  EXPECT_EQ(operations_in(measured.rows)["unisono"], (std::set<std::string>{"all_reduce", "all_to_all"}));
  for (const json& row : measured.rows) {
    EXPECT_EQ(row.at("ranks"), 2);
    if (row.at("impl") == "unisono") {
      EXPECT_EQ(row.at("backend"), "native");
    }
  }
}

TEST(BenchCuda, ThereIsARankForEachDevice) {
  for (const json& row : measure({"all_reduce", "--sizes", "8", "--backend", "native"}).rows) EXPECT_EQ(row.at("ranks"), 2);  // of the stand-in
}

void expect_refused(const std::vector<std::string>& arguments, int code, const std::string& sentence,
                    std::map<std::string, std::string> variables = {}) {
  std::vector<std::string> words = {"bench", "--sizes", "8"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  RunningCommand command(unisono_command(words), {.environment = std::move(variables)});
  EXPECT_EQ(command.wait(), code) << command.err();
  EXPECT_EQ(command.out(), "");
  EXPECT_TRUE(unwrapped(command.err()).starts_with("unisono bench: " + sentence)) << command.err();
}

TEST(BenchCuda, WhatGoesWithMemoryOfTheHostIsRefused) {
  constexpr int wrong_use = 2;
  const auto refused = [](std::vector<std::string> arguments, const std::string& sentence) {
    arguments.insert(arguments.begin(), {"--device", "cuda"});
    expect_refused(arguments, wrong_use, sentence);
  };
  for (const char* peer : {"openmpi", "mpich", "gloo", "ucx", "./folder"})
    refused({"--peers", peer}, std::string("--device cuda measures the peer nccl alone, and not ") + peer);
  refused({"--peers", "nccl,gloo"}, "--device cuda measures the peer nccl alone, and not gloo");
  refused({"--buffers", "shared"}, "--buffers shared works with memory of the host, and not with --device cuda");
  refused({"--data", "touch"}, "--data touch works with memory of the host, and not with --device cuda");
  refused({"-n", "2", "--hosts", "2"}, "--hosts works with memory of the host, and not with --device cuda");
  refused({"ping_pong", "-n", "2"}, "ping_pong is measured in memory of the host alone, and --device cuda is for collectives with data");
  refused({"barrier"}, "barrier is measured in memory of the host alone, and --device cuda is for collectives with data");
  expect_refused({"--device", "tpu"}, wrong_use, "--device must be host or cuda, not 'tpu'");
  expect_refused({"--peers", "nccl"}, wrong_use, "the peer nccl works with memory of devices");
}

TEST(BenchCuda, WhatIsMissingIsNamed) {
  constexpr int failure = 1;
  expect_refused({"--device", "cuda"}, failure, "--device cuda cannot be used: no CUDA device is on this machine", {{"FAKE_DEVICES", "0"}});
  expect_refused({"--device", "cuda"}, failure, "--device cuda cannot be used: no CUDA runtime (",
                 {{"UNISONO_CUDART_LIBRARY", "/absent/libcudart.so"}});
  const std::map<std::string, std::string> no_nccl = {{"UNISONO_NCCL_LIBRARY", "/absent/libnccl.so.2"}};
  expect_refused({"--device", "cuda", "--backend", "nccl"}, failure, "backend nccl cannot be used: no NCCL library (", no_nccl);
  expect_refused({"--device", "cuda", "--backend", "native", "--peers", "nccl"}, failure, "the peer nccl is not available: no NCCL library (",
                 no_nccl);
}

}  // namespace
}  // namespace unisono::testing
