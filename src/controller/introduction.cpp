#include "controller/introduction.h"

#include <utility>

#include "base/bytes.h"
#include "base/host.h"
#include "unisono/error.h"

namespace unisono::controller {

std::string encode(const Introduction& own) {
  base::ByteWriter bytes;
  bytes.put(own.worker.value_or(-1)).put(own.epoch).put(own.workers).put(static_cast<std::uint32_t>(own.lost.size()));
  for (const int worker : own.lost) bytes.put(worker);
  bytes.text(base::host_name());
  for (const Known& function : compared_functions()) bytes.text(function.name).text(function.signature);
  return bytes.take();
}

Member decode_member(int rank, std::string_view encoded) {
  base::ByteReader bytes(encoded);
  Member member{.rank = rank};
  if (const int worker = bytes.get<int>(); worker >= 0) member.introduction.worker = worker;
  member.introduction.epoch = bytes.get<std::int32_t>();
  member.introduction.workers = bytes.get<int>();
  const auto lost = bytes.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < lost && bytes.ok(); ++i) member.introduction.lost.push_back(bytes.get<int>());
  member.host = bytes.text();
  while (bytes.ok() && !bytes.complete()) {
    std::string name(bytes.text());
    member.functions.push_back({std::move(name), std::string(bytes.text())});
  }
  if (!bytes.ok()) throw ProtocolError("a member of a controller's job has introduced itself wrongly");
  return member;
}

}  // namespace unisono::controller
