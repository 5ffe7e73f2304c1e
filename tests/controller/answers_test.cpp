// What a controller does with answers that come late, or that no worker sends: rank 1 speaks for the worker here, frame by frame.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "context/state.h"
#include "controller/core.h"
#include "recorder/recorder.h"
#include "thrown_by.h"
#include "unisono/interruption.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;
using controller::Core;
using controller::FrameLink;
using controller::Head;
using controller::Kind;
using controller::PartHead;

const detail::RemoteFunction& asked() {
  static const detail::RemoteFunction function{.name = "asked", .signature = "() -> bytes"};
  return function;
}

/// Runs a controller, and what it takes for its worker.
template <class Control, class Work>
void with_own_worker(Control&& control, Work&& work) {
  run_threads(2, [&] {
    auto link = std::make_unique<FrameLink>(*new_group({0, 1}));
    if (rank() == 1) return work(*link);
    const auto core = std::make_shared<Core>(context::current().progress, 1024);
    std::vector<std::unique_ptr<FrameLink>> links;
    links.push_back(std::move(link));
    core->connect(std::move(links), {.rank_of = {1}, .hosts = {"here"}});
    control(*core);
    core->finish_calls();
    core->end({});
    core->disconnect();
  });
}

/// Returns the number of the next call.
std::uint64_t next_call(FrameLink& link) {
  Head head;
  link.receive(head);
  EXPECT_EQ(head.kind, Kind::call);
  return head.sequence;
}

void send_message(const FrameLink& link, const void* data, std::size_t bytes) {
  const TensorView view(const_cast<void*>(data), DType::uint8, bytes);
  detail::run({.operation = Operation::send, .data = view, .peer = Rank(0), .label = recorder::controller_label}, link.pair(), {.timeout = 60s});
}

/// Sends a result as far as its parts, which are to follow.
void send_result_with_parts(const FrameLink& link, std::uint64_t call, const std::vector<PartHead>& parts) {
  Head head{.kind = Kind::result, .parts = static_cast<std::uint32_t>(parts.size()), .sequence = call, .content = parts.size() * sizeof(PartHead)};
  std::memcpy(head.inside.data(), parts.data(), head.content);
  send_message(link, &head, sizeof head);
}

void send_text(FrameLink& link, std::uint64_t call, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  link.send({.kind = Kind::result, .sequence = call}, {.body = {bytes.begin(), bytes.end()}});
}

std::string text_of(const detail::Frame& frame) { return {reinterpret_cast<const char*>(frame.body.data()), frame.body.size()}; }

constexpr std::size_t part_bytes = 300'000;

/// The worker answers the first call, but for its part, which it sends once it is called a second time.
void send_part_late(FrameLink& link) {
  const std::uint64_t first = next_call(link);
  send_result_with_parts(link, first, {{.bytes = part_bytes}});
  const std::uint64_t second = next_call(link);
  const std::vector<std::byte> part(part_bytes, std::byte{7});
  send_message(link, part.data(), part.size());
  send_text(link, second, "second");
}

TEST(Answers, AnAnswerWhosePartIsLateHoldsUpNobody) {
  with_own_worker(
      [](Core& core) {
        std::atomic<bool> is_coming{false};
        const detail::PartMemory memory = [&](std::uint32_t slot, std::size_t bytes) {
          EXPECT_FALSE(core.has_ended()) << "what makes the memory may call on the controller";
          is_coming.store(true);
          return detail::part_memory(slot, bytes);
        };
        const auto first = core.begin(0, {.function = &asked(), .memory = memory});
        while (!is_coming.load()) ASSERT_FALSE(first->poll());
        EXPECT_FALSE(first->wait(1ms));
        EXPECT_FALSE(first->is_done());
        EXPECT_EQ(core.failure(0), nullptr);
        EXPECT_EQ(text_of(core.begin(0, {.function = &asked()})->take()), "second");
        const detail::Frame result = first->take();
        ASSERT_EQ(result.parts.size(), 1u);
        EXPECT_EQ(std::vector(result.parts[0].data, result.parts[0].data + result.parts[0].bytes), std::vector(part_bytes, std::byte{7}));
      },
      send_part_late);
}

struct Interruption {};
thread_local bool is_interrupted = false;
void interrupt() {
  if (is_interrupted) throw Interruption();
}

TEST(Answers, AnInterruptionEndsTheWaitAndNotTheCall) {
  struct Check {
    const InterruptionCheck before = set_interruption_check(&interrupt);
    ~Check() { set_interruption_check(before); }
  } const check;
  with_own_worker(
      [](Core& core) {
        bool is_coming = false;
        const detail::PartMemory memory = [&](std::uint32_t slot, std::size_t bytes) {
          is_coming = true;
          return detail::part_memory(slot, bytes);
        };
        const auto first = core.begin(0, {.function = &asked(), .memory = memory});
        while (!is_coming) ASSERT_FALSE(first->poll());
        is_interrupted = true;
        EXPECT_THROW(first->wait(), Interruption);
        is_interrupted = false;
        EXPECT_FALSE(first->is_done());
        EXPECT_EQ(text_of(core.begin(0, {.function = &asked()})->take()), "second");
        EXPECT_EQ(first->take().parts.size(), 1u);
      },
      send_part_late);
}

TEST(Answers, AnAnswerOfAnotherKindEndsTheWorkerWhichLearnsWhy) {
  constexpr auto why = "a worker has sent something that a controller does not understand";
  with_own_worker(
      [&](Core& core) {
        const auto call = core.begin(0, {.function = &asked()});
        const std::string text = thrown_by<PeerFailed>([&] { call->take(); }).what();
        EXPECT_NE(text.find(why), std::string::npos) << text;
        EXPECT_NE(core.failure(0), nullptr);
      },
      [&](FrameLink& link) {
        const std::uint64_t call = next_call(link);
        detail::Frame frame;
        frame.parts.push_back(detail::part_memory(0, 8));
        link.send({.kind = Kind::call, .sequence = call}, std::move(frame));
        const std::string text = thrown_by<PeerFailed>([&] { next_call(link); }).what();
        EXPECT_NE(text.find(why), std::string::npos) << text;
      });
}

TEST(Answers, AnAnswerAboveTheLimitOfObjectsIsAnErrorBeforeItHasMemory) {
  with_own_worker(
      [](Core& core) {
        const detail::PartMemory memory = [](std::uint32_t slot, std::size_t) {
          ADD_FAILURE() << "memory was made";
          return detail::part_memory(slot, 1);
        };
        for (const std::string which : {"parts", "body"}) {
          const auto call = core.begin(0, {.function = &asked(), .memory = memory});
          const std::string text = thrown_by<InvalidArgument>([&] { call->take(); }).what();
          EXPECT_NE(text.find("bytes have come, and the limit is 1073741824 here"), std::string::npos) << which << ": " << text;
          EXPECT_EQ(text_of(core.begin(0, {.function = &asked()})->take()), "fine") << which;
        }
      },
      [](FrameLink& link) {
        send_result_with_parts(link, next_call(link), {{.bytes = 5}, {.bytes = ~std::uint64_t{0} - 2, .slot = 1}});
        for (const char* const part : {"first", "second"}) send_message(link, part, 5);
        send_text(link, next_call(link), "fine");
        const Head head{.kind = Kind::result, .has_content = 1, .sequence = next_call(link), .content = std::uint64_t{1} << 50};
        send_message(link, &head, sizeof head);
        send_message(link, "body", 4);
        send_text(link, next_call(link), "fine");
      });
}

TEST(Answers, AnAnswerThatIsShorterThanItSaysEndsTheWorker) {
  with_own_worker(
      [](Core& core) {
        const auto call = core.begin(0, {.function = &asked()});
        const std::string text = thrown_by<PeerFailed>([&] { call->take(); }).what();
        EXPECT_NE(text.find("a frame of a controller is too short"), std::string::npos) << text;
      },
      [](FrameLink& link) {
        const Head head{.kind = Kind::result, .parts = 3, .sequence = next_call(link), .content = 2 * sizeof(PartHead)};
        send_message(link, &head, sizeof head);
        EXPECT_THROW(next_call(link), PeerFailed);
      });
}

TEST(Answers, AWorkerThatWaitsForTheNextCallLetsGoOfItsResult) {
  std::weak_ptr<void> result;
  std::atomic<bool> is_sent{false};
  with_own_worker(
      [&](Core& core) {
        EXPECT_EQ(core.begin(0, {.function = &asked()})->take().parts.size(), 1u);
        while (!is_sent.load() || !result.expired()) std::this_thread::yield();
        EXPECT_EQ(text_of(core.begin(0, {.function = &asked()})->take()), "next");
      },
      [&](FrameLink& link) {
        const std::uint64_t call = next_call(link);
        detail::Frame frame;
        frame.parts.push_back(detail::part_memory(0, std::size_t{8} << 20));
        result = frame.parts[0].owner;
        link.send({.kind = Kind::result, .sequence = call}, std::exchange(frame, {}));
        is_sent.store(true);
        send_text(link, next_call(link), "next");
      });
}

}  // namespace
}  // namespace unisono::testing
