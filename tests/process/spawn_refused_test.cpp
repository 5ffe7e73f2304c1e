// spawn and launch: the options that are refused, and why.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/socket.h"
#include "covers.h"
#include "refusal.h"
#include "running_command.h"
#include "spawn_ranks.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

// A single node, too, meets where it is told to: a port that is taken is an error, and none that is free is taken in its place.
TEST(SpawnNodes, OneNodeMeetsAtTheMasterPort) {
  COVERS("I-17");
  SpawnOptions options = ranks(3);
  options.master_port = free_port();
  EXPECT_EQ(spawn(options, [](int local_rank) { return all_reduce(local_rank); }), (std::vector<int>{3, 3, 3}));
  const auto taken = base::try_listen(base::resolve("127.0.0.1", 0).front());
  options.master_port = base::local_address(taken.fd.get()).port();
  EXPECT_NE(refusal<LaunchFailed>([&] { spawn(options, [] {}); }).find(std::to_string(options.master_port)), std::string::npos);
  options.master_port = 0;
  options.master_addr = "127.0.0.1";
  EXPECT_NE(refusal<InvalidArgument>([&] { spawn(options, [] {}); }).find("without master_port"), std::string::npos);
}

std::string spawn_refusal_of(SpawnOptions options) {
  return refusal<InvalidArgument>([&] { spawn(options, [] {}); });
}

TEST(SpawnRefuses, NumbersAndPlacesThatMakeNoSenseAreRefused) {
  COVERS("I-15", "I-16", "I-17", "I-18", "B-12");
  const auto has = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  };
  has(spawn_refusal_of({.nproc_per_node = 0}), {"spawn", "nproc_per_node", "0"});
  has(spawn_refusal_of({.nproc_per_node = -3}), {"nproc_per_node", "-3"});
  has(spawn_refusal_of({.nnodes = 0}), {"nnodes", "0"});
  has(spawn_refusal_of({.nnodes = 2, .node_rank = 2, .init_method = "file:///tmp/x"}), {"node_rank", "from 0 to 1", "2"});
  has(spawn_refusal_of({.node_rank = -1}), {"node_rank", "-1"});
  has(spawn_refusal_of({.nproc_per_node = 2'000'000'000}), {"65536", "2000000000"});
  has(spawn_refusal_of({.nproc_per_node = 65536, .nnodes = 65536, .init_method = "file:///tmp/x"}), {"65536"});
  has(spawn_refusal_of({.master_port = 70'000}), {"master_port", "70000"});
  has(spawn_refusal_of({.timeout = std::chrono::milliseconds(0)}), {"timeout"});
  has(spawn_refusal_of({.master_addr = "127.0.0.1", .init_method = "file:///tmp/x"}), {"master_addr", "file:///tmp/x"});
  has(spawn_refusal_of({.master_port = 1234, .init_method = "tcp://127.0.0.1:1234"}), {"master_port", "tcp://127.0.0.1:1234"});
  has(spawn_refusal_of({.init_method = "http://127.0.0.1"}), {"init_method", "http://"});
  has(spawn_refusal_of({.nnodes = 2}), {"2 nodes", "master_addr"});
  has(spawn_refusal_of({.nnodes = 2, .master_addr = "127.0.0.1"}), {"2 nodes", "master_port"});
}

TEST(SpawnRefuses, BackendsThatCannotServeSpawnAreRefused) {
  COVERS("I-14", "K-77", "Q-27", "T-04", "K-04");
  EXPECT_NE(spawn_refusal_of({.backend = "abc"}).find("unknown backend \"abc\""), std::string::npos);
  EXPECT_NE(spawn_refusal_of({.backend = "serial", .nproc_per_node = 2}).find("serial is for one process"), std::string::npos);
  EXPECT_EQ(spawn({.backend = "Serial"}, [] { return world_size(); }), std::vector<int>{1});
  EXPECT_EQ(spawn({.backend = "NATIVE", .nproc_per_node = 2}, [] { return backend().value_or("none"); }),
            (std::vector<std::string>{"native", "native"}));
  EXPECT_NE(refusal<Unsupported>([] { spawn({.backend = "mpi", .nproc_per_node = 2}, [] {}); }).find("mpirun"), std::string::npos);
  if (!is_backend_available("nccl")) {
    EXPECT_NE(refusal<BackendUnavailable>([] { spawn({.backend = "nccl"}, [] {}); }).find("nccl"), std::string::npos);
  }
}

// A backend names one engine, or one for each kind of device.
TEST(SpawnRefuses, BackendsOfDevicesThatContradictEachOtherAreRefused) {
  const auto named = spawn({.backend = "cpu:native", .nproc_per_node = 2}, [] { return backend().value_or("none"); });
  EXPECT_EQ(named, (std::vector<std::string>{"native", "native"}));
  EXPECT_NE(spawn_refusal_of({.backend = "cpu:native,cpu:serial"}).find("two engines for one kind of device"), std::string::npos);
  EXPECT_NE(spawn_refusal_of({.backend = "tpu:native"}).find("malformed backend"), std::string::npos);
  EXPECT_NE(spawn_refusal_of({.backend = "cpu:abc"}).find("unknown backend \"abc\""), std::string::npos);
  if (!is_backend_available("nccl")) {
    EXPECT_NE(refusal<BackendUnavailable>([] { spawn({.backend = "cpu:native,cuda:nccl"}, [] {}); }).find("nccl"), std::string::npos);
  }
}

TEST(SpawnRefuses, JobsWithinJobsAreRefused) {
  {
    const Context context;
    EXPECT_NE(refusal<AlreadyInitialized>([] { spawn(ranks(2), [] {}); }).find("nested use"), std::string::npos);
    EXPECT_NE(refusal<AlreadyInitialized>([] { launch([] {}); }).find("nested use"), std::string::npos);
  }
  run_threads(2, [] { EXPECT_THROW(spawn(ranks(2), [] {}), AlreadyInitialized); });
  const auto inside = spawn(ranks(2), [](int) { return refusal<AlreadyInitialized>([] { spawn(ranks(2), [] {}); }); });
  for (const auto& text : inside) EXPECT_NE(text.find("nested use"), std::string::npos) << text;

  RunningCommand launched(unisono_command({"run", "-n", "2", SPAWN_HELPER, "nested"}));
  EXPECT_EQ(launched.wait(), 0) << launched.err();
  EXPECT_EQ(count(launched.out(), "InvalidArgument spawn: nested use: this process was started by unisono as one of 2"), 2) << launched.out();
  EXPECT_EQ(count(launched.out(), "InvalidArgument launch: nested use"), 4) << launched.out();
  RunningCommand initialized(unisono_command({"run", "-n", "2", SPAWN_HELPER, "nested-initialized"}));
  EXPECT_EQ(initialized.wait(), 0) << initialized.err();
  EXPECT_EQ(count(initialized.out(), "AlreadyInitialized spawn: nested use"), 2) << initialized.out();
}

TEST(Launch, LaunchRefusesNumbersThatMakeNoSense) {
  COVERS("V-02", "V-03");
  const auto refused = [](int machines, int gpus, int rank, const std::string& url = "tcp://127.0.0.1:23456") {
    return refusal<InvalidArgument>([&] { launch([] {}, machines, gpus, rank, url); });
  };
  EXPECT_NE(refused(0, 1, 0).find("num_machines"), std::string::npos);
  EXPECT_NE(refused(1, 0, 0).find("num_gpus_per_machine"), std::string::npos);
  EXPECT_NE(refused(2, 2, 2).find("machine_rank must be from 0 to 1, not 2"), std::string::npos);
  EXPECT_NE(refused(2, 2, -1).find("machine_rank"), std::string::npos);
  EXPECT_NE(refused(2, 2, 0, "").find("dist_url"), std::string::npos);
  EXPECT_NE(refused(1, 1, 0, "nonsense").find("nonsense"), std::string::npos);
}

}  // namespace
}  // namespace unisono::testing
