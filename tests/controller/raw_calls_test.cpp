// Calls without types (detail/remote_call.h), by which the Python package and remote tensors call.

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "thrown_by.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using detail::Frame;
using detail::RemoteRequest;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string text_of(const std::vector<std::byte>& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Returns its arguments; fails for "fail".
const detail::RemoteFunction& echo() {
  static const auto& function =
      detail::register_remote({.name = "echo", .signature = "(bytes) -> bytes", .run = [](detail::RemoteRun&, Frame&& frame) {
                                 if (text_of(frame.body) == "fail") throw std::runtime_error("asked to fail");
                                 return std::move(frame);
                               }});
  return function;
}

template <class F>
void with_raw_workers(int workers, F&& body) {
  static_cast<void>(echo());
  run_threads(workers + 1, [&] {
    const auto meeting = detail::meet_workers({});
    EXPECT_EQ(meeting.exit_code, 0);
    if (meeting.workers) body(*meeting.workers);
  });
}

TEST(RawCalls, BodiesOfAnyLengthComeBack) {
  with_raw_workers(1, [](detail::RemoteWorkers& workers) {
    for (const std::size_t length : {0, 1, 167, 168, 169, 5000, 70'000, 1'000'000}) {
      const std::string text(length, 'x');
      EXPECT_EQ(text_of(workers.begin(0, {.function = &echo(), .arguments = {.body = bytes_of(text)}})->take().body), text) << length;
    }
  });
}

TEST(RawCalls, PartsComeBackWithTheirSlots) {
  with_raw_workers(1, [](detail::RemoteWorkers& workers) {
    Frame frame{.body = bytes_of("head")};
    for (std::uint32_t i = 0; i < 20; ++i) {
      auto part = detail::part_memory(100 + i, i * 10'000);
      std::memset(part.data, static_cast<int>(i), part.bytes);
      frame.parts.push_back(std::move(part));
    }
    const Frame back = workers.begin(0, {.function = &echo(), .arguments = std::move(frame)})->take();
    EXPECT_EQ(text_of(back.body), "head");
    ASSERT_EQ(back.parts.size(), 20u);
    for (std::uint32_t i = 0; i < 20; ++i) {
      EXPECT_EQ(back.parts[i].slot, 100 + i);
      ASSERT_EQ(back.parts[i].bytes, i * 10'000);
      for (std::size_t at = 0; at < back.parts[i].bytes; ++at) ASSERT_EQ(static_cast<unsigned>(back.parts[i].data[at]), i);
    }
  });
}

TEST(RawCalls, ACallWithoutAResultIsDoneWhenSomebodyWaitsForIt) {
  with_raw_workers(1, [](detail::RemoteWorkers& workers) {
    std::vector<std::shared_ptr<detail::RemoteCall>> calls;
    for (int i = 0; i < 5000; ++i) {
      calls.push_back(workers.begin(0, {.function = &echo(), .arguments = {.body = bytes_of("quiet")}, .has_result = false}));
    }
    EXPECT_TRUE(calls.back()->wait());
    for (const auto& call : calls) {
      ASSERT_TRUE(call->is_done());
      EXPECT_TRUE(call->take().body.empty());
    }
  });
}

TEST(RawCalls, ACallWithoutAResultHasItsError) {
  with_raw_workers(1, [](detail::RemoteWorkers& workers) {
    const auto before = workers.begin(0, {.function = &echo(), .has_result = false});
    const auto failed = workers.begin(0, {.function = &echo(), .arguments = {.body = bytes_of("fail")}, .has_result = false});
    const auto after = workers.begin(0, {.function = &echo(), .arguments = {.body = bytes_of("fine")}});
    EXPECT_EQ(text_of(after->take().body), "fine");
    EXPECT_TRUE(before->is_done());
    EXPECT_EQ(before->error(), nullptr);
    EXPECT_EQ(thrown_by<RemoteError>([&] { failed->take(); }).type(), "std::runtime_error");
  });
}

TEST(RawCalls, TheTypesOfTheArgumentsAreThoseOfTheRequest) {
  with_raw_workers(1, [](detail::RemoteWorkers& workers) {
    const auto failed = workers.begin(0, {.function = &echo(), .arguments = {.body = bytes_of("fail")}, .types = "Tensor, int"});
    const std::string text = thrown_by<RemoteError>([&] { failed->take(); }).what();
    EXPECT_NE(text.find("echo(Tensor, int)"), std::string::npos) << text;
  });
}

TEST(RawCalls, MemoryThatCannotBeMadeFailsTheCallAlone) {
  with_raw_workers(1, [](detail::RemoteWorkers& workers) {
    Frame frame;
    for (std::uint32_t i = 0; i < 3; ++i) frame.parts.push_back(detail::part_memory(i, 100'000));
    const detail::PartMemory none = [](std::uint32_t slot, std::size_t bytes) {
      if (slot == 1) throw std::length_error("no room");
      return detail::part_memory(slot, bytes);
    };
    const auto call = workers.begin(0, {.function = &echo(), .arguments = std::move(frame), .memory = none});
    EXPECT_THROW(call->take(), std::length_error);
    EXPECT_EQ(text_of(workers.begin(0, {.function = &echo(), .arguments = {.body = bytes_of("fine")}})->take().body), "fine");
  });
}

TEST(RawCalls, AnArgumentIsLetGoOfOnceItsCallIsDone) {
  with_raw_workers(1, [](detail::RemoteWorkers& workers) {
    Frame frame;
    frame.parts.push_back(detail::part_memory(0, std::size_t{8} << 20));
    const std::weak_ptr<void> argument = frame.parts[0].owner;
    const auto call = workers.begin(0, {.function = &echo(), .arguments = std::move(frame)});
    frame = {};
    EXPECT_TRUE(call->wait());
    EXPECT_TRUE(argument.expired());
  });
}

TEST(RawCalls, AFunctionIsRegisteredOnce) {
  static_cast<void>(echo());
  const auto error = thrown_by<InvalidArgument>([] { detail::register_remote({.name = "echo", .signature = "(bytes) -> bytes"}); });
  EXPECT_NE(std::string(error.what()).find("echo(bytes) -> bytes is registered twice"), std::string::npos) << error.what();
}

TEST(RawCalls, AFutureOutlivesTheController) {
  std::shared_ptr<detail::RemoteCall> call;
  static_cast<void>(echo());
  run_threads(2, [&] {
    auto meeting = detail::meet_workers({});
    if (!meeting.workers) return;
    call = meeting.workers->begin(0, {.function = &echo(), .arguments = {.body = bytes_of("x")}});
    meeting.workers->end();
    EXPECT_THROW(meeting.workers->begin(0, {.function = &echo()}), NotInitialized);
  });
  EXPECT_EQ(text_of(call->take().body), "x");
  EXPECT_FALSE(call->cancel());
}

}  // namespace
}  // namespace unisono::testing
