#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "buffer.h"
#include "unisono/elastic.h"

namespace unisono::python {

namespace nb = nanobind;

/// An entry is one thing that a state lists. It holds the object of Python, which Python's collector sees through the state; the library's own list
/// has functions that refer to it. With the interpreter lock.
class ElasticEntry {
 public:
  enum class Kind { buffer, object, stateful, bytes };
  /// `value`: a buffer, an object, or the function that returns or writes it. `second`: the function that is called at the end, or that reads.
  ElasticEntry(std::string name, Kind kind, nb::object value, nb::object second = nb::none());

  const std::string& name() const { return name_; }
  const nb::object& value() const { return value_; }
  const nb::object& second() const { return second_; }
  const detail::ObjectType& type() const;

  /// The elements of a buffer, which stay where they are until `close`: of one on a device a copy in the host's memory.
  TensorView open();
  /// Tells the program whether the elements are new.
  void close(bool is_new);
  void release();

  /// The bytes of what is no buffer, and what puts those of another rank in its place.
  std::vector<std::byte> write() const;
  std::function<void()> read(std::span<const std::byte> bytes);
  /// Makes it that of another object, as an assignment does.
  void assign(nb::object other);
  /// Gives all objects of Python back.
  void clear();

 private:
  void take(const nb::object& content);

  const std::string name_;
  const Kind kind_;
  nb::object value_, second_;
  const bool is_function_;  // the program is asked for the buffer, or for the bytes
  std::optional<Buffer> held_;
  nb::object device_;  // of what a copy in the host's memory stands for
};

/// ElasticState of Python: the library's state, with what it lists by name.
class PythonState {
 public:
  /// As a buffer where it can be written to, else as an object.
  void add(const std::string& name, nb::object value);
  PythonState& add_buffer(const std::string& name, nb::object value, nb::object done);
  PythonState& add_object(const std::string& name, nb::object value);
  PythonState& add_bytes(const std::string& name, nb::object write, nb::object read);

  /// Null where nothing of the name is listed.
  ElasticEntry* find(std::string_view name) const;
  const std::vector<std::unique_ptr<ElasticEntry>>& entries() const { return entries_; }
  void release() const;

  ElasticState state;

 private:
  ElasticEntry& new_entry(const std::string& name, ElasticEntry::Kind kind, nb::object value, nb::object second = nb::none());

  std::vector<std::unique_ptr<ElasticEntry>> entries_;
};

}  // namespace unisono::python
