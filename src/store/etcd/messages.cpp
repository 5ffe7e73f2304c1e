#include "store/etcd/messages.h"

#include <openssl/evp.h>

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace unisono::store::etcd {
namespace {

constexpr std::size_t bytes_of_block = 3, characters_of_block = 4;

const unsigned char* unsigned_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

using nlohmann::json;
using Kind = Failure::Kind;

// Codes of gRPC.
constexpr std::int64_t deadline_exceeded = 4, not_found = 5, out_of_range = 11, unavailable = 14, unauthenticated = 16;
constexpr long http_unavailable = 503, http_gateway_timeout = 504, http_too_many = 429;
constexpr std::size_t longest_reason = 300;

std::string text_of(std::int64_t number) { return std::to_string(number); }

json range_of(const Operation& operation) {
  json range{{"key", to_base64(operation.key)}};
  if (!operation.range_end.empty()) range["range_end"] = to_base64(operation.range_end);
  return range;
}

json request_of(const Operation& operation) {
  json request = range_of(operation);
  switch (operation.kind) {
    case Operation::Kind::get: return {{"request_range", std::move(request)}};
    case Operation::Kind::count: request["count_only"] = true; return {{"request_range", std::move(request)}};
    case Operation::Kind::erase: return {{"request_delete_range", std::move(request)}};
    case Operation::Kind::put: break;
  }
  request["value"] = to_base64(operation.value);
  if (operation.lease != 0) request["lease"] = text_of(operation.lease);
  if (operation.previous) request["prev_kv"] = true;
  return {{"request_put", std::move(request)}};
}

json request_of(const std::vector<Operation>& operations) {
  json all = json::array();
  for (const Operation& operation : operations) all.push_back(request_of(operation));
  return all;
}

json parse(std::string_view body) {
  json answer = json::parse(body, nullptr, false);
  if (!answer.is_object()) throw std::runtime_error("it is not a JSON object");
  return answer;
}

/// Returns a field, or what stands for a missing one, which has the type that the field must have.
const json& field(const json& parent, const char* name, const json& missing, const char* wrong) {
  const auto found = parent.find(name);
  if (found == parent.end()) return missing;
  if (found->type() == missing.type()) return *found;
  throw std::runtime_error(std::string("\"") + name + "\" in it is " + wrong);
}

const json& object(const json& parent, const char* name) {
  static const auto& empty = *new const json(json::object());
  return field(parent, name, empty, "no object");
}
const json& array(const json& parent, const char* name) {
  static const auto& empty = *new const json(json::array());
  return field(parent, name, empty, "no list");
}
bool flag(const json& parent, const char* name) { return field(parent, name, false, "neither true nor false").get<bool>(); }
std::string bytes(const json& parent, const char* name) { return from_base64(field(parent, name, "", "no text").get<std::string>()); }

std::int64_t number(const json& parent, const char* name) {
  const auto found = parent.find(name);
  if (found == parent.end()) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  if (found->is_string()) {
    if (const auto value = base::whole_number<std::int64_t>(found->get_ref<const std::string&>())) return *value;
  }
  throw std::runtime_error(std::string("\"") + name + "\" in it is not a number");
}

KeyValue key_value(const json& kv) {
  if (!kv.is_object()) throw std::runtime_error("a key in it is not an object");
  return {.key = bytes(kv, "key"), .value = bytes(kv, "value"), .mod_revision = number(kv, "mod_revision")};
}

Result read_result(const json& response, const Operation& operation) {
  Result result;
  switch (operation.kind) {
    case Operation::Kind::get:
    case Operation::Kind::count: {
      const json& range = response.at("response_range");
      for (const json& kv : array(range, "kvs")) result.values.push_back(key_value(kv));
      result.count = number(range, "count");
      break;
    }
    case Operation::Kind::put: {
      const json& put = response.at("response_put");
      if (put.contains("prev_kv")) result.values.push_back(key_value(object(put, "prev_kv")));
      break;
    }
    case Operation::Kind::erase: result.count = number(response.at("response_delete_range"), "deleted"); break;
  }
  return result;
}

/// Returns the reason in an error of etcd, within a stream or not.
Failure failure_of(const json& error, std::int64_t code, long status) {
  std::string text;
  for (const char* const name : {"message", "error"}) {
    const auto found = error.find(name);
    if (text.empty() && found != error.end() && found->is_string()) text = found->get<std::string>();
  }
  text.resize(std::min(text.size(), longest_reason));
  if (code == unauthenticated || text.find("invalid auth token") != std::string::npos) return {Kind::token_gone, text};
  if (code == unavailable || code == deadline_exceeded || status == http_unavailable || status == http_gateway_timeout)
    return {Kind::unavailable, text};
  if (code == not_found && text.find("lease") != std::string::npos) return {Kind::lease_gone, text};
  if (code == out_of_range) return {Kind::compacted, text};
  return {Kind::refused, text};
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  // OpenSSL writes a zero behind the text, where a string has one.
  std::string text((bytes.size() + bytes_of_block - 1) / bytes_of_block * characters_of_block, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), unsigned_of(bytes), static_cast<int>(bytes.size()));
  return text;
}

std::string from_base64(std::string_view text) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t padding = text.size() - std::min(text.size(), text.find_last_not_of('=') + 1);
  const bool is_whole = text.size() % characters_of_block == 0 && padding < bytes_of_block;
  // OpenSSL would skip white space.
  if (!is_whole || text.substr(0, text.size() - padding).find_first_not_of(alphabet) != std::string_view::npos)
    throw std::runtime_error("a text in it is not base64");
  std::string bytes(text.size() / characters_of_block * bytes_of_block, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), unsigned_of(text), static_cast<int>(text.size()));
  if (size < 0) throw std::runtime_error("a text in it is not base64");
  bytes.resize(static_cast<std::size_t>(size) - padding);
  return bytes;
}

std::string request_of(const Transaction& transaction) {
  json conditions = json::array();
  for (const Condition& condition : transaction.conditions) {
    const bool created = condition.field == Condition::Field::create_revision;
    json one{{"key", to_base64(condition.key)}, {"result", "EQUAL"}, {"target", created ? "CREATE" : "MOD"}};
    one[created ? "create_revision" : "mod_revision"] = text_of(condition.revision);
    if (!condition.range_end.empty()) one["range_end"] = to_base64(condition.range_end);
    conditions.push_back(std::move(one));
  }
  return json{{"compare", std::move(conditions)}, {"success", request_of(transaction.then)}, {"failure", request_of(transaction.otherwise)}}.dump();
}

Answer read_answer(std::string_view body, const Transaction& transaction) {
  const json answer = parse(body);
  Answer read{.succeeded = flag(answer, "succeeded"), .revision = number(answer.at("header"), "revision")};
  const auto& operations = read.succeeded ? transaction.then : transaction.otherwise;
  const json& responses = array(answer, "responses");
  if (responses.size() != operations.size()) throw std::runtime_error("it answers for another number of operations");
  for (std::size_t i = 0; i < operations.size(); ++i) read.results.push_back(read_result(responses[i], operations[i]));
  return read;
}

LeaseAnswer read_lease(std::string_view body) {
  const json answer = parse(body.substr(0, body.find('\n')));
  const json& lease = answer.contains("result") ? object(answer, "result") : answer;
  if (!lease.contains("header")) throw std::runtime_error("it says nothing of a lease");
  return {.id = number(lease, "ID"), .seconds = number(lease, "TTL")};
}

std::string watch_request(const std::set<std::string>& keys, std::int64_t from) {
  json create{{"key", to_base64(*keys.begin())}, {"start_revision", text_of(from)}, {"filters", {"NODELETE"}}};
  if (keys.size() > 1) create["range_end"] = to_base64(*keys.rbegin() + '\0');
  return json{{"create_request", std::move(create)}}.dump();
}

Failure read_events(std::string_view line, std::set<std::string>& keys, bool& begun) {
  const json said = parse(line);
  if (said.contains("error")) {
    const json& error = object(said, "error");
    return failure_of(error, number(error, "grpc_code"), static_cast<long>(number(error, "http_code")));
  }
  const json& result = said.at("result");
  if (flag(result, "created")) begun = true;
  if (flag(result, "canceled")) {
    if (number(result, "compact_revision") != 0) return {Kind::compacted, "the revision is gone"};
    const auto why = result.find("cancel_reason");
    return {Kind::refused, why != result.end() && why->is_string() ? why->get<std::string>() : "etcd has ended the watch"};
  }
  for (const json& event : array(result, "events")) keys.erase(key_value(object(event, "kv")).key);
  return {};
}

Failure read_failure(long status, std::string_view body) {
  const json error = json::parse(body, nullptr, false);
  if (error.is_object() && error.contains("code")) {
    try {
      return failure_of(error, number(error, "code"), status);
    } catch (const std::exception& fault) {
      return {Kind::malformed, std::string("its answer with HTTP status ") + std::to_string(status) + " is not etcd's: " + fault.what()};
    }
  }
  const std::string text = "HTTP status " + std::to_string(status);
  if (status == http_unavailable || status == http_gateway_timeout || status == http_too_many) return {Kind::unavailable, text};
  return {Kind::malformed, text + ", which etcd 3.4 or newer does not give"};
}

}  // namespace unisono::store::etcd
