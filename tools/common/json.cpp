#include "common/json.h"

#include <string>

namespace unisono::tools {

void put_text(Json& object, std::string_view name, std::string_view value) { object[std::string(name)] = value; }
void put_json(Json& object, std::string_view name, Json value) { object[std::string(name)] = std::move(value); }
void put_number(Json& object, std::string_view name, double value) { object[std::string(name)] = value; }
void put_number(Json& object, std::string_view name, std::int64_t value) { object[std::string(name)] = value; }
void put_number(Json& object, std::string_view name, std::uint64_t value) { object[std::string(name)] = value; }

}  // namespace unisono::tools
