#include "fake_ranks.h"

#include <atomic>
#include <thread>

#include "engines/nccl/engine.h"
#include "engines/shm/segment.h"
#include "group/group.h"
#include "group/progress/progress.h"
#include "recorder/recorder.h"
#include "unisono/cuda.h"

namespace fake {
namespace {

using namespace unisono;

thread_local int rank_of_thread = 0;
thread_local std::shared_ptr<group::Progress> progress_of_thread;

std::unique_ptr<Engine> make_engine(const Ranks& ranks, int rank, const std::shared_ptr<Store>& store) {
  EngineOptions options;
  options.group_name = "world";
  options.key = "world";
  options.rank = rank;
  for (int r = 0; r < ranks.count; ++r) options.global_ranks.push_back(r);
  options.hosts.assign(static_cast<std::size_t>(ranks.count), 0);
  options.local_rank = rank;
  options.store = store;
  options.timeout = ranks.timeout;
  options.at_need = ranks.at_need;
  return std::make_unique<engines::nccl::NcclEngine>(vendor(), options);
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r) threads.emplace_back([&body, r] { body(r); });
  for (auto& thread : threads) thread.join();
}

}  // namespace

void on_ranks(const Ranks& ranks, const std::function<void(const ProcessGroup& group)>& body) {
  const engines::shm::Segment::Shape shape{.ranks = ranks.count};
  auto memory = engines::shm::private_memory(engines::shm::Segment::size_for(shape));
  auto segment = std::make_shared<engines::shm::Segment>(shape, memory.get(), memory);
  const auto store = std::make_shared<MemoryStore>();
  in_threads(ranks.count, [&](int rank) {
    rank_of_thread = rank;
    try {
      const auto progress = std::make_shared<group::Progress>("rank " + std::to_string(rank));
      group::GroupParts parts;
      parts.name = "world";
      parts.rank = rank;
      for (int r = 0; r < ranks.count; ++r) parts.global_ranks.push_back(r);
      parts.host_names = base::RepeatedTexts(static_cast<std::size_t>(ranks.count), [](std::size_t) { return "here"; });
      parts.timeout = ranks.timeout;
      parts.progress = progress_of_thread = progress;
      parts.recorder = recorder::Recorder::make_private();
      group::GroupCore::Parts core = ranks.count == 1 ? group::parts_alone() : group::parts_of_threads(segment, rank, 2);
      if (ranks.engine) {
        core.engines.device = make_engine(ranks, rank, store);
        core.name = "nccl";
      } else {
        register_device_runtime(std::make_shared<engines::nccl::CudaRuntime>(vendor(), 0));
      }
      parts.core = std::make_unique<group::GroupCore>(std::move(core));
      progress->configure(parts.core->coordination().notifier(), true, nullptr);
      {
        ProcessGroup group(std::make_shared<group::Group>(std::move(parts)));
        try {
          body(group);
          group.implementation()->close(std::chrono::seconds(10), coordination::Leaving::in_order);
        } catch (...) {
          const std::string text = text_of(std::current_exception());
          ADD_FAILURE() << "rank " << rank << ": " << text;
          group.abort(text);
          group.implementation()->drop(coordination::Leaving::by_exception);
        }
      }
      progress->stop();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank << " has no group: " << error.what();
    }
  });
  EXPECT_EQ(misuse(), "");
  EXPECT_EQ(leftovers(), 0);
}

std::shared_ptr<group::Progress> progress() { return progress_of_thread; }

void stall_devices(const ProcessGroup& group) {
  barrier(group);
  if (group.rank() == 0) stall(true);
  barrier(group);
}

std::vector<std::string> on_making(const Ranks& ranks) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks.count));
  const auto store = std::make_shared<MemoryStore>();
  in_threads(ranks.count, [&](int rank) {
    try {
      make_engine(ranks, rank, store)->leave();
    } catch (...) {
      texts[static_cast<std::size_t>(rank)] = text_of(std::current_exception());
    }
  });
  EXPECT_EQ(misuse(), "");
  EXPECT_EQ(leftovers(), 0);
  return texts;
}

void synchronize() {
  // As synchronize_stream, for a process in which each thread has a device.
  const auto event = device_runtime()->record({Device::Type::cuda, rank_of_thread}, current_stream());
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!event->reached()) {
    if (std::chrono::steady_clock::now() > until) throw Timeout("the device of the test does not get on");
    std::this_thread::yield();
  }
}

}  // namespace fake
