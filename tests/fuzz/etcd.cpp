// The answers of an etcd, and the URLs of one. Any answer is refused by an exception of the standard library, which the store takes for a failure,
// or read: as many results as there were operations; base64 comes back. A URL is refused with InvalidArgument, or has endpoints and a prefix.
#include <set>

#include "input.h"
#include "store/etcd/location.h"
#include "store/etcd/messages.h"
#include "unisono/error.h"

namespace unisono::fuzz {
namespace {

using namespace store::etcd;  // NOLINT(google-build-using-namespace)

Transaction transaction_of(Input& in) {
  Transaction transaction;
  for (std::size_t i = in.choice(3); i > 0; --i) {
    Operation operation{.kind = static_cast<Operation::Kind>(in.choice(3)), .key = in.text(8)};
    operation.value = in.text(8);
    operation.previous = in.flag();
    (in.flag() ? transaction.then : transaction.otherwise).push_back(std::move(operation));
  }
  return transaction;
}

/// Returns an answer to it as etcd gives it, with a few bytes changed.
std::string answer_to(const Transaction& transaction, Input& in) {
  const bool succeeded = in.flag();
  std::string text = "{\"header\":{\"revision\":\"" + std::to_string(in.number<std::int64_t>()) + "\"}," + (succeeded ? "\"succeeded\":true," : "") +
                     "\"responses\":[";
  for (const Operation& operation : succeeded ? transaction.then : transaction.otherwise) {
    const std::string kv = "{\"key\":\"" + to_base64(operation.key) + "\",\"value\":\"" + to_base64(operation.value) + "\",\"mod_revision\":\"7\"}";
    switch (operation.kind) {
      case Operation::Kind::get:
      case Operation::Kind::count: text += "{\"response_range\":{\"count\":\"1\",\"kvs\":[" + kv + "]}},"; break;
      case Operation::Kind::put: text += "{\"response_put\":{\"prev_kv\":" + kv + "}},"; break;
      case Operation::Kind::erase: text += "{\"response_delete_range\":{\"deleted\":\"3\"}},"; break;
    }
  }
  if (text.back() == ',') text.pop_back();
  text += "]}";
  for (std::size_t changes = in.choice(7); changes > 4; --changes) {
    const std::size_t at = in.number<std::uint16_t>() % text.size();
    text.replace(at, std::min<std::size_t>(text.size() - at, in.choice(4)), in.text(6));
  }
  return text;
}

void check_answer(const std::string& body, const Transaction& transaction) {
  refuses<std::exception>([&] {
    const Answer answer = read_answer(body, transaction);
    require(answer.results.size() == (answer.succeeded ? transaction.then : transaction.otherwise).size(), "there is a result for each operation");
  });
  refuses<std::exception>([&] { read_lease(body); });
  refuses<std::exception>([&] {
    std::set<std::string> keys{"a", "b"};
    bool begun = false;
    read_events(body, keys, begun);
    require(keys.size() <= 2, "no key is made up");
  });
  for (const long status : {400L, 503L}) require(!read_failure(status, body).is_none(), "a failure is one");
}

void check_location(Input& in) {
  const std::string text = (in.flag() ? "etcd://" : "etcds://") + std::string(in.rest());
  refuses<InvalidArgument>([&] {
    const Location location = location_of(text, base::Environment());
    require(!location.endpoints.empty() && location.prefix.starts_with('/') && !location.prefix.ends_with('/'), "there are endpoints and a prefix");
    for (const Endpoint& endpoint : location.endpoints) {
      require(endpoint.url.starts_with("http") && endpoint.url.find_first_of(" \r\n@") == std::string::npos, "an endpoint is an URL");
    }
  });
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  switch (in.choice(3)) {
    case 0: {
      const Transaction transaction = transaction_of(in);
      return check_answer(std::string(in.rest()), transaction);
    }
    case 1: {
      const Transaction transaction = transaction_of(in);
      return check_answer(answer_to(transaction, in), transaction);
    }
    case 2: return check_location(in);
    default: {
      const std::string text(in.rest());
      require(from_base64(to_base64(text)) == text, "base64 comes back");
      refuses<std::runtime_error>([&] { require(from_base64(text).size() <= text.size(), "base64 has its length"); });
    }
  }
}

}  // namespace unisono::fuzz
