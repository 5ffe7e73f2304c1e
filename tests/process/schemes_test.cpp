// Schemes of a program's own for init_method.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "covers.h"
#include "refusal.h"
#include "running_command.h"
#include "spawn_ranks.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

/// board://FOLDER: a file in that folder, and the ranks as the program gives them, counted from the end.
void make_board_known() {
  static const bool once = [] {
    register_rendezvous_handler("board", [](const InitOptions& options) {
      const std::string folder = options.init_method.substr(std::string("board://").size());
      if (folder.empty()) throw InvalidArgument("no folder behind board://");
      const int size = options.world_size.value_or(1);
      return Rendezvous{.store = std::make_shared<FileStore>(folder + "/board"), .rank = options.rank.value_or(0), .world_size = size};
    });
    return true;
  }();
  static_cast<void>(once);
}

TEST(RendezvousSchemes, SchemesOfTheProgramsOwnAreAsked) {
  COVERS("TS-42");
  make_board_known();
  const TemporaryFolder folder;
  SpawnOptions options = ranks(3);
  options.init_method = "board://" + folder.path();
  const auto all = spawn(options, [] { return std::pair(rank(), all_reduce(rank() + 1)); });
  for (int r = 0; r < 3; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], std::pair(r, 6));
  {
    const Context context(InitOptions{.init_method = options.init_method + "/", .rank = 0, .world_size = 1});
    EXPECT_EQ(world_size(), 1);
  }
  EXPECT_NE(refusal<InvalidArgument>([] { initialize({.init_method = "board://"}); }).find("no folder"), std::string::npos);
  EXPECT_FALSE(is_initialized());
}

TEST(RendezvousSchemes, SchemesThatAreTakenOrUnknownAreRefused) {
  COVERS("TS-42");
  make_board_known();
  const RendezvousHandler nothing = [](const InitOptions&) { return Rendezvous{}; };
  for (const char* taken : {"board", "tcp", "file", "env"}) {
    EXPECT_NE(refusal<InvalidArgument>([&] { register_rendezvous_handler(taken, nothing); }).find("already"), std::string::npos) << taken;
  }
  for (const char* none : {"", "a b", "Board", "x://"})
    EXPECT_NE(refusal<InvalidArgument>([&] { register_rendezvous_handler(none, nothing); }), "nothing was thrown") << none;
  EXPECT_NE(refusal<InvalidArgument>([] { register_rendezvous_handler("hollow", nullptr); }), "nothing was thrown");
  EXPECT_NE(refusal<InvalidArgument>([] { initialize({.init_method = "pigeon://roof", .rank = 0, .world_size = 2}); }).find("unknown scheme"),
            std::string::npos);
  static const bool once = [&] {
    register_rendezvous_handler("nowhere", nothing);
    register_rendezvous_handler("stubborn", [](const InitOptions&) { return Rendezvous{std::make_shared<MemoryStore>(), 1, 2}; });
    register_rendezvous_handler("a.b+c-2", [](const InitOptions&) { return Rendezvous{std::make_shared<MemoryStore>(), 0, 1}; });
    return true;
  }();
  static_cast<void>(once);
  EXPECT_NE(refusal<InvalidArgument>([] { initialize({.init_method = "nowhere://"}); }).find("gave no store"), std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([] { initialize({.init_method = "nowhere", .rank = 0, .world_size = 1}); }).find("it has no scheme"),
            std::string::npos);
  const auto both = [] { initialize({.init_method = "nowhere://", .rank = 0, .world_size = 1, .store = std::make_shared<MemoryStore>()}); };
  EXPECT_NE(refusal<InvalidArgument>(both).find("only one can be meant"), std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([] { initialize({.init_method = "stubborn://", .rank = 0}); }).find("the rank is 0 by the argument, but 1"),
            std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([] {
              initialize({.init_method = "stubborn://", .world_size = 3});
            }).find("the world size is 3 by the argument, but 2"),
            std::string::npos);
  const Context context(InitOptions{.init_method = "a.b+c-2://"});
  EXPECT_EQ(world_size(), 1);
}

TEST(RendezvousSchemes, HandlersCannotBeginOrEndTheContext) {
  static std::function<void()> within;
  static const bool once = [] {
    register_rendezvous_handler("within", [](const InitOptions&) {
      within();
      return Rendezvous{std::make_shared<MemoryStore>(), 0, 1};
    });
    return true;
  }();
  static_cast<void>(once);
  const std::function<void()> wrong[] = {[] { initialize({.backend = "serial"}); }, [] { finalize(); }, [] { unisono::sync(); }};
  for (const auto& each : wrong) {
    within = each;
    EXPECT_NE(refusal<InvalidArgument>([] { initialize({.init_method = "within://"}); }).find("cannot begin or end the context"), std::string::npos);
    EXPECT_FALSE(is_initialized());
  }
  within = [] {};
  const Context context(InitOptions{.init_method = "within://"});
  EXPECT_EQ(world_size(), 1);
}

// The handler's rank and world size hold where the program gives none, for one process as for several.
TEST(RendezvousSchemes, SchemesSayWhichRankThisIsOfHowMany) {
  const TemporaryFolder folder;
  static std::string path;
  path = folder.path() + "/store";
  static const bool once = [] {
    register_rendezvous_handler("placed", [](const InitOptions& options) {
      return Rendezvous{.store = std::make_shared<FileStore>(path), .rank = options.init_method.back() - '0', .world_size = 2};
    });
    return true;
  }();
  static_cast<void>(once);
  const auto sums = spawn(ranks(2), [] {
    const int number = rank();
    finalize();
    const Context context(InitOptions{.init_method = "placed://" + std::to_string(1 - number)});
    return std::pair(rank(), all_reduce(number + 10));
  });
  EXPECT_EQ(sums, (std::vector{std::pair(1, 21), std::pair(0, 21)}));
}

}  // namespace
}  // namespace unisono::testing
