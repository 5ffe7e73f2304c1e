#include "plain_data.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <string_view>

#include "any_value.h"
#include "buffer.h"
#include "failure.h"
#include "unisono/objects.h"
#include "values.h"

namespace unisono::python {
namespace {

/// The first of the two elements that stand for an object; the second is its content.
enum class Kind : std::uint8_t { none, boolean, integer, real, text, bytes, list, tuple, dictionary, value };

class DataWriter {
 public:
  explicit DataWriter(const char* operation) : operation_(operation) {}
  void write(nb::handle x);
  std::vector<std::byte> take() { return out_.take(); }

 private:
  void begin(Kind kind) {
    out_.array(2);
    out_.write(kind);
  }
  template <class T>
  void write_as(Kind kind, const T& content) {
    begin(kind);
    out_.write(content);
  }
  void write_number(nb::handle x);
  void write_items(Kind kind, nb::handle items) {
    begin(kind);
    out_.array(nb::len(items));
    for (const nb::handle item : items) write(item);
  }

  const char* operation_;
  ObjectWriter out_;
};

void DataWriter::write_number(nb::handle x) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(x.ptr(), &overflow);
  if (overflow != 0) throw_invalid(operation_, "an int of more than 64 bits cannot be sent as data");
  write_as(Kind::integer, static_cast<std::int64_t>(number));
}

void DataWriter::write(nb::handle x) {
  if (x.is_none()) {
    begin(Kind::none);
    out_.nil();
  } else if (PyBool_Check(x.ptr())) {
    write_as(Kind::boolean, x.is(nb::handle(Py_True)));
  } else if (PyLong_CheckExact(x.ptr())) {
    write_number(x);
  } else if (PyFloat_CheckExact(x.ptr())) {
    write_as(Kind::real, nb::cast<double>(x));
  } else if (PyUnicode_CheckExact(x.ptr())) {
    write_as(Kind::text, nb::cast<std::string>(x));
  } else if (PyBytes_CheckExact(x.ptr())) {
    begin(Kind::bytes);
    out_.bytes({reinterpret_cast<const std::byte*>(PyBytes_AsString(x.ptr())), nb::len(x)});
  } else if (PyList_CheckExact(x.ptr())) {
    write_items(Kind::list, x);
  } else if (PyTuple_CheckExact(x.ptr())) {
    write_items(Kind::tuple, x);
  } else if (PyDict_CheckExact(x.ptr())) {
    begin(Kind::dictionary);
    out_.array(2 * nb::len(x));
    for (const auto& [key, value] : nb::borrow<nb::dict>(x)) {
      write(key);
      write(value);
    }
  } else if (Value::is_value(x) || nb::hasattr(x, "__fspath__") || is_buffer(x)) {
    write_as(Kind::value, any_value_of(x, operation_));
  } else {
    throw_invalid(operation_, "a " + kind_name(x) + " is not data, and UNISONO_PICKLE=off allows nothing else",
                  "data are None, numbers, str, bytes, paths, arrays, and lists, tuples and dicts of them");
  }
}

nb::object read(ObjectReader& in);

nb::list read_items(ObjectReader& in) {
  nb::list items;
  for (std::size_t left = in.array(); left > 0; --left) items.append(read(in));
  return items;
}

nb::object read_dictionary(ObjectReader& in) {
  nb::dict entries;
  const std::size_t n = in.array();
  if (n % 2 != 0) in.refuse("a dict whose last key has no value");
  for (std::size_t left = n / 2; left > 0; --left) {
    const nb::object key = read(in);
    entries[key] = read(in);
  }
  return entries;
}

nb::object read(ObjectReader& in) {
  in.array_of(2);
  switch (in.read<Kind>()) {
    case Kind::none: in.nil(); return nb::none();
    case Kind::boolean: return nb::bool_(in.read<bool>());
    case Kind::integer: return nb::int_(in.read<std::int64_t>());
    case Kind::real: return nb::float_(in.read<double>());
    case Kind::text: {
      const std::string_view text = in.string();
      return nb::str(text.data(), text.size());
    }
    case Kind::bytes: {
      const auto bytes = in.bytes();
      return nb::bytes(bytes.data(), bytes.size());
    }
    case Kind::list: return read_items(in);
    case Kind::tuple: return nb::tuple(read_items(in));
    case Kind::dictionary: return read_dictionary(in);
    case Kind::value: {
      auto value = in.read<AnyValue>();
      return as_python(value);
    }
  }
  in.refuse("an object of an unknown kind");
}

}  // namespace

std::vector<std::byte> data_of_object(nb::handle x, const char* operation) {
  DataWriter writer(operation);
  writer.write(x);
  return writer.take();
}

nb::object object_of_data(std::span<const std::byte> bytes) {
  ObjectReader in(bytes);
  nb::object x = read(in);
  in.finish();
  return x;
}

}  // namespace unisono::python
