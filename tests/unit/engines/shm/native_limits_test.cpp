#include <gtest/gtest.h>

#include "coordination/host_ranks.h"
#include "engines/shm/engine.h"
#include "engines/shm/segment.h"
#include "unisono/error.h"
#include "unisono/launch.h"

using namespace unisono;

// Refused before anything is made or waited for.
TEST(ShmEngine, TheEngineServesNoMoreRanksThanItHasRoomFor) {
  coordination::HostOptions options;
  options.global_ranks.resize(engines::shm::Segment::most_ranks + 1);
  EXPECT_THROW(static_cast<void>(coordination::join_host(options)), Unsupported);
  EXPECT_THROW(run_threads(engines::shm::Segment::most_ranks + 1, [] {}), InvalidArgument);
  EXPECT_THROW(run_threads(0, [] {}), InvalidArgument);
}

namespace {

class NoWaiter final : public Waiter {
 public:
  void wait(Task&) override { ADD_FAILURE() << "there is something to wait for"; }
  std::chrono::milliseconds timeout() const override { return {}; }
};

}  // namespace

TEST(ShmEngine, RefusesAnOperationThatIsNoCollective) {
  const engines::shm::Segment::Shape shape{.ranks = 1};
  const auto memory = engines::shm::private_memory(engines::shm::Segment::size_for(shape));
  engines::shm::ShmEngine engine(std::make_shared<engines::shm::Segment>(shape, memory.get(), memory), 0, false);
  NoWaiter waiter;
  CollectiveCall call;
  EXPECT_NO_THROW(engine.carry_out(call, waiter)) << "a barrier";
  for (const auto operation : {Operation::send, Operation::recv, static_cast<Operation>(0), static_cast<Operation>(200)}) {
    call.operation = operation;
    EXPECT_THROW(engine.carry_out(call, waiter), Unsupported) << to_string(operation);
    EXPECT_THROW(engine.start(call), Unsupported) << to_string(operation);
  }
}
